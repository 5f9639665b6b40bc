"""One launch of somebody's kernel as accesses, and whether it stays in bounds and free of races (P110, P130).

Who runs is told by coordinates: groups (blocks, programs) that nothing orders, and members of a group (threads, lanes)
that barriers order. An access is exact when text and launch say all of it; a breach that only inexact accesses show
is no finding but a reason for which the rule is not proven.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from septran.errors import Span
from septran.prove.certificate import Finding
from septran.prove.foreign.quantity import Number, Space, TooHard

if TYPE_CHECKING:
    import islpy as isl

RULES = ("bounds", "races")
Mode = Literal["load", "store", "atomic"]
_DOES: Mapping[str, str] = {"load": "loads", "store": "stores", "atomic": "adds to"}


class NotRead(Exception):
    """The text says something from which no statement can be made."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"line {line}: {what}")
        self.line, self.what = line, what


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """An array; name: for people. size: elements, None unknown. shared: by "all", by a "group", or "own" of a member."""

    name: str
    size: int | None
    shared: Literal["all", "group", "own"] = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """One access as it stands in the text.

    at: first element as a function of the place, None unknown. width: elements. when: where it may run;
    exact: it does run there. why: what makes `at` or `when` unknown. phase: barriers of the group before it, None
    unknown. loops: those around it, (which, coordinate). order: place in the text as it runs. value: what is stored, where a number.
    varies: coordinates of lanes for which what is stored differs.
    """

    memory: str
    mode: Mode
    at: Number
    when: isl.Set
    line: int
    order: int
    exact: bool = True
    why: str = ""
    width: int = 1
    phase: Number = 0
    loops: tuple[tuple[int, str], ...] = ()
    value: Number = None
    varies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What one launch does. members: "threads", which barriers order, or "lanes", whose loads come after their stores.

    unread: (line, what) that could touch memory and was not read. group, member: what people call them.
    device: its memories cannot be reached from where it runs. around: coordinates of loops around the launch, whose rounds are ordered. warps: extents of a group whose warps are ordered by more than the group's barriers.
    """

    kernel: str
    file: str
    space: Space
    groups: tuple[str, ...]
    members: tuple[str, ...]
    memories: Mapping[str, Memory]
    touches: tuple[Touch, ...]
    unread: tuple[tuple[int, str], ...] = ()
    group: str = "block"
    member: str = "thread"
    lanes: bool = False
    warps: tuple[int, ...] = ()
    around: tuple[str, ...] = ()
    device: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What is proven, what is refused, and rule -> why not."""

    proved: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    not_proven: Mapping[str, str] = field(default_factory=dict)


def prove_launches(launches: Sequence[Launch]) -> Proof:
    """Return the proof for all launches together: a rule is proved if it is for each."""
    findings: list[Finding] = []
    missing: dict[str, str] = {}
    for launch in launches:
        if launch.device:
            return Proof(findings=(_reached(launch),))
        for rule, decide in (("bounds", bounds), ("races", races)):
            if any(f.code == _CODE[rule] for f in findings):
                continue
            try:
                for found in decide(launch):
                    if isinstance(found, Finding):
                        findings.append(found)
                        break
                    missing.setdefault(rule, found)
            except TooHard as e:
                missing.setdefault(rule, f"{launch.kernel}: it cannot be decided here: {e}")
    refused = {rule for rule in RULES if any(f.code == _CODE[rule] for f in findings)}
    missing = {rule: why for rule, why in missing.items() if rule not in refused}
    proved = tuple(r for r in RULES if launches and r not in refused and r not in missing)
    return Proof(proved=proved, findings=tuple(findings), not_proven=missing)


def _reached(launch: Launch) -> Finding:
    first = launch.touches[0]
    name = launch.memories[first.memory].name
    return Finding(
        code="V216",
        text=f"the host function {_DOES[first.mode]} elements of {name} in line {first.line}, which lie on the device; "
        "the kernel has to compute",
        places=(Span(launch.file, first.line),),
    )


