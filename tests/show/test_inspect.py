"""map and show: what is printed is what is compiled, and reads back as such."""

from __future__ import annotations

from dataclasses import replace

import pytest

from septran import settings, spanyaml
from septran.ir.text import parse_program, print_program
from septran.mapping.load import load_mapping, parse_mapping
from septran.mapping.schema import Binding, ExplicitMapping, Instance, LeafKernelFile, Tune
from septran.mapping.text import mapping_text
from septran.plan import catalog
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.run import inspect

OPS = [entry["name"] for entry in catalog.ops()]


def plain(mapping: ExplicitMapping) -> ExplicitMapping:
    """The mapping without file and places."""
    return replace(
        mapping,
        file="",
        instances={n: replace(i, spans={}, key_spans={}) for n, i in mapping.instances.items()},
        leaf_kernels={n: replace(k, span=None) for n, k in mapping.leaf_kernels.items()},
        constraints=tuple((text, None) for text, _ in mapping.constraints),
    )


def test_a_mapping_with_everything_reads_back_equal():
    leaf = Binding(kernel="mine", mems={"A": "SHARED"})
    host = Instance(name="host", task_name="gemm", proc="HOST", calls={"tile": "tile"})
    tile = Instance(
        name="tile",
        task_name="tile",
        proc="BLOCK",
        mems={"A": "SHARED", "acc": "REGISTER"},
        tunables={"bm": Tune(kind="choice", values=(64, 128)), "bn": 32, "mode": "no"},
        tiles={"A": (128, None)},
        leaf_task_bindings={"mma": leaf, "zero": Binding(kernel="auto")},
        options={"pipeline": 3, "layouts": {"A": "col"}, "unroll": 4},
    )
    kernel = LeafKernelFile(
        name="mine", dsl="cpp", symbol="f", source="x.h", dtypes=("float32",), requires=("m > 1",)
    )
    mapping = ExplicitMapping(
        file="",
        target="t",
        arch="a1",
        entrypoint="host",
        instances={"host": host, "tile": tile},
        leaf_kernels={"mine": kernel},
        constraints=(("bm * bn <= 4096", None),),
    )
    text = mapping_text(mapping, comment="by a test")
    again = load_text(text)
    assert plain(again) == mapping
    assert "!tune {type: choice, values: [64, 128]}" in text


def load_text(text: str) -> ExplicitMapping:
    from septran.mapping.tune import read_tune

    found = parse_mapping(spanyaml.loads(text, tags={"!tune": read_tune}))
    assert isinstance(found, ExplicitMapping)
    return found


@pytest.mark.few(10)
@pytest.mark.parametrize("op", OPS)
def test_the_printed_mapping_gives_the_same_program(op, tmp_path):
    request = GenRequest(op=op, backend="cpp")
    path = tmp_path / "printed.mapping.yaml"
    path.write_text(inspect.mapping_text(request, settings=settings.load()))
    assert isinstance(load_mapping(path), ExplicitMapping)
    by_policy = lower_plan(resolve(request)).program
    by_file = lower_plan(resolve(replace(request, mapping=path))).program
    assert print_program(by_file) == print_program(by_policy)


def show(what: str, **more: str | None) -> str:
    request = GenRequest(op="gemm", backend="cpp")
    return inspect.show(request, what, after=more.get("after"), settings=settings.load())


