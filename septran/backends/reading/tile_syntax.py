"""What the readers of printed TileLang need beside its statements: windows of arrays, positions, names, macros."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from septran.backends.reading import python_syntax as py
from septran.ir.expr import Bin, Const, Expr, Var, make
from septran.ir.nodes import LeafCall, Program, Scalar, allocated
from septran.prove.printed import Unreadable


@dataclass(frozen=True, slots=True)
class Window:
    """A part of an array: its first index and extents per dim; extent None: as much as the other side has."""

    array: str
    low: tuple[Expr, ...]
    extent: tuple[Expr, ...] | None
    whole: bool = False


def positions(extents: Sequence[Expr]) -> tuple[tuple[str, Expr], ...]:
    """Return a variable per dim; no name of the text has a prime."""
    return tuple((f"p_{d}'", n) for d, n in enumerate(extents))


def shifted(window: Window, box: Sequence[tuple[str, Expr]]) -> tuple[Expr, ...]:
    """Return the indices of an array at the positions of `box`, which count its dims of more than one."""
    names = (Var(name) for name, _ in box)
    assert window.extent is not None
    return tuple(
        low if n == Const(1) else make("+", low, next(names))
        for low, n in zip(window.low, window.extent, strict=True)
    )


def difference(a: Expr, b: Expr) -> Expr:
    """Return a - b without what both have."""
    found: Counter[Expr] = Counter()
    for e, factor in ((a, 1), (b, -1)):
        for term, count in _terms(e, factor):
            found[term] += count
    number = found.pop(Const(1), 0)
    total: Expr = Const(0)
    for term, count in found.items():
        if count:
            total = (
                make("+", total, make("*", count, term))
                if count > 0
                else make("-", total, make("*", -count, term))
            )
    return make("+", total, number)


def _terms(e: Expr, factor: int) -> Iterator[tuple[Expr, int]]:
    match e:
        case Const(value):
            yield Const(1), factor * value
        case Bin("+" | "-" as op, a, b):
            yield from _terms(a, factor)
            yield from _terms(b, factor if op == "+" else -factor)
        case Bin("*", Const(value), inner) | Bin("*", inner, Const(value)):
            yield from _terms(inner, factor * value)
        case _:
            yield e, factor


def kernel_of(stmts: Sequence[ast.stmt], entry: str) -> ast.FunctionDef:
    """Return the kernel's function, the last one; before it stand functions of leaves. Raises Unreadable: others do."""
    for stmt in stmts[:-1]:
        if not isinstance(stmt, ast.FunctionDef):
            raise py.wrong(stmt)
    last = stmts[-1] if stmts else None
    if not isinstance(last, ast.FunctionDef) or last.name != entry:
        raise Unreadable(f"no function {entry}")
    if [ast.unparse(d) for d in last.decorator_list] != ["T.prim_func"]:
        raise py.wrong(last, f"the head of {entry}")
    py.parameters(last)
    return last


def macros(module: ast.Module, entry: str) -> dict[str, int]:
    """Return macro -> number of its parameters, of all that stand in front of the kernel."""
    found: dict[str, int] = {}
    for stmt in module.body:
        if isinstance(stmt, ast.FunctionDef):
            if stmt.name in found or stmt.name == "T":
                raise py.wrong(stmt, f"another {stmt.name}")
            decorators = [ast.unparse(d) for d in stmt.decorator_list]
            if stmt.name != entry and decorators == ["T.macro"]:
                found[stmt.name] = len(py.parameters(stmt))
    return found


def alloc_names(program: Program, tensors: Sequence[str], arrays: Sequence[str]) -> dict[str, str]:
    """Return the text's name -> the Program's buffer: both declare them in the same order.

    Raises:
        Unreadable: they declare another number.
    """
    own = [p.buffer.name for p in program.params]
    made = [b.name for b in allocated(program.body)]
    if (len(own), len(made)) != (len(tensors), len(arrays)):
        raise Unreadable(
            f"{len(arrays)} tiles and {len(tensors)} tensors, not {len(made)} and {len(own)}"
        )
    return dict(zip((*tensors, *arrays), (*own, *made), strict=True))


def scalars(call: LeafCall) -> list[Scalar]:
    """Return the numbers a macro gets: the extents that can be less than a tile's, then the leaf's own."""
    ragged: list[Scalar] = [
        e
        for a in call.args
        for e, n in zip(a.region.extent, a.region.tile, strict=True)
        if e != Const(n)
    ]
    return [*ragged, *(v for _, v in call.scalars)]
