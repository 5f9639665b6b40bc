"""NPUIR kernels in the simulator: accuracy, forms, capacities, planted bugs."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from septran.backends.npuir.backend import TILELANG_NPUIR, available, build
from septran.backends.npuir.dialect import NAMES, dialect_errors
from septran.backends.npuir.hoist import hoist
from septran.backends.npuir.leaves import signature
from septran.backends.npuir.tiles import lie, nbytes, physical_axis
from septran.backends.tilesim import SimError, run_file
from septran.backends.tilesim.machine import Machine
from septran.backends.tilesim.npu import npu_dialect, npu_names
from septran.errors import MappingError
from septran.ir.expr import Const
from septran.kernel import Kernel, leaf_specs
from tests.backends import operators
from tests.backends.npuir import running as R
from tests.backends.triton import programs as P

QUICK = (
    "gemm",
    "gemm_bias_relu",
    "softmax",
    "layernorm",
    "attention_causal",
    "transpose",
    "add",
    "gelu",
    "conv2d",
    "conv2d_stride2",
)
TOLERANCE = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 6e-2}


def check(name: str, dims: dict[str, int], dtype: str) -> None:
    kernel = R.kernel_of(name, dims, dtype)
    assert dialect_errors(kernel.source) == ()
    op = R.OPERATORS[name][0]
    inputs = R.inputs_of(kernel, ceiling=lambda p: operators.ceiling(op, p, dims))
    want = R.expected(name, dims, kernel, inputs)
    got = R.simulate(kernel, inputs)
    for out, w in want.items():
        error = np.abs(got[out] - w) / (np.abs(w) + np.abs(w).mean() + 1e-9)
        assert error.max() < TOLERANCE[dtype], (out, error.max())


@pytest.mark.few(4)
@pytest.mark.parametrize("dtype", sorted(TOLERANCE))
@pytest.mark.parametrize("name", QUICK)
def test_odd_sizes(name: str, dtype: str) -> None:
    check(name, dict(R.OPERATORS[name][0].odd_dims[0]), dtype)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(R.OPERATORS))
def test_every_operator(name: str) -> None:
    op = R.OPERATORS[name][0]
    for dims in ({}, *op.odd_dims):
        for dtype in sorted(TOLERANCE):
            if dtype in op.dtypes:
                check(name, dict(dims), dtype)


@pytest.mark.parametrize(
    ("name", "form", "text"),
    [
        ("gemm", "cube", "T.alloc_L0C"),
        ("softmax", "vector", "T.alloc_ub"),
        ("attention", "developer", "T.alloc_fragment"),
        ("conv2d", "developer", "T.clear(X_s)"),
        ("conv2d_1x1", "cube", "T.alloc_L1"),
    ],
)
def test_form_follows_the_work(name: str, form: str, text: str) -> None:
    kernel = R.kernel_of(name, {})
    assert dict(kernel.options)["form"] == form
    assert text in kernel.source
    assert ('T.Scope("Cube")' in kernel.source) == (form == "cube")


TWICE = """
import septran.tasklang as task

@task.define(leaf=True)
def zero(C):
    task.call_primitive("fill", C, value=0.0)

@task.define(leaf=True)
def mma(C, A, B):
    task.call_primitive("gemm_acc", C, A, B)

@task.define(leaf=True)
def store(Y, C):
    task.call_primitive("copy", Y, C)

@task.define
def tile(C, A, B):
    acc = task.tensor("acc", C.shape)
    Ap = task.partition(A, by="blocks", shape=(None, 16))
    Bp = task.partition(B, by="blocks", shape=(16, None))
    task.launch(zero, acc)
    for k in task.sequential_range(Ap.shape[1]):
        task.launch(mma, acc, Ap[0, k], Bp[k, 0])
    for n in task.sequential_range(Ap.shape[1]):
        task.launch(mma, acc, Ap[0, n], Bp[n, 0])
    task.launch(store, C, acc)

