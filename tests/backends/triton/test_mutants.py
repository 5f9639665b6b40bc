"""Planted bugs: each changes results or races, and each must be rejected by the emulator."""

from __future__ import annotations

import numpy as np
import pytest

from septran.ir.nodes import Program
from tests.backends.triton import programs as P
from tests.backends.triton import running as R

GEMM = P.gemm(70, 50, 90)
SOFT = P.softmax(10, 37)
ATT = P.attention(70, 40, "float32", causal=True)
FULL = P.attention(50, 40, "float32")
RED = P.reduce_all(5, 100, "max")
CONV = P.conv(1, 9, 10, 5, 7)

MUTANTS: list[tuple[str, Program, str, str]] = [
    ("store mask dropped", GEMM, "C_t, mask=(C_0 < 70)[:, None] & (b_0 < 50)[None, :]", "C_t"),
    ("row mask dropped on store", GEMM, "C_t, mask=(C_0 < 70)[:, None] & ", "C_t, mask="),
    (
        "column mask dropped on store",
        GEMM,
        " & (b_0 < 50)[None, :])\n\n\ndef entry",
        ")\n\n\ndef entry",
    ),
    ("load mask dropped", GEMM, ", mask=(A_0 < 70)[:, None] & (A_1 < 90)[None, :], other=0", ""),
    (
        "k mask dropped",
        GEMM,
        "mask=(A_0 < 70)[:, None] & (A_1 < 90)[None, :]",
        "mask=(A_0 < 70)[:, None]",
    ),
    ("mask off by one", GEMM, "C_t, mask=(C_0 < 70)", "C_t, mask=(C_0 < 71)"),
    ("short mask", GEMM, "C_t, mask=(C_0 < 70)", "C_t, mask=(C_0 < 69)"),
    ("other dropped", GEMM, "(A_1 < 90)[None, :], other=0)", "(A_1 < 90)[None, :])"),
    ("stride off", GEMM, "A_0[:, None] * 90", "A_0[:, None] * 91"),
    ("index shifted", GEMM, "i0 * 32 + tl", "i0 * 32 + 1 + tl"),
    ("axes swapped", GEMM, "B_1 = i1 * 32", "B_1 = i0 * 32"),
    ("last k block skipped", GEMM, "tl.range(0, 3", "tl.range(0, 2"),
    ("first k block skipped", GEMM, "tl.range(0, 3", "tl.range(1, 3"),
    ("accumulator dropped", GEMM, "tl.dot(A, B, C,", "tl.dot(A, B,"),
    ("accumulator not cleared", GEMM, "tl.full((32, 32), 0.0", "tl.full((32, 32), float('nan')"),
    ("tf32", GEMM, '"ieee"', '"tf32"'),
    ("operands swapped", GEMM, "tl.dot(A, B, C", "tl.dot(B, A, C"),
    ("bias ignored", GEMM, "(C + b[None, :])", "C"),
    (
        "relu ignored",
        GEMM,
        "tl.maximum((C + b[None, :]), 0.0, propagate_nan=tl.PropagateNan.ALL)",
        "C + b",
    ),
    ("grid too small", GEMM, "[(6,)]", "[(5,)]"),
    ("pid decoded wrong", GEMM, "pid % 2", "pid % 3"),
    (
        "maximum over padding",
        SOFT,
        'tl.where(tl.arange(0, 64)[None, :] < 37, X, float("-inf"))',
        "X + 100",
    ),
    ("sum over padding", SOFT, "tl.where(tl.arange(0, 64)[None, :] < 37, t, 0.0)", "t"),
    ("normalisation dropped", SOFT, "(t / s)", "t"),
    (
        "row stride off",
        SOFT,
        "X_0[:, None] * 37 + X_1[None, :], Y_t",
        "X_0[:, None] * 36 + X_1[None, :], Y_t",
    ),
    (
        "causal shifted",
        ATT,
        "<= (tl.arange(0, 32)[:, None] + q0)",
        "< (tl.arange(0, 32)[:, None] + q0)",
    ),
    ("rescale dropped", ATT, "(acc * c)", "acc"),
    ("padding of k not masked", FULL, "tl.where(tl.arange(0, 32)[None, :] < n_S_1, S, 0.0)", "S"),
    ("first partial dropped", RED, "j * 32 + tl", "(j + 1) * 32 + tl"),
    ("all partials in one place", RED, "part_1 = j + tl", "part_1 = 0 + tl"),
    ("second launch missing", RED, "    reduce_kernel_2[(1,)](Y, part, num_warps=4)\n", ""),
    ("minimum instead of maximum", RED, "return tl.maximum(a, b", "return tl.minimum(a, b"),
    ("halo not guarded", CONV, "(X_1 >= 0)[None, :, None, None] & ", ""),
    ("tap shifted", CONV, "j * 4 - 1 + s", "j * 4 + s"),
    ("tap skipped", CONV, "for s in range(0, 3)", "for s in range(0, 2)"),
]


@pytest.fixture(scope="module")
def verdicts() -> dict[str, str]:
    rng = np.random.default_rng(3)
    jobs, names, inputs = [], [], {}
    for program in (GEMM, SOFT, ATT, FULL, RED, CONV):
        kernel = R.build_kernel(program)
        inputs[id(program)] = {
            p.name: R.stored(rng, p.shape, p.dtype) for p in kernel.params if p.privilege != "w"
        }
        jobs.append((kernel, inputs[id(program)]))
        names.append(id(program))
    for name, program, old, new in MUTANTS:
        jobs.append((R.changed(R.build_kernel(program), old, new), inputs[id(program)]))
        names.append(name)
    found = dict(zip(names, R.run_many(jobs), strict=True))
    verdicts = {}
    for name, program, _, _ in MUTANTS:
        good, got = found[id(program)], found[name]
        assert not isinstance(good, str), good
        if isinstance(got, str):
            verdicts[name] = got
            continue
        (want,), (have,) = good.values(), got.values()
        error = np.abs(have - want) / (np.abs(want).mean() + np.abs(want))
        wrong = not np.isfinite(have).all() or error.max() > 1e-4
        verdicts[name] = "wrong result" if wrong else "ACCEPTED"
    return verdicts


def test_there_are_enough() -> None:
    assert len(MUTANTS) >= 20


@pytest.mark.parametrize("name", [m[0] for m in MUTANTS])
def test_is_rejected(name: str, verdicts: dict[str, str]) -> None:
    assert verdicts[name] != "ACCEPTED"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("load mask dropped", "load out of bounds: element"),
        ("mask off by one", "out of bounds"),
        ("column mask dropped on store", "race: program"),
        ("all partials in one place", "both store element 0 of workspace"),
    ],
)
def test_message_names_the_fault(name: str, text: str, verdicts: dict[str, str]) -> None:
    assert text in verdicts[name]
