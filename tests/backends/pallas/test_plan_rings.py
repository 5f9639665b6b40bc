"""`plan_rings`: which loops make their own copies, that each wait is needed, that a fault is refused. Nothing here needs JAX."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from septran.errors import MappingError
from septran.ir.access import map_statements
from septran.ir.expr import Var, make
from septran.ir.nodes import Await, Copy, Post, Program, Stmt, walk
from septran.ir.text import parse_program, print_program
from septran.passes.interpret import Hazard, check_order, interpret
from septran.prove.ordering import ordering
from septran.prove.sets import model
from septran.run.prove import finish
from tests.backends.pallas.rings import ring_of
from tests.passes.mutants import unseen, without_event, without_one
from tests.prove.mutants import mutants, unordered
from tests.prove.test_text import changed, refused

STREAM = {"M": 37, "N": 1000}
RINGS: dict[str, tuple[dict[str, int], list[str]]] = {
    "gemm": ({"M": 300, "N": 200, "K": 2100}, ["A_s.there", "B_s.there"]),
    "batched_gemm": ({"S": 2, "M": 16, "N": 128, "K": 1100}, ["A_s.there", "B_s.there"]),
    "gemm_bias_relu": ({"M": 16, "N": 128, "K": 1100}, ["A_s.there", "B_s.there"]),
    "attention_causal": ({"Z": 1, "S": 1100, "D": 64}, ["K_s.there", "V_s.there"]),
    "gemv": ({"M": 20, "K": 30_000}, ["A_s.there", "x_s.there"]),
    "row_max": ({"M": 20, "N": 30_000}, ["X_s.there"]),
    "col_sum": ({"M": 30_000, "N": 200}, ["X_s.there"]),
    "stream": (STREAM, ["X_s.there", "Y_s.there", "Z_s.gone"]),
}
"""operator -> sizes at which it streams, the events of its rings"""


def finished(op: str, folder: Path, depth: int = 2, **dims: int) -> Program:
    plan, lowered, _ = ring_of(op, folder, depth, **dims)
    return finish(plan, lowered).program


def events(program: Program) -> list[str]:
    return sorted({s.event for s in walk(program.body) if isinstance(s, Post)})


def told(program: Program) -> list[str]:
    return [str(f) for f in ordering(model(program, ()))]


@pytest.mark.few(3)
@pytest.mark.parametrize("op", RINGS)
def test_what_moves_with_a_pipelined_loop_is_copied_into_rings(op: str, tmp_path: Path) -> None:
    dims, asked = RINGS[op]
    plan, lowered, kernel = ring_of(op, tmp_path, **dims)
    program = finish(plan, lowered).program
    assert events(program) == asked
    assert kernel.source.count("memory_space=pl.ANY") >= len(asked)
    assert refused(plan, lowered, kernel) == "", "the text is not the Program"
    assert parse_program(print_program(program)) == program


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("op", "depth"),
    [
        ("gemm", 2),
        ("gemm", 3),
        ("stream", 2),
        ("stream", 3),
        pytest.param("attention_causal", 2, marks=pytest.mark.slow),
        pytest.param("attention_causal", 3, marks=pytest.mark.slow),
    ],
)
def test_each_wait_is_needed(op: str, depth: int, tmp_path: Path) -> None:
    """The interpreter and the proof refuse a Program without any one of its Posts and Awaits."""
    program = finished(op, tmp_path, depth, **RINGS[op][0])
    check_order(program)
    assert told(program) == []
    assert unseen(without_one(program)) == []
    assert unseen(without_event(program)) == []
    asked = [s for s in model(program, ()).statements if s.kind in ("post", "await")]
    planted = mutants(program, (unordered,))
    missed = [
        name
        for s, (name, mutant) in zip(asked, planted, strict=True)
        if not model(program, ()).instances(s).is_empty() and not told(mutant)
    ]
    assert missed == []


def moved(program: Program, change: Callable[[Stmt], Stmt | None]) -> Program:
    """Return `program` with some statements replaced."""
    out = replace(program, body=map_statements(program.body, lambda s: (change(s) or s,)))
    assert out != program
    return out


def slots_off(stmt: Stmt, *, load: bool) -> Stmt | None:
    """Of a copy into (else out of) a ring in the steady loop: with its slot one further, without its event."""
    if not isinstance(stmt, Copy) or not stmt.engine:
        return None
    tile = stmt.dst if load else stmt.src
    if tile.version is None or Var("k0") not in _variables(tile.version):
        return None
    other = make("%", tile.version + 1, tile.buffer.versions)
    part = replace(tile, version=other)
    return replace(stmt, dst=part) if load else replace(stmt, src=part)


def _variables(e: Any) -> Iterator[Var]:
    if isinstance(e, Var):
        yield e
    for part in (getattr(e, "a", None), getattr(e, "b", None)):
        if part is not None:
            yield from _variables(part)


def read_too_early(stmt: Stmt) -> Stmt | None:
    """The wait for another slot's copy than the one that is read."""
    if isinstance(stmt, Await) and stmt.event == "B_s.there":
        return replace(stmt, slot=make("%", Var("k0") + 1, 3))
    return None