@pytest.mark.parametrize(
    ("backend", "arch", "op", "before", "after", "text"),
    [
        ("tilelang_cuda", "sm_80", "gemm", "merge_stages", "share_warps", '"warps": "square"'),
        ("tilelang_cuda", "sm_80", "gemm", "check_tiles", "settle_blocks", '"swizzled": ['),
        ("tilelang_cuda", "sm_90a", "batched_gemm", "bind", "settle_threads", '"threads": 64'),
        ("triton_cuda", "sm_90", "gemm", "merge_stages", "order_blocks", '"swizzled": ['),
        ("triton_cuda", "sm_90", "gemm", "name_leaves", "settle_warps", '"num_warps": '),
        ("cpp", "x86_64_v3", "gemm", "name_leaves", "settle_schedules", '{"i0": "dynamic"}'),
        ("cuda_c", "sm_90a", "gemm", "place_barriers", "place_shared", "@0+"),
        ("tilelang_npuir", "910b", "gemm", "name_leaves", "place_tiles", "acc: L0C"),
        ("tilelang_npuir", "910b", "gemm", "place_tiles", "start_products", "scalar began = "),
        ("tilelang_npuir", "910b", "softmax", "merge_stages", "name_leaves", "_t1: UB"),
        ("tilelang_npuir", "910b", "conv2d", "cast_copies", "cut_windows", " inside 0 to 1; max("),
    ],
)
def test_what_a_printer_follows_is_in_the_program(backend, arch, op, before, after, text):
    """Each of these was decided while the kernel was printed."""
    dims = {"M": 32} if op == "batched_gemm" else {}  # two warps of 16 rows each
    request = GenRequest(op=op, backend=backend, arch=arch, dtype="float16", dims=dims)

    def shown(name):
        return inspect.show(request, "program", after=name, settings=settings.load())

    assert text not in shown(before)
    assert text in shown(after)


def test_the_program_after_each_pass_parses():
    names = [line.split()[0] for line in show("passes").splitlines()]
    assert names[0] == "bind" and len(names) > 1
    for name in names:
        text = show("program", after=name)
        assert print_program(parse_program(text)) == text
    assert show("program") == show("program", after=names[-1])


def test_views(septran):
    assert "leaf mma(C, A, B)" in show("task")
    assert show("kernel").count("leaf_mma_") >= 2
    assert "Signature (generated" in show("leafspec")
    prompt = show("prompt")
    assert "- system -" in prompt and "- user -" in prompt


def test_a_leaf_as_a_reply_could_give_it(septran):
    text = septran("show", "--op", "gemm", "--backend", "cpp", "--leaf", "mma").out
    assert text.startswith("using namespace st;\ngemm<float")
    text = septran("show", "--op", "relu", "--backend", "triton_cuda", "--leaf", "relu_leaf").out
    assert "def " not in text and text.rstrip().splitlines()[-1].startswith("return ")


@pytest.mark.slow
def test_tir():
    assert "@T.prim_func" in show("tir")


def test_commands(septran, in_tmp):
    found = septran("map", "--op", "gemm", "--backend", "cpp", "-o", "m.yaml")
    assert (found.code, found.out) == (0, "")
    text = septran("map", "--op", "gemm", "--backend", "cpp").out
    assert (in_tmp / "m.yaml").read_text() == text
    again = septran("map", "--op", "gemm", "--mapping", "m.yaml").out
    assert spanyaml.loads(again).value == spanyaml.loads(text).value
    shown = septran("show", "--op", "gemm", "--mapping", "m.yaml", "--after", "bind", "--json").json
    assert shown["schema"] == "septran.show/1" and shown["text"].startswith("program gemm")
    leaf = septran("show", "--op", "softmax", "--backend", "dsa_c", "--leaf", "softmax_leaf").out
    assert leaf.startswith("const vl_tile ") and "vendor_lib_vec_reduce(VL_RMAX, " in leaf
    for words, code in (
        (("--op", "gemm"), "C009"),
        (("--op", "gem", "--backend", "cpp"), "C044"),
        (("--op", "gemm", "--backend", "cp"), "C130"),
        (("--op", "gemm", "--backend", "cpp", "--after", "bnd"), "C137"),
        (("--op", "gemm", "--backend", "cpp", "--leaf", "mmma"), "C137"),
        (("--op", "gemm", "--backend", "cpp", "--dim", "m=3"), "C110"),
        (("--op", "gemm", "--logic", "x.py", "--backend", "cpp"), "C008"),
    ):
        found = septran("show", *words, "--json")
        assert (found.code, found.json["errors"][0]["code"]) == (2, code)
