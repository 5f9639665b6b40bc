"""How a Program is launched: what the host does in order, the grid of each kernel, what one block does.

    alloc W: GLOBAL                      Alloc(W)
    for i on BLOCK: for j on BLOCK: B    Launch(grid=(i, j), body=B)
    f(X); g(X)                           Launch(grid=(), body=(f, g))
    for t: for i on BLOCK: C             HostLoop(t, (Launch(grid=(i,), body=C),))

Blocks are numbered row by row: the innermost loop of the grid runs fastest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from septran.errors import InternalError
from septran.ir.expr import Const, Expr, const, free, make
from septran.ir.nodes import Alloc, Buffer, For, Program, Stmt, Sync, walk


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One kernel. grid: its block loops, outermost first, () = a single block. body: what one does."""

    grid: tuple[For, ...]
    body: tuple[Stmt, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Extents of the grid's loops.

        Raises:
            InternalError: one is not known before the launch.
        """
        for loop in self.grid:
            if not isinstance(loop.extent, Const):
                raise InternalError(f"the extent of grid loop {loop.var} is not constant")
        return tuple(g.extent.value for g in self.grid if isinstance(g.extent, Const))

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return math.prod(self.sizes)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLoop:
    """A sequential loop of the host around launches; `loop.body` is what `steps` were made of."""

    loop: For
    steps: tuple[Step, ...]


Step = Alloc | Launch | HostLoop
"""What the host does: bring a GLOBAL workspace to life, launch a kernel, repeat."""


def on_processors(stmt: Stmt) -> bool:
    """True for a loop whose iterations run on processors of the machine."""
    return isinstance(stmt, For) and stmt.proc not in ("", "HOST")


def launches(program: Program) -> tuple[Step, ...]:
    """Return what the host does. Statements between processor loops share one launch of one block."""
    return _steps(program.body)


def _steps(body: tuple[Stmt, ...]) -> tuple[Step, ...]:
    steps: list[Step] = []
    loose: list[Stmt] = []

    def flush() -> None:
        if any(not isinstance(s, Alloc | Sync) for s in loose):
            steps.append(Launch(grid=(), body=tuple(loose)))
        loose.clear()

    for stmt in body:
        match stmt:
            case Alloc() if stmt.buffer.mem == "GLOBAL":
                flush()
                steps.append(stmt)
            case For() if on_processors(stmt):
                flush()
                grid, inner = nest(stmt)
                steps.append(Launch(grid=grid, body=inner))
            case For() if any(on_processors(s) for s in walk(stmt.body)):
                flush()
                steps.append(HostLoop(loop=stmt, steps=_steps(stmt.body)))
            case Sync(scope="HOST"):
                pass  # launches run in order
            case _:
                loose.append(stmt)
    flush()
    return tuple(steps)


def nest(
    loop: For, known: frozenset[str] = frozenset()
) -> tuple[tuple[For, ...], tuple[Stmt, ...]]:
    """Return the perfectly nested loops on the same processor, outermost first, and what is inside.

    Inner loops take part when their extents are constant, or follow from `known` variables alone; a Sync beside one
    waits for nothing that the end of a block does not wait for.
    """
    grid, body = [loop], loop.body
    while True:
        rest = [s for s in body if not isinstance(s, Sync)]
        inner = rest[0] if len(rest) == 1 else None
        if (
            not isinstance(inner, For)
            or (inner.proc, inner.parallel) != (loop.proc, loop.parallel)
            or not free(inner.extent) <= known
        ):
            return tuple(grid), body
        grid.append(inner)
        body = inner.body


def every_launch(
    steps: tuple[Step, ...], around: tuple[For, ...] = ()
) -> Iterator[tuple[tuple[For, ...], Launch]]:
    """Yield each launch with the host loops around it, outermost first."""
    for step in steps:
        match step:
            case Launch():
                yield around, step
            case HostLoop():
                yield from every_launch(step.steps, (*around, step.loop))


def workspaces(steps: tuple[Step, ...]) -> tuple[Buffer, ...]:
    """Return the GLOBAL buffers that the host brings to life."""
    found: list[Buffer] = []
    for step in steps:
        match step:
            case Alloc():
                found.append(step.buffer)
            case HostLoop():
                found += workspaces(step.steps)
    return tuple(found)


def block_index(grid: tuple[For, ...], block: Expr) -> dict[str, Expr]:
    """Return each grid loop's variable as an expression of the number of the block.

    Loops of one iteration are 0; the first of the others needs no remainder.
    """
    found: dict[str, Expr] = {}
    behind: Expr = const(1)
    live = [g for g in grid if g.extent != Const(1)]
    for loop in reversed(grid):
        if loop.extent == Const(1):
            found[loop.var] = const(0)
            continue
        at = make("//", block, behind)
        found[loop.var] = at if loop is live[0] else make("%", at, loop.extent)
        behind = behind * loop.extent
    return {loop.var: found[loop.var] for loop in grid}


def map_launches(program: Program, change: Callable[[Launch], Launch]) -> Program:
    """Return `program` with each kernel replaced by change(launch)."""
    return _map_launches(program, lambda launch, _: change(launch))


def map_kernels(
    program: Program, change: Callable[[Launch, tuple[For, ...]], tuple[Stmt, ...]]
) -> Program:
    """Return `program` with each kernel's body replaced by change(launch, host loops around it)."""
    return _map_launches(
        program, lambda launch, around: replace(launch, body=change(launch, around))
    )


def _map_launches(program: Program, change: Callable[[Launch, tuple[For, ...]], Launch]) -> Program:
    def rebuilt(steps: tuple[Step, ...], around: tuple[For, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for step in steps:
            match step:
                case Launch():
                    changed = change(step, around)
                    body = changed.body
                    for loop in reversed(changed.grid):
                        body = (replace(loop, body=body),)
                    out += body
                case HostLoop():
                    inner = rebuilt(step.steps, (*around, step.loop))
                    out.append(replace(step.loop, body=inner))
                case _:
                    out.append(step)
        return tuple(out)

    return replace(program, body=rebuilt(launches(program), ()))
