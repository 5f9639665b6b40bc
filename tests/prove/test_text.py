"""The rule `text`: what is printed says what the Program says, and one changed constant is refused."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from septran.kernel import Kernel, Leaf, leaf_specs
from septran.plan.fit import Lowered
from septran.plan.floor import admitted, library_leaves
from septran.plan.resolve import GenRequest, Plan, lower_plan, resolve
from septran.prove import text_pieces
from septran.prove.printed import Unread, Unreadable
from septran.prove.sets import model
from septran.prove.text import same_text
from septran.run.prove import distributed, prove_lowered, prove_request, unproven
from tests.backends.operators import all_operators
from tests.cli.conftest import septran as septran
from tests.prove.text_mutants import text_mutants

READ = ("cpp", "cuda_c", "hip_c", "dsa_c", "triton_cuda")


def printed(op: str, target: str, **dims: int) -> tuple[Plan, Lowered, Kernel]:
    plan = resolve(GenRequest(op=op, backend=target, dims=dims))
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    return plan, lowered, plan.backend.emit(lowered.program, leaves)


def refused(plan: Plan, lowered: Lowered, kernel: Kernel) -> str:
    """Return why the text is refused, "" when it is proven."""
    leaves = {leaf.spec.key: leaf for leaf in kernel.leaves}
    core = distributed(
        plan.backend.finished(lowered.program, leaves), int(plan.machine.limits.get("cores", 1))
    )
    assert plan.backend.read_back is not None
    try:
        told = plan.backend.read_back(kernel, core.program)
        found = next(same_text(model(core.program, core.dims), told), None)
    except Unreadable as e:
        return str(e)
    return str(found or "")


def changed(kernel: Kernel, old: str, new: str) -> Kernel:
    assert old in kernel.source, f"{old} is not in\n{kernel.source}"
    return kernel.with_files(
        {**dict(kernel.files), kernel.main: kernel.source.replace(old, new, 1)}
    )


@pytest.mark.few(6)
@pytest.mark.parametrize("target", READ)
@pytest.mark.parametrize("op", ["gemm", "conv2d", "layernorm", "transpose"])
def test_what_is_printed_is_the_program(op: str, target: str):
    assert refused(*printed(op, target)) == ""


@pytest.mark.slow
@pytest.mark.parametrize("target", READ)
def test_every_printed_operator_is_the_program(target: str):
    wrong = {op: refused(*printed(op, target)) for op in all_operators()}
    assert {op: why for op, why in wrong.items() if why} == {}


@pytest.mark.slow
def test_tiles_of_many_pieces_are_compared_one_iteration_after_the_other():
    plan, lowered, kernel = printed("conv2d", "dsa_c", B=2, H=13, W=9, Ci=5, Co=19)
    assert refused(plan, lowered, kernel) == ""
    assert "position" in refused(plan, lowered, changed(kernel, "k0) * 11 + k1", "k0) * 12 + k1"))


def test_one_iteration_after_the_other_finds_the_one_that_differs(monkeypatch):
    import islpy as isl

    a, b = (isl.Map(f"[c] -> {{ S[i] -> [i + c] : 0 <= i < {n} and 0 <= c < 2 }}") for n in (9, 8))
    for left, right in ((a, a), (b, a), (a, b)):
        found = text_pieces._one_by_one(left, right)
        assert found.is_empty() == left.subtract(right).is_empty()
        assert found.is_subset(left.subtract(right))
    monkeypatch.setattr(text_pieces, "_MOST_ITERATIONS", 17)
    with pytest.raises(Unreadable, match="too many pieces"):
        text_pieces._one_by_one(a, b)


@pytest.mark.parametrize(
    ("target", "old", "new", "says"),
    [
        ("cpp", "A + i0 * ", "A + i1 * ", "begins elsewhere"),
        ("cpp", "{512, 1}", "{513, 1}", "strides"),
        ("cpp", "k0 < 1", "k0 < 2", "once more"),
        ("cpp", "collapse(2)", "collapse(3)", "collapse"),
        ("cpp", "core + 540736", "core + 540608", "lies on acc"),
        ("cuda_c", "blockIdx.x % 4", "blockIdx.x % 2", "two blocks"),
        ("cuda_c", "        __syncthreads();\n", "", "the text has a copy there"),
        ("cuda_c", "st::cp_wait<0>", "st::cp_wait<1>", "under way"),
        ("cuda_c", "smem + 36864", "smem + 36800", "lies on"),
        ("cuda_c", "(k0 + 1) % 2 * 4608", "k0 % 2 * 4608", "begins elsewhere"),
        ("dsa_c", "* 512 + ", "* 511 + ", "position"),
        ("triton_cuda", "[:, None] * 512", "[:, None] * 511", "lies elsewhere"),
        ("triton_cuda", "pid % 8", "pid % 4", "two blocks"),
        ("triton_cuda", "acc = leaf_zero", "A_s = leaf_zero", "is A_s in the text"),
        ("triton_cuda", "range(0, 16", "range(0, 15", "leaves an iteration out"),
        ("triton_cuda", "range(0, 16", "range(1, 16", "begins at 1"),
        ("triton_cuda", "A_0[:, None]", "A_0[None, :]", "do not fit"),
        ("triton_cuda", "arange(0, 64)", "arange(0, 65)", "no power of two"),
        ("triton_cuda", "A + A_0[:, None]", "A - A_0[:, None]", "lies elsewhere"),
        ("triton_cuda", "    C_t = leaf", "    C_u = leaf", "nothing is called C_t"),
        ("dsa_c", "VL_Q_LOAD, VL_Q_MMA", "VL_Q_LOAD, VL_Q_VEC", "the text says LOAD>VEC"),
        ("dsa_c", "128, 64, 64, VL_F32", "128, 63, 64, VL_F32", "two sizes"),
        ("dsa_c", "vendor_lib_wait(VL_Q_LOAD", "vendor_lib_set(VL_Q_LOAD", "the text has a post"),
    ],
)
def test_a_changed_text_is_refused(target: str, old: str, new: str, says: str):
    plan, lowered, kernel = printed("gemm", target)
    assert says in refused(plan, lowered, changed(kernel, old, new))


@pytest.mark.wider
def test_each_changed_number_is_refused_or_means_the_same():
    """Only a reserved block may be larger; every loop has more than one iteration."""
    plan, lowered, kernel = printed("gemm", "cpp", M=1000, N=1300, K=1100)
    left = [m for _, m in text_mutants(kernel) if not refused(plan, lowered, m)]
    was = kernel.source.splitlines()
    told = [
        next(b for a, b in zip(was, m.source.splitlines(), strict=True) if a != b) for m in left
    ]
    assert [line for line in told if "st::scratch<" not in line] == []


def test_a_refusal_names_the_line_of_the_text():
    plan, lowered, kernel = printed("gemm", "cpp")
    wrong = changed(kernel, "A + i0 * ", "A + i1 * ")
    certificate = prove_lowered(plan, lowered, kernel=wrong).certificate
    (found,) = certificate.findings
    line = wrong.source[: wrong.source.index("A + i1 * ")].count("\n") + 1
    assert found.code == "P070" and str(found.places[0]) == f"gemm.cpp:{line}:1"
    assert dict(found.at).keys() == {"i0", "i1", "k0"}


def test_a_text_that_means_nothing_is_refused_with_its_line():
    plan, lowered, kernel = printed("gemm", "triton_cuda")
    at = next(x for x in kernel.source.splitlines(True) if x.strip().startswith("C_0 = "))
    wrong = changed(kernel, at, "")
    certificate = prove_lowered(plan, lowered, kernel=wrong).certificate
    (found,) = certificate.findings
    line = wrong.source[: wrong.source.index("tl.store(C + C_0")].count("\n") + 1
    assert "nothing is called C_0" in found.text
    assert (found.code, str(found.places[0])) == ("P070", f"{kernel.main}:{line}:1")


def test_a_target_that_nobody_reads_says_so():
    plan, lowered, _ = printed("add", "cpp")
    unread = replace(plan, backend=replace(plan.backend, read_back=None))
    certificate = prove_lowered(unread, lowered).certificate
    (text,) = (r for r in certificate.rules if r.rule == "text")
    assert text.state == "not asked" and "not read back" in text.why


def test_kernels_with_tensor_copies_say_so_and_are_not_held_against():

    certificate = prove_request(
        GenRequest(op="gemm", backend="cuda_c", arch="sm_90a", dtype="float16")
    ).certificate
    (text,) = (r for r in certificate.rules if r.rule == "text")
    assert text.state == "not asked" and "tensor copies" in text.why
    proof = {"refused": {}, "not_asked": {"text": text.why}}
    assert unproven({"proof": proof}) == ""
    assert "V115" in unproven({"proof": {**proof, "not_asked": {"text": "cannot be compared"}}})


def test_a_vendor_whose_calls_are_several_is_not_read():
    from septran.backends.dsa.reading import spellings
    from septran.backends.dsa.vendor import load_vendor

    assert "vendor_lib_mma" in spellings(load_vendor("vendor_lib"))
    with pytest.raises(Unread, match="the call"):
        spellings(load_vendor("systolic_style"))


C_LEAF = "  const vl_tile y = vl_matrix(Y), x = vl_matrix(X);\n  if (x.cols > 0) {\n    vendor_lib_vec_scalar(VL_MAX, y, x, 0.0);\n  }"
"""The condition keeps it a function."""


PLAIN_LEAF = "  vendor_lib_vec_scalar(VL_MAX, vl_matrix(Y), vl_matrix(X), 0.0);"


def with_c_leaf(body: str = C_LEAF) -> tuple[Plan, Lowered, Kernel]:
    """Return relu on dsa_c with a leaf as a model writes it, around which the simulator is told its views."""
    plan, lowered, _ = printed("relu", "dsa_c", N=4000)
    leaves = {}
    for _, spec in leaf_specs(lowered.program):
        source = f"{plan.backend.signature(spec)} {{\n{body}\n}}\n"
        leaf = Leaf(spec=spec, writer="file", name="mine", source=source)
        leaves[spec.key] = admitted(leaf, plan.backend)
    return plan, lowered, plan.backend.emit(lowered.program, leaves)


def test_a_leaf_in_c_is_read_as_the_librarys_calls_are():
    assert refused(*with_c_leaf()) == ""


def test_a_leaf_that_was_put_in_place_is_read_as_operations_are():
    plan, lowered, kernel = with_c_leaf(PLAIN_LEAF)
    assert refused(plan, lowered, kernel) == ""
    assert refused(plan, lowered, changed(kernel, "VL_F32), 0.0);", "VL_F32), 0.5);"))


@pytest.mark.parametrize(
    ("pattern", "new"),
    [
        (r"(leaf_\w+)\(given\[0\], given\[1\]", r"\1(given[1], given[0]"),
        (r"(leaf_\w+)\(given\[0\], given\[1\]", r"\1(given[0], given[0]"),
        (r"(leaf_\w+)\(given\[0\], given\[1\]", r"\1(given[0], given[7]"),
        (r"(\{VL_S\(X\w*\), VL_F32, )", r"{VL_S(Y_s), VL_F32, "),
        (r'vl_given\(given, "\w+"\);\n', ""),
        (r" *leaf_\w+\(given[^\n]*\n", ""),
    ],
)
def test_a_changed_call_of_a_leaf_in_c_is_refused(pattern: str, new: str):
    plan, lowered, kernel = with_c_leaf()
    start = kernel.source.index("static void kernel(")
    body, count = re.subn(pattern, new, kernel.source[start:], count=1)
    assert count
    text = kernel.source[:start] + body
    mutant = kernel.with_files({**dict(kernel.files), kernel.main: text})
    assert refused(plan, lowered, mutant)


# ---- the certificate is about one source


def test_a_changed_source_is_refused(septran, tmp_path: Path):
    done = septran("gen", "--op", "add", "--backend", "cpp", "--stop-after", "emit", "--json")
    assert done.code == 0, done.err
    run = Path(done.json["run"])
    again = septran("prove", "--check", str(run / "certificate.json"))
    assert again.code == 0 and re.search("text +proved", again.out), again.out
    source = run / "add.cpp"
    source.write_text(source.read_text().replace("i0 * 8192", "i0 * 8191"))
    other = septran("prove", "--check", str(run / "certificate.json"))
    assert other.code == 1 and "P071" in other.out

    stored = json.loads((run / "certificate.json").read_text())
    stored["source"]["text"] = source.read_text()
    file = tmp_path / "certificate.json"
    file.write_text(json.dumps(stored))
    forged = septran("prove", "--check", str(file))
    assert forged.code == 1 and ("P070" in forged.out)
