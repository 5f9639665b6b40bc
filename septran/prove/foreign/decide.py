"""Whether a launch stays in bounds and free of races (P110, P130)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from septran.errors import Span
from septran.prove.certificate import Finding
from septran.prove.foreign.later import copied
from septran.prove.foreign.launch import CLOCKS, RULES, Launch, Proof, Touch
from septran.prove.foreign.places import (
    DOES,
    common,
    limited,
    out_of_bounds,
    race,
    reach,
    same_warp,
)
from septran.prove.foreign.quantity import TooHard

if TYPE_CHECKING:
    import islpy as isl

_CODE = {"bounds": "P110", "races": "P130"}


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
        text=f"the host function {DOES[first.mode]} elements of {name} in line {first.line}, which lie on the device; "
        "the kernel has to compute",
        places=(Span(launch.file, first.line),),
    )


def bounds(launch: Launch) -> Iterator[Finding | str]:
    """Yield accesses outside their memory (P110), and why others are not known to lie inside."""
    yield from (f"{launch.kernel}: line {line} {what}" for line, what in launch.unread)
    for touch in launch.touches:
        size = launch.memories[touch.memory].size
        if touch.at is None or size is None:
            why = touch.why or f"how large {launch.memories[touch.memory].name} is, is not known"
            yield f"{launch.kernel}: line {touch.line}: {why}"
            continue
        with limited(launch.space):
            space = launch.space
            at = space.lift(touch.at)
            past = at.gt_set(space.lift(size - touch.width))
            bad = touch.when & (at.lt_set(space.lift(0)) | past)
            if bad.is_empty():
                continue
            if not touch.exact:
                yield f"{launch.kernel}: line {touch.line}: {touch.why}"
                continue
            yield out_of_bounds(launch, touch, size, bad)


def races(launch: Launch) -> Iterator[Finding | str]:
    """Yield elements that two touch in no order, one of them not reading (P130), and what is not known."""
    yield from (f"{launch.kernel}: line {line} {what}" for line, what in launch.unread)
    for n, first in enumerate(launch.touches):
        for second in launch.touches[n:]:
            if first.memory == second.memory and _may_clash(first, second):
                if first.later or second.later:
                    yield from copied(launch, first, second)
                else:
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
    with limited(launch.space):
        for within in (False, True):
            if not within and memory.shared == "group":
                continue
            if within and not launch.members:
                continue
            for x, y in ((a, b), (b, a)) if within and launch.lanes and a is not b else ((a, b),):
                clash = _unordered(launch, x, y, within=within)
                if clash is None or clash.is_empty():
                    continue
                open_ = next((t for t in (x, y) if not t.exact), None)
                if within and launch.parts:
                    clash = clash - same_warp(launch)
                    yield f"{launch.kernel}: line {x.line}: what orders the threads of one warp is not read"
                    if clash.is_empty():
                        continue
                if within and any(t.clock[c] is None for t in (x, y) for c in CLOCKS[:2]):
                    yield f"{launch.kernel}: line {x.line}: how many barriers come before is not known"
                elif open_ is not None:
                    yield f"{launch.kernel}: line {open_.line}: {open_.why}"
                else:
                    yield race(launch, x, y, clash, within=within)
                    return


def _unordered(launch: Launch, a: Touch, b: Touch, *, within: bool) -> isl.Map | None:
    """Return places of `a` -> places of `b` that touch one element in no order."""
    clash = _clash(launch, a, b, "barriers" if within else "", within=within)
    if not within or not launch.warps or clash is None:
        return clash
    one = same_warp(launch)
    inside = _clash(launch, a, b, "warps", within=within)
    assert inside is not None
    return (clash - one) | (inside & one)


def _clash(launch: Launch, a: Touch, b: Touch, clock: str, *, within: bool) -> isl.Map | None:
    """Return places of `a` -> places of `b` that touch one element while `clock` says the same."""
    import islpy as isl

    ordered = within and launch.lanes
    alone = ordered and a is b and bool(a.varies)
    if ordered and not alone and (a.mode, b.mode) != ("store", "load"):
        return None
    dealt = within and a.dealt is not None and a.dealt == b.dealt
    loops = common(a, b) if ordered else ()
    if dealt and a.dealt is not None:  # one execution has one member
        loops = common(a, b)[: a.dealt[1]]
    kept = (*launch.around, *launch.groups, *(launch.members if within else ()), *loops)
    known = clock and a.clock[clock] is not None and b.clock[clock] is not None
    told = [(t.clock[clock],) if known else () for t in (a, b)]
    left, right = (reach(launch.space, t, kept, more) for t, more in zip((a, b), told, strict=True))
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
    if dealt:
        differ = (f"{y} < {z} or {y} > {z}" for y, z in (pairs[name] for name in loops))
        relation += f" and ({' or '.join(differ) or 'false'})"
    text = f"{{ [{', '.join(firsts)}] -> [{', '.join(seconds)}] : {relation} }}"
    clash = meet & isl.Map.read_from_str(launch.space.context, text)
    if dealt:
        for side in (isl.dim_type.in_, isl.dim_type.out):
            clash = clash.project_out(side, len(kept) - len(loops), len(loops))
    return clash


def _before(a: Touch, b: Touch, loops: list[tuple[str, str]]) -> str:
    """Return the condition that an instance of `a` comes before one of `b` in the program's own order."""
    cases = []
    for k, (y, z) in enumerate(loops):
        cases.append(" and ".join([*(f"{p} = {q}" for p, q in loops[:k]), f"{y} < {z}"]))
    if a.order < b.order:
        cases.append(" and ".join(f"{p} = {q}" for p, q in loops) or "true")
    return " or ".join(f"({case})" for case in cases) or "false"
