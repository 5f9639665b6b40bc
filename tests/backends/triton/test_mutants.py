"""Planted bugs: each changes results or races, and each must be rejected by the emulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from septran.ir.nodes import Program
from tests.backends.mutants import Mutant, asked, parametrize
from tests.backends.triton import programs as P
from tests.backends.triton import running as R

GEMM = P.gemm(70, 50, 90)
SOFT = P.softmax(10, 37)
ATT = P.attention(70, 40, "float32", causal=True)
FULL = P.attention(50, 40, "float32")
RED = P.reduce_all(5, 100, "max")
CONV = P.conv(1, 9, 10, 5, 7)

MUTANTS: list[Mutant[Program]] = [
    Mutant(
        "store mask dropped", GEMM, "C_t, mask=(C_0 < 70)[:, None] & (b_0 < 50)[None, :]", "C_t"
    ),
    Mutant("row mask dropped on store", GEMM, "C_t, mask=(C_0 < 70)[:, None] & ", "C_t, mask="),
    Mutant(
        "column mask dropped on store",
        GEMM,
        " & (b_0 < 50)[None, :])\n\n\ndef entry",
        ")\n\n\ndef entry",
    ),
    Mutant(
        "load mask dropped", GEMM, ", mask=(A_0 < 70)[:, None] & (A_1 < 90)[None, :], other=0", ""
    ),
    Mutant(
        "k mask dropped",
        GEMM,
        "mask=(A_0 < 70)[:, None] & (A_1 < 90)[None, :]",
        "mask=(A_0 < 70)[:, None]",
    ),
    Mutant("mask off by one", GEMM, "C_t, mask=(C_0 < 70)", "C_t, mask=(C_0 < 71)"),
    Mutant("short mask", GEMM, "C_t, mask=(C_0 < 70)", "C_t, mask=(C_0 < 69)"),
    Mutant("other dropped", GEMM, "(A_1 < 90)[None, :], other=0)", "(A_1 < 90)[None, :])"),
    Mutant("stride off", GEMM, "A_0[:, None] * 90", "A_0[:, None] * 91"),
    Mutant("index shifted", GEMM, "i0 * 32 + tl", "i0 * 32 + 1 + tl"),
    Mutant("axes swapped", GEMM, "B_1 = i1 * 32", "B_1 = i0 * 32"),
    Mutant("last k block skipped", GEMM, "tl.range(0, 3", "tl.range(0, 2"),
    Mutant("first k block skipped", GEMM, "tl.range(0, 3", "tl.range(1, 3"),
    Mutant("accumulator dropped", GEMM, "tl.dot(A, B, C,", "tl.dot(A, B,"),
    Mutant(
        "accumulator not cleared", GEMM, "tl.full((32, 32), 0.0", "tl.full((32, 32), float('nan')"
    ),
    Mutant("tf32", GEMM, '"ieee"', '"tf32"'),
    Mutant("operands swapped", GEMM, "tl.dot(A, B, C", "tl.dot(B, A, C"),
    Mutant("bias ignored", GEMM, "C + b[None, :]", "C"),
    Mutant(
        "relu ignored",
        GEMM,
        "tl.maximum(C + b[None, :], 0.0, propagate_nan=tl.PropagateNan.ALL)",
        "C + b[None, :]",
    ),
    Mutant("grid too small", GEMM, "[(6,)]", "[(5,)]"),
    Mutant("pid decoded wrong", GEMM, "pid % 2", "pid % 3"),
    Mutant(
        "maximum over padding",
        SOFT,
        'tl.where(tl.arange(0, 64)[None, :] < 37, X, float("-inf"))',
        "X + 100",
    ),
    Mutant("sum over padding", SOFT, "tl.where(tl.arange(0, 64)[None, :] < 37, t, 0.0)", "t"),
    Mutant("normalisation dropped", SOFT, "t / s", "t"),
    Mutant(
        "row stride off",
        SOFT,
        "X_0[:, None] * 37 + X_1[None, :], Y_t",
        "X_0[:, None] * 36 + X_1[None, :], Y_t",
    ),
    Mutant(
        "causal shifted",
        ATT,
        "<= (tl.arange(0, 32)[:, None] + q0)",
        "< (tl.arange(0, 32)[:, None] + q0)",
    ),
    Mutant("rescale dropped", ATT, "acc * c", "acc"),
    Mutant(
        "padding of k not masked", FULL, "tl.where(tl.arange(0, 32)[None, :] < n_S_1, S, 0.0)", "S"
    ),
    Mutant("first partial dropped", RED, "j * 32 + tl", "(j + 1) * 32 + tl"),
    Mutant("all partials in one place", RED, "part_1 = j + tl", "part_1 = 0 + tl"),
    Mutant("second launch missing", RED, "    reduce_kernel_2[(1,)](Y, part, num_warps=4)\n", ""),
    Mutant("minimum instead of maximum", RED, "return tl.maximum(a, b", "return tl.minimum(a, b"),
    Mutant("halo not guarded", CONV, "(X_1 >= 0)[None, :, None, None] & ", ""),
    Mutant("tap shifted", CONV, "j * 4 - 1 + s", "j * 4 + s"),
    Mutant("tap skipped", CONV, "for s in range(0, 3)", "for s in range(0, 2)"),
]


@pytest.fixture(scope="module")
def verdicts(request: pytest.FixtureRequest) -> dict[str, str]:
    titles = asked(request)
    mutants = [m for m in MUTANTS if m.title in titles]
    rng = np.random.default_rng(3)
    jobs, names, inputs = [], [], {}
    for program in {id(m.case): m.case for m in mutants}.values():
        kernel = R.build_kernel(program)
        inputs[id(program)] = {
            p.name: R.stored(rng, p.shape, p.dtype) for p in kernel.params if p.privilege != "w"
        }
        jobs.append((kernel, inputs[id(program)]))
        names.append(id(program))
    for mutant in mutants:
        kernel = R.build_kernel(mutant.case)
        text = mutant.of(kernel.source, count=1)
        jobs.append((replace(kernel, files=((kernel.main, text),)), inputs[id(mutant.case)]))
        names.append(mutant.title)
    found = dict(zip(names, R.run_many(jobs), strict=True))
    verdicts = {}
    for name, program, _, _ in mutants:
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


@pytest.mark.wider
@parametrize(MUTANTS)
def test_is_rejected(mutant: Mutant[Program], verdicts: dict[str, str]) -> None:
    assert verdicts[mutant.title] != "ACCEPTED"


@pytest.mark.few(2)
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
