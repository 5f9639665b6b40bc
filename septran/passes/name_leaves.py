"""Pass `name_leaves`: write each call's chosen leaf into the Program, so that nothing asks for it later.

The first pass of every target's `finish`. After it passes may rebuild calls as they like: who emits a call
finds its leaf by `LeafCall.symbol`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from septran.ir import nodes as ir
from septran.ir.access import map_statements, unused
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

    def name(stmt: ir.Stmt) -> tuple[ir.Stmt]:
        if not isinstance(stmt, ir.LeafCall):
            return (stmt,)
        leaf = next(chosen)
        impl = ir.INLINE if leaf.inline else stmt.impl
        return (replace(stmt, symbol=leaf.spec.symbol, impl=impl),)

    named = replace(program, body=map_statements(program.body, name))
    if runtime is not None:
        named = named.with_options({RUNTIME: list(runtime(named, leaves.values()))})
    if scratch is None:
        return named
    taken = {b.name for b in ir.buffers(program)}
    handed = {
        leaf.spec.symbol: tuple(_renamed(b, leaf.spec.task, taken) for b in scratch(leaf))
        for leaf in leaves.values()
    }
    return map_kernels(named, lambda launch, _: _handed(launch.body, handed))


def _renamed(buffer: ir.Buffer, task: str, taken: set[str]) -> ir.Buffer:
    return replace(buffer, name=unused(f"{task}_{buffer.name}", taken))


def _handed(body: Body, own: Mapping[str, tuple[ir.Buffer, ...]]) -> Body:
    """Return a kernel's body in which each call gets the scratch of its leaf, allocated in front."""
    called = dict.fromkeys(s.symbol for s in ir.walk(body) if isinstance(s, ir.LeafCall))
    allocs = [
        ir.Alloc(buffer=b) for symbol, buffers in own.items() if symbol in called for b in buffers
    ]

    def change(stmt: ir.Stmt) -> tuple[ir.Stmt]:
        if not isinstance(stmt, ir.LeafCall):
            return (stmt,)
        return (replace(stmt, args=(*stmt.args, *(_scratch(b) for b in own[stmt.symbol]))),)

    return (*allocs, *map_statements(body, change))


def _scratch(buffer: ir.Buffer) -> ir.LeafArg:
    return ir.LeafArg(param=buffer.name, region=ir.Region.whole(buffer), privilege="rw")
