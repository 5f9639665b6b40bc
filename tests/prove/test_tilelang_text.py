"""The rule `text` of TileLang kernels, for GPUs and NPUs: what is printed is the Program, and one fault is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from septran import backends
from septran.backends.base import Backend
from septran.backends.tilesim import dialect, run_file
from septran.ir.nodes import LeafCall, Program, walk
from septran.ir.text import parse_program, print_program
from septran.kernel import Kernel
from septran.plan.floor import library_leaves
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.prove.printed import Unreadable
from septran.prove.sets import model
from septran.prove.text import same_text
from septran.run.prove import finish, prove_request
from tests.backends.npuir.running import inputs_of
from tests.backends.operators import all_operators
from tests.cli.conftest import septran as septran
from tests.prove.test_text import changed, printed, refused
from tests.prove.text_mutants import text_mutants

TARGETS = ("tilelang_cuda", "tilelang_hip", "tilelang_npuir")


@pytest.mark.parametrize("target", TARGETS)
def test_a_user_sees_that_the_text_is_proved(septran, target: str):
    done = septran("prove", "--op", "conv2d", "--backend", target)
    assert done.code == 0, done.err
    assert "text proved" in " ".join(done.out.split())


@pytest.mark.few(4)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("op", "dims"),
    [
        ("gemm", {"M": 200, "N": 150, "K": 100}),
        ("conv2d_stride2", {"H": 17, "W": 19}),
        ("attention_causal", {"S": 200}),
        ("transpose", {"M": 100, "N": 77}),
    ],
)
def test_edges_are_proved_too(target: str, op: str, dims: dict[str, int]):
    assert refused(*printed(op, target, **dims)) == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "arch"), [(t, a) for t in TARGETS for a in backends.get(t).arches]
)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_every_operator_is_the_program(target: str, arch: str, dtype: str):
    wrong = {}
    for op in all_operators():
        request = GenRequest(op=op, backend=target, arch=arch, dtype=dtype)
        rules = {r.rule: r for r in prove_request(request).certificate.rules}
        wrong[op] = (rules["text"].state, rules["text"].why, rules["text"].findings)
    assert {op: why for op, why in wrong.items() if why[0] != "proved"} == {}


@pytest.mark.parametrize(
    ("target", "op", "old", "new", "says"),
    [
        ("tilelang_cuda", "gemm", "A[i0 * 64", "A[i1 * 64", "leaves an element out"),
        ("tilelang_cuda", "gemm", "A[i0 * 64", "A[i0 * 63", "leaves an element out"),
        ("tilelang_cuda", "gemm", "num_stages=2", "num_stages=3", "3 stages"),
        ("tilelang_cuda", "gemm", "T.Pipelined(16, num_stages=2)", "T.serial(16)", "stages"),
        ("tilelang_cuda", "gemm", "Pipelined(16", "Pipelined(15", "leaves an iteration out"),
        ("tilelang_cuda", "gemm", "B_s)\n", "A_s)\n", "is A_s in the text"),
        ("tilelang_cuda", "gemm", "Kernel(8, 8", "Kernel(8, 9", "once more"),
        ("tilelang_cuda", "gemm", "as (i1, i0)", "as (i0, i1)", "leaves an element out"),
        ("tilelang_cuda", "gemm", "threads=128", "threads=64", "threads is 64"),
        ("tilelang_cuda", "gemm", "((64, 32), ", "((64, 64), ", "in the text, not (64, 32)"),
        ("tilelang_cuda", "gemm", "A_s = T.alloc_shared", "A_s = T.alloc_fragment", "alloc_shared"),
        (
            "tilelang_cuda",
            "gemm",
            "Y_r, C[i0 * 64, i1 * 64]",
            "C[i0 * 64, i1 * 64], Y_r",
            "is Y_r in",
        ),
        ("tilelang_cuda", "conv2d", "(i < 90) & ", "", "another element"),
        ("tilelang_cuda", "conv2d", "(i1 - 1 + i // 30 >= 0) & ", "", "another element"),
        ("tilelang_cuda", "conv2d", "Parallel(128, 32)", "Parallel(100, 32)", "as it was"),
        ("tilelang_cuda", "conv2d", "Parallel(32, 32)", "Parallel(33, 32)", "another element"),
        ("tilelang_cuda", "conv2d", "T.float32(0))", "T.float32(1))", "of the border"),
        ("tilelang_cuda", "attention_causal", "(3 - i1) * 64, k0", "i1 * 64, k0", "scalar 1"),
        ("tilelang_npuir", "gemm", "k0 == 0", "k0 == 1", "k0 == 1"),
        ("tilelang_npuir", "gemm", "k0 == 0", "False", "scalar 0"),
        ("tilelang_npuir", "gemm", "alloc_L1", "alloc_ub", "alloc_ub in the text"),
        ("tilelang_npuir", "gemm", ', T.Scope("Cube")', "", "not read here"),
        ("tilelang_npuir", "gemm", "i0 * 64 + 64, k0", "i0 * 64 + 63, k0", "other extents"),
        ("tilelang_npuir", "gemm", "enable_nz2nd=True", "enable_nz2nd=False", "not read here"),
        ("tilelang_npuir", "gemm", "out_idx=[0]", "out_idx=[1]", "outputs"),
        ("tilelang_npuir", "conv2d", "T.clear(X_s)\n", "pass\n", "the text has a copy there"),
        ("tilelang_npuir", "conv2d", "T.clear(acc)\n", "pass\n", "the text has a copy there"),
        ("tilelang_npuir", "conv2d", "T.min(1, 28 - (i1", "T.min(2, 28 - (i1", "another element"),
        ("tilelang_npuir", "conv2d", "T.max(0, 0 - (i1", "T.max(1, 0 - (i1", "leaves an element"),
    ],
)
def test_a_changed_text_is_refused(target: str, op: str, old: str, new: str, says: str):
    plan, lowered, kernel = printed(op, target)
    assert says in refused(plan, lowered, changed(kernel, old, new))


def test_blocks_run_in_the_squares_that_the_program_says():
    plan = resolve(
        GenRequest(
            op="gemm",
            backend="tilelang_cuda",
            dtype="float16",
            dims={"M": 4096, "N": 4096, "K": 4096},
        )
    )
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    kernel = plan.backend.emit(lowered.program, leaves)
    assert refused(plan, lowered, kernel) == ""
    told = refused(plan, lowered, changed(kernel, "        T.use_swizzle(10)\n", ""))
    assert "swizzle is 1 in the text, not 10" in told


def test_names_that_hide_others_are_not_taken_for_them():
    """The inner variable is another one than the grid's of the same name."""
    plan, lowered, kernel = printed("conv2d", "tilelang_cuda")
    text = kernel.source.replace(
        "for i, j in T.Parallel(32, 32)", "for i1, j in T.Parallel(32, 32)"
    )
    text = text.replace("A_s[i, j] = T.if_then_else((i <", "A_s[i1, j] = T.if_then_else((i1 <")
    same = changed(kernel, kernel.source, text.replace("% 3 + i, j]", "% 3 + i1, j]"))
    assert refused(plan, lowered, same) == ""
    captured = changed(same, "X_s[(k0_k1", "X_s[(i1")
    assert "copy A_s <- X_s" in refused(plan, lowered, captured)


