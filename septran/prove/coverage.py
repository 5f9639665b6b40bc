"""Rule `coverage`: every element of a written parameter is written, by one parallel iteration."""

from __future__ import annotations

from collections.abc import Iterator

from septran.ir.expr import Expr, evaluate
from septran.prove.certificate import Finding, Tile
from septran.prove.sets import Model
from septran.prove.witness import describe, finding, sample


def coverage(model: Model) -> Iterator[Finding]:
    """Yield what breaks the rule (P020)."""
    for param in model.program.params:
        if "w" in param.privilege:
            yield from _param(model, param.buffer.name)


def _param(model: Model, name: str) -> Iterator[Finding]:
    index = tuple(f"{name}[{d}]" for d in range(len(model.buffers[name].shape)))
    writes = [
        (s, at)
        for s in model.statements
        for at, a in enumerate(s.accesses)
        if a.mode == "w" and a.region.buffer.name == name
    ]
    for s, at in writes:
        loops = ", ".join(s.vars[k] for k in s.parallel)
        owner = model.map(f"{s.name}[{', '.join(s.vars)}] -> P[{loops}] : {model.when(s)}")
        by = model.touched(s, at).reverse().apply_range(owner)
        if not by.is_single_valued():
            text = f"{describe(s)} writes an element of {name} in two parallel iterations"
            yield finding(model, "P020", text, model.instances(s), s)
    if not writes:
        yield Finding(code="P020", text=f"{name} is never written")
        return
    left = model.box(name)
    for s, at in writes:
        left = left.subtract(model.touched(s, at).range())
    if not left.is_empty():
        import islpy as isl

        rank = left.dim(isl.dim_type.set) - 1
        at_ = sample(left, ("slot", *(f"digit {d}" for d in range(rank))))
        sizes = dict(at_)
        element = model.index(name, [sizes.pop(f"digit {d}") for d in range(rank)])
        at_ = (*sizes.items(), *zip(index, element, strict=True))
        shape = tuple(
            evaluate(e, sizes) if isinstance(e, Expr) else e
            for e in model.shapes.get(name, model.buffers[name].shape)
        )
        yield Finding(
            code="P020",
            text=f"an element of {name} is never written",
            at=tuple(x for x in at_ if x[0] != "slot"),
            statements=tuple(describe(s) for s, _ in writes),
            tiles=(
                Tile(
                    statement="nothing",
                    does="writes",
                    buffer=name,
                    shape=shape,
                    offset=element,
                    extent=(1,) * len(shape),
                    step=(1,) * len(shape),
                ),
            ),
            element=element,
        )
