"""Rule `data`: every leaf operand and every output holds what the logic says it holds.

Exact dataflow on elements: each element of each leaf operand is traced back through copies to a leaf's
result or to an element of an input. The same is done for the reference, the same logic and tiles with all
memories taken out. Leaves being functions of their operands, equal maps mean equal results.
Source: array dataflow analysis (Feautrier 1991); equivalence of affine programs by dependences
(Verdoolaege, Janssens, Bruynooghe, TOPLAS 2012).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from septran.ir import nodes as ir
from septran.prove.certificate import Finding, Tile
from septran.prove.sets import DirectFlow, Model, Statement, affine
from septran.prove.witness import describe, drawn, sample

if TYPE_CHECKING:
    import islpy as isl

BORDER = "BORDER"
"""what guarded regions read outside their buffers: elements are the bits of a number"""
_LONGEST_CHAIN = 16
"""copies in a row that a value may pass through"""


@dataclass(frozen=True, slots=True)
class Flow:
    """origin: element of a leaf operand or an output -> where its value comes from. undefined: read unset."""

    origin: isl.UnionMap
    undefined: isl.UnionMap


def same_data(model: Model, reference: Model) -> Iterator[Finding]:
    """Yield what breaks the rule (P050): another leaf, extent, scalar, origin, or a read of nothing."""
    different = list(_calls(model, reference))
    if different:
        yield from different
        return
    mine, theirs = flow(model), flow(reference)
    for found in (mine, theirs):
        for name, bad in sorted(_by_tuple(found.undefined).items()):
            yield _at_operand(
                model, name, bad, f"{_operand(model, name)} is read before anything wrote it"
            )
    if mine.origin.is_equal(theirs.origin):
        return
    yield from _differences(model, mine, theirs)


def _differences(model: Model, mine: Flow, theirs: Flow) -> Iterator[Finding]:
    a, b = by_pair(mine.origin), by_pair(theirs.origin)
    for pair in sorted(a.keys() | b.keys()):
        sink, source = pair
        here, there = a.get(pair), b.get(pair)
        if here is not None and there is not None and here.get_space().is_equal(there.get_space()):
            wrong = here.subtract(there)
            lost = there.subtract(here)
        else:
            wrong, lost = here, there
        if wrong is not None and not wrong.is_empty():
            text = f"{_operand(model, sink)} holds {_source(model, source)}, the logic has other data there"
            yield _at_operand(model, sink, wrong, text)
        elif lost is not None and not lost.is_empty():
            text = f"{_operand(model, sink)} should hold {_source(model, source)} and does not"
            yield _at_operand(model, sink, lost, text)


@dataclass(frozen=True, slots=True)
class Read:
    """origin: (operand, source) -> element of the operand -> where its value comes from; of an input, the index as it is read.

    views: source -> the buffer, perhaps another view of an array, that its index is of.
    """

    origin: Mapping[tuple[str, str], isl.Map]
    views: Mapping[str, ir.Buffer]


def flow(model: Model) -> Flow:
    """Return where the value of every operand element comes from."""
    origin, undefined, hops = _direct(model)
    return Flow(origin=_through(origin, hops).coalesce(), undefined=undefined)


def as_read(model: Model) -> Read:
    """Return `flow`'s origin with the index that inputs are read at, border included, instead of the array's element."""
    origin, _, hops = _direct(model)
    heads = {
        f"{tag_of(s)}__{a.operand}_{a.mode}": (s, a) for s in model.statements for a in s.accesses
    }
    views: dict[str, ir.Buffer] = {}
    found: list[isl.Map] = []
    for (sink, source), m in by_pair(origin).items():
        if not source.startswith("IN__") or sink not in heads:
            found.append(m)
            continue
        s, a = heads[sink]
        buffer = a.region.buffer
        same = [name for name, view in views.items() if view == buffer]
        name = same[0] if same else f"IN__{buffer.name}__{len(views)}"
        views[name] = buffer
        head, conds = _positions(model, s, sink, a.region)
        index = model.map(f"{head} -> {name}[{', '.join(index_of(a.region))}] : {conds}")
        found.append(index.intersect_domain(m.domain()))
    return Read(origin=by_pair(_through(join(found), hops).coalesce()), views=views)


def _direct(model: Model) -> DirectFlow:
    """Return (operand -> who wrote it last, operands that nobody wrote, copies' results -> what they copy), computed once."""
    if model.direct_flow is None:
        model.direct_flow = _compute(model)
    return model.direct_flow


def _compute(model: Model) -> DirectFlow:
    import islpy as isl

    sinks: list[isl.Map] = []
    sources: list[isl.Map] = []
    times: list[isl.Map] = []
    hops: list[isl.Map] = []
    for s in model.statements:
        if s.kind not in ("copy", "leaf"):
            continue
        tag = tag_of(s)
        for a in s.accesses:
            head, conds = _positions(model, s, f"{tag}__{a.operand}_{a.mode}", a.region)
            at = index_of(a.region)
            inside = ""
            if out := model.outside(a.region, at):
                inside = f" and not ({out})"
                border = f"{BORDER}_[{_bits(a.region.fill)}]"
                sinks.append(model.map(f"{head} -> {border} : {conds} and ({out})"))
            where = model.map(f"{head} -> {model.cells(a.region, at)} : {conds}{inside}")
            (sinks if a.mode == "r" else sources).append(where)
            phase = 0 if a.mode == "r" else 1
            times.append(model.map(f"{head} -> [{model.time(s, phase)}] : {conds}"))
        if s.kind == "copy":
            _, conds = _positions(model, s, tag, s.accesses[0].region)
            inner = ", ".join([*s.vars, *_at_names(s.accesses[0].region)])
            hops.append(model.map(f"{tag}__dst_w[{inner}] -> {tag}__src_r[{inner}] : {conds}"))
    _boundary(model, sinks, sources, times)
    info = isl.UnionAccessInfo.from_sink(join(sinks))
    info = info.set_must_source(join(sources)).set_schedule_map(join(times))
    found = info.compute_flow()
    origin = found.get_must_dependence().reverse()
    return origin, found.get_must_no_source().coalesce(), hops


def _boundary(
    model: Model, sinks: list[isl.Map], sources: list[isl.Map], times: list[isl.Map]
) -> None:
    """Inputs and the numbers around them are written before everything, outputs read after everything."""
    given = [(f"{BORDER}[v]", f"{BORDER}_[v]")]
    last = 1 + max((s.path[0] for s in model.statements if isinstance(s.path[0], int)), default=0)
    for p in model.program.params:
        at, conds = model.elements(p.buffer.name, "p")
        element = f"{p.buffer.name}_[{', '.join(['0', *at])}]"
        if "w" in p.privilege:
            head = f"OUT__{p.buffer.name}[{', '.join(at)}]"
            sinks.append(model.map(f"{head} -> {element} : {conds}"))
            zero = ", ".join([str(last), *["0"] * model.depth])
            times.append(model.map(f"{head} -> [{zero}] : {conds}"))
        if "r" in p.privilege:
            given.append((f"{p.buffer.name}[{', '.join(at)}]", element))
    for name, element in given:
        sources.append(model.map(f"IN__{name} -> {element}"))
        times.append(model.map(f"IN__{name} -> [{', '.join(['-1', *['0'] * model.depth])}]"))


def _through(origin: isl.UnionMap, hops: list[isl.Map]) -> isl.UnionMap:
    """Follow values through copies, and drop the copies' own operands."""
    if not hops:
        return origin
    hop = join(hops)
    step = hop.apply_range(origin)
    for _ in range(_LONGEST_CHAIN):
        moved = origin.apply_range(step)
        if moved.is_empty():
            return origin.subtract_domain(hop.range())
        origin = origin.subtract_range(hop.domain()).union(moved)
    raise AssertionError(f"a value passes through more than {_LONGEST_CHAIN} copies")


def tag_of(s: Statement) -> str:
    """Return what the tuples of a statement's operands begin with."""
    return s.label.split("_", 1)[0] if s.kind == "leaf" else s.name


def _at_names(region: ir.Region) -> list[str]:
    return [f"p_{d}" for d in range(region.rank)]


def _positions(model: Model, s: Statement, name: str, region: ir.Region) -> tuple[str, str]:
    at = _at_names(region)
    inside = [f"0 <= {p} < {affine(e)}" for p, e in zip(at, region.extent, strict=True)]
    return f"{name}[{', '.join([*s.vars, *at])}]", " and ".join([model.when(s), *inside])


def index_of(region: ir.Region) -> list[str]:
    """Return the index, in its buffer, of position p_0, p_1.. of a region."""
    return [
        f"{affine(o)} + {step} * {p}"
        for o, step, p in zip(region.offset, region.step, _at_names(region), strict=True)
    ]


def _bits(value: float) -> int:
    return int.from_bytes(struct.pack("<f", value), "little")


def join(maps: Iterable[isl.Map]) -> isl.UnionMap:
    """Return all of the maps as one."""
    import islpy as isl

    joined = isl.UnionMap("{ }")
    for m in maps:
        joined = joined.union(isl.UnionMap.from_map(m))
    return joined


def by_pair(u: isl.UnionMap) -> dict[tuple[str, str], isl.Map]:
    """Return the maps of a union by the names of their tuples."""
    import islpy as isl

    found: dict[tuple[str, str], isl.Map] = {}

    def one(m: isl.Map) -> None:
        key = (m.get_tuple_name(isl.dim_type.in_), m.get_tuple_name(isl.dim_type.out))
        found[key] = m

    u.foreach_map(one)
    return found


def _by_tuple(u: isl.UnionMap) -> dict[str, isl.Map]:
    return {sink: m for (sink, _), m in by_pair(u).items()}


def _statement(model: Model, tuple_name: str) -> tuple[Statement | None, str]:
    tag, _, operand = tuple_name.partition("__")
    found = next((s for s in model.statements if s.accesses and tag_of(s) == tag), None)
    return found, operand


def _operand(model: Model, tuple_name: str) -> str:
    s, operand = _statement(model, tuple_name)
    if s is None:
        return f"output {operand}"
    return f"operand {operand.rpartition('_')[0]} of {describe(s)}"


def _source(model: Model, tuple_name: str) -> str:
    s, operand = _statement(model, tuple_name)
    if s is None:
        return "the border's number" if operand == BORDER else f"elements of input {operand}"
    return f"the result {operand.rpartition('_')[0]} of {describe(s)}"


def _at_operand(model: Model, tuple_name: str, broken: isl.Map, text: str) -> Finding:
    """Return the finding about one element of an operand, with the operand's tile."""
    s, operand = _statement(model, tuple_name)
    names = s.vars if s is not None else ()
    rank = broken.domain().get_space().dim(_set_dim()) - len(names)
    label = operand if s is None else operand.rpartition("_")[0]
    at = sample(broken.domain(), (*names, *(f"{label}[{d}]" for d in range(rank))))
    position = tuple(x for _, x in at[len(at) - rank :])
    if s is None:
        position = model.index(operand, position)
        at = (*at[: len(at) - rank], *((f"{operand}[{d}]", x) for d, x in enumerate(position)))
        shape = model.buffers[operand].shape if operand not in model.shapes else ()
        one = (1,) * len(shape)
        whole = (
            Tile(
                statement="the kernel's end",
                does="reads",
                buffer=operand,
                shape=shape,
                offset=(0,) * len(shape),
                extent=shape,
                step=one,
            ),
        )
        return Finding(
            code="P050", text=text, at=at, tiles=whole if shape else (), element=position
        )
    of = next(a for a in s.accesses if f"{a.operand}_{a.mode}" == operand)
    tiles = drawn(model, at, s, of=(of,))
    element = tuple(
        o + step * p for t in tiles for o, step, p in zip(t.offset, t.step, position, strict=True)
    )
    places = () if s.span is None else (s.span,)
    return Finding(
        code="P050",
        text=text,
        statements=(describe(s),),
        at=at,
        places=places,
        tiles=tiles,
        element=element,
    )


def _set_dim() -> isl.dim_type:
    import islpy as isl

    return isl.dim_type.set


def _calls(model: Model, reference: Model) -> Iterator[Finding]:
    """Yield differences between the leaf calls of the two: task, meaning, iterations, scalars, extents."""
    mine = [s for s in model.statements if s.kind == "leaf"]
    theirs = [s for s in reference.statements if s.kind == "leaf"]
    if len(mine) != len(theirs):
        yield Finding(code="P050", text=f"{len(mine)} leaf calls, the logic has {len(theirs)}")
        return
    for a, b in zip(mine, theirs, strict=True):
        assert isinstance(a.stmt, ir.LeafCall) and isinstance(b.stmt, ir.LeafCall)
        if (a.stmt.task, a.stmt.prims) != (b.stmt.task, b.stmt.prims):
            yield _differs(a, f"stands where the logic has {describe(b)}")
            continue
        for (name, x), (_, y) in zip(a.stmt.scalars, b.stmt.scalars, strict=True):
            if not _same_scalar(model, reference, a, b, x, y):
                yield _differs(a, f"gets another value for {name} than in the logic")
        for p, q in zip(a.stmt.args, b.stmt.args, strict=True):
            f, g = _extent(model, a, p.region), _extent(reference, b, q.region)
            if not f.get_space().is_equal(g.get_space()) or not f.is_equal(g):
                yield _differs(
                    a,
                    f"runs in other iterations than in the logic, or on another extent of {p.param}",
                )


def _differs(s: Statement, how: str) -> Finding:
    places = (s.span,) if s.span is not None else ()
    return Finding(code="P050", text=f"{describe(s)} {how}", places=places)


def _same_scalar(
    model: Model, reference: Model, a: Statement, b: Statement, x: ir.Scalar, y: ir.Scalar
) -> bool:
    if isinstance(x, float) or isinstance(y, float):
        return x == y
    values = (
        m.map(f"X[{', '.join(s.vars)}] -> [{affine(e)}] : {m.when(s)}")
        for m, s, e in ((model, a, x), (reference, b, y))
    )
    f, g = values
    return bool(f.is_equal(g))


def _extent(model: Model, s: Statement, region: ir.Region) -> isl.Set:
    head, conds = _positions(model, s, "X", region)
    return model.set(f"{head} : {conds}")