_CODE = {"bounds": "P110", "races": "P130"}


def bounds(launch: Launch) -> Iterator[Finding | str]:
    """Yield accesses outside their memory (P110), and why others are not known to lie inside."""
    yield from (f"{launch.kernel}: line {line} {what}" for line, what in launch.unread)
    for touch in launch.touches:
        size = launch.memories[touch.memory].size
        if touch.at is None or size is None:
            why = touch.why or f"how large {launch.memories[touch.memory].name} is, is not known"
            yield f"{launch.kernel}: line {touch.line}: {why}"
            continue
        with _limited(launch.space):
            space = launch.space
            at = space.lift(touch.at)
            past = at.gt_set(space.lift(size - touch.width))
            bad = touch.when & (at.lt_set(space.lift(0)) | past)
            if bad.is_empty():
                continue
            if not touch.exact:
                yield f"{launch.kernel}: line {touch.line}: {touch.why}"
                continue
            yield _out_of_bounds(launch, touch, size, bad)


def races(launch: Launch) -> Iterator[Finding | str]:
    """Yield elements that two touch in no order, one of them not reading (P130), and what is not known."""
    yield from (f"{launch.kernel}: line {line} {what}" for line, what in launch.unread)
    for n, first in enumerate(launch.touches):
        for second in launch.touches[n:]:
            if first.memory == second.memory and _may_clash(first, second):
                yield from _pair(launch, first, second)


def _may_clash(a: Touch, b: Touch) -> bool:
    modes = {a.mode, b.mode}
    if modes == {"load"} or modes == {"atomic"}:
        return False
    same = isinstance(a.value, int) and a.value == b.value
    return not (modes == {"store"} and same)


def _pair(launch: Launch, a: Touch, b: Touch) -> Iterator[Finding | str]:
    memory = launch.memories[a.memory]
    if memory.shared == "own":
        return
    unknown = next((t for t in (a, b) if t.at is None), None)
    if unknown is not None:
        yield f"{launch.kernel}: line {unknown.line}: {unknown.why}"
        return
    with _limited(launch.space):
        for within in (False, True):
            if not within and memory.shared == "group":
                continue
            if within and not launch.members:
                continue
            for x, y in ((a, b), (b, a)) if within and launch.lanes and a is not b else ((a, b),):
                clash = _clash(launch, x, y, within=within)
                if clash is None or clash.is_empty():
                    continue
                open_ = next((t for t in (x, y) if not t.exact), None)
                if within and launch.warps:
                    clash = clash & _other_warps(launch)
                    yield f"{launch.kernel}: line {x.line}: what orders the threads of one warp is not read"
                    if clash.is_empty():
                        continue
                if within and (x.phase is None or y.phase is None):
                    yield f"{launch.kernel}: line {x.line}: how many barriers come before is not known"
                elif open_ is not None:
                    yield f"{launch.kernel}: line {open_.line}: {open_.why}"
                else:
                    yield _race(launch, x, y, clash, within=within)
                    return


def _clash(launch: Launch, a: Touch, b: Touch, *, within: bool) -> isl.Map | None:
    """Return places of `a` -> places of `b` that touch one element in no order."""
    import islpy as isl

    ordered = within and launch.lanes
    alone = ordered and a is b and bool(a.varies)
    if ordered and not alone and (a.mode, b.mode) != ("store", "load"):
        return None
    loops = _common(a, b) if ordered else ()
    kept = (*launch.around, *launch.groups, *(launch.members if within else ()), *loops)
    phases = within and a.phase is not None and b.phase is not None
    left, right = (_reach(launch.space, t, kept, phases=phases) for t in (a, b))
    meet = left.apply_range(right.reverse())
    firsts, seconds = [f"y_{k}" for k in range(len(kept))], [f"z_{k}" for k in range(len(kept))]
    pairs = dict(zip(kept, zip(firsts, seconds, strict=True), strict=True))
    fixed = (*launch.around, *(launch.groups if within else ()))
    same = " and ".join(f"{y} = {z}" for g in fixed for y, z in [pairs[g]]) or "true"
    moved = (a.varies if alone else launch.members) if within else launch.groups
    apart = " or ".join(f"{y} < {z} or {y} > {z}" for m in moved for y, z in [pairs[m]]) or "false"
    relation = f"({apart}) and {same}"
    if alone:
        relation += "".join(f" and {y} = {z}" for y, z in (pairs[name] for name in loops))
    elif ordered:
        relation += f" and ({_before(a, b, [pairs[name] for name in loops])})"
    text = f"{{ [{', '.join(firsts)}] -> [{', '.join(seconds)}] : {relation} }}"
    return meet & isl.Map.read_from_str(launch.space.context, text)


