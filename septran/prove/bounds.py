"""Rule `bounds`: every region is non-empty, at most its tile, and inside its buffer and ring."""

from __future__ import annotations

from collections.abc import Iterator

from septran.ir.nodes import Buffer
from septran.prove.certificate import Finding
from septran.prove.sets import Access, Model, NotAffine, Statement, affine, factors, slot
from septran.prove.storage import at_most, reach
from septran.prove.witness import describe, finding


def bounds(model: Model) -> Iterator[Finding]:
    """Yield what breaks the rule (P010). Guarded regions may reach outside, and are only read."""
    for s in model.statements:
        for access in s.accesses:
            yield from _region(model, s, access)
        if s.kind == "copy":
            yield from _extents(model, s)


def _region(model: Model, s: Statement, access: Access) -> Iterator[Finding]:
    region = access.region
    who = f"{describe(s)}: {access.operand}, part of {region.buffer.name},"
    if region.guard and access.mode == "w":
        yield finding(
            model,
            "P010",
            f"{who} is written outside its buffer",
            model.instances(s),
            s,
            of=(access,),
        )
    wrong: list[tuple[str, str]] = []
    if region.buffer.name in model.radixes:
        highs = dict(model.radixes[region.buffer.name].highs)
        low, high = reach(at_most(region.buffer, highs))
        elements = model.radixes[region.buffer.name].size
        outside = "true" if low < 0 or high >= elements else _beyond(model, region.buffer)
        if outside:
            wrong.append((f"is seen from element {low} to {high} of {elements}", outside))
    for d, (offset, extent, tile, step, size) in enumerate(
        zip(
            region.offset,
            region.extent,
            region.tile,
            region.step,
            model.extents(region.buffer),
            strict=True,
        )
    ):
        first, count = affine(offset), affine(extent)
        wrong.append((f"is empty along dim {d}", f"{count} < 1"))
        wrong.append((f"is larger than its tile along dim {d}", f"{count} > {tile}"))
        if not region.guard:
            wrong.append((f"starts below 0 along dim {d}", f"{first} < 0"))
            last = f"{first} + {step} * ({count} - 1)"
            wrong.append((f"ends outside along dim {d}", f"{last} >= {size}"))
    ring = slot(region)
    wrong.append(("is in no slot of its ring", f"{ring} < 0 or {ring} >= {region.buffer.versions}"))
    if model.instances(s, " or ".join(condition for _, condition in wrong)).is_empty():
        return  # one question where nothing is wrong
    for what, condition in wrong:
        broken = model.instances(s, condition)
        if not broken.is_empty():
            yield finding(model, "P010", f"{who} {what}", broken, s, of=(access,))


def _beyond(model: Model, view: Buffer) -> str:
    """Return the condition on open sizes under which a view ends outside its array, "" where none is open."""
    if not (model.dims and view.extent):
        return ""
    array = model.buffers[view.name]
    factor, opened = factors(array.extent)
    if len(opened) > 1:
        raise NotAffine(f"another layout of {view.name}, whose sizes are open, is not affine")
    ends = (
        f"{max(s, 0)} * ({affine(e)} - 1)" for e, s in zip(view.extent, view.steps, strict=True)
    )
    last = " + ".join([str(view.start), *ends])
    return f"{last} >= {' * '.join([str(factor), *map(affine, opened)])}"


def _extents(model: Model, s: Statement) -> Iterator[Finding]:
    src, dst = (a.region for a in s.accesses)
    for d, (x, y) in enumerate(zip(dst.extent, src.extent, strict=True)):
        if x == y:
            continue
        broken = model.instances(s, f"{affine(x)} != {affine(y)}")
        if not broken.is_empty():
            text = f"{describe(s)}: the two sides differ in their extent along dim {d}"
            yield finding(model, "P010", text, broken, s)
