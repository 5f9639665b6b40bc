"""Loads and stores of regions of GLOBAL buffers: index lines, masks, and the access itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from septran.backends.text.names import Names
from septran.backends.triton.shapes import (
    TL_DTYPE,
    along,
    index_text,
    padded,
    padded_shape,
    shape_text,
)
from septran.backends.triton.spelling import float_text
from septran.ir.dtypes import FLOATS
from septran.ir.expr import Bin, Const, Expr, make
from septran.ir.nodes import Region

_INT32_MAX = 2**31 - 1


@dataclass(slots=True)
class TileText:
    """Writes the text of region accesses; `vars` maps loop variables to identifiers.

    One instance per kernel: equal index lines inside one scope are written once. flat: tiles of more than two dims, of
    which at most two are not 1, are loaded as tiles of two dims.
    """

    names: Names
    vars: Mapping[str, str]
    pointers: Mapping[str, str]
    scopes: list[dict[str, str]] = field(default_factory=lambda: [{}])
    flat: bool = False

    def load(self, region: Region) -> tuple[list[str], str]:
        """Return (lines, expression) for the padded tile; positions outside of the tile hold zero."""
        axes = _two_axes(region) if self.flat else None
        if axes is not None:
            lines, address, mask = self._access(region, axes)
            tail = f", mask={mask}, other=0" if mask else ""
            text = f"tl.reshape(tl.load({address}{tail}), {shape_text(padded_shape(region.tile))})"
            return lines, text
        lines, address, mask = self._access(region)
        if region.fill:
            inside = self.mask(region)
            text = f"tl.load({address}, mask={mask}, other={float_text(region.fill)})"
            return lines, f"tl.where({inside}, {text}, 0)" if inside else text
        if mask:
            return lines, f"tl.load({address}, mask={mask}, other=0)"
        return lines, f"tl.load({address})"

    def store(self, region: Region, value: str) -> list[str]:
        """Return the lines that store the padded tile `value`, clipped to the region."""
        lines, address, mask = self._access(region)
        tail = f", mask={mask}" if mask else ""
        return [*lines, f"tl.store({address}, {value}{tail})"]

    def mask(self, region: Region) -> str:
        """Return the text of `inside the region's extents` for its tile, "" when always true."""
        rank = region.rank
        parts = []
        for d, (extent, tile) in enumerate(zip(region.extent, region.tile, strict=True)):
            if extent != Const(padded(tile)):
                place = along(f"tl.arange(0, {padded(tile)})", d, rank)
                parts.append(f"({place} < {index_text(extent, dict(self.vars), 1)})")
        return " & ".join(parts)

    def line(self, lines: list[str], wanted: str, text: str) -> str:
        """Return the name bound to `text` in an open scope; adds the line that binds it."""
        for scope in self.scopes:
            if text in scope:
                return scope[text]
        name = self.names.fresh(wanted)
        lines.append(f"{name} = {text}")
        self.scopes[-1][text] = name
        return name

    def _access(
        self, region: Region, axes: tuple[int, ...] | None = None
    ) -> tuple[list[str], str, str]:
        """Return lines, address and mask of a region; axes: its dims that the tile has, the others are positions."""
        lines: list[str] = []
        buffer = region.buffer
        kept = tuple(range(region.rank)) if axes is None else axes
        strides = buffer.steps
        reach = buffer.start + sum((n - 1) * s for n, s in zip(buffer.shape, strides, strict=True))
        wide = reach >= _INT32_MAX
        terms, masks = [self.pointers[buffer.name]], []
        if buffer.start:
            terms.append(str(buffer.start))
        for d in range(region.rank):
            stride = strides[d]
            row = self._row(lines, region, d, wide=wide, position=d not in kept)
            limits = [f"({m})" for m in self._limits(region, d, row)]
            place = row
            if d in kept:
                place = along(row, kept.index(d), len(kept))
                limits = [along(m, kept.index(d), len(kept)) for m in limits]
            terms.append(place if stride == 1 else f"{place} * {stride}")
            masks += limits
        return lines, " + ".join(terms), " & ".join(masks)

    def _row(
        self, lines: list[str], region: Region, d: int, *, wide: bool, position: bool = False
    ) -> str:
        offset, step, tile = region.offset[d], region.step[d], region.tile[d]
        if position:
            text = index_text(offset, dict(self.vars))
            return self.line(lines, f"{region.buffer.name}_{d}", text)
        text = f"tl.arange(0, {padded(tile)})"
        if step != 1:
            text += f" * {step}"
        if offset != Const(0):
            text = f"{index_text(offset, dict(self.vars), 1)} + {text}"
        if wide:
            text = f"({text}).to(tl.int64)"
        return self.line(lines, f"{region.buffer.name}_{d}", text)

    def _limits(self, region: Region, d: int, row: str) -> list[str]:
        """Conditions on axis d under which an element belongs to the region."""
        extent, tile, size = region.extent[d], region.tile[d], region.buffer.shape[d]
        offset, step = region.offset[d], region.step[d]
        wide = padded(tile)
        found = []
        if extent != Const(wide):
            if step == 1 and _clipped(extent, tile, size, offset):
                found.append(f"{row} < {size}")
                if wide > tile and not _ends_with(offset, size, tile):
                    found.append(f"tl.arange(0, {wide}) < {tile}")
            else:
                found.append(f"tl.arange(0, {wide}) < {index_text(extent, dict(self.vars), 1)}")
        if region.guard and not (offset == Const(0) and step == 1 and tile <= size):
            found += [f"{row} >= 0", f"{row} < {size}"]
        return list(dict.fromkeys(found))


def _two_axes(region: Region) -> tuple[int, ...] | None:
    """Return the two dims that a tile of more keeps when the others are 1 and whole, None where there are none such."""
    if region.rank < 3 or region.fill:
        return None
    one = [d for d in range(region.rank) if region.tile[d] == 1 and region.extent[d] == Const(1)]
    kept = [d for d in range(region.rank) if d not in one]
    while len(kept) < 2:
        kept = sorted((*kept, one.pop()))
    return tuple(kept) if len(kept) == 2 else None


def _clipped(extent: Expr, tile: int, size: int, offset: Expr) -> bool:
    """True when extent is min(tile, size - offset): the buffer's end is the only reason to clip."""
    if not isinstance(extent, Bin) or extent.op != "min":
        return False
    left = make("-", size, offset)
    return {extent.a, extent.b} == {Const(tile), left}


def _ends_with(offset: Expr, size: int, tile: int) -> bool:
    """True when no position of the buffer lies behind the tile (a single block)."""
    return isinstance(offset, Const) and offset.value + tile >= size


def undefined(shape: tuple[int, ...], dtype: str) -> str:
    """Return text of a tile nobody has written: NaN, or a loud integer."""
    value = 'float("nan")' if dtype in FLOATS else "77"
    return f"tl.full({shape_text(padded_shape(shape))}, {value}, {TL_DTYPE[dtype]})"
