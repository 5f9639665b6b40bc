"""Emitted CUDA with one thing broken: the emulation has to reject every mutant."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.backends.cuda_c import cases
from tests.backends.cuda_c.running import run_kernel

GEMM = ("gemm", "float16", (("M", 100), ("N", 72), ("K", 344)))
ODD = ("gemm", "float16", (("M", 33), ("N", 41), ("K", 77)))
SIMT = ("gemm", "float32", (("M", 40), ("N", 36), ("K", 68)))
SOFTMAX = ("softmax", "float32", (("M", 5), ("N", 777)))
ROWS = ("softmax", "float32", (("M", 37), ("N", 100)))
LONG = ("col_sum", "float32", (("M", 5000), ("N", 3)))
COLUMNS = ("col_sum", "float32", (("M", 301), ("N", 37)))
TRANSPOSE = ("transpose", "float32", (("M", 100), ("N", 36)))
ATTENTION = ("attention_causal", "float16", (("Z", 2), ("S", 136), ("D", 40)))
CONV = ("conv2d", "float16", (("B", 1), ("H", 9), ("W", 7), ("Ci", 8), ("Co", 24)))


@dataclass(frozen=True, slots=True)
class Mutant:
    """`pattern` in file `where` ("" = the kernel itself) is replaced once."""

    kernel: tuple[str, str, tuple[tuple[str, int], ...]]
    pattern: str
    new: str
    where: str = ""


RING_BARRIER = r"(st::cp_wait<\d>\(\);\n)\s*__syncthreads\(\);\n"
MUTANTS = {
    "ring: barrier dropped": Mutant(GEMM, RING_BARRIER, r"\1"),
    "ring: barrier before the wait": Mutant(
        GEMM, r"(st::cp_wait<\d>\(\);)\n\s*__syncthreads\(\);", r"__syncthreads(); \1"
    ),
    "ring: wait dropped": Mutant(GEMM, r"st::cp_wait<1>\(\);", ";"),
    "ring: waits for one group too few": Mutant(GEMM, r"cp_wait<1>", "cp_wait<2>"),
    "ring: one stage too few": Mutant(GEMM, r"\(k0 \+ 2\) % 3 \* 7232", "(k0 + 2) % 2 * 7232"),
    "ring: all stages in one slot": Mutant(GEMM, r"\(k0 \+ 2\) % 3 \* 5120", "(k0 + 2) % 1 * 5120"),
    "ring: copies too far ahead": Mutant(GEMM, r"\+ \(k0 \+ 2\) \* 64\)", "+ (k0 + 3) * 64)"),
    "ring: commits only when it loads": Mutant(
        GEMM, r"\n\s*st::cp_commit\(\);  // also when empty[^\n]*", ""
    ),
    "ring: last block skipped": Mutant(GEMM, r"k0 < 6; \+\+k0", "k0 < 5; ++k0"),
    "gemm: rows shifted": Mutant(GEMM, r"A \+ \(", "A + (344 + "),
    "gemm: wrong row pitch": Mutant(GEMM, r"\{344, 1\}", "{343, 1}"),
    "gemm: accumulator not cleared": Mutant(GEMM, r"\n    leaf_zero_\w+\(acc\);", ""),
    "gemm: rows past K read and not masked": Mutant(
        GEMM,
        r"\(n < 0 \? 0 : n > V \? V : n\)|const int count = [^;]*;",
        "const int count = V;",
        "st_copy.cuh",
    ),
    "gemm: K tail runs to the end of the tile": Mutant(
        GEMM,
        r"(\{72, 1\}\}, st::View<const __half, 2>\{A \+ [^{]*\{100, )st::least\(64, 344 - \(k0 \+ 2\) \* 64\)",
        r"\g<1>64",
    ),
    "gemm: lanes of ldmatrix swapped": Mutant(
        GEMM, r"\(l & 15\);\n      idx o;", "(l & 7);\n      idx o;", "st_mma.cuh"
    ),
    "gemm: column of the second operand": Mutant(
        GEMM, r"\{b\[2 \* h\], b\[2 \* h \+ 1\]\}", "{b[h], b[2 * h + 1]}", "st_mma.cuh"
    ),
    "odd: element path copies one element for all": Mutant(
        ODD, r"i\[R - 1\] = first \+ k;", "", "st_copy.cuh"
    ),
    "odd: bound of the store ignored": Mutant(
        ODD, r"bool ok = col < n\[rank - 1\];", "bool ok = true;", "st_view.cuh"
    ),
    "odd: wrong extent": Mutant(ODD, r"st::bound\(C_r, 33, 41\)", "st::bound(C_r, 33, 40)"),
    "odd: extent past the end": Mutant(ODD, r"st::bound\(C_r, 33, 41\)", "st::bound(C_r, 34, 41)"),
    "simt: starts at the second k": Mutant(
        SIMT,
        r"  int k = 0;\n  if constexpr \(P::as",
        "  int k = 1;\n  if constexpr (P::as",
        "st_gemm.cuh",
    ),
    "simt: last k skipped": Mutant(
        SIMT, r"k \+ 4 <= K; k \+= 4", "k + 8 <= K; k += 8", "st_gemm.cuh"
    ),
    "softmax: sum of the wrong tensor": Mutant(
        SOFTMAX, r"st::reduce_last<st::Sum, false>\(s, t\)", "st::reduce_last<st::Sum, false>(s, X)"
    ),
    "softmax: maximum forgotten": Mutant(SOFTMAX, r"st::reduce_last<st::Max, false>\(m, X\);", ""),
    "rows: shuffle stops early": Mutant(
        ROWS, r"for \(int o = COUNT / 2; o > 0;", "for (int o = COUNT / 2; o > 1;", "st_reduce.cuh"
    ),
    "columns: first scratch barrier": Mutant(
        LONG,
        r"ST_SHARED\(C, scratch, cols \* G::wm\);\n    __syncthreads\(\);",
        "ST_SHARED(C, scratch, cols * G::wm);",
        "st_reduce.cuh",
    ),
    "columns: second scratch barrier": Mutant(
        COLUMNS, r"= acc\[c\];\n    \}\n    __syncthreads\(\);", "= acc[c];\n    }", "st_reduce.cuh"
    ),
    "columns: one warp forgotten": Mutant(
        COLUMNS, r"w < G::wm; w\+\+\) acc\[c\]", "w < G::wm - 1; w++) acc[c]", "st_reduce.cuh"
    ),
    "transpose: barrier after the copy": Mutant(TRANSPOSE, r"    __syncthreads\(\);\n", ""),
    "transpose: wait after the copy": Mutant(TRANSPOSE, r"    st::cp_wait<0>\(\);\n", ""),
    "attention: mask off by one": Mutant(ATTENTION, r"<= \(i", "< (i"),
    "attention: Q never awaited": Mutant(
        ATTENTION,
        r"(st::copy_async<st::Tile<1, \d+, 40>>\(st::View<__half, 3>\{Q_s, [^\n]*\n)",
        "// \\1",
    ),
    "attention: barrier dropped": Mutant(ATTENTION, r"\n\s*__syncthreads\(\);", ""),
    "conv: padding not zero": Mutant(
        CONV,
        r"in \? convert<T>\(x\.at\(at\)\) : from<T>\(fill\)",
        "convert<T>(x.p[0])",
        "st_copy.cuh",
    ),
    "conv: padding read from memory": Mutant(
        CONV, r"in && at\[d\] >= 0 && at\[d\] < x\.n\[d\]", "in", "st_copy.cuh"
    ),
    "conv: tap shifted": Mutant(CONV, r"i1 \* 9 - 1", "i1 * 9"),
}
QUICK = (
    "ring: barrier dropped",
    "ring: waits for one group too few",
    "odd: extent past the end",
    "softmax: maximum forgotten",
    "columns: second scratch barrier",
)


def _rejected(mutant: Mutant, folder: Path) -> bool:
    name, dtype, pairs = mutant.kernel
    dims = dict(pairs)
    kernel = cases.kernel(name, dtype, dims)
    files = dict(kernel.files)
    target = mutant.where or kernel.main
    changed, count = re.subn(mutant.pattern, mutant.new, files[target], count=1)
    assert count == 1, f"{mutant.pattern} is not in {target}:\n{files[target]}"
    given = cases.inputs(name, kernel, dims)
    ran = run_kernel(kernel.with_files({**files, target: changed}), given, folder)
    return ran.code != 0 or cases.error(name, dims, given, ran.outputs) > cases.TOLERANCE[dtype]


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in MUTANTS]
)
def test_mutant_is_rejected(name: str, tmp_path: Path) -> None:
    assert _rejected(MUTANTS[name], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("case", sorted({m.kernel for m in MUTANTS.values()}), ids=str)
def test_unbroken_kernel_passes(
    case: tuple[str, str, tuple[tuple[str, int], ...]], tmp_path: Path
) -> None:
    name, dtype, pairs = case
    dims = dict(pairs)
    kernel = cases.kernel(name, dtype, dims)
    given = cases.inputs(name, kernel, dims)
    ran = run_kernel(kernel, given, tmp_path)
    assert ran.code == 0, ran.stderr
    assert cases.error(name, dims, given, ran.outputs) <= cases.TOLERANCE[dtype]
