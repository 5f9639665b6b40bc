"""Arrays in a memory, single elements of them, and rectangular regions of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import SimError
from .lanes import LaneIndex, lane_index
from .machine import BEFORE, Machine
from .values import (
    BYTES,
    STORAGE,
    Array,
    Operand,
    Value,
    constant,
    dtype_name,
    is_float,
    narrow,
)


class Buffer:
    """An array in memory `scope` ("global", "shared", "fragment", "local", "UB", "L1", ...).

    data: row-major, in the dtype's storage type. ready: which elements somebody has written (None
    for parameters). owner: for parameters, which block wrote an element (-1 nobody, -2 atomics).
    reader: of a hosted machine's parameters, which block read it (-2 several). flying: elements into which an
    asynchronous copy is under way. private: how many leading axes of `data` are the threads', each of which has its own.
    """

    def __init__(
        self, machine: Machine, data: Array, dtype: str, scope: str, name: str, fresh: bool
    ) -> None:
        self.machine = machine
        self.data = data
        self.dtype = dtype
        self.scope = scope
        self.name = name
        self.ready: Array | None = np.zeros(data.shape, np.bool_) if fresh else None
        self.owner: Array | None = None
        self.reader: Array | None = None
        self.flying: Array | None = None
        self.private = 0
        self.reducer = ""
        """how what several iterations give is folded (T.alloc_reducer); "": they may not give several"""

    @property
    def shape(self) -> tuple[int, ...]:
        """Static extents."""
        return tuple(self.data.shape[self.private :])

    def __getitem__(self, index: object) -> Element | Region:
        items = index if isinstance(index, tuple) else (index,)
        rank = len(self.shape)
        if len(items) > rank:
            raise SimError("shape", f"{self.name} has {rank} dims, {len(items)} indices given")
        if any(isinstance(i, slice) for i in items):
            return region_of(self, items)
        return Element(self, tuple(constant(i) for i in items))

    def __setitem__(self, index: object, value: object) -> None:
        target = self[index]
        if isinstance(target, Region):
            raise SimError("type", f"assigning to a slice of {self.name}; use T.copy or T.fill")
        target.store(value)

    def whole(self) -> Region:
        """Return the region that is the whole buffer."""
        return Region(self, (0,) * len(self.shape), self.shape)

    def claim(self, where: Any) -> None:
        """Record that this block writes `where`; two blocks writing one element is a race."""
        if self.owner is None:
            return
        if not self.data.flags.writeable:
            raise SimError("bounds", f"stores to {self.name}, which is an input")
        block = self.machine.core.block
        seen = self.owner[where]
        if np.any((seen != -1) & (seen != BEFORE) & (seen != block)):
            raise SimError("race", f"two blocks write the same element of {self.name}")
        if self.reader is not None:
            looked = self.reader[where]
            if np.any((looked != -1) & (looked != block)):
                raise SimError(
                    "race", f"a block writes an element of {self.name} that another block reads"
                )
        self.owner[where] = block

    def look(self, where: Any) -> None:
        """Record that this block reads `where`; reading what another block writes is a race."""
        self.landed(where, "reads")
        if self.reader is None or self.owner is None:
            return
        block = self.machine.core.block
        wrote = self.owner[where]
        if np.any((wrote >= 0) & (wrote != block)):
            raise SimError(
                "race", f"a block reads an element of {self.name} that another block writes"
            )
        before = self.reader[where]
        self.reader[where] = np.where((before == -1) | (before == block), block, -2)

    def fly(self, where: Any, *, under_way: bool) -> None:
        """Note that an asynchronous write into `where` is under way, or is over."""
        if self.flying is None:
            self.flying = np.zeros(self.data.shape, np.bool_)
        self.flying[where] = under_way

    def landed(self, where: Any, does: str) -> None:
        """Raise when an asynchronous copy into `where` is under way."""
        if self.flying is not None and np.any(self.flying[where]):
            raise SimError(
                "async", f"{does} {self.name} before the asynchronous copy into it was waited for"
            )


@dataclass(slots=True, eq=False)
class Element(Operand):
    """`buffer[i, j]`: a single element, or one element per lane; read when its value is used."""

    buffer: Buffer
    index: tuple[Value, ...]

    @property
    def dtype(self) -> str:
        """The buffer's element type."""
        return self.buffer.dtype

    def _lanes(self, what: str) -> LaneIndex:
        if len(self.index) != len(self.buffer.shape):
            raise SimError(
                "shape",
                f"{what} of {self.buffer.name} with {len(self.index)} indices; it has "
                f"{len(self.buffer.shape)} dims",
            )
        return lane_index(self.buffer, self.index, what)

    def value(self) -> Value:
        """Read: outside a parameter gives 0, as TileLang's guarded access does."""
        return Value(self._lanes("read").load(), self.buffer.dtype)

    def store(self, value: object) -> None:
        """Write (dropped outside a parameter); two lanes writing one element is a race."""
        new = constant(value, self.buffer.dtype).cast(self.buffer.dtype)
        self._lanes("write").store(np.asarray(new.data))


