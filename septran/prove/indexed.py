"""What a proof takes for granted of leaves: that indices read from memory find an element, that an opaque leaf computes its graph.

A leaf with `gather` or `scatter_acc` is handed the whole axis that its indices pick from, so bounds, races and data of the hierarchy do not depend on
their values. Which element it touches is decided inside the leaf, by numbers that only exist when the kernel runs. The primitives say what an index outside
means (0 is read, nothing is written), and leaves are tested for it; that each lookup finds an element is taken for granted, by name.
"""

from __future__ import annotations

from collections.abc import Iterator

from septran.ir.expr import to_text
from septran.ir.nodes import Copy, LeafCall, Prim, Program, leaf_calls, walk

RULES = ("bounds", "data")
"""the rules that rest on such an index"""
_OUTSIDE = {"gather": "0 is read", "scatter_acc": "nothing is written"}


def assumed(program: Program) -> tuple[str, ...]:
    """Return one assumption for each index that a leaf reads from memory, and for each opaque leaf."""
    found = (
        text
        for call in leaf_calls(program)
        for prim in call.prims
        for text in (*_ranges(program, call, prim), *_opaque(call, prim))
    )
    return tuple(dict.fromkeys(found))


def _opaque(call: LeafCall, prim: Prim) -> Iterator[str]:
    if prim.name == "extern":
        yield (
            f"{call.task} is opaque: it reads and writes {', '.join((prim.out, *prim.ins))} inside their bounds, and computes "
            "its torch graph; tested, and nothing of it is proven"
        )


def _ranges(program: Program, call: LeafCall, prim: Prim) -> Iterator[str]:
    if prim.name not in _OUTSIDE:
        return
    axis = prim.attr("axis")
    table, index = (prim.ins[0] if prim.name == "gather" else prim.out), prim.ins[1]
    known = {a.param: a.region for a in call.args}
    if table in known and isinstance(axis, int):
        region = known[table]
        size, of = to_text(region.extent[axis % region.rank]), _origin(program, region.buffer.name)
    else:
        size, of = "its extent", table
    name = _origin(program, known[index].buffer.name) if index in known else index
    yield (
        f"0 <= each {name} < {size} where {call.task} picks from {of} along dim {axis} ({prim.name}); "
        f"{_who(program, call, name)}, and outside {_OUTSIDE[prim.name]}"
    )


def _origin(program: Program, name: str) -> str:
    """Return the array that a staged tile was copied from."""
    for stmt in walk(program.body):
        if isinstance(stmt, Copy) and stmt.dst.buffer.name == name:
            if stmt.src.buffer.name == name:
                break
            return _origin(program, stmt.src.buffer.name)
    return name


def _who(program: Program, call: LeafCall, name: str) -> str:
    """Return who answers for the values of an index."""
    if any(p.buffer.name == name and "r" in p.privilege for p in program.params):
        return "checked by the caller"
    makers = dict.fromkeys(
        other.task
        for other in leaf_calls(program)
        for a in other.args
        if "w" in a.privilege and _goes_to(program, a.region.buffer.name, name)
    )
    return f"made by {', '.join(makers)}" if makers else f"made inside {call.task}"


def _goes_to(program: Program, made: str, name: str) -> bool:
    """Return whether what a leaf made is in the array `name`, perhaps after a copy."""
    if made == name:
        return True
    copies = (s for s in walk(program.body) if isinstance(s, Copy) and s.src.buffer.name == made)
    return any(s.dst.buffer.name == name for s in copies)
