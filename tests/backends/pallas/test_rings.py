"""Kernels that make their own copies, in both orders of copies; their planted bugs; a wait for nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from septran import backends
from septran.plan.problem import problem_of
from septran.trial.place import place_of
from septran.verify.verdict import Verdict
from septran.verify.verify import Request, verify
from tests.backends.pallas.installed import simulated
from tests.backends.pallas.rings import ring_of

__all__ = ["simulated"]
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("simulated")]
GEMM = {"M": 16, "N": 128, "K": 1100}
STREAM = {"M": 37, "N": 1000}
DIMS = {"gemm": GEMM, "stream": STREAM}


def judged(
    folder: Path,
    op: str,
    old: str = "",
    new: str = "",
    *,
    depth: int = 2,
    dtype: str = "float32",
    seconds: float = 240.0,
    dims: dict[str, int] | None = None,
) -> Verdict:
    """The verdict on a kernel with rings, or on one with a piece of its text replaced."""
    dims = dims or DIMS[op]
    plan, lowered, made = ring_of(op, folder, depth, dtype, **dims)
    assert old in made.source, made.source
    made = made.with_files({made.main: made.source.replace(old, new) if old else made.source})
    problem = problem_of(plan, lowered.program, plan.dims)
    place = place_of(backends.get("pallas_tpu"), "v5e", "emulated", 2)
    build = folder / "build"
    build.mkdir()
    sessions = replace(place.sessions, budget_s=8.0, call_timeout_s=seconds)
    return verify(
        made,
        place.build(made, build),
        problem,
        run_dir=folder,
        request=Request(where="emulated", language="pallas", sessions=sessions, gate=False),
    )


@pytest.mark.parametrize(
    ("op", "depth", "dtype", "dims"),
    [
        ("gemm", 2, "float32", GEMM),
        ("gemm", 3, "bfloat16", {"M": 33, "N": 50, "K": 2100}),
        ("stream", 2, "float32", STREAM),
        ("stream", 3, "bfloat16", {"M": 16, "N": 2048}),
        ("attention_causal", 2, "float32", {"Z": 1, "S": 600, "D": 64}),
        ("gemv", 3, "float32", {"M": 20, "K": 9000}),
        ("col_max", 2, "float32", {"M": 9000, "N": 40}),
    ],
)
def test_rings_are_accurate(
    op: str, depth: int, dtype: str, dims: dict[str, int], tmp_path: Path
) -> None:
    verdict = judged(tmp_path, op, depth=depth, dtype=dtype, dims=dims)
    assert verdict.passed, verdict.message


class Planted(NamedTuple):
    """old -> new in the kernel of `op`. says: part of the message."""

    title: str
    op: str
    old: str
    new: str
    says: str


def wait(tile: str, slot: str, event: str) -> str:
    return (
        f"pltpu.make_async_copy({tile}.at[{slot}, ...], {tile}.at[{slot}, ...], "
        f"{tile}_{event}.at[{slot}]).wait()"
    )


LOADED, STORED = wait("B_s", "lax.rem(k0, 2)", "there"), wait("Z_s", "lax.rem(k0, 2)", "gone")
DRAINED = wait("Z_s", "k0_last", "gone")
AHEAD = "A_s.at[lax.rem(k0 + 1, 2), ...], A_s_there"
INTO = "Z.at[pl.ds(pl.multiple_of(i0 * 16, 16), 16), pl.ds(pl.multiple_of(k0 * 256, 256), 256)]"
PLANTED = [
    Planted(
        "a load into the slot in use", "gemm", AHEAD, AHEAD.replace("k0 + 1", "k0"), "without order"
    ),
    Planted("a load not waited for", "gemm", LOADED, "pass", "kernel.py"),
    Planted(
        "the slot of the next step",
        "gemm",
        "B_s[lax.rem(k0, 2)",
        "B_s[lax.rem(k0 + 1, 2)",
        "without order",
    ),
    Planted("accumulator not cleared", "gemm", "acc[...] = leaf_zero", "leaf_zero", "NaN"),
    Planted(
        "the next block of B",
        "gemm",
        "B.at[pl.ds(pl.multiple_of((k0 + 1)",
        "B.at[pl.ds(pl.multiple_of((k0 + 0)",
        "",
    ),
    Planted("a slot stored and not waited for", "stream", STORED, "pass", ""),
    Planted("nobody waits for the last stores", "stream", DRAINED, "pass", "kernel.py"),
    Planted(
        "a store of the other slot",
        "stream",
        "Z_s.at[lax.rem(k0, 2), ...], Z.at",
        "Z_s.at[lax.rem(k0 + 1, 2), ...], Z.at",
        "",
    ),
    Planted(
        "a store beyond the tensor",
        "stream",
        INTO,
        INTO.replace("i0 * 16, 16), 16)", "i0 * 16 + 8, 8), 16)"),
        "Out-of-bounds write",
    ),
    Planted(
        "two blocks store one tile",
        "stream",
        INTO,
        INTO.replace("pl.ds(pl.multiple_of(i0 * 16, 16), 16)", "0:16"),
        "without order",
    ),
]


@pytest.mark.parametrize("planted", PLANTED, ids=[p.title for p in PLANTED])
def test_a_planted_bug_of_a_ring_is_caught(planted: Planted, tmp_path: Path) -> None:
    verdict = judged(tmp_path, planted.op, planted.old, planted.new)
    assert not verdict.passed
    assert verdict.status.value not in ("unavailable", "timeout"), verdict.message
    assert planted.says in verdict.message


def test_a_wait_for_what_nothing_signals_ends_at_the_time_limit(tmp_path: Path) -> None:
    other = LOADED.replace("there.at[lax.rem(k0", "there.at[lax.rem(k0 + 1")
    verdict = judged(tmp_path, "gemm", LOADED, other, seconds=20.0)
    assert not verdict.passed
    assert verdict.code == "V206", verdict.message
    assert "did not return in time" in verdict.message
