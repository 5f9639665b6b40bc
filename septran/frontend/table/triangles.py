"""Rows of Cholesky's factor and of triangular systems: column by column, each a map over the whole matrix.

Each column is a kernel, because the next reads what this one made in other places; so the matrices are small.
"""

from __future__ import annotations

from septran.aten.graph import Node
from septran.frontend.table.build import Args, Builder, NoForm, Value, broadcast, row
from septran.frontend.table.layout import cut
from septran.frontend.view import View
from septran.ir.dtypes import FLOATS

MAX_SIZE = 32
"""Rows of a matrix that is taken apart: each is a kernel."""


@row("linalg_cholesky", "linalg_cholesky_ex", "cholesky")
def _cholesky(b: Builder, node: Node, a: Args) -> Value:
    found = factor(b, a.first("self", "A"))
    found = _turned(found) if a["upper"] else found
    if not node.many:
        return found
    info = node.results[1]
    if info is None:
        return (found, None)
    return (found, b.map("0", {}, info.shape, name="info", dtype=info.dtype))


@row("linalg_solve_triangular")
def _solve(b: Builder, node: Node, a: Args) -> Value:
    left = True if a["left"] is None else bool(a["left"])
    x, y, upper = a.first("self", "A"), a.view("B"), bool(a["upper"])
    if not left:  # X A = B is A' X' = B'
        x, y, upper = _turned(x), _turned(y), not upper
    found = solved(b, x, y, upper=upper, ones=bool(a["unitriangular"]))
    return found if left else _turned(found)


@row("triangular_solve")
def _triangular_solve(b: Builder, node: Node, a: Args) -> Value:
    x, upper = a.view("A"), a["upper"] is None or bool(a["upper"])
    given = x
    if a["transpose"]:
        x, upper = _turned(x), not upper
    found = solved(b, x, a.view("self"), upper=upper, ones=bool(a["unitriangular"]))
    return (found, given) if node.many else found


@row("cholesky_solve")
def _cholesky_solve(b: Builder, node: Node, a: Args) -> Value:
    x = a.first("input2", "L")
    lower = _turned(x) if a["upper"] else x
    first = solved(b, lower, a.first("self", "B"), upper=False)
    return solved(b, _turned(lower), first, upper=True)


@row("cholesky_inverse")
def _cholesky_inverse(b: Builder, node: Node, a: Args) -> Value:
    x = a.first("self", "input", "L")
    lower = _turned(x) if a["upper"] else x
    i, j = x.rank - 2, x.rank - 1
    ones = b.map(f"select(at({i}) == at({j}), 1.0, 0.0)", {}, x.shape, name="eye")
    return solved(b, _turned(lower), solved(b, lower, ones, upper=False), upper=True)


def factor(b: Builder, x: View) -> View:
    """Return the lower L with x = L L' of symmetric matrices x [.., n, n], of which the lower half is read."""
    n, (i, j) = _size(b, x), (x.rank - 2, x.rank - 1)
    for at in range(n):
        column, pivot = cut(x, j, at, 1), cut(cut(x, i, at, 1), j, at, 1)
        place = f"at({j})"
        kept = "x" if at < n - 1 else f"select(at({i}) < {place}, 0.0, x)"
        less = f"select({place} > {at} and at({i}) >= {place}, x - c * r / p, {kept})"
        if at == n - 1:
            less = kept
        own = f"select(at({i}) < {at}, 0.0, c / sqrt(p))"
        operands = {"x": x, "c": column, "r": _turned(column), "p": pivot}
        text = f"select({place} == {at}, {own}, {less})"
        used = {k: v for k, v in operands.items() if k != "r" or at < n - 1}
        x = b.map(text, used, x.shape, name="factor")
    return x


def solved(b: Builder, x: View, y: View, *, upper: bool, ones: bool = False) -> View:
    """Return z with x z = y, x [.., n, n] a triangle, the rest of which is not read. ones: its diagonal is 1."""
    n = _size(b, x)
    lead = broadcast(x.shape[:-2], y.shape[:-2])
    x, z = x.expand((*lead, n, n)), y.expand((*lead, *y.shape[-2:]))
    i, j = len(lead), len(lead) + 1
    for at in reversed(range(n)) if upper else range(n):
        column, row = cut(x, j, at, 1), cut(z, i, at, 1)
        pivot = cut(column, i, at, 1)
        mine = "r" if ones else "r / p"
        todo = f"at({i}) < {at}" if upper else f"at({i}) > {at}"
        text = f"select(at({i}) == {at}, {mine}, select({todo}, z - c * ({mine}), z))"
        used = {"z": z, "c": column, "r": row} | ({} if ones else {"p": pivot})
        z = b.map(text, used, z.shape, name="solved")
    return z


def _size(b: Builder, x: View) -> int:
    n = x.shape[-1]
    if n > MAX_SIZE or x.shape[-2] != n:
        raise NoForm(f"a triangle of {n} rows (at most {MAX_SIZE} have a form)")
    if b.dtypes[x.source] not in FLOATS:
        raise NoForm("a triangle of numbers that are not floats")
    return n


def _turned(x: View) -> View:
    return x.permute((*range(x.rank - 2), x.rank - 1, x.rank - 2))
