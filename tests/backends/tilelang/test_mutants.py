"""Planted bugs in emitted TileLang must be seen by the simulator: an error, or wrong numbers."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest

from septran.backends.tilelang.backend import TILELANG_CUDA as BACKEND
from septran.backends.tilesim import SimError
from septran.kernel import Kernel
from tests.backends.mutants import Mutant, parametrize
from tests.backends.tilelang.running import LIMIT, error_of, kernel_of

Case = tuple[str, str, tuple[tuple[str, int], ...]]

GEMM = ("gemm", "float16", (("M", 100), ("N", 77), ("K", 345)))
BIG = ("gemm", "float16", (("M", 256), ("N", 256), ("K", 256)))
EXACT = ("gemm", "float32", (("M", 100), ("N", 77), ("K", 345)))
SOFTMAX = ("softmax", "float32", (("M", 37), ("N", 777)))
ATTENTION = ("attention", "float16", (("Z", 2), ("S", 77), ("D", 40)))
CAUSAL = ("attention_causal", "float16", (("Z", 2), ("S", 77), ("D", 40)))
NORM = ("layernorm", "float32", (("M", 37), ("N", 777)))
CONV = ("conv2d", "float16", (("B", 2), ("H", 13), ("W", 9), ("Ci", 5), ("Co", 19)))
MAX = ("row_max", "float32", (("M", 37), ("N", 517)))
TRANSPOSE = ("transpose", "float32", (("M", 100), ("N", 37)))

MUTANTS: list[Mutant[Case]] = [
    Mutant("accumulator never cleared", GEMM, "T.fill(C, 0.0)", "pass"),
    Mutant("accumulator cleared each step", GEMM, "FullRow)", "FullRow, clear_accum=True)"),
    Mutant("operand shifted by a row", GEMM, "T.copy(A[i0 * 100,", "T.copy(A[i0 * 100 + 1,"),
    Mutant(
        "operand shifted by a column",
        GEMM,
        "T.copy(B[k0 * 64, i1 * 77]",
        "T.copy(B[k0 * 64, i1 * 77 + 1]",
    ),
    Mutant("last block of k skipped", GEMM, "in T.serial(6)", "in T.serial(5)"),
    Mutant("last pipelined block skipped", BIG, "T.Pipelined(4,", "T.Pipelined(3,"),
    Mutant("stages are no int", BIG, "num_stages=3", "num_stages=-1"),
    Mutant(
        "five times the shared memory",
        BIG,
        "A_s = T.alloc_shared((128, 64)",
        "A_s = T.alloc_shared((128, 640)",
    ),
    Mutant("wrong transpose flag", BIG, "T.gemm(A, B, C,", "T.gemm(A, B, C, transpose_B=True,"),
    Mutant("operands swapped", BIG, "T.gemm(A, B, C,", "T.gemm(B, A, C,"),
    Mutant(
        "blocks write one another's tile",
        BIG,
        "T.copy(Y_r_s, C[i0 * 128, i1 * 128])",
        "T.copy(Y_r_s, C[i0 * 128, i1 * 64])",
    ),
    Mutant("result stored to block 0", BIG, "C[i0 * 128, i1 * 128])", "C[0, i1 * 128])"),
    Mutant("result tile never filled", BIG, "T.copy(Y_r, Y_r_s)", "pass"),
    Mutant("grid too small", BIG, "T.Kernel(2, 2,", "T.Kernel(2, 1,"),
    Mutant(
        "accumulator in shared memory",
        BIG,
        'acc = T.alloc_fragment((128, 128), "float32")',
        'acc = T.alloc_shared((128, 128), "float32")',
    ),
    Mutant("k index shifted", EXACT, "A[i, k] * B[k, j]", "A[i, k + 1] * B[k, j]"),
    Mutant("race in a parallel loop", EXACT, "C[i, j] += A[i, k]", "C[i, 0] += A[i, k]"),
    Mutant("maximum forgotten", SOFTMAX, "T.reduce_max(", "T.reduce_min("),
    Mutant(
        "padding enters the maximum", SOFTMAX, '-T.infinity("float32")', 'T.infinity("float32")'
    ),
    Mutant("sum over padding", SOFTMAX, "T.exp(", "T.exp(0.0 * "),
    Mutant("sum of another axis", SOFTMAX, "dim=1, clear=True)", "dim=0, clear=True)"),
    Mutant("statistics of the neighbour row", SOFTMAX, "m[i]", "m[i + 1]"),
    Mutant("rescaling forgotten", ATTENTION, "acc[i, j] * c[i]", "acc[i, j] * 1.0"),
    Mutant("key tail not masked", ATTENTION, "j < S_1", "j < 64"),
    Mutant(
        "scores not scaled",
        ATTENTION,
        "power(S[i, j], m_new[i], 0.22811011491194377",
        "power(S[i, j], m_new[i], 1.0",
    ),
    Mutant("diagonal off by one", CAUSAL, "<= (i + q0)", "< (i + q0)"),
    Mutant("mean of the wrong count", NORM, "mu[i] / ", "2.0 * mu[i] / "),
    Mutant("variance uninitialised", NORM, "T.reduce_sum(t, ", "T.reduce_sum(Y, "),
    Mutant("halo cut too early", CONV, ">= 0)", ">= 1)"),
    Mutant("window shifted", CONV, "i2 * ", "1 + i2 * "),
    Mutant("NaN flag added twice to a maximum", MAX, "T.max(", "T.min("),
    Mutant("index of the transpose not swapped", TRANSPOSE, "[j, i]", "[i, j]"),
    Mutant("edge of the store not masked", GEMM, "C: T.Tensor((100, 77)", "C: T.Tensor((100, 78)"),
]


@lru_cache(maxsize=32)
def kernel(case: Case) -> Kernel:
    name, dtype, dims = case
    return kernel_of(BACKEND, "sm_90a", name, dtype, dict(dims))


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "case", [GEMM, BIG, EXACT, SOFTMAX, ATTENTION, CAUSAL, NORM, CONV, MAX, TRANSPOSE]
)
def test_the_unchanged_kernel_passes(case: Case, tmp_path: Path) -> None:
    name, dtype, dims = case
    found = kernel(case)
    assert error_of(found.source, found, name, dtype, dict(dims), tmp_path) < LIMIT[dtype]


@pytest.mark.few(12)
@parametrize(MUTANTS)
def test_mutant_is_rejected(mutant: Mutant[Case], tmp_path: Path) -> None:
    name, dtype, dims = mutant.case
    found = kernel(mutant.case)
    try:
        error = error_of(mutant.of(found.source), found, name, dtype, dict(dims), tmp_path)
    except SimError as e:
        assert e.line > 0 or e.kind in ("shape", "dtype"), e
        return
    assert not error < LIMIT[dtype], f"{mutant.title}: not seen, error {error:.2e}"
