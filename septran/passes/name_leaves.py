"""Pass `name_leaves`: write each call's chosen leaf into the Program, so that nothing asks for it later.

The first pass of every target's `finish`. After it passes may rebuild calls as they like: who emits a call
finds its leaf by `LeafCall.symbol`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import count

from septran.ir.access import map_bodies
from septran.ir.launch import map_kernels
from septran.ir.nodes import (
    INLINE,
    Alloc,
    Buffer,
    For,
    LeafArg,
    LeafCall,
    Program,
    Region,
    Stmt,
    When,
    walk,
)
from septran.kernel import Leaf, leaf_specs

Body = tuple[Stmt, ...]
Runtime = Callable[[Program, Iterable[Leaf]], tuple[str, ...]]
"""Program with named leaves, its leaves -> names of the parts of a target's runtime that they call."""
RUNTIME = "runtime"
"""Option of a Program: those names, in the order in which they are printed."""


def name_leaves(
    program: Program,
    leaves: Mapping[str, Leaf],
    scratch: Callable[[Leaf], tuple[Buffer, ...]] | None = None,
    runtime: Runtime | None = None,
) -> Program:
    """Return `program` with `symbol` set in every call, and `impl` INLINE where the leaf is no function.

    leaves: by the keys of the Program's LeafSpecs; every spec has one. scratch: buffers that a leaf has to be
    handed besides its operands; one of each is allocated per kernel and leaf, and follows the operands.
    runtime: what fills the option RUNTIME.
    """
    chosen = iter([leaves[spec.key] for _, spec in leaf_specs(program)])
    named = replace(program, body=_named(program.body, chosen))
    if runtime is not None:
        named = named.with_options({RUNTIME: list(runtime(named, leaves.values()))})
    if scratch is None:
        return named
    taken = {p.buffer.name for p in program.params}
    taken |= {s.buffer.name for s in walk(program.body) if isinstance(s, Alloc)}
    handed = {
        leaf.spec.symbol: tuple(_renamed(b, leaf.spec.task, taken) for b in scratch(leaf))
        for leaf in leaves.values()
    }
    return map_kernels(named, lambda launch, _: _handed(launch.body, handed))


def _renamed(buffer: Buffer, task: str, taken: set[str]) -> Buffer:
    name = next(
        n for i in count(1) if (n := f"{task}_{buffer.name}{f'_{i}' if i > 1 else ''}") not in taken
    )
    taken.add(name)
    return replace(buffer, name=name)


def _handed(body: Body, own: Mapping[str, tuple[Buffer, ...]]) -> Body:
    """Return a kernel's body in which each call gets the scratch of its leaf, allocated in front."""
    called = dict.fromkeys(s.symbol for s in walk(body) if isinstance(s, LeafCall))
    allocs = [
        Alloc(buffer=b) for symbol, buffers in own.items() if symbol in called for b in buffers
    ]

    def change(stmts: Body) -> Body:
        return tuple(
            replace(s, args=(*s.args, *(_scratch(b) for b in own[s.symbol])))
            if isinstance(s, LeafCall)
            else s
            for s in stmts
        )

    return (*allocs, *map_bodies(body, change))


def _scratch(buffer: Buffer) -> LeafArg:
    return LeafArg(param=buffer.name, region=Region.whole(buffer), privilege="rw")


def _named(body: Body, chosen: Iterator[Leaf]) -> Body:
    out: list[Stmt] = []
    for stmt in body:
        match stmt:
            case LeafCall():
                leaf = next(chosen)
                impl = INLINE if leaf.inline else stmt.impl
                out.append(replace(stmt, symbol=leaf.spec.symbol, impl=impl))
            case For() | When():
                out.append(replace(stmt, body=_named(stmt.body, chosen)))
            case _:
                out.append(stmt)
    return tuple(out)
