"""Places of a launch as maps to what is touched there, and findings about them (P110, P130)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from septran.errors import Span
from septran.prove.certificate import Finding
from septran.prove.foreign.launch import Launch, Touch
from septran.prove.foreign.quantity import Number, Space, TooHard

if TYPE_CHECKING:
    import islpy as isl

DOES: Mapping[str, str] = {"load": "loads", "store": "stores", "atomic": "adds to"}


def reach(space: Space, touch: Touch, kept: Sequence[str], more: Sequence[Number] = ()) -> isl.Map:
    """Return kept coordinates -> (element, what else is asked of the place)."""
    import islpy as isl

    found = isl.Map.from_pw_aff(space.lift(touch.at).intersect_domain(touch.when))
    if touch.width > 1:
        spread = f"{{ [x] -> [y] : x <= y < x + {touch.width} }}"
        found = found.apply_range(isl.Map.read_from_str(space.context, spread))
    for number in more:
        found = found.flat_range_product(isl.Map.from_pw_aff(space.lift(number)))
    return seen(space, found, kept)


def seen(space: Space, found: isl.Map, kept: Sequence[str]) -> isl.Map:
    """Return a map of places as one of their coordinates `kept`."""
    import islpy as isl

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


def same_warp(launch: Launch) -> isl.Map:
    """Return pairs of places in one warp."""
    import islpy as isl

    names = [*launch.around, *launch.groups, *launch.members]
    parts, scale = [], 1
    for name, extent in zip(launch.members, launch.warps, strict=True):
        parts.append((names.index(name), scale))
        scale *= extent
    one, two = (" + ".join(f"{k} {v}_{at}" for at, k in parts) for v in "yz")
    left, right = (", ".join(f"{v}_{k}" for k in range(len(names))) for v in "yz")
    text = f"{{ [{left}] -> [{right}] : floor(({one})/32) = floor(({two})/32) }}"
    return isl.Map.read_from_str(launch.space.context, text)


def common(a: Touch, b: Touch) -> tuple[str, ...]:
    """Return the coordinates of the loops that two accesses share."""
    found = []
    for one, other in zip(a.loops, b.loops, strict=False):
        if one != other:
            break
        found.append(one[1])
    return tuple(found)


def out_of_bounds(launch: Launch, touch: Touch, size: int, bad: isl.Set) -> Finding:
    """Return the finding (P110) about the first place in `bad`."""
    import islpy as isl

    point = (bad & _counted(launch.space)).lexmin().sample_point()
    at = dict(zip(launch.space.names, numbers_of(point, isl.dim_type.set), strict=True))
    element = int(launch.space.lift(touch.at).eval(point).to_python())
    who = _who(launch, at, members=not launch.lanes)
    return Finding(
        code="P110",
        text=f"{launch.kernel}: {who} {DOES[touch.mode]} element {element} of {launch.memories[touch.memory].name} with {size} "
        f"elements in line {touch.line}",
        statements=(f"line {touch.line}",),
        at=_shown(launch, at),
        places=(Span(launch.file, touch.line),),
    )


def race(
    launch: Launch, a: Touch, b: Touch, clash: isl.Map, *, within: bool, why: str = ""
) -> Finding:
    """Return the finding (P130) about one pair of places in `clash`; why: what does not order them, "" = barriers, or nothing."""
    import islpy as isl

    kept = (*launch.around, *launch.groups, *(launch.members if within else ()))
    kept = (*kept, *(common(a, b) if within and launch.lanes else ()))
    pairs = numbers_of(clash.wrap().lexmin().sample_point(), isl.dim_type.set)
    first = dict(zip(kept, pairs[: len(kept)], strict=True))
    second = dict(zip(kept, pairs[len(kept) :], strict=True))
    element = _element(launch, a, b, first, second)
    here, there = (_who(launch, at, members=within) for at in (first, second))
    text = (
        f"{launch.kernel}: {here} {_does(a)} element {element} of {launch.memories[a.memory].name} in line {a.line}, which "
        f"{there} {_does(b)} in line {b.line}; "
    )
    if why:
        text += why
    elif a is b and launch.lanes and within:
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


def _does(touch: Touch) -> str:
    return "begins to copy to" if touch.later else DOES[touch.mode]


def _element(
    launch: Launch, a: Touch, b: Touch, first: Mapping[str, int], second: Mapping[str, int]
) -> int:
    import islpy as isl

    found = None
    for touch, at in ((a, first), (b, second)):
        point = ", ".join(map(str, at.values()))
        here = isl.Set.read_from_str(launch.space.context, f"{{ [{point}] }}")
        mine = reach(launch.space, touch, tuple(at)).intersect_domain(here).range()
        found = mine if found is None else found & mine
    assert found is not None
    return numbers_of(found.lexmin().sample_point(), isl.dim_type.set)[0]


def _counted(space: Space) -> isl.Set:
    """Return where no coordinate is negative, so that a witness has a first place."""
    found = space.everywhere
    for name in space.names:
        found = found & space.var(name).ge_set(space.lift(0))
    return found


def numbers_of(point: isl.Point, kind: isl.dim_type) -> list[int]:
    """Return a point's coordinates."""
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


class limited:
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
