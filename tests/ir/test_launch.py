"""Launches against brute force: the same leaves with the same indices in the same order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from septran.errors import InternalError
from septran.ir.expr import Const, Var, evaluate
from septran.ir.launch import (
    HostLoop,
    Launch,
    Step,
    block_index,
    every_launch,
    launches,
    workspaces,
)
from septran.ir.nodes import Alloc, Buffer, For, LeafCall, Program, Stmt, Sync

Seen = tuple[str, tuple[tuple[str, int], ...]]
LEVELS = ("BLOCK", "HOST", "")


def grid(sizes: list[int]) -> tuple[For, ...]:
    return tuple(
        For(var=f"i{d}", extent=Const(n), body=(), proc="BLOCK", parallel=True)
        for d, n in enumerate(sizes)
    )


@given(st.lists(st.integers(1, 5), min_size=0, max_size=4))
def test_blocks_are_numbered_row_by_row(sizes: list[int]) -> None:
    loops = grid(sizes)
    index = block_index(loops, Var("block"))
    indices = [tuple(range(n)) for n in sizes]
    for block, want in enumerate(itertools.product(*indices)):
        got = tuple(evaluate(index[g.var], {"block": block}) for g in loops)
        assert got == want


@st.composite
def bodies(draw: st.DrawFn, depth: int = 0, on: str = "") -> tuple[Stmt, ...]:
    """Statements with loops on blocks below loops of the host, never the other way round."""
    out: list[Stmt] = []
    for _ in range(draw(st.integers(0 if depth else 1, 3))):
        kind = draw(st.sampled_from(("leaf", "sync", "loop", "loop", "workspace")))
        name = f"v{draw(st.uuids()).hex}"
        if kind == "leaf":
            out.append(LeafCall(task=name, impl="auto", args=()))
        elif kind == "sync":
            out.append(Sync(scope="BLOCK"))
        elif kind == "workspace" and not on:
            out.append(Alloc(buffer=Buffer(name=name, shape=(4,), dtype="float32", mem="GLOBAL")))
        elif kind == "loop" and depth < 4:
            proc = draw(st.sampled_from(LEVELS if not on else (on, "")))
            inside = on or (proc if proc == "BLOCK" else "")
            body = draw(bodies(depth + 1, inside))
            extent = Const(draw(st.integers(1, 3)))
            parallel = proc == "BLOCK"
            out.append(For(var=name, extent=extent, body=body, proc=proc, parallel=parallel))
    return tuple(out)


def sequential(body: tuple[Stmt, ...], env: dict[str, int]) -> Iterator[Seen]:
    for stmt in body:
        match stmt:
            case LeafCall():
                yield stmt.task, tuple(sorted(env.items()))
            case For():
                for i in range(evaluate(stmt.extent, env)):
                    yield from sequential(stmt.body, {**env, stmt.var: i})


def launched(steps: tuple[Step, ...], env: dict[str, int]) -> Iterator[Seen]:
    for step in steps:
        match step:
            case Launch():
                index = block_index(step.grid, Var("#"))
                for block in range(step.blocks):
                    own = {v: evaluate(e, {"#": block}) for v, e in index.items()}
                    yield from sequential(step.body, {**env, **own})
            case HostLoop():
                for i in range(evaluate(step.loop.extent, env)):
                    yield from launched(step.steps, {**env, step.loop.var: i})


def program(body: tuple[Stmt, ...]) -> Program:
    return Program(name="p", target="t", arch="", machine="m", params=(), body=body)


@given(bodies())
def test_launches_run_what_the_program_says(body: tuple[Stmt, ...]) -> None:
    steps = launches(program(body))
    assert list(launched(steps, {})) == list(sequential(body, {}))
    for around, launch in every_launch(steps):
        assert all(loop.proc in ("", "HOST") for loop in around)
        assert all(loop.proc == "BLOCK" for loop in launch.grid)


@given(bodies())
def test_every_workspace_is_found_once(body: tuple[Stmt, ...]) -> None:
    names = [b.name for b in workspaces(launches(program(body)))]
    assert len(set(names)) == len(names)
    outside = [s for s in _outside_blocks(body) if isinstance(s, Alloc)]
    assert set(names) <= {s.buffer.name for s in outside}


def _outside_blocks(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    for stmt in body:
        yield stmt
        if isinstance(stmt, For) and stmt.proc != "BLOCK":
            yield from _outside_blocks(stmt.body)


def test_an_extent_unknown_before_the_launch_is_refused() -> None:
    inner = For(var="j", extent=Var("t"), body=(), proc="BLOCK", parallel=True)
    (step,) = launches(program((inner,)))
    assert isinstance(step, Launch)
    with pytest.raises(InternalError, match="extent of grid loop j"):
        step.blocks  # noqa: B018


def test_a_sync_beside_an_inner_loop_does_not_end_the_grid() -> None:
    i, j = grid([2, 3])
    body = (LeafCall(task="f", impl="auto", args=()),)
    outer = For(
        var=i.var,
        extent=i.extent,
        body=(
            For(var=j.var, extent=j.extent, body=body, proc="BLOCK", parallel=True),
            Sync(scope="BLOCK"),
        ),
        proc="BLOCK",
        parallel=True,
    )
    (step,) = launches(program((outer,)))
    assert isinstance(step, Launch)
    assert step.sizes == (2, 3) and step.body == body
