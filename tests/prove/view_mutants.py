"""Faults in how an operand sees its array, planted into lowered Programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from septran.ir import nodes as ir
from tests.prove.mutants import Body


def seen_otherwise(stmt: ir.Stmt, loops: tuple[ir.For, ...]) -> Iterator[tuple[str, Body]]:
    """Yield each operand in a wrong layout: a stride one too large, an earlier or later start, two axes swapped."""
    match stmt:
        case ir.LeafCall():
            for at, arg in enumerate(stmt.args):
                for what, region in _faults(arg.region):
                    args = (*stmt.args[:at], replace(arg, region=region), *stmt.args[at + 1 :])
                    yield f"{what} of {arg.param}", (replace(stmt, args=args),)
        case ir.Copy():
            for what, region in _faults(stmt.dst):
                yield f"{what} of dst", (replace(stmt, dst=region),)
            for what, region in _faults(stmt.src):
                yield f"{what} of src", (replace(stmt, src=region),)


def _faults(region: ir.Region) -> Iterator[tuple[str, ir.Region]]:
    buffer = region.buffer
    if not buffer.strides:
        return

    def seen(strides: tuple[int, ...], start: int) -> ir.Region:
        return replace(region, buffer=replace(buffer, strides=strides, start=start))

    wide = [d for d, n in enumerate(buffer.shape) if n > 1]
    for d in wide:
        step = buffer.strides[d]
        yield (
            f"stride {d} wrong",
            seen((*buffer.strides[:d], step + 1, *buffer.strides[d + 1 :]), buffer.start),
        )
    yield "start too late", seen(buffer.strides, buffer.start + 1)
    if buffer.start:
        yield "start too early", seen(buffer.strides, buffer.start - 1)
        yield "start of the whole", seen(buffer.strides, 0)
    for d, e in pairwise(wide):
        if buffer.strides[d] != buffer.strides[e]:
            swapped = list(buffer.strides)
            swapped[d], swapped[e] = swapped[e], swapped[d]
            yield f"axes {d} and {e} swapped", seen(tuple(swapped), buffer.start)
