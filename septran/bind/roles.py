"""What each dimension of a leaf's operands means: m, n, k of a gemm, kept and reduced of a reduce."""

from __future__ import annotations

from collections.abc import Iterator

from septran.bind.lower import LeafSite
from septran.ir.nodes import Prim

PRIORITY = {"gemm": 3, "gemm_acc": 3, "reduce": 2, "reduce_acc": 2, "transpose": 2}
"""Which primitive decides when several ask for a size; others count 1."""


def dim_roles(prim: Prim, site: LeafSite) -> Iterator[tuple[str, int, str]]:
    """Yield (parameter, axis, role) for the tensor operands of one primitive."""

    def rank(name: str) -> int:
        return site.args[name].region.rank

    def line(name: str) -> int | None:
        """Return the last dim of more than one position where dims of one position lie behind it, up to the columns."""
        tile = site.args[name].region.tile
        last = next((d for d in range(rank(name) - 2, -1, -1) if tile[d] != 1), rank(name) - 2)
        return last if last != rank(name) - 2 else None

    if prim.name == "extern":  # nothing of it is cut
        return
    if prim.name in ("gemm", "gemm_acc"):
        c, (a, b) = prim.out, prim.ins
        yield from _matrix(c, rank(c), "m", "n", line=line(c))
        rows = ("k", "m") if prim.attr("trans_a") else ("m", "k")
        yield from _matrix(a, rank(a), *rows, line=None if prim.attr("trans_a") else line(a))
        cols = ("n", "k") if prim.attr("trans_b") else ("k", "n")
        yield from (found for found in _matrix(b, rank(b), *cols) if found[2] != "lead")
    elif prim.name in ("reduce", "reduce_acc", "scan", "argreduce"):
        for name in (prim.ins[0], prim.out):
            last = rank(name) - 1
            for d in range(rank(name)):
                if d in prim.axes(rank(name)):
                    yield name, d, "reduced"
                else:
                    yield name, d, "kept_inner" if d == last else "kept"
    elif prim.name == "transpose":
        last = len(prim.perm) - 1
        for d, source in enumerate(prim.perm):
            role = _turned(written=d == last, read=source == last)
            yield prim.out, d, role
            yield prim.ins[0], source, role
    else:
        for name in (prim.out, *prim.ins, *(n for _, n in prim.named)):
            if name in site.args:
                n = rank(name)
                for d in range(n):
                    yield name, d, "inner" if d == n - 1 else "outer"


def _turned(*, written: bool, read: bool) -> str:
    """Return the role of a dim that a transposition writes, or reads, along memory."""
    if written and read:
        return "inner"
    return "written_inner" if written else "read_inner" if read else "outer"


def _matrix(
    name: str, rank: int, row: str, col: str, *, line: int | None = None
) -> Iterator[tuple[str, int, str]]:
    for d in range(rank):
        lead = "line" if d == line else "lead"
        yield name, d, col if d == rank - 1 else row if d == rank - 2 else lead


FALLBACK = {"kept_inner": "kept", "line": "lead", "read_inner": "inner", "written_inner": "inner"}
"""Role -> the more general role that a rule without the specific one may give a size for."""


def operand_role(param: str, prims: tuple[Prim, ...]) -> str:
    """Return "a", "b" or "out" of a gemm, else "in" or "out", by the first primitive that uses it."""
    for prim in prims:
        if param == prim.out:
            return "out"
        if prim.name in ("gemm", "gemm_acc") and param in prim.ins:
            return "ab"[prim.ins.index(param)]
        if param in prim.ins or param in (n for _, n in prim.named):
            return "in"
    return "in"