@task.define
def twice(C, A, B):
    Cp = task.partition(C, by="blocks", shape=(32, None))
    Ap = task.partition(A, by="blocks", shape=(32, None))
    for i in task.parallel_range(Cp.shape[0]):
        task.launch(tile, Cp[i, 0], Ap[i, 0], B)
"""


def test_only_the_first_product_clears_the_accumulator(tmp_path: Path) -> None:
    """The second loop's first product once found `initC` true again, and dropped what the first loop had summed."""
    kernel = R.kernel_of_logic(
        TWICE, "twice", {"C": (32, 32), "A": (32, 48), "B": (48, 32)}, tmp_path
    )
    assert dict(kernel.options)["form"] == "cube"
    inputs = R.inputs_of(kernel)
    (got,) = R.simulate(kernel, inputs).values()
    a, b = (inputs[n].astype(np.float64) for n in "AB")
    assert np.allclose(got, 2 * (a @ b), rtol=1e-4, atol=1e-4)


def test_a_maximum_keeps_nan() -> None:
    kernel = R.kernel_of("row_max", {"M": 5, "N": 40})
    x = R.inputs_of(kernel)
    (name,) = x
    x[name][2, 7] = np.nan
    (got,) = R.simulate(kernel, x).values()
    assert np.isnan(got[2]).all() and np.isfinite(np.delete(got, 2, 0)).all()


MUTANTS: list[tuple[str, str, str, str]] = [
    ("gemm", "initC dropped", ", initC=first", ""),
    ("gemm", "initC always", "initC=first", "initC=True"),
    ("gemm", "initC at the wrong step", "k0 == 0", "k0 == 1"),
    ("gemm", "nz layout stored", ", enable_nz2nd=True", ""),
    ("gemm", "operands swapped", "T.gemm(A, B, C", "T.gemm(B, A, C"),
    ("gemm", "last k block skipped", "T.serial(6)", "T.serial(5)"),
    ("gemm", "first k block skipped", "k0 * 64:k0 * 64", "(k0 + 1) * 64:(k0 + 1) * 64"),
    ("gemm", "accumulator in L1", "T.alloc_L0C([64, 64]", "T.alloc_L1([64, 64]"),
    ("gemm", "operand in UB", "A_s = T.alloc_L1", "A_s = T.alloc_ub"),
    (
        "gemm",
        "half accumulator",
        'T.alloc_L0C([64, 64], "float32")',
        'T.alloc_L0C([64, 64], "float16")',
    ),
    ("gemm", "is_npu dropped", ", is_npu=True", ""),
    ("gemm", "grid too small", "T.Kernel(4", "T.Kernel(3"),
    ("gemm", "grid too large", "T.Kernel(4", "T.Kernel(5"),
    ("gemm", "block decoded wrong", "cid % 2", "cid % 1"),
    (
        "gemm",
        "vector op in cube scope",
        "i0 = cid // 2",
        "i0 = cid // 2\n        T.vadd(A_s, A_s, A_s)",
    ),
    ("gemm", "L1 overflow", "B_s = T.alloc_L1([64, 64]", "B_s = T.alloc_L1([640, 640]"),
    ("gemm", "tail not cut", "T.min(64, 100 - i0 * 64), k0 * 64", "64, k0 * 64"),
    (
        "gemm",
        "alloc in a loop",
        "        for k0 in T.serial(6):\n",
        "        for k0 in T.serial(6):\n            junk = T.alloc_L1([16, 16], 'float32')\n",
    ),
    (
        "softmax",
        "nothing loaded",
        "        T.clear(X_r)\n        T.copy(X[",
        "        if cid > 99:\n            T.copy(X[",
    ),
    ("softmax", "tail stored too", "T.copy(Y_r[0:T.min(2, 37 - i0 * 2)", "T.copy(Y_r[0:2"),
    (
        "softmax",
        "tail not cut on load",
        "T.copy(X[i0 * 2:i0 * 2 + T.min(2, 37 - i0 * 2)",
        "T.copy(X[i0 * 2:i0 * 2 + 2",
    ),
    ("softmax", "UB overflow", "Y_r = T.alloc_ub([2, 777]", "Y_r = T.alloc_ub([200, 777]"),
    ("softmax", "exp dropped", "T.vexp(", "T.vabs("),
    ("softmax", "wrong axis", 'dims=[1], reduce_mode="max"', 'dims=[0], reduce_mode="max"'),
    ("softmax", "scalar as first source", "T.vsub(X, m", "T.vsub(1.0, m"),
    ("softmax", "unknown operation", "T.vexp(", "T.vexpm1("),
    (
        "softmax",
        "result not stored",
        "        T.copy(Y_r[",
        "        T.copy(Y_r, Y_r) if False else T.copy(X_r[",
    ),
    ("attention_causal", "mask shifted", '"le")', '"lt")'),
    ("attention_causal", "rescale dropped", "    T.vmul(acc, c, acc)\n", ""),
    ("attention_causal", "running maximum lost", "    T.copy(m_new, m)\n", ""),
    ("attention_causal", "accumulator not cleared", "        T.clear(acc)\n", ""),
    ("attention_causal", "running sum lost", "    T.vadd(t7, l, t7)\n", ""),
    ("attention_causal", "transposition dropped", ", b_transpose=True", ""),
    ("attention_causal", "P not computed", "    T.vcast(S, P)\n", "    T.fill(P, 1.0)\n"),
]
DIMS = {
    "gemm": {"M": 100, "N": 77, "K": 345},
    "softmax": {"M": 37, "N": 777},
    "attention_causal": {"Z": 2, "S": 77, "D": 40},
}
DTYPE = {"gemm": "float32", "softmax": "float32", "attention_causal": "float16"}


