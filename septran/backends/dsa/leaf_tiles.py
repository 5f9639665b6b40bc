"""Operands of a library leaf in the C that a reply could give: tiles of its views and of its scratch, sizes and numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from septran.backends.dsa.passes.expand_leaves import temp_bytes
from septran.ir import nodes as ir
from septran.ir.access import unused
from septran.ir.expr import Bin, Const, Expr, Var
from septran.kernel import LeafSpec

_ZERO = Const(0)


class NoText(Exception):
    """Why a list of operations cannot be said in a leaf, in words."""


def temporaries(stmts: Iterable[ir.Stmt]) -> dict[str, tuple[ir.Buffer, int]]:
    """Return each buffer that operations allocate, and where it lies in the scratch, in bytes."""
    found: dict[str, tuple[ir.Buffer, int]] = {}
    at = 0
    for buffer in ir.allocated(tuple(stmts)):
        if buffer.name not in found:
            found[buffer.name] = (buffer, at)
            at += temp_bytes(buffer.shape, buffer.dtype)
    return found


def number(value: ir.Scalar) -> str:
    """Return a scalar of a call as C."""
    if isinstance(value, Expr):
        return size(value)
    if value != value:
        return "VL_NAN"
    if math.isinf(value):
        return "VL_INF" if value > 0 else "-VL_INF"
    return repr(float(value))


def size(e: Expr) -> str:
    """Return an index expression as C; division and remainder are floor division's."""
    match e:
        case Const(value):
            return str(value)
        case Var(name):
            return name
        case Bin("min" | "max" as op, a, b):
            x, y = size(a), size(b)
            return f"({x} {'<' if op == 'min' else '>'} {y} ? {x} : {y})"
        case Bin("%", a, b):
            x, y = size(a), size(b)
            return f"(({x} % {y} + {y}) % {y})"
        case Bin("//", a, b):
            return f"(({size(a)} - {size(Bin('%', a, b))}) / {size(b)})"
        case Bin(op, a, b):
            return f"({size(a)} {op} {size(b)})"
    raise TypeError(e)


class Tiles:
    """Names of a leaf's tiles."""

    def __init__(
        self, spec: LeafSpec, stmts: tuple[ir.Stmt, ...], dtypes: Mapping[str, str]
    ) -> None:
        """dtypes: how a leaf spells them.

        Raises:
            NoText: a temporary that a leaf's scratch cannot hold, a parameter whose rows are no rows.
        """
        self._dtypes = dtypes
        self._taken = {p.name for p in spec.params} | {n for n, _ in spec.scalars} | {"scratch"}
        self._temps = temporaries(stmts)
        self._names: dict[str, str] = {}
        self._views: list[str] = []
        self._own: list[str] = []
        for b, _ in self._temps.values():
            if b.mem != "SHARED":
                raise NoText(f"it needs a tile of its own in {b.mem}, where a leaf has no scratch")
        for p in spec.params:
            if p.shape and p.shape[-1] > 1 and p.step[-1] != 1:
                raise NoText(f"neighbours in a row of {p.name} are {p.step[-1]} elements apart")

    @property
    def declared(self) -> list[str]:
        """Return the lines, views first."""
        return [*self._views, *self._own]

    def own(self, name: str) -> str:
        """Return a name that nothing else in the leaf has."""
        return unused(name, self._taken, "{}")

    def tile(self, region: ir.Region, at: Mapping[int, Expr]) -> str:
        """Return the tile of a region's last two dims.

        at: position along a dim in front of them that a loop goes over, by the dim counted from the back.
        """
        buffer, rank = region.buffer, region.rank
        lead = [
            region.offset[d] + (at[d - rank] if region.tile[d] > 1 else _ZERO)
            for d in range(rank - 2)
        ]
        row, rows = (region.offset[-2], region.extent[-2]) if rank > 1 else (_ZERO, Const(1))
        part = region.tile[-2:] != buffer.shape[-2:]
        if buffer.name in self._temps:
            # the matrices of a temporary lie below each other
            height = buffer.shape[-2] if rank > 1 else 1
            for d, i in enumerate(lead):
                row = row + i * math.prod(buffer.shape[d + 1 : -2]) * height
            part = part or math.prod(buffer.shape[:-2]) > 1
            text = self._temporary(region)
        else:
            text = self._matrix(buffer.name, lead)
        if not part:
            return text
        places = (row, region.offset[-1], rows, region.extent[-1])
        return f"vl_part({', '.join([text, *map(size, places)])})"

    def _matrix(self, name: str, lead: list[Expr]) -> str:
        if any(i != _ZERO for i in lead):
            view = name
            for i in lead:
                view = f"vl_slice({view}, {size(i)})"
            return f"vl_matrix({view})"
        if name not in self._names:
            self._names[name] = self.own(f"{name}_tile")
            self._views.append(f"const vl_tile {self._names[name]} = vl_matrix({name});")
        return self._names[name]

    def _temporary(self, region: ir.Region) -> str:
        """Return a temporary's tile, as large as its operands are now where it is one matrix."""
        buffer, at = self._temps[region.buffer.name]
        if buffer.name not in self._names:
            name = self._names[buffer.name] = self.own(f"t{len(self._own)}")
            one = region.tile == buffer.shape and math.prod(buffer.shape[:-2]) == 1
            extent = region.extent if one else tuple(map(Const, buffer.shape))
            rows = size(extent[-2]) if one and region.rank > 1 else math.prod(buffer.shape[:-1])
            places = f"scratch, {at}, {rows}, {size(extent[-1])}"
            made = f"vl_temp_of({places}, {self._dtypes[buffer.dtype]})"
            if buffer.dtype == "float32":
                made = f"vl_temp({places})"
            self._own.append(f"const vl_tile {name} = {made};")
        return self._names[buffer.name]
