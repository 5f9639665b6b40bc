"""Races with copies that land later: from when a member begins one until it has waited for the group of copies it is in.

Other members are ordered with it by a barrier before it begins, or one after its member's wait. Its own member is ordered by that
wait alone. A copy that nobody waits for never lands.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from septran.prove.certificate import Finding
from septran.prove.foreign.launch import Launch, Touch, Wait
from septran.prove.foreign.places import limited, race, reach, seen

if TYPE_CHECKING:
    import islpy as isl

_NEVER = 2**30
"""barriers or waits before a copy lands that nobody waits for"""


def copied(launch: Launch, a: Touch, b: Touch) -> Iterator[Finding | str]:
    """Yield the race of two accesses, one of which lands later, or why it is not known that there is none."""
    where = f"{launch.kernel}: line {a.line if a.later else b.line}"
    if launch.memories[a.memory].shared != "group" or launch.lanes:
        yield f"{where}: a copy that lands later, and not in a group's own memory, is not read"
        return
    open_ = next((x for x in (a, b) if x.at is None or not x.exact), None)
    if open_ is not None:
        yield f"{launch.kernel}: line {open_.line}: {open_.why}"
        return
    vague = next((w for w in launch.waits if w.done is None or not w.exact), None)
    if vague is not None:
        yield f"{launch.kernel}: line {vague.line}: what it waits for depends on data"
        return
    asked = ("barriers", "copies", "groups", "waits")
    clocks = [a.clock, b.clock, *(w.clock for w in launch.waits)]
    if any(clock[c] is None for clock in clocks for c in asked):
        yield f"{where}: how many copies and barriers come before is not known"
        return
    with limited(launch.space):
        for within, clash in ((True, _others(launch, a, b)), (False, _own(launch, a, b))):
            if not clash.is_empty():
                why = "a barrier and a wait do not both lie between" if within else ""
                why = why or "the copy has not been waited for"
                yield race(launch, a, b, clash, within=True, why=why)
                return


def _others(launch: Launch, a: Touch, b: Touch) -> isl.Map:
    """Return places of `a` -> places of `b`, another member's, that touch one element in no order."""
    import islpy as isl

    kept = (*launch.around, *launch.groups, *launch.members)
    left, right = (_lasting(launch, t, kept) for t in (a, b))
    text = "{ [e, p, l] -> [e, q, m] : q <= l and p <= m }"
    meet = left.apply_range(isl.Map.read_from_str(launch.space.context, text))
    meet = meet.apply_range(right.reverse())
    return meet & _pairs(launch, kept, same=False)


def _own(launch: Launch, a: Touch, b: Touch) -> isl.Map:
    """Return places at which a member touches an element of its own copy before it has waited for it."""
    import islpy as isl

    kept = (*launch.around, *launch.groups, *launch.members)
    found = None
    for first, second in ((a, b), (b, a)):
        if not first.later:
            continue
        left = _landing(launch, first, kept, "waits", "copies")
        right = reach(launch.space, second, kept, (second.clock["copies"], second.clock["waits"]))
        text = "{ [e, i, l] -> [e, j, w] : j > i and w <= l }"
        meet = left.apply_range(isl.Map.read_from_str(launch.space.context, text))
        meet = meet.apply_range(right.reverse()) & _pairs(launch, kept, same=True)
        if first is b and a is not b:
            meet = meet.reverse()
        found = meet if found is None else found | meet
    assert found is not None
    return found


def _lasting(launch: Launch, touch: Touch, kept: tuple[str, ...]) -> isl.Map:
    """Return kept coordinates -> (element, barriers before it, barriers before it is over)."""
    now = touch.clock["barriers"]
    if not touch.later:
        return reach(launch.space, touch, kept, (now, now))
    return _landing(launch, touch, kept, "barriers", "barriers")


def _landing(launch: Launch, touch: Touch, kept: tuple[str, ...], clock: str, own: str) -> isl.Map:
    """Return kept coordinates -> (element, what `own` says at the copy, what `clock` says at the wait it lands at)."""
    import islpy as isl

    context = launch.space.context
    count = len(kept)
    begun = reach(launch.space, touch, kept, (touch.clock[own], touch.clock["groups"]))
    at = ", ".join(f"c{k}" for k in range(count))
    # (place, element, own, group) -> the first wait of that member for more groups than this one's number
    copies = begun.wrap().flatten()
    waits = isl.Map.empty(
        isl.Map.read_from_str(
            context, f"{{ [{at}{', ' if at else ''}e, o, g] -> [w] }}"
        ).get_space()
    )
    for wait in launch.waits:
        reached = _waiting(launch, wait, kept, clock)
        text = f"{{ [{at}, d, w] -> [[{at}, e, o, g] -> [w]] : d > g }}"
        lands = reached.wrap().flatten().apply(isl.Map.read_from_str(context, text)).unwrap()
        waits = waits | lands
    first = waits.intersect_domain(copies).lexmin()
    never = isl.Map.from_domain_and_range(
        copies - first.domain(), isl.Set.read_from_str(context, f"{{ [{_NEVER}] }}")
    )
    landed = (first | never).wrap().flatten()
    text = f"{{ [{at}, e, o, g, w] -> [[{at}] -> [e, o, w]] }}"
    return landed.apply(isl.Map.read_from_str(context, text)).unwrap()


def _waiting(launch: Launch, wait: Wait, kept: tuple[str, ...], clock: str) -> isl.Map:
    """Return kept coordinates -> (groups that have landed after the wait, what `clock` says at it)."""
    import islpy as isl

    space = launch.space
    found = isl.Map.from_pw_aff(space.lift(wait.done).intersect_domain(wait.when))
    found = found.flat_range_product(isl.Map.from_pw_aff(space.lift(wait.clock[clock])))
    return seen(space, found, kept)


def _pairs(launch: Launch, kept: tuple[str, ...], *, same: bool) -> isl.Map:
    """Return pairs of places in one group, of the same member or of others."""
    import islpy as isl

    ys, zs = ([f"{v}{k}" for k in range(len(kept))] for v in "yz")
    both = list(zip(kept, ys, zs, strict=True))
    fixed = [f"{y} = {z}" for n, y, z in both if same or n not in launch.members]
    apart = [f"{y} < {z} or {y} > {z}" for n, y, z in both if n in launch.members]
    conds = [*fixed, *([] if same else [f"({' or '.join(apart)})"])]
    text = f"{{ [{', '.join(ys)}] -> [{', '.join(zs)}] : {' and '.join(conds) or 'true'} }}"
    return isl.Map.read_from_str(launch.space.context, text)