@pytest.fixture(scope="module")
def good() -> dict[str, tuple[Kernel, dict[str, np.ndarray], np.ndarray]]:
    found = {}
    for name, dims in DIMS.items():
        kernel = R.kernel_of(name, dims, DTYPE[name])
        inputs = R.inputs_of(kernel)
        (want,) = R.simulate(kernel, inputs).values()
        assert R.verdict(kernel, inputs, want) == ""
        found[name] = (kernel, inputs, want)
    return found


SAID = {
    "initC dropped": "reads uninitialised L0C",
    "initC at the wrong step": "reads uninitialised L0C",
    "nz layout stored": "needs enable_nz2nd=True",
    "operands swapped": "reads uninitialised L1",
    "first k block skipped": "outside 0:345",
    "accumulator in L1": "accumulator must be in L0C",
    "operand in UB": "must be in L1, got UB",
    "half accumulator": "must accumulate in fp32",
    "is_npu dropped": "needs is_npu=True",
    "grid too large": "negative extent",
    "block decoded wrong": "two blocks write the same element",
    "vector op in cube scope": "must be inside T.Scope",
    "L1 overflow": "L1 overflow, requires",
    "tail not cut": "extents differ",
    "alloc in a loop": "inside a loop or branch",
    "nothing loaded": "reads uninitialised UB",
    "tail stored too": "extents differ",
    "tail not cut on load": "extents differ",
    "UB overflow": "UB overflow, requires",
    "wrong axis": "reduce output shape",
    "scalar as first source": "only the second source",
    "unknown operation": "does not exist in the NPUIR dialect",
    "accumulator not cleared": "reads uninitialised",
    "transposition dropped": "is outside 0:40",
}
"""What is said of a mutant; of the others, that the result is wrong."""


@pytest.mark.few(12)
@pytest.mark.parametrize(
    ("name", "what", "old", "new"), MUTANTS, ids=[f"{m[0]}: {m[1]}" for m in MUTANTS]
)
def test_mutant_is_rejected(name: str, what: str, old: str, new: str, good: dict) -> None:
    kernel, inputs, want = good[name]
    assert SAID.get(what, "wrong result") in R.verdict(R.changed(kernel, old, new), inputs, want)


