"""Operations of the NPUIR dialect that move elements around inside the unified buffer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .buffers import Region, as_int
from .errors import SimError
from .machine import Machine
from .tiles import fill
from .values import narrow


def shape_names(machine: Machine, operand: Callable[[object], Region]) -> dict[str, Any]:
    """Return concat, pad, flip, gather, interleave and deinterleave.

    operand: makes a region of an argument and raises when it is not in the vector core's memory.
    """

    def store(dst: object, data: Any) -> None:
        target = operand(dst)
        if tuple(data.shape) != target.extent:
            raise SimError(
                "shape", f"the result has shape {list(data.shape)}, not {list(target.extent)}"
            )
        target.write(narrow(data, target.dtype))

    def sized(x: object, size: object) -> Region:
        region = operand(x)
        if not size:
            return region
        assert isinstance(size, list | tuple)
        return Region(region.buffer, region.start, tuple(as_int(n, "a size") for n in size))

    def concat(*words: Any) -> None:
        *sources, dst, dim = words
        parts = [operand(s).read() for s in sources]
        store(dst, np.concatenate(parts, axis=as_int(dim, "a dim")))

    def interleave(*words: object, channel_nums: int = 2, size: object = None) -> None:
        *sources, dst = words
        if len(sources) != channel_nums or channel_nums != 2:
            raise SimError("type", f"T.interleave takes two sources, got {len(sources)}")
        parts = np.stack([sized(s, size).read() for s in sources], axis=-1)
        store(dst, parts.reshape(*parts.shape[:-2], -1))

    def deinterleave(
        src: object,
        *dsts: object,
        channel_nums: int = 2,
        index_mode: str = "ALL_CHANNELS",
        size: object = None,
    ) -> None:
        data = sized(src, size).read()
        if data.shape[-1] % channel_nums:
            raise SimError("shape", f"the last extent {data.shape[-1]} is not even")
        wanted = range(channel_nums)
        if index_mode != "ALL_CHANNELS":
            wanted = range(int(index_mode[-1]), int(index_mode[-1]) + 1)
        for channel, dst in zip(wanted, dsts, strict=True):
            store(dst, data[..., channel::channel_nums])

    def pad(
        src: object, dst: object, pad_value: object, low: Any, high: Any, size: object = None
    ) -> None:
        source, target = sized(src, size), operand(dst)
        before = [as_int(n, "a padding") for n in low]
        after = [as_int(n, "a padding") for n in high]
        extent = tuple(a + n + b for a, n, b in zip(before, source.extent, after, strict=True))
        whole = Region(target.buffer, target.start, extent)
        data = source.read()
        fill(machine, whole, pad_value)
        inner = tuple(a + s for a, s in zip(before, target.start, strict=True))
        Region(target.buffer, inner, source.extent).write(narrow(data, target.dtype))

    def flip(src: object, dst: object, axis: object) -> None:
        store(dst, np.flip(operand(src).read(), as_int(axis, "an axis")))

    def gather(src: object, dst: object, indices: object, size: object = None) -> None:
        data, where = sized(src, size).read(), sized(indices, size).read()
        if where.min() < 0 or where.max() >= data.shape[-1]:
            raise SimError("bounds", f"T.gather: an index is outside 0:{data.shape[-1]}")
        found = np.take_along_axis(data, where.astype(np.int64), axis=-1)
        target = sized(dst, size)
        target.write(narrow(found, target.dtype))

    names: dict[str, Any] = {
        "concat": concat,
        "interleave": interleave,
        "deinterleave": deinterleave,
        "pad": pad,
        "flip": flip,
        "gather": gather,
    }
    names |= {f"npuir_{name}": fn for name, fn in names.items()}
    return names
