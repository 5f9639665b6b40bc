"""Pass `name_leaves`: write each call's chosen leaf into the Program, so that nothing asks for it later.

The first pass of every target's `finish`. After it passes may rebuild calls as they like: who emits a call
finds its leaf by `LeafCall.symbol`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from septran.ir.nodes import INLINE, For, LeafCall, Program, Stmt, When
from septran.kernel import Leaf, leaf_specs


def name_leaves(program: Program, leaves: Mapping[str, Leaf]) -> Program:
    """Return `program` with `symbol` set in every call, and `impl` INLINE where the leaf is no function.

    leaves: by the keys of the Program's LeafSpecs; every spec has one.
    """
    chosen = iter([leaves[spec.key] for _, spec in leaf_specs(program)])
    return replace(program, body=_named(program.body, chosen))


def _named(body: tuple[Stmt, ...], chosen: Iterator[Leaf]) -> tuple[Stmt, ...]:
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
