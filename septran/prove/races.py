"""Rule `races`: two iterations of a parallel loop never touch an element when one of them writes it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from septran.ir.nodes import For
from septran.prove.certificate import Finding
from septran.prove.sets import Model, Statement
from septran.prove.witness import describe, finding

_Touch = tuple[Statement, int]


def races(model: Model) -> Iterator[Finding]:
    """Yield what breaks the rule (P030). Buffers allocated inside a loop are each iteration's own."""
    yield from _written_twice(model)
    for loop, depth in _parallel_loops(model):
        inside = [s for s in model.statements if len(s.loops) > depth and s.loops[depth] is loop]
        shared: dict[str, list[_Touch]] = defaultdict(list)
        for s in inside:
            for at, a in enumerate(s.accesses):
                if all(home is not loop for home in model.homes[a.region.buffer.name]):
                    shared[a.region.buffer.name].append((s, at))
        for name, touches in shared.items():
            yield from _buffer(model, name, touches, loop, depth)


def _written_twice(model: Model) -> Iterator[Finding]:
    """Yield operands that are written in a layout in which two positions are one element."""
    for s in model.statements:
        for at, a in enumerate(s.accesses):
            if a.mode == "w" and a.region.buffer.strides and not model.apart(a.region):
                text = f"{describe(s)} writes an element of {a.region.buffer.name} at two positions"
                broken = model.touched(s, at).domain()
                yield finding(model, "P030", text, broken, s, of=(a,))


def _parallel_loops(model: Model) -> list[tuple[For, int]]:
    found: dict[int, tuple[For, int]] = {}
    for s in model.statements:
        for depth in s.parallel:
            found.setdefault(id(s.loops[depth]), (s.loops[depth], depth))
    return list(found.values())


def _buffer(
    model: Model, name: str, touches: list[_Touch], loop: For, depth: int
) -> Iterator[Finding]:
    seen: set[frozenset[tuple[str, int]]] = set()
    outer = [f"y_{k} = z_{k}" for k in range(depth)]
    apart = " or ".join(
        " and ".join([*outer, f"y_{depth} {sign} z_{depth}"]) for sign in ("<", ">")
    )
    for s, at in touches:
        if s.accesses[at].mode != "w":
            continue
        for t, other in touches:
            key = frozenset(((s.name, at), (t.name, other)))
            if key in seen:
                continue
            seen.add(key)
            meet = model.touched(s, at).apply_range(model.touched(t, other).reverse())
            broken = meet.intersect(model.pairs(s, t, apart))
            if not broken.is_empty():
                does = "writes" if t.accesses[other].mode == "w" else "reads"
                text = (
                    f"{describe(s)} writes an element of {name} that {describe(t)} {does} in another "
                    f"iteration of {loop.var}"
                )
                of = (s.accesses[at], t.accesses[other])
                yield finding(model, "P030", text, broken, s, t, of=of)
