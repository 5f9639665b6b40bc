"""Copy statements as TileLang text: T.copy where its clipping is exact, else a guarded loop.

T.copy moves whole scratch tiles and clips only at the edge of a parameter. It is exact when, for
every iteration, the extent the Program asks for is what that clipping leaves. Otherwise (a tile
edge inside the parameter, a halo, a step, a part of a shared tile) elements are copied one by one
under a condition; what is not copied is filled with 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from septran.backends.text.pystyle import Lines, index_text, safe_name
from septran.backends.tilelang.passes.stage_operands import is_whole_scratch
from septran.backends.tilelang.shapes import Group, Shapes, groups, logical_index, physical_index
from septran.backends.tilelang.spelling import literal
from septran.backends.tilelang.views import Views
from septran.ir.dtypes import is_float
from septran.ir.expr import Const, evaluate, free
from septran.ir.nodes import Copy, Region

ENUMERATION_LIMIT = 20000
"""Iterations checked for exact clipping; with more, only first, last and their neighbours are."""


@dataclass(frozen=True, slots=True)
class CopyEmitter:
    """Writes copies of one kernel. ranges: loop variable -> extent (upper bound, exclusive)."""

    shapes: Shapes
    ranges: Mapping[str, int]
    views: Views

    def emit(self, lines: Lines, copy: Copy) -> None:
        """Append the statement(s) of `copy`."""
        dst, src = copy.dst, copy.src
        if is_whole_scratch(src) and is_whole_scratch(dst):
            self._scratch(lines, dst, src)
        elif is_whole_scratch(dst) and src.buffer.mem == "GLOBAL" and self.is_clip_exact(dst, src):
            lines.add(f"T.copy({self.window(src, dst)}, {safe_name(dst.buffer.name)})")
        elif is_whole_scratch(src) and dst.buffer.mem == "GLOBAL" and self.is_clip_exact(src, dst):
            lines.add(f"T.copy({safe_name(src.buffer.name)}, {self.window(dst, src)})")
        elif is_whole_scratch(dst):
            self._gather(lines, dst, src)
        else:
            self._scatter(lines, dst, src)

    def _scratch(self, lines: Lines, dst: Region, src: Region) -> None:
        if self.shape(dst) == self.shape(src):
            lines.add(f"T.copy({safe_name(src.buffer.name)}, {safe_name(dst.buffer.name)})")
        else:
            self._gather(lines, dst, src)

    def shape(self, region: Region) -> tuple[int, ...]:
        """Return the TileLang shape of a scratch buffer."""
        return self.shapes.of(region.buffer.shape)

    def is_clip_exact(self, tile: Region, window: Region) -> bool:
        """Return whether clipping the padded tile at the parameter's edge gives the extents."""
        if (
            not self.views.is_rows(window)
            or window.guard
            or any(s != 1 for s in window.step)
            or len(tile.tile) != len(window.tile)
        ):
            return False
        sizes = self.shape(tile)
        for group, size in zip(groups(tile.tile), sizes, strict=True):
            carrier = carrying_dim(group)
            if carrier is None and group.dims:
                return False
            for d in group.dims:
                if not self._clips(window, d, size if d == carrier else 1):
                    return False
        return True

    def _clips(self, window: Region, d: int, reach: int) -> bool:
        offset, extent, n = window.offset[d], window.extent[d], window.buffer.shape[d]
        if isinstance(offset, Const) and isinstance(extent, Const):
            return offset.value >= 0 and extent.value == min(reach, n - offset.value)
        names = sorted(free(offset) | free(extent))
        if any(name not in self.ranges for name in names):
            return False
        spans: list[Sequence[int]] = [range(self.ranges[name]) for name in names]
        total = 1
        for span in spans:
            total *= len(span)
        if total > ENUMERATION_LIMIT:
            spans = [sorted({0, 1, len(s) // 2, len(s) - 2, len(s) - 1} & set(s)) for s in spans]
        for values in itertools.product(*spans):
            env = dict(zip(names, values, strict=True))
            at, size = evaluate(offset, env), evaluate(extent, env)
            if size <= 0 and at >= n:
                continue
            if at < 0 or size != min(reach, n - at):
                return False
        return True

    def window(self, region: Region, tile: Region) -> str:
        """Return the parameter's text in a T.copy: start indices, or slices where ranks differ."""
        name = self.views.name(region.buffer)
        sizes = self.shape(tile)
        wide = {
            carrying_dim(group): size for group, size in zip(groups(tile.tile), sizes, strict=True)
        }
        last = tuple(range(len(region.tile) - len(sizes), len(region.tile)))
        if tuple(wide) == last:
            return f"{name}[{', '.join(index_text(o) for o in region.offset)}]"
        parts = []
        for d, o in enumerate(region.offset):
            size = wide.get(d, 1)
            parts.append(f"{index_text(o)}:{index_text(o + size)}")
        return f"{name}[{', '.join(parts)}]"

    def _gather(self, lines: Lines, dst: Region, src: Region) -> None:
        """Dst (whole scratch) <- any region: its fill outside of the array, 0 in the tile's padding."""
        names = ("i", "j")[: len(groups(dst.tile))]
        logical = _aligned(logical_index(dst.tile, names), src)
        test, inside = self._conditions(dst, names, src, logical), self._inside(src, logical)
        dtype = dst.buffer.dtype
        text = self._element(src, logical)
        if dtype != src.buffer.dtype:
            text = f'T.Cast("{dtype}", {text})'
        zero = "False" if dtype == "bool" else f"T.{dtype}(0)"
        if inside and src.fill and is_float(dtype):
            fill = f'T.Cast("{dtype}", {literal(src.fill, "float32")})'
            text = f"T.if_then_else({' & '.join(inside)}, {text}, {fill})"
        else:
            test += inside
        if test:
            text = f"T.if_then_else({' & '.join(test)}, {text}, {zero})"
        extents = ", ".join(str(n) for n in self.shape(dst))
        with lines.block(f"for {', '.join(names)} in T.Parallel({extents}):"):
            lines.add(f"{safe_name(dst.buffer.name)}[{', '.join(names)}] = {text}")

    def _scatter(self, lines: Lines, dst: Region, src: Region) -> None:
        """Dst (any region) <- src, only the elements inside the extents."""
        names = ("i", "j")[: len(groups(src.tile))]
        sizes = (
            self.shape(src)
            if src.buffer.mem != "GLOBAL"
            else tuple(g.extent for g in groups(src.tile))
        )
        here = logical_index(src.tile, names)
        logical = _aligned(here, dst)
        test = self._conditions(src, names, dst, logical) + self._inside(dst, logical)
        text = self._element(src, here)
        if dst.buffer.dtype != src.buffer.dtype:
            text = f'T.Cast("{dst.buffer.dtype}", {text})'
        extents = ", ".join(str(n) for n in sizes)
        with lines.block(f"for {', '.join(names)} in T.Parallel({extents}):"):
            store = f"{self._element(dst, logical)} = {text}"
            if test:
                with lines.block(f"if {' & '.join(test)}:"):
                    lines.add(store)
            else:
                lines.add(store)

    def _conditions(
        self, tile: Region, names: Sequence[str], far: Region, logical: Sequence[str]
    ) -> list[str]:
        """Return what must hold for TileLang index `names` of `tile` to be copied."""
        test = []
        sizes = (
            self.shape(tile)
            if tile.buffer.mem != "GLOBAL"
            else tuple(g.extent for g in groups(tile.tile))
        )
        for name, size, group in zip(names, sizes, groups(tile.tile), strict=True):
            if size != group.extent:
                test.append(f"({name} < {group.extent})")
        for d, (extent, n) in enumerate(zip(far.extent, far.tile, strict=True)):
            if n > 1 and extent != Const(n):
                test.append(f"({logical[d]} < {index_text(extent)})")
        return test

    def _inside(self, far: Region, logical: Sequence[str]) -> list[str]:
        """Return what must hold for a position of a padded window to lie in its array."""
        test = []
        if far.guard:
            for d, n in enumerate(far.buffer.shape):
                at = self._position(far, d, logical)
                if not (far.offset[d] == Const(0) and far.tile[d] == n and far.step[d] == 1):
                    test += [f"({at} >= 0)", f"({at} < {n})"]
        return test

    def _position(self, region: Region, d: int, logical: Sequence[str]) -> str:
        offset, step = region.offset[d], region.step[d]
        at = logical[d] if step == 1 else f"({logical[d]}) * {step}"
        if at == "0":
            return index_text(offset)
        return at if offset == Const(0) else f"{index_text(offset)} + {at}"

    def _element(self, region: Region, logical: Sequence[str]) -> str:
        buffer = region.buffer
        where = [self._position(region, d, logical) for d in range(len(region.tile))]
        if buffer.mem != "GLOBAL":
            index: Sequence[str] = physical_index(buffer.shape, where)
            return f"{safe_name(buffer.name)}[{', '.join(index)}]"
        return f"{self.views.name(buffer)}[{', '.join(self.views.at(buffer, where))}]"


def carrying_dim(group: Group) -> int | None:
    """Return the one dim of a group that varies (its last when all are 1), None when several do."""
    wide = [d for d, n in zip(group.dims, group.sizes, strict=True) if n > 1]
    if len(wide) > 1 or not group.dims:
        return None
    return wide[0] if wide else group.dims[-1]


def _aligned(logical: Sequence[str], region: Region) -> tuple[str, ...]:
    """Return positions for a region of another rank: size-1 dims are added or dropped."""
    rank = len(region.tile)
    if len(logical) == rank:
        return tuple(logical)
    moving = [text for text in logical if text != "0"]
    return tuple([moving.pop(0) if n > 1 and moving else "0" for n in region.tile])
