"""Values of a leaf in C that is a plain list of calls: sizes, numbers, views and tiles, as the Program has them."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from septran.backends.dsa.passes.along import slice_at
from septran.backends.dsa.passes.expand_leaves import temp_bytes
from septran.backends.dsa.passes.operations import like
from septran.backends.reading.c_syntax import Binary, Call, Name, Node
from septran.ir import nodes as ir
from septran.ir.expr import Const, Expr, make

_DIGITS = re.compile(r"\d+")
_REAL = re.compile(r"(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?([fF]?)")
_NUMBERS = {"VL_INF": math.inf, "VL_NAN": math.nan}
_MOST = 1 << 31


class NotPlain(Exception):
    """A leaf is more than a list of calls whose operands are known to lie in what it is given."""


@dataclass(frozen=True, slots=True)
class Size:
    """An integer. most: what it is at most, None: unknown."""

    expr: Expr
    most: int | None


class Single(float):
    """A literal with an f: C reckons with it in another precision."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """A view or, once its leading dims are given, a tile: the last two dims of `region`.

    lead: how many leading dims are given. writes: whether the leaf may write it.
    """

    region: ir.Region
    writes: bool
    lead: int = 0

    @property
    def rows(self) -> Size:
        """Its rows; a vector is one."""
        r = self.region
        return Size(r.extent[-2], r.tile[-2]) if r.rank > 1 else Size(Const(1), 1)

    @property
    def cols(self) -> Size:
        """Its columns."""
        return Size(self.region.extent[-1], self.region.tile[-1])


Value = Size | float | Matrix


class Values:
    """What the names of a leaf stand for where it is read."""

    def __init__(
        self,
        views: Mapping[str, Matrix],
        scalars: Mapping[str, ir.Scalar],
        *,
        prefix: str,
        scratch: int,
        dtypes: Mapping[str, str],
    ) -> None:
        """prefix: of temporaries' names. scratch: bytes that its tiles may take. dtypes: a leaf's word for an element type -> the type."""
        self.views = views
        self.named: dict[str, Value] = {
            n: Size(v, None) if isinstance(v, Expr) else float(v) for n, v in scalars.items()
        }
        self.loops: dict[Expr, Expr] = {}
        """variable of an open loop -> its extent"""
        self.rank = max((v.region.rank for v in views.values()), default=2)
        self._prefix = prefix
        self._scratch = scratch
        self._dtypes = dtypes
        self._temps: dict[tuple[int, Size, Size, str], ir.Buffer] = {}
        self._ends: dict[tuple[int, Size, Size, str], int] = {}

    # ---- numbers
    def value(self, node: Node) -> Value:
        """Return what an expression stands for. Raises NotPlain."""
        match node:
            case Name(text):
                return self._name(text)
            case Call(Name("[]"), (Name(array), at)):
                view, _, field = array.partition(".")
                d = self.size(at).expr
                if field == "n" and view in self.views and isinstance(d, Const):
                    region = self.views[view].region
                    if 0 <= d.value < region.rank:
                        return Size(region.extent[d.value], region.tile[d.value])
            case Binary(op, a, b):
                return self._reckoned(op, a, b)
            case Call():
                return self.tile(node)
        raise NotPlain

    def size(self, node: Node) -> Size:
        """Return an integer."""
        found = self.value(node)
        if not isinstance(found, Size):
            raise NotPlain
        return found

    def scalar(self, node: Node) -> ir.Scalar:
        """Return a number of a call, which takes a double."""
        found = self.value(node)
        if isinstance(found, Matrix):
            raise NotPlain
        if isinstance(found, Size):
            return float(found.expr.value) if isinstance(found.expr, Const) else found.expr
        return float(found)

    def _name(self, text: str) -> Value:
        if text in self.named:
            return self.named[text]
        if text in _NUMBERS:
            return _NUMBERS[text]
        if _DIGITS.fullmatch(text) and (text == "0" or text[0] != "0") and int(text) < _MOST:
            return Size(Const(int(text)), int(text))
        if real := _REAL.fullmatch(text):
            return _literal(text, single=bool(real[1]))
        tile, _, field = text.partition(".")
        held = self.named.get(tile)
        if isinstance(held, Matrix) and field in ("rows", "cols"):
            return held.rows if field == "rows" else held.cols
        raise NotPlain

    def _reckoned(self, op: str, left: Node, right: Node) -> Value:
        a, b = self.value(left), self.value(right)
        if isinstance(a, Matrix) or isinstance(b, Matrix):
            raise NotPlain
        if left == Name("0") and op == "-" and isinstance(b, float) and b:
            return type(b)(-b)  # a sign
        if isinstance(a, Single) or isinstance(b, Single):
            raise NotPlain
        if isinstance(a, Size) and isinstance(b, Size):
            return _whole(op, a, b)
        if op not in ("+", "-", "*", "/"):
            raise NotPlain
        x, y = (_double(v) for v in (a, b))
        try:
            return {"+": x + y, "-": x - y, "*": x * y}[op] if op != "/" else x / y
        except ArithmeticError:
            raise NotPlain from None

    # ---- views and tiles
    def tile(self, node: Node) -> Matrix:
        """Return a tile; its region lies in the leaf's operands or scratch whatever the sizes are."""
        match node:
            case Name(text) if isinstance(held := self.named.get(text), Matrix):
                return held
            case Call(Name("vl_matrix"), (view,), False):
                return _matrix(self.view(view))
            case Call(Name("vl_temp"), (Name("scratch"), at, rows, cols), False):
                return self._temp(at, rows, cols, "float32")
            case Call(Name("vl_temp_of"), (Name("scratch"), at, rows, cols, Name(d)), False):
                if d in self._dtypes:
                    return self._temp(at, rows, cols, self._dtypes[d])
            case Call(Name("vl_part"), (of, row, col, rows, cols), False):
                return self._part(self.tile(of), row, col, rows, cols)
        raise NotPlain

    def view(self, node: Node) -> Matrix:
        """Return a view."""
        match node:
            case Name(text) if text in self.views:
                return self.views[text]
            case Call(Name("vl_slice"), (of, at), False):
                view = self.view(of)
                r, d = view.region, view.lead
                where = self.size(at).expr
                if d < r.rank and self._inside(where, Const(1), r.extent[d]):
                    return replace(view, region=slice_at(r, d, where), lead=d + 1)
        raise NotPlain

    def _inside(self, at: Expr, n: Expr, extent: Expr) -> bool:
        """Return whether positions at .. at + n - 1 are known to lie below `extent`."""
        if isinstance(at, Const) and isinstance(n, Const) and isinstance(extent, Const):
            return min(at.value, n.value) >= 0 and at.value + n.value <= extent.value
        if at == Const(0):
            return n == extent
        turns = self.loops.get(at)
        if turns is None or n != Const(1):
            return False
        both = isinstance(turns, Const) and isinstance(extent, Const)
        return turns == extent or (both and turns.value <= extent.value)  # type: ignore[attr-defined]

    def _part(self, tile: Matrix, *places: Node) -> Matrix:
        row, col, rows, cols = (self.size(p) for p in places)
        region = tile.region
        if not (
            self._inside(row.expr, rows.expr, tile.rows.expr)
            and self._inside(col.expr, cols.expr, tile.cols.expr)
        ):
            raise NotPlain
        if region.rank == 1 and (row.expr, rows.expr) != (Const(0), Const(1)):
            raise NotPlain
        for axis, at, n in ((-2, row, rows), (-1, col, cols)):
            if region.rank + axis < 0:
                continue
            d = region.rank + axis
            extents, tiles, offsets = list(region.extent), list(region.tile), list(region.offset)
            offsets[d] = offsets[d] + at.expr * region.step[d]
            extents[d], tiles[d] = n.expr, min(n.most or tiles[d], tiles[d])
            region = like(region, offset=tuple(offsets), extent=tuple(extents), tile=tuple(tiles))
        return replace(tile, region=region)

    def _temp(self, at: Node, rows: Node, cols: Node, dtype: str) -> Matrix:
        """Return a tile of the scratch: a buffer of its own, as no other tile may share its bytes."""
        start, r, c = self.size(at).expr, self.size(rows), self.size(cols)
        if not isinstance(start, Const) or start.value < 0 or start.value % 64:
            raise NotPlain
        if r.most is None or c.most is None or min(r.most, c.most) < 1:
            raise NotPlain
        key = (start.value, r, c, dtype)
        if key not in self._temps:
            end = start.value + temp_bytes((r.most, c.most), dtype)
            if end > self._scratch:
                raise NotPlain
            if any(start.value < e and k[0] < end for k, e in self._ends.items()):
                raise NotPlain
            rank = max(self.rank, 2 if r.most > 1 else 1)
            shape = (*(1,) * (rank - 2), r.most, c.most)[-rank:]
            name = f"{self._prefix}_t{len(self._temps)}"
            self._ends[key] = end
            self._temps[key] = ir.Buffer(name=name, shape=shape, dtype=dtype, mem="SHARED")
        buffer = self._temps[key]
        extent = (*map(Const, buffer.shape[:-2]), r.expr, c.expr)[-len(buffer.shape) :]
        return Matrix(ir.Region.whole(buffer, extent), writes=True)

    def temporaries(self) -> tuple[ir.Buffer, ...]:
        """Return the buffers of all tiles of the scratch."""
        return tuple(self._temps.values())

    # ---- scopes
    def hide(self, name: str) -> None:
        """A declaration takes the name of a view: what is read after it would be another thing."""
        if name in self.views or name == "scratch":
            raise NotPlain

    def enter(self, name: str, var: Expr, extent: Size) -> None:
        """Open a loop."""
        self.hide(name)
        self.loops[var] = extent.expr
        self.named[name] = Size(var, None if extent.most is None else extent.most - 1)


