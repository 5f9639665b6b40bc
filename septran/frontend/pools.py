"""Pooling of pooled values in one window: the maximum of maxima, the sum of sums."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from septran.frontend.canon import Op
from septran.frontend.view import View

_SCALED = re.compile(r"x \* ([\d.e-]+)")


def pooled(op: Op, made: Mapping[str, Op], readers: Counter[str]) -> list[Op]:
    """Return a window, in the place of the one that it reads where nobody else reads that; the last node has the name of `op`.

    made: nodes before it. readers: how many read a value. A window of k2 at step s2 over one of k1 at step s1 is one of
    k1 + (k2 - 1) s1 at step s1 s2; for sums only where the inner windows neither overlap nor leave gaps. The factor between
    two averages is taken out of the sum. Overlapping windows stay apart where one would read more elements than both.
    """
    reader, factor = op, 1.0
    while True:
        (view,) = reader.ins.values()
        inner = made.get(view.source)
        if inner is None or readers[inner.name] != 1 or inner.dtype != op.dtype:
            return [op]
        if view.shape != inner.shape or not view.whole(inner.elements):
            return [op]
        if inner.kind == "window":
            break
        scaled = _SCALED.fullmatch(str(inner.attrs.get("expr")))
        if scaled is None or op.attrs["op"] != "sum":
            return [op]
        reader, factor = inner, factor * float(scaled[1])
    if not _composes(inner, op):
        return [op]
    steps = zip(*(w.attrs[key] for w in (inner, op) for key in ("window", "stride")), strict=True)
    sizes = [(k + (k2 - 1) * s, s * s2) for k, s, k2, s2 in steps]
    attrs = {
        **inner.attrs,
        "window": tuple(k for k, _ in sizes),
        "stride": tuple(s for _, s in sizes),
    }
    if reader is op:
        return [replace(op, ins=inner.ins, attrs=attrs)]
    whole = replace(op, name=f"{op.name}_of_{inner.name}", ins=inner.ins, attrs=attrs)
    readers[whole.name] = 1
    given = {"x": View.of(whole.name, whole.shape)}
    return [whole, replace(op, kind="map", ins=given, attrs={"expr": f"x * {factor!r}"})]


def around(op: Op, made: Mapping[str, Op]) -> Op:
    """Return a convolution or a window that pads what it reads itself, where the node before it does nothing else.

    Padding is as wide in front as behind: where more is behind, windows start later by `ahead`.
    """
    view = op.ins["x"]
    inner = made.get(view.source)
    if inner is None or not inner.pads or "phases" in op.attrs:
        return op
    filled = "sum" if op.kind == "conv" else op.attrs["op"]
    d, own = len(op.attrs["pad"]), len(inner.attrs["pad"])
    plain = view.shape == inner.shape and view.whole(inner.elements)
    if inner.attrs["op"] != filled or own > d or not plain or inner.dtype != op.dtype:
        return op
    pads, late = ((*(0,) * (d - own), *inner.attrs[k]) for k in ("pad", "ahead"))
    pads = tuple(p + q for p, q in zip(pads, op.attrs["pad"], strict=True))
    outer = op.attrs.get("ahead", (0,) * d)
    ahead = tuple(a + b for a, b in zip(late, outer, strict=True))
    if any(a and e > 1 for a, e in zip(ahead, op.attrs["dilation"], strict=True)):
        return op  # what is told of a window reaches as many taps further
    return replace(
        op, ins={**op.ins, "x": inner.ins["x"]}, attrs={**op.attrs, "pad": pads, "ahead": ahead}
    )


def _composes(inner: Op, outer: Op) -> bool:
    a, b = inner.attrs, outer.attrs
    if a["op"] != b["op"] or len(a["window"]) != len(b["window"]) or any(b["pad"]):
        return False
    if any(d != 1 for d in (*a["dilation"], *b["dilation"])):
        return False
    pairs = list(zip(a["window"], a["stride"], strict=True))
    if any(s > k or (s < k and a["op"] == "sum") for k, s in pairs):
        return False
    reads = math.prod(k + (k2 - 1) * s for (k, s), k2 in zip(pairs, b["window"], strict=True))
    both = math.prod(b["window"]) + math.prod(a["window"]) * math.prod(b["stride"])
    return int(reads) <= int(both)