@pytest.mark.parametrize(
    ("title", "op", "change"),
    [
        ("load into the slot in use", "gemm", lambda s: slots_off(s, load=True)),
        ("store from another slot", "stream", lambda s: slots_off(s, load=False)),
        ("wait for another slot", "gemm", read_too_early),
    ],
)
def test_a_wrong_slot_is_a_hazard(
    title: str, op: str, change: Callable[[Stmt], Stmt | None], tmp_path: Path
) -> None:
    mutant = moved(finished(op, tmp_path, 3, **RINGS[op][0]), change)
    with pytest.raises(Hazard):
        check_order(mutant)
    assert told(mutant)


def test_the_interpreter_computes_what_the_rings_hold(tmp_path: Path) -> None:
    torch.manual_seed(0)
    a, b, c = torch.randn(20, 1100), torch.randn(1100, 130), torch.empty(20, 130)
    interpret(finished("gemm", tmp_path, 3, M=20, N=130, K=1100), {"A": a, "B": b, "C": c})
    torch.testing.assert_close(c, a @ b, rtol=1e-4, atol=1e-3)
    x, y, z = torch.randn(37, 1000), torch.randn(37, 1000), torch.empty(37, 1000)
    interpret(finished("stream", tmp_path, **STREAM), {"X": x, "Y": y, "Z": z})
    torch.testing.assert_close(z, 2.5 * x + y)


@pytest.mark.parametrize(
    ("title", "op", "dims"),
    [
        ("a loop of one turn", "gemm", {"M": 16, "N": 128, "K": 300}),
        ("no loop", "softmax", {"M": 16, "N": 128}),
    ],
)
def test_what_has_nothing_to_run_ahead_stays_blocks(
    title: str, op: str, dims: dict[str, int], tmp_path: Path
) -> None:
    plan, lowered, kernel = ring_of(op, tmp_path, **dims)
    assert events(finish(plan, lowered).program) == []
    assert "make_async_copy" not in kernel.source


@pytest.mark.parametrize(
    ("tiles", "dtype", "rings"),
    [
        ("columns: 256, rows: 8", "float32", True),
        ("columns: 256, rows: 8", "bfloat16", False),
        ("columns: 256, rows: 16", "bfloat16", True),
        ("columns: 192, rows: 16", "float32", False),
    ],
)
def test_tiles_that_are_no_whole_registers_stay_blocks(
    tiles: str, dtype: str, rings: bool, tmp_path: Path
) -> None:
    """DMA copies whole registers: 8 rows (16 of bfloat16) and 128 columns."""
    kernel = ring_of("stream", tmp_path, dtype=dtype, tiles=tiles, M=32, N=1024)[2]
    assert ("make_async_copy" in kernel.source) == rings