@dataclass(slots=True, eq=False)
class Region:
    """A rectangle: `start[d] .. start[d] + extent[d]` of each dimension."""

    buffer: Buffer
    start: tuple[int, ...]
    extent: tuple[int, ...]

    @property
    def dtype(self) -> str:
        """The buffer's element type."""
        return self.buffer.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The region's extents."""
        return self.extent

    def inside(self, what: str) -> tuple[slice, ...]:
        """Return the part inside the buffer; scratch memory must hold all of it."""
        if self.buffer.private:
            raise NotImplementedError(
                f"a tile operation on {self.buffer.name}, of which every thread has its own"
            )
        clipped = []
        for d, (a, e) in enumerate(zip(self.start, self.extent, strict=True)):
            n = self.buffer.shape[d]
            if e < 0:
                raise SimError(
                    "bounds", f"{what} {self.buffer.name}: negative extent {e} in dim {d}"
                )
            if self.buffer.scope != "global" and (a < 0 or a + e > n):
                raise SimError(
                    "bounds", f"{what} {self.buffer.name} dim {d}: {a}:{a + e} is outside 0:{n}"
                )
            low = min(max(a, 0), n)
            clipped.append(slice(low, max(low, min(a + e, n))))
        return tuple(clipped)

    def unwritten(self) -> Array | None:
        """Return which elements hold nothing, None when all hold something."""
        ready = self.buffer.ready
        part = None if ready is None else ready[self.inside("read of")]
        return None if part is None or part.all() else ~part

    def read(self, *, partly: bool = False) -> Array:
        """Return the contents; positions outside a parameter read as 0.

        partly: data that is missing here and there is no error; the caller follows it (`unwritten`).
        """
        where = self.inside("read of")
        buffer = self.buffer
        buffer.look(where)
        ready = None if buffer.ready is None else buffer.ready[where]
        if ready is not None and not (ready.any() if partly else ready.all()):
            missing = int((~ready).sum())
            buffer.machine.uninitialised(
                f"reads uninitialised {buffer.scope} buffer '{buffer.name}' "
                f"({missing} of {math.prod(self.extent)} elements)"
            )
        part = buffer.data[where]
        if part.shape == self.extent:
            return part
        full = np.zeros(self.extent, part.dtype)
        full[self._place(where)] = part
        return full

    def write(self, data: Array, *, add: bool = False, missing: Array | None = None) -> None:
        """Store `data` (already of the buffer's storage type); dropped outside a parameter.

        missing: elements that depend on data nobody wrote; a parameter must not get any.
        """
        if missing is not None and self.buffer.ready is None and missing.any():
            count = int(np.broadcast_to(missing, self.extent).sum())
            self.buffer.machine.uninitialised(
                f"stores uninitialised data to {self.buffer.name} "
                f"({count} of {math.prod(self.extent)} elements)"
            )
        where = self.inside("write of")
        buffer = self.buffer
        buffer.landed(where, "writes")
        part = np.broadcast_to(data, self.extent)[self._place(where)]
        if add:
            if buffer.owner is not None:
                buffer.owner[where] = -2
            buffer.data[where] = narrow(_wide(buffer.data[where]) + _wide(part), buffer.dtype)
            return
        buffer.claim(where)
        buffer.data[where] = part
        if buffer.ready is not None:
            buffer.ready[where] = (
                True if missing is None else ~np.broadcast_to(missing, self.extent)
            )

    def _place(self, where: tuple[slice, ...]) -> tuple[slice, ...]:
        return tuple(
            slice(w.start - a if w.stop > w.start else 0, w.stop - a if w.stop > w.start else 0)
            for w, a in zip(where, self.start, strict=True)
        )


def _wide(x: Array) -> Array:
    return x.astype(np.float32) if x.dtype == np.float16 else x


def as_int(x: object, what: str) -> int:
    """Return an index or extent as a Python int."""
    if isinstance(x, Operand):
        return int(x.value().scalar(what))
    if isinstance(x, int | np.integer):
        return int(x)
    raise SimError("type", f"{what} must be an integer, not {type(x).__name__}")


def region_of(buffer: Buffer, items: Sequence[object]) -> Region:
    """Return the region of `buffer[items]` where items are slices or indices (missing = all)."""
    start, extent = [], []
    padded = list(items) + [slice(None)] * (len(buffer.shape) - len(items))
    for d, item in enumerate(padded):
        if isinstance(item, slice):
            if item.step is not None:
                raise SimError("type", f"{buffer.name}: slices with a step are not supported")
            a = 0 if item.start is None else as_int(item.start, "a slice bound")
            b = buffer.shape[d] if item.stop is None else as_int(item.stop, "a slice bound")
            start.append(a)
            extent.append(b - a)
        else:
            start.append(as_int(item, "an index"))
            extent.append(1)
    return Region(buffer, tuple(start), tuple(extent))


def allocate(machine: Machine, scope: str, shape: object, dtype: object, name: str = "") -> Buffer:
    """Return a fresh buffer: NaN in float memory, a conspicuous pattern in integer memory."""
    dims = shape if isinstance(shape, list | tuple) else (shape,)
    extents = tuple(as_int(n, "a buffer extent") for n in dims)
    kind = dtype_name(dtype)
    machine.reserve(scope, extents, BYTES[kind])
    floats, integers = machine.poison
    poison: object = floats if is_float(kind) else (True if kind == "bool" else integers)
    own = machine.core.lanes if scope == "local" and machine.core.simt else ()
    data = np.full(own + extents, poison, STORAGE[kind])
    found = Buffer(machine, data, kind, scope, name or scope, fresh=True)
    found.private = len(own)
    return found