def test_too_large_tiles_are_refused_with_numbers() -> None:
    out, src = P.buf("Y", (256, 1024), "float32"), P.buf("X", (256, 1024), "float32")
    call = P.leaf(
        "f",
        [("Y", P.region(out), "w"), ("X", P.region(src), "r")],
        [P.prim("map", "Y", named=[("x", "X")], expr="exp(x)")],
    )
    program = P.program(
        "big",
        [(out, "w"), (src, "r")],
        [P.For(var="i", extent=Const(1), proc="BLOCK", parallel=True, body=(call,))],
    )
    program = replace(program, machine=TILELANG_NPUIR.machine("910b"))
    for _, fn in TILELANG_NPUIR.passes:
        program = fn(program)
    leaves = {s.key: TILELANG_NPUIR.library(s) for _, s in leaf_specs(program)}
    with pytest.raises(MappingError) as caught:
        TILELANG_NPUIR.emit(program, leaves)  # type: ignore[arg-type]
    assert caught.value.codes == ("M011",), str(caught.value)
    assert "196608" in str(caught.value)


@pytest.mark.parametrize("exponent", ["1", "2", "3", "5", "11", "-1", "-3", "0.5", "1.7", "-0.25"])
def test_powers_need_no_vpow(exponent: str) -> None:
    out, src = P.buf("Y", (2, 40), "float32"), P.buf("X", (2, 40), "float32")
    call = P.leaf(
        "f",
        [("Y", P.region(out), "w"), ("X", P.region(src), "r")],
        [P.prim("map", "Y", named=[("x", "X")], expr=f"x ** {exponent} + x")],
    )
    loop = P.For(var="i", extent=Const(1), proc="BLOCK", parallel=True, body=(call,))
    program = P.program("power", [(out, "w"), (src, "r")], [loop])
    program = replace(program, machine=TILELANG_NPUIR.machine("910b"))
    for _, fn in TILELANG_NPUIR.passes:
        program = fn(program)
    leaves = {s.key: TILELANG_NPUIR.library(s) for _, s in leaf_specs(program)}
    kernel = TILELANG_NPUIR.emit(program, leaves)  # type: ignore[arg-type]
    assert "vpow" not in kernel.source
    x = np.random.default_rng(3).random((2, 40)).astype(np.float32) + 0.5
    (got,) = R.simulate(kernel, {"X": x}).values()
    want = x.astype(np.float64) ** float(exponent) + x
    assert np.abs(got / want - 1).max() < 2e-6


def test_hoisting_moves_scratch_into_parameters() -> None:
    text = '@T.macro\ndef leaf(Y):\n    """d."""\n    t1 = T.alloc_ub([4, 8], "float32")\n    T.vexp(Y, t1)\n'
    new, scratch = hoist(text, "leaf")
    assert [(b.name, b.shape, b.layout) for b in scratch] == [("t1", (4, 8), "alloc_ub")]
    assert "alloc" not in new
    fn = ast.parse(new).body[0]
    assert isinstance(fn, ast.FunctionDef) and [a.arg for a in fn.args.args] == ["Y", "t1"]


def test_tiles_lie_in_two_dims() -> None:
    assert lie((5,)) == (1, 5) and lie((1, 1, 4, 5)) == (4, 5) and lie((2, 4, 5)) == (2, 4, 5)
    assert physical_axis((5,), 0) == 1 and physical_axis((1, 4, 5), 1) == 0
    assert nbytes((3, 5), "float16") == 3 * 32


def test_dialect_names_exist_in_the_simulator() -> None:
    known = set(npu_names(Machine(npu_dialect()))) | {"prim_func", "macro", "Tensor"}
    assert known >= NAMES, NAMES - known


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("T.tanh(X)", "does not exist"),
        ("T.vexp(X[0:n], Y)", "must be static"),
        ("while True: pass", "while loops"),
    ],
)
def test_dialect_check(text: str, message: str) -> None:
    assert message in dialect_errors(f"def k(X, Y, n):\n    {text}\n")[0]