def _other_warps(launch: Launch) -> isl.Map:
    """Return pairs of places in different warps."""
    import islpy as isl

    names = [*launch.around, *launch.groups, *launch.members]
    parts, scale = [], 1
    for name, extent in zip(launch.members, launch.warps, strict=True):
        parts.append((names.index(name), scale))
        scale *= extent
    one, two = (" + ".join(f"{k} {v}_{at}" for at, k in parts) for v in "yz")
    left, right = (", ".join(f"{v}_{k}" for k in range(len(names))) for v in "yz")
    text = f"{{ [{left}] -> [{right}] : floor(({one})/32) < floor(({two})/32) or floor(({one})/32) > floor(({two})/32) }}"
    return isl.Map.read_from_str(launch.space.context, text)


def _common(a: Touch, b: Touch) -> tuple[str, ...]:
    found = []
    for one, other in zip(a.loops, b.loops, strict=False):
        if one != other:
            break
        found.append(one[1])
    return tuple(found)


def _before(a: Touch, b: Touch, loops: list[tuple[str, str]]) -> str:
    """Return the condition that an instance of `a` comes before one of `b` in the program's own order."""
    cases = []
    for k, (y, z) in enumerate(loops):
        cases.append(" and ".join([*(f"{p} = {q}" for p, q in loops[:k]), f"{y} < {z}"]))
    if a.order < b.order:
        cases.append(" and ".join(f"{p} = {q}" for p, q in loops) or "true")
    return " or ".join(f"({case})" for case in cases) or "false"


def _reach(space: Space, touch: Touch, kept: Sequence[str], *, phases: bool) -> isl.Map:
    """Return kept coordinates -> (element, barriers before)."""
    import islpy as isl

    found = isl.Map.from_pw_aff(space.lift(touch.at).intersect_domain(touch.when))
    if touch.width > 1:
        spread = f"{{ [x] -> [y] : x <= y < x + {touch.width} }}"
        found = found.apply_range(isl.Map.read_from_str(space.context, spread))
    if phases:
        found = found.flat_range_product(isl.Map.from_pw_aff(space.lift(touch.phase)))
    for at in reversed(range(len(space.names))):
        if space.names[at] not in kept:
            found = found.project_out(isl.dim_type.in_, at, 1)
    # the order of `kept` is the order of the space
    return _arranged(found, [n for n in space.names if n in kept], kept)


def _arranged(found: isl.Map, has: Sequence[str], wanted: Sequence[str]) -> isl.Map:
    import islpy as isl

    if list(has) == list(wanted):
        return found
    text = f"{{ [{', '.join(wanted)}] -> [{', '.join(has)}] }}"
    return isl.Map.read_from_str(found.get_ctx(), text).apply_range(found)


def _out_of_bounds(launch: Launch, touch: Touch, size: int, bad: isl.Set) -> Finding:
    import islpy as isl

    point = (bad & _counted(launch.space)).lexmin().sample_point()
    at = dict(zip(launch.space.names, _numbers(point, isl.dim_type.set), strict=True))
    element = int(launch.space.lift(touch.at).eval(point).to_python())
    who = _who(launch, at, members=not launch.lanes)
    return Finding(
        code="P110",
        text=f"{launch.kernel}: {who} {_DOES[touch.mode]} element {element} of {launch.memories[touch.memory].name} with {size} "
        f"elements in line {touch.line}",
        statements=(f"line {touch.line}",),
        at=_shown(launch, at),
        places=(Span(launch.file, touch.line),),
    )


