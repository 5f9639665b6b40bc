"""Pass of the cpp backend that lets tiles of a convolution lie as its tensors do: `lie_in_planes`.

    alloc X_s [h, w, c]; X_s <- X; C = sum of X_s[r, s] W[r, s]; Y <- f(C)       X, Y: channels first, lines of w side by side

A tile with channels last is turned on its way in and out, element by element where it has few channels. With the strides
of its tensors it is copied line by line, and vectors hold neighbours of a line. Where lines fill vectors badly (24 of 32) and
there is much to multiply, turning costs less and tiles stay. Only strides change: which element a statement means stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from septran.backends.cpp.winograd import WINOGRAD, declared
from septran.ir.access import map_buffers, touches
from septran.ir.nodes import Buffer, Copy, LeafCall, Program, Region, Stmt, allocated, walk
from septran.ir.scalar import Index
from septran.ir.scalar import walk as walk_tree
from septran.ir.strides import row_major
from septran.kernel import LeafSpec, leaf_spec

_LINE = 16
"""Neighbours of a tile's line from which on vectors are full enough; no machine has more lanes."""
_TURN = 128
"""Multiply-adds of one element that take as long as turning it on its way in and out; 100 to 155 in six convolutions (AVX-512)."""


def lie_in_planes(program: Program) -> Program:
    """Return `program` with tiles of merged taps laid out in planes where their tensors are."""
    if declared(program) == WINOGRAD:  # its vectors hold channels
        return program
    own = {b.name: b for b in allocated(program.body)}
    touched = list(_touched(program))
    moved: dict[str, Buffer] = {}
    for call in (s for s in walk(program.body) if isinstance(s, LeafCall) and _taps(s)):
        moved |= _planes(program, call, own, touched)
    if not moved:
        return program
    return replace(program, body=map_buffers(program.body, lambda b: moved.get(b.name, b)))


def line_of(spec: LeafSpec) -> int | None:
    """Return the dim along which a leaf may walk in place of the last one, along which none of its tensors lies; None where that is none.

    Only elementwise leaves whose primitives do not ask for positions; whether the tensors lie along that dim
    is known when the leaf runs.
    """
    rank = len(spec.params[0].shape)
    if spec.prims and all(p.name in ("map", "copy", "fill") for p in spec.prims):
        trees = [spec.expression(p) for p in spec.prims if p.name == "map"]
        if any(isinstance(node, Index) for tree in trees for node in walk_tree(tree)):
            return None
        shape = next(p.shape for p in spec.params if p.name == spec.prims[-1].out)
        wide = [d for d in range(rank - 1) if shape[d] >= _LINE]
        params = spec.params
        if not wide or any(len(p.shape) != rank or p.layout != "row" for p in params):
            return None
        whole = [p for p in params if p.shape[-1] != 1 and p.shape[wide[-1]] != 1]
        if whole and all(p.step[-1] != 1 and p.step[wide[-1]] == 1 for p in whole):
            return wide[-1]
    return None


def _touched(program: Program) -> Iterator[tuple[Stmt, Region, str]]:
    for stmt in walk(program.body):
        for region, how in touches(stmt):
            yield stmt, region, how


def _taps(call: LeafCall) -> bool:
    """Return whether a call is the merged products of several taps."""
    out = call.prims[0].out if call.prims else ""
    return len(call.prims) > 1 and all(
        p.name in ("gemm", "gemm_acc") and p.out == out and not any(p.turned) for p in call.prims
    )


def _planes(
    program: Program,
    call: LeafCall,
    own: Mapping[str, Buffer],
    touched: list[tuple[Stmt, Region, str]],
) -> dict[str, Buffer]:
    """Return the tiles of a call as they lie in planes, none where not all of them can."""
    out = call.arg(call.prims[0].out).region
    images = [call.arg(p.ins[0]).region for p in call.prims]
    line = next((d for d in range(out.rank - 2, -1, -1) if out.tile[d] >= _LINE), None)
    if line is None or any(i.rank != out.rank or i.step[line] != 1 for i in images):
        return {}
    adds = sum(i.buffer.shape[-1] for i in images)
    if adds / _full(out.tile[line]) > adds / _full(out.tile[-1]) + _TURN:
        return {}
    found: dict[str, Buffer] = {}
    for image in images:
        if image.buffer.name not in own or not _plain(image.buffer):
            return {}
        found[image.buffer.name] = _in_planes(image.buffer, line)
    if out.buffer.name in own:
        if not _plain(out.buffer):
            return {}
        found[out.buffer.name] = _in_planes(out.buffer, line)
    elif not _along(out, line):
        return {}
    for stmt, region, how in touched:
        if region.buffer.name not in found:
            continue
        if isinstance(stmt, Copy):
            if how != "w" or not _along(stmt.src, line):
                return {}
        elif isinstance(stmt, LeafCall) and not _taps(stmt):
            turned = map_buffers((stmt,), lambda b: found.get(b.name, b))[0]
            assert isinstance(turned, LeafCall)
            spec = leaf_spec(program, turned, proc="")
            lies = [a.region for a in turned.args if a.region.tile[line] != 1]
            if line_of(spec) != line or any(r.buffer.steps[line] != 1 for r in lies):
                return {}
        elif stmt != call:
            return {}
    return found


def _full(n: int) -> float:
    """Return which share of the vectors of `n` neighbours is used."""
    return n / (-(-n // _LINE) * _LINE)


def _plain(buffer: Buffer) -> bool:
    return (
        buffer.layout == "row"
        and buffer.versions == 1
        and not buffer.strides
        and not buffer.extent
        and buffer.shape[-1] > 1
    )


def _along(region: Region, line: int) -> bool:
    """Return whether neighbours along `line` lie side by side in a tensor, and those of its last dim do not."""
    steps = region.buffer.steps
    return steps[line] == 1 == region.step[line] and steps[-1] != 1 and region.tile[line] >= _LINE


def _in_planes(buffer: Buffer, line: int) -> Buffer:
    """Return a buffer in which the last dim goes first, and `line` last."""
    last = len(buffer.shape) - 1
    order = [last, *(d for d in range(last) if d != line), line]
    found = dict(zip(order, row_major(tuple(buffer.shape[d] for d in order)), strict=True))
    return replace(buffer, strides=tuple(found[d] for d in range(last + 1)))
