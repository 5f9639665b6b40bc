"""Pass `name_leaves`: write each call's chosen leaf into the Program, so that nothing asks for it later.

The first pass of every target's `finish`. After it passes may rebuild calls as they like: who emits a call
finds its leaf by `LeafCall.symbol`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import count

from septran.ir import nodes as ir
from septran.ir.access import map_bodies
from septran.ir.launch import map_kernels
from septran.kernel import Leaf, leaf_specs

Body = tuple[ir.Stmt, ...]
Runtime = Callable[[ir.Program, Iterable[Leaf]], tuple[str, ...]]
"""Program with named leaves, its leaves -> names of the parts of a target's runtime that they call."""
RUNTIME = "runtime"
"""Option of a Program: those names, in the order in which they are printed."""


def name_leaves(
    program: ir.Program,
    leaves: Mapping[str, Leaf],
    scratch: Callable[[Leaf], tuple[ir.Buffer, ...]] | None = None,
    runtime: Runtime | None = None,
) -> ir.Program:
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
    taken |= {s.buffer.name for s in ir.walk(program.body) if isinstance(s, ir.Alloc)}
    handed = {
        leaf.spec.symbol: tuple(_renamed(b, leaf.spec.task, taken) for b in scratch(leaf))
        for leaf in leaves.values()
    }
    return map_kernels(named, lambda launch, _: _handed(launch.body, handed))


def _renamed(buffer: ir.Buffer, task: str, taken: set[str]) -> ir.Buffer:
    name = next(
        n for i in count(1) if (n := f"{task}_{buffer.name}{f'_{i}' if i > 1 else ''}") not in taken
    )
    taken.add(name)
    return replace(buffer, name=name)


def _handed(body: Body, own: Mapping[str, tuple[ir.Buffer, ...]]) -> Body:
    """Return a kernel's body in which each call gets the scratch of its leaf, allocated in front."""
    called = dict.fromkeys(s.symbol for s in ir.walk(body) if isinstance(s, ir.LeafCall))
    allocs = [
        ir.Alloc(buffer=b) for symbol, buffers in own.items() if symbol in called for b in buffers
    ]

    def change(stmts: Body) -> Body:
        return tuple(
            replace(s, args=(*s.args, *(_scratch(b) for b in own[s.symbol])))
            if isinstance(s, ir.LeafCall)
            else s
            for s in stmts
        )

    return (*allocs, *map_bodies(body, change))


def _scratch(buffer: ir.Buffer) -> ir.LeafArg:
    return ir.LeafArg(param=buffer.name, region=ir.Region.whole(buffer), privilege="rw")


def _named(body: Body, chosen: Iterator[Leaf]) -> Body:
    out: list[ir.Stmt] = []
    for stmt in body:
        match stmt:
            case ir.LeafCall():
                leaf = next(chosen)
                impl = ir.INLINE if leaf.inline else stmt.impl
                out.append(replace(stmt, symbol=leaf.spec.symbol, impl=impl))
            case ir.For() | ir.When():
                out.append(replace(stmt, body=_named(stmt.body, chosen)))
            case _:
                out.append(stmt)
    return tuple(out)
