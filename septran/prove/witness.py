"""An instance that breaks a rule, as numbers a person can read."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from septran.ir.expr import evaluate
from septran.ir.nodes import Buffer
from septran.prove.certificate import Finding, Tile
from septran.prove.sets import Access, Model, Statement

if TYPE_CHECKING:
    import islpy as isl

At = tuple[tuple[str, int], ...]


def sample(found: isl.Set | isl.Map, names: tuple[str, ...]) -> At:
    """Return one member as (name, value); `names` name its tuple dimensions from the left, then sizes follow."""
    import islpy as isl

    flat = found.wrap() if isinstance(found, isl.Map) else found
    point = flat.lexmin().sample_point()
    space = point.get_space()
    values: list[tuple[str, int]] = []
    for k in range(space.dim(isl.dim_type.param)):
        name = space.get_dim_name(isl.dim_type.param, k)
        values.append((name, _value(point, isl.dim_type.param, k)))
    count = min(len(names), space.dim(isl.dim_type.set))
    values += [(names[k], _value(point, isl.dim_type.set, k)) for k in range(count)]
    return tuple(values)


def _value(point: isl.Point, kind: isl.dim_type, at: int) -> int:
    return int(point.get_coordinate_val(kind, at).to_python())


def finding(
    model: Model,
    code: str,
    text: str,
    broken: isl.Set | isl.Map,
    *who: Statement,
    extra: tuple[str, ...] = (),
    of: tuple[Access, ...] = (),
) -> Finding:
    """Return the finding whose witness is a member of `broken`.

    who: the statements whose instances span the tuples of `broken`. extra: names of dimensions after theirs. of: the operand of each that it is about.
    """
    names: list[str] = []
    for n, s in enumerate(who):
        names += [v + "'" * n for v in s.vars]
    at = sample(broken, (*names, *extra))
    tiles = drawn(model, at, *who, of=of)
    element = _element(tiles)
    if not element and len(tiles) == len(of) == 2:
        element = _shared(model, tiles, of)
    return Finding(
        code=code,
        text=text,
        statements=tuple(describe(s) for s in who),
        at=at,
        places=tuple(s.span for s in who if s.span is not None),
        tiles=tiles,
        element=element,
    )


def drawn(model: Model, at: At, *who: Statement, of: tuple[Access, ...] = ()) -> tuple[Tile, ...]:
    """Return what statements touch at a witness: operand `of` of each, else the buffers that all of them touch.

    Primed names in `at` are the second statement's.
    """
    found: list[Tile] = []
    for n, s in enumerate(who):
        others = [{a.region.buffer.name for a in o.accesses} for o in who if o is not s]
        env = {v: x for v in s.vars for name, x in at if name == v + "'" * n}
        env |= {d.name: x for d in model.dims for name, x in at if name == d.name}
        loops = ", ".join(f"{v} = {env[v]}" for v in s.vars if v in env)
        for a in s.accesses:
            shared = all(a.region.buffer.name in touched for touched in others)
            if a is of[n] if of else shared:
                with suppress(KeyError):  # the witness leaves a loop open
                    found.append(_tile(model, a, env, f"{describe(s)} at {loops}".strip(" at")))
    return tuple(found)


def _tile(model: Model, a: Access, env: dict[str, int], statement: str) -> Tile:
    r = a.region
    sizes = None if r.buffer.strides else model.shapes.get(r.buffer.name)
    shape = r.buffer.shape if sizes is None else tuple(evaluate(e, env) for e in sizes)
    return Tile(
        statement=statement,
        does="writes" if a.mode == "w" else "reads",
        buffer=_seen(r.buffer),
        shape=shape,
        offset=tuple(evaluate(e, env) for e in r.offset),
        extent=tuple(evaluate(e, env) for e in r.extent),
        step=r.step,
    )


def _seen(buffer: Buffer) -> str:
    """Return a buffer's name, and how it is seen where that is another layout."""
    if not buffer.strides:
        return buffer.name
    steps = ", ".join(map(str, buffer.strides))
    return f"{buffer.name} seen by strides {steps} from {buffer.start}"


def _shared(model: Model, tiles: tuple[Tile, ...], of: tuple[Access, ...]) -> tuple[int, ...]:
    """Return the first index of the first tile's buffer whose element the second touches, too, in another layout."""
    if of[0].region.buffer.name not in model.radixes:
        return ()
    maps = []
    for t, a in zip(tiles, of, strict=True):
        xs = [f"x_{d}" for d in range(len(t.shape))]
        conds = [
            f"{o} <= {x} < {o + n * step} and ({x} - {o}) mod {step} = 0"
            for x, o, n, step in zip(xs, t.offset, t.extent, t.step, strict=True)
        ]
        cells = model.cells(replace(a.region, version=None), xs)
        maps.append(model.map(f"[{', '.join(xs)}] -> {cells} : {' and '.join(conds) or 'true'}"))
    met = maps[0].intersect_range(maps[1].range()).domain()
    if met.is_empty():
        return ()
    names = tuple(f"x_{d}" for d in range(len(tiles[0].shape)))
    return tuple(value for name, value in sample(met, names) if name in names)


def _element(tiles: tuple[Tile, ...]) -> tuple[int, ...]:
    """Return the first position outside its buffer, else the first that two tiles of a buffer share."""
    for t in tiles:
        last = tuple(
            o + s * max(0, n - 1) for o, s, n in zip(t.offset, t.step, t.extent, strict=True)
        )
        for corner in (t.offset, last):
            if any(not 0 <= x < n for x, n in zip(corner, t.shape, strict=True)):
                return corner
    for at, a in enumerate(tiles):
        for b in tiles[at + 1 :]:
            if a.buffer == b.buffer and a.statement != b.statement and (meet := _meet(a, b)):
                return meet
    return ()


def _meet(a: Tile, b: Tile) -> tuple[int, ...]:
    axes = [
        range(t.offset[d], t.offset[d] + t.step[d] * t.extent[d], t.step[d])
        for t in (a, b)
        for d in range(len(a.shape))
    ]
    pairs = zip(axes[: len(a.shape)], axes[len(a.shape) :], strict=True)
    first = [next((x for x in one if x in other), None) for one, other in pairs]
    return tuple(x for x in first if x is not None) if None not in first else ()


def describe(s: Statement) -> str:
    """Return a statement as people read it: its label without the call's number, and its loops."""
    label = s.label.split("_", 1)[1] if s.kind == "leaf" else s.label
    return f"{label}[{', '.join(s.vars)}]" if s.vars else label