def test_a_product_that_begins_anew_at_the_wrong_time_is_refused():
    """The fill of an accumulator is not printed: the Program has to say where the product does it."""
    plan = resolve(GenRequest(op="gemm", backend="tilelang_npuir"))
    lowered = lower_plan(plan)
    core = finish(plan, lowered)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    kernel = plan.backend.emit(lowered.program, leaves)
    (product,) = (s for s in walk(core.program.body) if isinstance(s, LeafCall) and s.task == "mma")
    assert dict(product.scalars)["began"]
    text = print_program(core.program)
    assert "scalar began = k0" in text
    wrong = parse_program(text.replace("scalar began = k0", "scalar began = 0"))
    found = _findings(plan.backend, changed(kernel, "k0 == 0", "True"), wrong)
    assert "drops what its tile holds" in found
    wrong = parse_program(text.replace("scalar began = k0", "scalar began = 1"))
    found = _findings(plan.backend, changed(kernel, "k0 == 0", "False"), wrong)
    assert "adds to a tile whose fill is not printed" in found


def _findings(backend: Backend, kernel: Kernel, program: Program) -> str:
    assert backend.read_back is not None
    try:
        told = backend.read_back(kernel, program)
        return str(next(same_text(model(program), told), ""))
    except Unreadable as e:
        return str(e)


# ---- planted faults


@pytest.mark.parametrize("target", ["tilelang_cuda", "tilelang_npuir"])
def test_a_sample_of_planted_faults_is_refused(target: str):
    """Every loop runs more than once and every tile has an edge, so none of them means the same."""
    plan, lowered, kernel = printed("gemm", target, M=200, N=150, K=100)
    left = [name for name, m in [*text_mutants(kernel)][::15] if not refused(plan, lowered, m)]
    assert left == []


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("op", ["gemm", "conv2d", "conv2d_stride2", "attention_causal", "softmax"])
def test_each_planted_fault_is_refused_or_gives_the_same_bytes(
    target: str, op: str, tmp_path: Path
):
    plan, lowered, kernel = printed(op, target)
    want = _outputs(kernel, tmp_path)
    faults = [*text_mutants(kernel)]
    left = [(name, m) for name, m in faults if not refused(plan, lowered, m)]
    assert [name for name, m in left if _outputs(m, tmp_path) != want] == []
    assert len(left) < len(faults) / 4


def _outputs(kernel: Kernel, folder: Path) -> list[bytes]:
    """Return what a kernel's text writes in the simulator."""
    inputs = inputs_of(kernel)
    args = [
        inputs[p.name].copy() if p.name in inputs else np.full(p.shape, np.nan, p.dtype)
        for p in kernel.params
    ]
    path = folder / "kernel.py"
    path.write_text(kernel.source, encoding="utf-8")
    run_file(path, kernel.entry, args, dialect(kernel.arch))
    return [a.tobytes() for a, p in zip(args, kernel.params, strict=True) if p.privilege != "r"]