def _literal(text: str, *, single: bool) -> float:
    value = float(text.rstrip("fF"))
    if not single:
        return value
    try:
        return Single(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        raise NotPlain from None


def _double(value: Size | float) -> float:
    if isinstance(value, float):
        return value
    if not isinstance(value.expr, Const):
        raise NotPlain
    return float(value.expr.value)


def _whole(op: str, a: Size, b: Size) -> Size:
    """Return an integer operation, as C has it: of numbers that are known all, else + - *."""
    x, y = a.expr, b.expr
    if op in ("/", "%"):
        if not (isinstance(x, Const) and isinstance(y, Const)) or x.value < 0 or y.value <= 0:
            raise NotPlain
        op = "//" if op == "/" else op
    most: dict[str, Callable[[int, int], int]] = {
        "+": lambda p, q: p + q,
        "*": lambda p, q: p * q,
        "-": lambda p, q: p,
    }
    if op not in ("+", "-", "*", "//", "%"):
        raise NotPlain
    found = make(op, x, y)
    if isinstance(found, Const):
        if not -_MOST < found.value < _MOST:
            raise NotPlain
        return Size(found, found.value)
    known = a.most is not None and b.most is not None
    return Size(found, most[op](a.most, b.most) if known else None)  # type: ignore[arg-type]


def _matrix(view: Matrix) -> Matrix:
    """Return the tile of a view's last two dims; a vector is one row."""
    r = view.region
    if r.rank - view.lead < 1 or r.buffer.layout != "row" or r.guard:
        raise NotPlain
    if r.tile[-1] > 1 and r.step[-1] * r.buffer.steps[-1] != 1:
        raise NotPlain
    for d in range(view.lead, r.rank - 2):
        r = slice_at(r, d, Const(0))
    return replace(view, region=r, lead=max(r.rank - 2, 0))