def test_each_slot_takes_vector_memory(tmp_path: Path) -> None:
    with pytest.raises(MappingError) as error:
        ring_of("stream", tmp_path, 400, M=16, N=200_000)
    assert error.value.codes == ("M011",) and "x400" in str(error.value)


@pytest.mark.parametrize(
    ("op", "dims"), [("gemm", {"M": 200, "N": 136, "K": 1100}), ("stream", STREAM)]
)
def test_the_kernel_is_the_one_that_was_read(
    golden: Callable[[str, str], None], op: str, dims: dict[str, int], tmp_path: Path
) -> None:
    golden(f"pallas_tpu/{op}.ring.py.txt", ring_of(op, tmp_path, 2, **dims)[2].source)


A_START = "A_s.at[lax.rem(k0 + 2, 3), ...], A_s_there.at[lax.rem(k0 + 2, 3)]).start()"
A_WAIT = "A_s.at[lax.rem(k0, 3), ...], A_s_there.at[lax.rem(k0, 3)]).wait()"


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("op", "old", "new", "says"),
    [
        (
            "gemm",
            A_START,
            A_START.replace("A_s.at[lax.rem(k0 + 2", "A_s.at[lax.rem(k0 + 1"),
            "lies elsewhere",
        ),
        (
            "gemm",
            A_START,
            A_START.replace("there.at[lax.rem(k0 + 2", "there.at[lax.rem(k0"),
            "slot is another",
        ),
        ("gemm", A_START, A_START.replace("start", "wait"), "the text has a await there"),
        (
            "gemm",
            A_WAIT,
            A_WAIT.replace("there.at[lax.rem(k0", "there.at[lax.rem(k0 + 1"),
            "slot is another",
        ),
        ("gemm", A_WAIT, A_WAIT.replace("A_s_there", "B_s_there"), "is of another tile"),
        ("gemm", A_WAIT, A_WAIT.replace("wait", "start"), "the text has a copy there"),
        (
            "gemm",
            "SemaphoreType.DMA((3,)), pltpu",
            "SemaphoreType.DMA((2,)), pltpu",
            "leaves its block",
        ),
        ("gemm", "VMEM((3, 256, 512)", "VMEM((2, 256, 512)", "in the text, not (3, 256, 512)"),
        ("gemm", A_WAIT, A_WAIT.replace("rem(k0, 3)", "rem(k0 - 3, 3)"), "may be negative"),
        ("gemm", "@pl.when(k0 + 2 < 5)", "@pl.when(k0 + 3 < 5)", "leaves an iteration out"),
        (
            "gemm",
            "jnp.pad(A, ((0, 212), (0, 460)))",
            "jnp.pad(A, ((0, 212), (0, 459)))",
            "leaves its block",
        ),
        ("gemm", "fori_loop(0, 2, step_k0_first", "fori_loop(0, 1, step_k0_first", "iteration out"),
        (
            "gemm",
            "(acc[...], A_s[lax.rem(k0, 3), ...]",
            "(acc[...], A[0:256, 0:512]",
            "is read or written where it is",
        ),
        (
            "stream",
            "Z_s.at[k0_last, ...], Z_s_gone",
            "Z_s.at[0, 0:8, :], Z_s_gone",
            "counts a part",
        ),
        ("stream", "lax.slice(Z_wide_2, (0, 0)", "lax.slice(Z_wide_2, (0, 1)", "is not read"),
        ("stream", "input_output_aliases={2: 0}", "input_output_aliases={1: 0}", "another array"),
    ],
)
def test_a_changed_text_is_refused(op: str, old: str, new: str, says: str, tmp_path: Path) -> None:
    depth = 3 if op == "gemm" else 2
    plan, lowered, kernel = ring_of(op, tmp_path, depth, **RINGS[op][0])
    assert says in refused(plan, lowered, changed(kernel, old, new))