def _race(launch: Launch, a: Touch, b: Touch, clash: isl.Map, *, within: bool) -> Finding:
    import islpy as isl

    kept = (*launch.around, *launch.groups, *(launch.members if within else ()))
    kept = (*kept, *(_common(a, b) if within and launch.lanes else ()))
    pairs = _numbers(clash.wrap().lexmin().sample_point(), isl.dim_type.set)
    first = dict(zip(kept, pairs[: len(kept)], strict=True))
    second = dict(zip(kept, pairs[len(kept) :], strict=True))
    element = _element(launch, a, b, first, second, within=within)
    here, there = (_who(launch, at, members=within) for at in (first, second))
    text = (
        f"{launch.kernel}: {here} {_DOES[a.mode]} element {element} of {launch.memories[a.memory].name} in line {a.line}, which "
        f"{there} {_DOES[b.mode]} in line {b.line}; "
    )
    if a is b and launch.lanes and within:
        text += "which is kept is not said"
    else:
        text += "no barrier is between" if within else f"nothing orders {launch.group}s"
    at = (*_shown(launch, first), *((f"{n}'", v) for n, v in _shown(launch, second)))
    return Finding(
        code="P130",
        text=text,
        statements=(f"line {a.line}", f"line {b.line}"),
        at=at,
        places=(Span(launch.file, a.line), Span(launch.file, b.line)),
    )


def _element(
    launch: Launch,
    a: Touch,
    b: Touch,
    first: Mapping[str, int],
    second: Mapping[str, int],
    *,
    within: bool,
) -> int:
    import islpy as isl

    found = None
    phases = within and a.phase is not None and b.phase is not None
    for touch, at in ((a, first), (b, second)):
        kept = tuple(at)
        point = ", ".join(str(at[n]) for n in kept)
        reach = _reach(launch.space, touch, kept, phases=phases)
        here = isl.Set.read_from_str(launch.space.context, f"{{ [{point}] }}")
        mine = reach.intersect_domain(here).range()
        found = mine if found is None else found & mine
    assert found is not None
    return _numbers(found.lexmin().sample_point(), isl.dim_type.set)[0]


def _counted(space: Space) -> isl.Set:
    """Return where no coordinate is negative, so that a witness has a first place."""
    found = space.everywhere
    for name in space.names:
        found = found & space.var(name).ge_set(space.lift(0))
    return found


def _numbers(point: isl.Point, kind: isl.dim_type) -> list[int]:
    count = point.get_space().dim(kind)
    return [int(point.get_coordinate_val(kind, k).to_python()) for k in range(count)]


def _who(launch: Launch, at: Mapping[str, int], *, members: bool) -> str:
    def place(names: Sequence[str]) -> str:
        values = [at[n] for n in names if n in at]
        while len(values) > 1 and values[-1] == 0:
            values.pop()
        return str(values[0]) if len(values) == 1 else f"({', '.join(map(str, values))})"

    found = f"{launch.group} {place(launch.groups)}" if launch.groups else ""
    if members and launch.members:
        member = f"{launch.member} {place(launch.members)}"
        found = f"{member} of {found}" if found else member
    return found or "it"


def _shown(launch: Launch, at: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple((name, value) for name, value in at.items() if value or name in launch.groups[:1])


class _limited:
    """Turn isl's refusal to go on into TooHard."""

    def __init__(self, space: Space) -> None:
        self.space = space

    def __enter__(self) -> None:
        self.space.context.reset_operations()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        import islpy as isl

        if isinstance(error, isl.Error):
            told = str(error)
            steps = "operations" in told
            raise TooHard("it takes too many steps" if steps else told) from error