def test_build_says_what_was_not_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("septran.backends.npuir.toolchain.ascend_target", lambda: "not asked")
    kernel = R.kernel_of("softmax", {})
    built = build(kernel, tmp_path)
    assert built.ok and any("910b" in n for n in built.not_checked)
    assert (tmp_path / "septran_tilesim" / "npu.py").is_file()
    caps = available()
    assert caps["emulate"].ok and (caps["device"].ok or "missing" in caps["device"].detail)
    broken = replace(kernel, files=((kernel.main, kernel.source.replace("T.vexp", "T.vexpm1")),))
    assert not build(broken, tmp_path).ok


def test_library_leaf_begins_with_the_signature() -> None:
    kernel = R.kernel_of("attention", {})
    for leaf in kernel.leaves:
        assert leaf.source.startswith(signature(leaf.spec))


def test_simulator_errors_carry_the_line() -> None:
    kernel = R.kernel_of("softmax", DIMS["softmax"])
    broken = R.changed(kernel, "T.vexp(", "T.vexp(0.0 * ")
    with pytest.raises(SimError) as caught:
        R.simulate(broken, R.inputs_of(kernel))
    assert caught.value.line > 0


def test_a_tail_that_nobody_stores_may_hold_anything() -> None:
    kernel = R.kernel_of("softmax", DIMS["softmax"])
    inputs = R.inputs_of(kernel)
    (want,) = R.simulate(kernel, inputs).values()
    (got,) = R.simulate(R.changed(kernel, "        T.clear(X_r)\n", ""), inputs).values()
    assert (got == want).all()


def test_a_reduction_over_a_hole_is_not_stored() -> None:
    kernel = R.kernel_of("row_sum", {"M": 4, "N": 40})
    load = "T.copy(X[0:4, 0:40], X_r)"
    all_but_one = "T.copy(X[0:4, 0:39], X_r[0:4, 0:39]); T.copy(X[0:3, 39:40], X_r[0:3, 39:40])"
    part = R.changed(kernel, load, all_but_one)
    with pytest.raises(SimError, match=r"stores uninitialised data to Y \(1 of 4"):
        R.simulate(part, R.inputs_of(kernel))


def threads() -> int:
    """The threads that the system knows of."""
    return len(list(Path("/proc/self/task").iterdir()))


def test_no_thread_outlives_a_call() -> None:
    plain = R.kernel_of("gemm", DIMS["gemm"])
    head = "        i1 = cid % 2\n"  # vector cores wait for the cube core: cores are threads
    meeting = R.changed(plain, head, "        T.sync_block_set(1)\n" + head)
    text = ' as (cid, _), T.Scope("Cube"):\n'
    wait = ' as (cid, _):\n      with T.Scope("Vector"):\n        T.sync_block_wait(1)\n'
    meeting = R.changed(meeting, text, f'{wait}      with T.Scope("Cube"):\n')
    before = threads()
    for kernel in (plain, meeting):
        for _ in range(5):
            R.simulate(kernel, R.inputs_of(kernel))
            assert threads() == before


def test_no_thread_outlives_a_deadlock(tmp_path: Path) -> None:
    source = """
import tilelang.language as T


@T.prim_func
def entry(A: T.Tensor((16,), "float32")):
    with T.Kernel(1, is_npu=True) as (cid, _):
        with T.Scope("Cube"):
            T.sync_block_wait(3)
        with T.Scope("Vector"):
            T.sync_block_wait(4)
"""
    path = tmp_path / "kernel.py"
    path.write_text(source, encoding="utf-8")
    before = threads()
    with pytest.raises(SimError, match="cores wait for block flags"):
        run_file(path, "entry", [np.zeros(16, np.float32)], npu_dialect())
    assert threads() == before
