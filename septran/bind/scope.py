"""Evaluate symbolic sizes and views of a traced task against one chain of mapping instances."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from septran.bind.layout import NO_TAINT, Bound, Taint, laid
from septran.errors import MappingError, TaskLangError
from septran.ir.expr import Const, Expr, Var, bounds, cdiv, const, make, minimum
from septran.ir.nodes import Region
from septran.mapping.schema import Instance, Tune
from septran.tasklang import values


@dataclass(frozen=True, slots=True)
class Size:
    """A size: static upper bound, run-time value, and the tunables it comes from."""

    bound: int
    expr: Expr
    taint: Taint = NO_TAINT


Value = Bound | Size | float


@dataclass(slots=True)
class Probe:
    """What tunables are used for, gathered while binding (for policies)."""

    extents: dict[str, int] = field(default_factory=dict)
    """tunable -> the largest extent it cuts."""

    def cut(self, taint: Taint, extent: int) -> None:
        """Note that a size tainted by tunables cuts a dimension of `extent`."""
        for name in taint:
            self.extents[name] = max(self.extents.get(name, 1), extent)


@dataclass(slots=True)
class Scope:
    """One task body being bound.

    chain: instances from the entry to here (nearest last). env: parameters and locals. index: loop
    variable -> expression. ranges: inclusive range of each expression variable.
    """

    chain: tuple[Instance, ...]
    env: dict[str, Value]
    index: dict[str, Expr]
    ranges: dict[str, tuple[int, int]]
    missing: Callable[[str, values.Tunable | None], int | None]
    probe: Probe

    def child(self, index: Mapping[str, Expr], ranges: Mapping[str, tuple[int, int]]) -> Scope:
        """Return the scope of a loop body (locals made there stay there)."""
        return Scope(
            chain=self.chain,
            env=dict(self.env),
            index={**self.index, **index},
            ranges={**self.ranges, **ranges},
            missing=self.missing,
            probe=self.probe,
        )

    def tunable(self, name: str, asked: values.Tunable | None = None) -> int:
        """Return the value of a tunable: the nearest instance's, else the policy's, else its default."""
        for instance in reversed(self.chain):
            if name in instance.tunables:
                value = instance.tunables[name]
                span = instance.span("tunables", name)
                if isinstance(value, Tune):
                    raise MappingError.of(
                        "M090",
                        f"{instance.name}: {name} is still !tune {value.kind}",
                        span,
                        help="pick one of " + ", ".join(map(str, value.values[:8])),
                    )
                if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                    raise MappingError.of(
                        "M021",
                        f"tunable {name} = {value!r} in instance {instance.name!r}; "
                        "must be a positive int",
                        span,
                    )
                return value
        found = self.missing(name, asked)
        if found is not None:
            return found
        if asked is not None and asked.default is not None:
            return asked.default
        callers = [i.name for i in self.chain[:-1]]
        raise MappingError.of(
            "M020",
            f"tunable {name!r} has no value in instance {self.chain[-1].name!r} "
            f"or its callers {callers}",
            self.chain[-1].key_span("tunables"),
            notes=() if asked is None or asked.span is None else (f"asked for at {asked.span}",),
            help=f"add tunables: {{{name}: ...}} to one of them",
        )

    def size(self, value: values.SymInt) -> Size:
        """Return a symbolic integer's bound, expression and taint."""
        match value:
            case values.Lit():
                return Size(value.value, Const(value.value))
            case values.LoopVar():
                expr = self.index[value.name]
                return Size(bounds(expr, self.ranges)[1], expr)
            case values.Tunable():
                n = self.tunable(value.name, value)
                return Size(n, Const(n), frozenset((value.name,)))
            case values.DimOf():
                view = self.view(value.view)
                d = value.axis
                return Size(view.region.tile[d], view.region.extent[d], view.taints[d])
            case values.GridOf():
                base = self.view(value.partition.base)
                count = self._counts(value.partition, base)[value.axis]
                return Size(bounds(count, self.ranges)[1], count)
            case values.SymScalar():
                found = self.env[value.name]
                assert isinstance(found, Size)
                return found
            case values.Arith():
                a, b = self.size(value.a), self.size(value.b)
                if value.op in ("//", "%") and bounds(b.expr, self.ranges)[0] < 1:
                    raise TaskLangError.of(
                        "E136",
                        f"{values.sym_text(value)} divides by a number that is not at least 1",
                    )
                expr = make(value.op, a.expr, b.expr)
                high = bounds(expr, self.ranges)[1]
                if value.op in ("+", "*", "min", "max"):
                    static = make(value.op, a.bound, b.bound)
                    assert isinstance(static, Const)
                    high = min(high, static.value) if value.op != "max" else high
                return Size(high, expr, a.taint | b.taint)
        raise TypeError(value)

    def view(self, view: values.View) -> Bound:
        """Return the region a view denotes."""
        match view:
            case values.SymTensor():
                found = self.env[view.name]
                assert isinstance(found, Bound)
                return found
            case values.Shift():
                return self._shift(view)
            case values.Laid():
                sizes = [self.size(values.lift(v)) for v in view.values]
                return laid(view, self.view(view.base), [(s.bound, s.expr) for s in sizes])
            case values.Piece() if view.partition.by == "halo":
                return self._halo(view)
            case values.Piece():
                return self._piece(view)
        raise TypeError(view)

    def _shift(self, view: values.Shift) -> Bound:
        base = self.view(view.base)
        sizes = [self.size(d) for d in view.dims]
        r = base.region
        offset = tuple(
            o + self.size(s).expr * st
            for o, s, st in zip(r.offset, view.offset, r.step, strict=True)
        )
        region = Region(
            buffer=r.buffer,
            offset=offset,
            extent=tuple(s.expr for s in sizes),
            tile=tuple(s.bound for s in sizes),
            step=tuple(a * b for a, b in zip(r.step, view.stride, strict=True)),
            grid=(0,) * r.rank,
            guard=r.guard,
            fill=r.fill,
        )
        return Bound(region, base.root, tuple(s.taint for s in sizes))

    def tiles(self, p: values.Partition, base: Bound) -> list[tuple[int, Taint]]:
        """Return the static tile size per axis (not yet clipped to the base) and its taint.

        Raises:
            TaskLangError: E118 for a size below 1.
        """
        found = self._tiles(p, base)
        for size, _ in found:
            self._positive(p, size, "sizes")
        return found

    def _positive(self, p: values.Partition, size: int, what: str) -> None:
        if size < 1:
            raise TaskLangError.of(
                "E118",
                f"{what} of the partition of {values.view_text(p.base)} are at least 1, found {size}",
                p.span,
            )

    def _tiles(self, p: values.Partition, base: Bound) -> list[tuple[int, Taint]]:
        whole = list(zip(base.region.tile, base.taints, strict=True))
        if p.by == "grid":
            assert p.parts is not None
            cut = [self.size(q) for q in p.parts]
            for q in cut:
                self._positive(p, q.bound, "parts")
            return [(-(-t // q.bound), q.taint) for (t, _), q in zip(whole, cut, strict=True)]
        if p.sizes is not None:
            found = []
            for size, here in zip(p.sizes, whole, strict=True):
                if size is None:
                    found.append(here)
                else:
                    s = self.size(size)
                    # a piece of a piece is still what a tunable cut before
                    found.append((s.bound, s.taint or here[1]))
            return found
        key = p.shape_from or base.root
        for instance in reversed(self.chain):
            if key in instance.tiles:
                sizes = instance.tiles[key]
                if len(sizes) != len(whole):
                    raise MappingError.of(
                        "M022",
                        f"{instance.name}: tiles of {key} has {len(sizes)} entries; "
                        f"{base.root} has {len(whole)} dims",
                        instance.key_span("tiles", key),
                    )
                return [
                    (w if s is None else s, NO_TAINT)
                    for s, (w, _) in zip(sizes, whole, strict=True)
                ]
        block = self.tunable("block_size")
        return [(block, frozenset(("block_size",)))] * len(whole)

    def _counts(self, p: values.Partition, base: Bound) -> list[Expr]:
        """Return the number of pieces per axis."""
        tiles = self.tiles(p, base)
        if p.by == "halo":
            return [
                cdiv(n.expr, min(t, n.bound))
                for n, (t, _) in zip(
                    self._positions(p, base), self._halo_tiles(p, base), strict=True
                )
            ]
        found = []
        for (t, taint), tile, ext in zip(tiles, base.region.tile, base.region.extent, strict=True):
            self.probe.cut(taint, tile)
            found.append(cdiv(ext, min(t, tile)) if t < tile else const(1))
        return found

    def _piece(self, view: values.Piece) -> Bound:
        p = view.partition
        base = self.view(p.base)
        r = base.region
        offset, extent, tile, grid, taints = [], [], [], [], []
        for d, ((t, taint), index) in enumerate(zip(self.tiles(p, base), view.index, strict=True)):
            b = min(t, r.tile[d])
            self.probe.cut(taint, r.tile[d])
            if index is None or b == r.tile[d]:
                at = Const(0) if index is None else self.size(index).expr * b
                offset.append(r.offset[d] + at * r.step[d])
                extent.append(r.extent[d])
                tile.append(r.tile[d])
                grid.append(b if index is None and b < r.tile[d] else 0)
                taints.append(taint if b == t or index is not None else base.taints[d])
                continue
            at = self.size(index).expr * b
            offset.append(r.offset[d] + at * r.step[d])
            whole = r.tile[d] % b == 0 and r.extent[d] == Const(r.tile[d])
            extent.append(Const(b) if whole else minimum(b, r.extent[d] - at))
            tile.append(b)
            grid.append(0)
            taints.append(taint)
        region = _cut(r, offset, extent, tile, grid)
        return Bound(region, base.root, tuple(taints))

    def _positions(self, p: values.Partition, base: Bound) -> list[Size]:
        """Return the number of output positions per axis, from the base's extents."""
        reach = [(w - 1) * d + 1 for w, d in zip(p.window, p.dilation, strict=True)]
        r = base.region
        return [
            Size((n + 2 * q - h) // s + 1, (e + (2 * q - h)) // s + 1)
            for n, e, q, h, s in zip(r.tile, r.extent, p.pad, reach, p.stride, strict=True)
        ]

    def _halo_tiles(self, p: values.Partition, base: Bound) -> list[tuple[int, Taint]]:
        positions = [n.bound for n in self._positions(p, base)]
        if min(positions) < 1:
            raise TaskLangError.of(
                "E135",
                f"the window {list(p.window)} does not fit {values.view_text(p.base)} "
                f"{list(base.region.tile)} with padding {list(p.pad)}",
                p.span,
            )
        if p.sizes is None:
            return [(n, NO_TAINT) for n in positions]
        found = []
        for size, n in zip(p.sizes, positions, strict=True):
            if size is None:
                found.append((n, NO_TAINT))
            else:
                s = self.size(size)
                self._positive(p, s.bound, "sizes")
                found.append((s.bound, s.taint))
        return found

    def _halo(self, view: values.Piece) -> Bound:
        p = view.partition
        base = self.view(p.base)
        r = base.region
        offset, extent, tile, taints = [], [], [], []
        rows = zip(self._halo_tiles(p, base), self._positions(p, base), strict=True)
        for d, ((t, taint), n) in enumerate(rows):
            b = min(t, n.bound)
            self.probe.cut(taint, n.bound)
            index = view.index[d]
            first = (Const(0) if index is None else self.size(index).expr) * b
            whole = n.bound % b == 0 and n.expr == Const(n.bound)
            if p.sizes is None or p.sizes[d] is None:
                count = n.expr
            else:
                count = Const(b) if whole else minimum(b, n.expr - first)
            reach = (p.window[d] - 1) * p.dilation[d] + 1
            offset.append(r.offset[d] + first * p.stride[d] - p.pad[d])
            extent.append((count - 1) * p.stride[d] + reach)
            tile.append((b - 1) * p.stride[d] + reach)
            taints.append(taint)
        region = _cut(replace(r, guard=any(p.pad), fill=p.fill), offset, extent, tile, [0] * r.rank)
        return Bound(region, base.root, tuple(taints))


def _cut(
    region: Region, offset: list[Expr], extent: list[Expr], tile: list[int], grid: list[int]
) -> Region:
    """Return another part of the buffer of `region`, with its steps."""
    return replace(
        region, offset=tuple(offset), extent=tuple(extent), tile=tuple(tile), grid=tuple(grid)
    )


def loop_var(name: str) -> Expr:
    """Return the expression of a loop variable."""
    return Var(name)
