"""The emitted text: golden files, structure, and what is refused."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import numpy as np
import pytest

from septran.backends.text.names import Names
from septran.backends.triton.backend import TRITON_CUDA, TRITON_HIP
from septran.backends.triton.leaves import library, signature
from septran.backends.triton.shapes import index_text, padded
from septran.errors import MappingError
from septran.ir.expr import Bin, Const, Var, evaluate
from septran.ir.nodes import Alloc, Copy, For, Program
from septran.kernel import leaf_specs
from tests.backends.triton import programs as P
from tests.backends.triton import running as R

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "triton_cuda"
GOLDENS = {
    "gemm_float16": P.gemm(1000, 1000, 500, "float16", tile=(128, 128, 64), threads=256, swizzle=8),
    "gemm_exact": P.gemm(64, 64, 64),
    "softmax": P.softmax(10, 37),
    "attention": P.attention(70, 40, causal=True),
    "conv": P.conv(2, 9, 10, 5, 7, stride=2),
    "reduce_two_launches": P.reduce_all(5, 100, "max"),
}


@pytest.mark.parametrize("name", GOLDENS)
def test_golden(name: str) -> None:
    text = R.build_kernel(GOLDENS[name]).source
    ast.parse(text)
    path = GOLDEN / f"{name}.py.txt"
    if os.environ.get("SEPTRAN_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_emission_is_deterministic_and_pure() -> None:
    program = P.attention(70, 40)
    assert R.build_kernel(program) == R.build_kernel(program)


def test_exact_tiles_have_no_masks() -> None:
    text = R.build_kernel(P.gemm(64, 64, 64)).source
    assert "mask=" not in text and "tl.where" not in text


def test_threads_become_warps_of_the_vendor() -> None:
    program = P.gemm(64, 64, 64, threads=256)
    assert dict(R.build_kernel(program).options)["num_warps"] == 8
    warps = {"gfx942": 4, "gfx1201": 8}
    for arch, wanted in warps.items():
        assert dict(R.build_kernel(R.aimed(program, arch)).options)["num_warps"] == wanted


def test_every_argument_of_a_leaf_matches_its_signature() -> None:
    for program in GOLDENS.values():
        tree = ast.parse(R.build_kernel(program).source)
        heads = {f.name: len(f.args.args) for f in tree.body if isinstance(f, ast.FunctionDef)}
        calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
        called = [
            c for c in calls if isinstance(c.func, ast.Name) and c.func.id.startswith("leaf_")
        ]
        assert called
        for call in called:
            assert isinstance(call.func, ast.Name)
            assert len(call.args) == heads[call.func.id], call.func.id


def test_signature_is_the_head_of_the_library_leaf() -> None:
    for _, spec in leaf_specs(P.attention(70, 40)):
        leaf = library(spec)
        assert leaf is not None and leaf.source.startswith(signature(spec))
        assert f"def {spec.symbol}(" in leaf.source


def _partial_write() -> Program:
    program = P.gemm(64, 64, 64)
    tile = P.buf("h", (8, 8), "float32", "REGISTER")
    out, src = program.params[0].buffer, program.params[1].buffer
    body = (
        Alloc(buffer=tile),
        Copy(dst=P.region(tile, (0, 0), (4, 8)), src=P.region(src, (0, 0), (4, 8))),
        Copy(dst=P.region(out, (0, 0), (8, 8)), src=P.region(tile)),
    )
    return P.program("part", [(out, "w"), (src, "r")], body)


def test_writing_a_part_of_a_tile_is_refused_with_the_fix() -> None:
    with pytest.raises(MappingError) as caught:
        R.build_kernel(_partial_write())
    assert caught.value.codes == ("M170",)
    assert "keep h in GLOBAL" in str(caught.value)


@pytest.mark.wider
def test_a_host_loop_passes_its_variable_to_the_kernel() -> None:
    out, src = P.buf("Y", (4, 8), "float32"), P.buf("X", (4, 8), "float32")
    t, j = Var("t"), Var("j")
    y, x = P.region(out, (t, j * 4), (1, 4)), P.region(src, (t, j * 4), (1, 4))
    call = P.leaf("c", [("Y", y, "w"), ("X", x, "r")], [P.prim("copy", "Y", "X")])
    grid = For(var="j", extent=Const(2), proc="BLOCK", parallel=True, body=(call,))
    program = P.program(
        "host", [(out, "w"), (src, "r")], [For(var="t", extent=Const(4), body=(grid,))]
    )
    kernel = R.build_kernel(program)
    assert "for t in range(4):" in kernel.source and '"t": "i32"' in kernel.source
    data = np.arange(32, dtype=np.float32).reshape(4, 8)
    (result,) = R.run_many([(kernel, {"X": data})])
    assert not isinstance(result, str), result
    assert (result["Y"] == data).all()


def test_global_stored_and_loaded_in_one_kernel_gets_barriers() -> None:
    out, src = P.buf("Y", (8,), "float32"), P.buf("X", (8,), "float32")
    first = P.leaf(
        "a", [("Y", P.region(out), "w"), ("X", P.region(src), "r")], [P.prim("copy", "Y", "X")]
    )
    second = P.leaf(
        "b", [("Y", P.region(out), "rw")], [P.prim("map", "Y", named=[("y", "Y")], expr="y + 1")]
    )
    text = R.build_kernel(P.program("fence", [(out, "w"), (src, "r")], [first, second])).source
    lines = [line.strip() for line in text[text.index("def fence_kernel") :].splitlines()]
    order = [line.partition("Y")[0] for line in lines if "Y + " in line or "barrier" in line]
    assert order == ["tl.store(", "tl.debug_barrier()", "", "tl.debug_barrier()", "tl.store("]


@pytest.mark.parametrize(
    "e",
    [
        Bin("-", Const(9), Bin("-", Var("i"), Const(3))),
        Bin("//", Bin("+", Var("i"), Const(7)), Const(2)),
        Bin("*", Bin("//", Var("i"), Const(2)), Const(3)),
        Bin("*", Const(3), Bin("%", Var("i"), Const(4))),
        Bin("%", Bin("*", Var("i"), Const(5)), Const(7)),
        Bin("-", Bin("min", Var("i"), Const(3)), Bin("*", Const(2), Bin("+", Var("i"), Const(1)))),
        Bin("//", Const(100), Bin("*", Const(3), Var("i"))),
    ],
)
def test_index_text_keeps_the_value(e: Bin) -> None:
    for i in range(1, 12):
        assert eval(index_text(e), {"i": i}) == evaluate(e, {"i": i})


def test_padding_and_names() -> None:
    assert [padded(n) for n in (1, 2, 3, 17, 64)] == [1, 2, 4, 32, 64]
    names = Names()
    assert names.fresh("tl") != "tl" and names.fresh("A") == "A" and names.fresh("A") == "A_2"


def test_manifests() -> None:
    for backend in (TRITON_CUDA, TRITON_HIP):
        caps = backend.available()
        assert caps["emit"].ok and set(caps) == {"emit", "compile", "emulate", "device"}
        for arch in backend.arches:
            machine = R.ROOT / "configs" / "machines" / f"{backend.machine(arch)}.yaml"
            assert machine.is_file(), machine
        assert (R.ROOT / "verify_templates" / "loaders" / backend.loader).is_file()
