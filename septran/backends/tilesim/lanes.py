"""Element accesses of all T.Parallel iterations at once: bounds, masks, races."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import SimError
from .values import Array, Value, is_float

if TYPE_CHECKING:
    from .buffers import Buffer


@dataclass(slots=True, eq=False)
class LaneIndex:
    """One access by all lanes.

    index: per buffer dim an integer or an array that broadcasts against the lanes.
    lanes: extents of the T.Parallel nest, () outside of one. keep: lanes that take part (None = all)
    after masks and, for parameters, the bounds guard. guarded: lanes whose address is outside.
    """

    buffer: Buffer
    index: tuple[Array, ...]
    lanes: tuple[int, ...]
    keep: Array | None
    outside: Array | None

    def load(self) -> Array:
        """Return one value per lane; 0 for lanes that are outside or masked off."""
        buffer = self.buffer
        where = self._safe()
        data = buffer.data[where]
        if buffer.ready is not None:
            ready = buffer.ready[where]
            if self.keep is not None:
                ready = ready | ~self.keep
            if not ready.all():
                buffer.machine.uninitialised(
                    f"reads uninitialised {buffer.scope} buffer '{buffer.name}'"
                )
        if buffer.reader is not None or buffer.flying is not None:
            keep = np.broadcast_to(True if self.keep is None else self.keep, self.lanes)
            buffer.look(tuple(np.broadcast_to(i, self.lanes)[keep] for i in where))
        self._log(loads=True)
        if self.outside is not None:
            data = np.where(self.outside, np.zeros((), data.dtype), data)
        return data

    def store(self, new: Array) -> None:
        """Write one value per lane; an error when two lanes write one element."""
        buffer = self.buffer
        if new.ndim > 0 and len(self.lanes) == 0:
            new = new.reshape(())
        self._check_race(new)
        self._log(loads=False)
        if self.keep is None and not buffer.machine.core.simt:
            where = self.index
            shape = np.broadcast_shapes(*(i.shape for i in where)) if where else ()
            if math.prod(np.broadcast_shapes(shape, new.shape)) != math.prod(shape):
                raise SimError(
                    "race",
                    f"several T.Parallel iterations write the same element of {buffer.name}",
                )
            buffer.landed(where, "writes")
            buffer.claim(where)
            buffer.data[where] = new
        else:
            keep = np.broadcast_to(True if self.keep is None else self.keep, self.lanes)
            where = tuple(np.broadcast_to(i, self.lanes)[keep] for i in self.index)
            buffer.landed(where, "writes")
            buffer.claim(where)
            stored = np.broadcast_to(new, self.lanes)[keep]
            if where:
                buffer.data[where] = stored
            elif stored.size:  # an array of no axes: every lane that stores has the same value
                buffer.data[()] = stored[-1]
        if buffer.ready is not None:
            buffer.ready[where] = True

    def add(self, new: Array) -> None:
        """Add atomically: lanes may share an element."""
        self.fold(new, np.add)

    def fold(self, new: Array, function: Any) -> None:
        """Fold values in, a numpy function of two: lanes may share an element."""
        shape = self.lanes
        keep = np.broadcast_to(True if self.keep is None else self.keep, shape)
        where = tuple(np.broadcast_to(i, shape)[keep] for i in self.index)
        if self.buffer.owner is not None:
            self.buffer.owner[where] = -2
        function.at(self.buffer.data, where, np.broadcast_to(new, shape)[keep])

    def fetch(self, new: Array, function: Any, *, backwards: bool) -> Array:
        """Fold values in one lane after the other; return what each lane found there.

        backwards: the last lane is the first: no order of theirs is promised.
        """
        shape = self.lanes
        keep = np.broadcast_to(True if self.keep is None else self.keep, shape)
        found = np.zeros(shape, self.buffer.data.dtype)
        values = np.broadcast_to(new, shape)
        index = tuple(np.broadcast_to(i, shape) for i in self.index)
        if self.buffer.owner is not None:
            self.buffer.owner[tuple(i[keep] for i in index)] = -2
        lanes = [lane for lane in np.ndindex(*shape) if keep[lane]]
        for lane in reversed(lanes) if backwards else lanes:
            at = tuple(i[lane] for i in index)
            found[lane] = self.buffer.data[at]
            self.buffer.data[at] = function(self.buffer.data[at], values[lane])
        return found

    def _safe(self) -> tuple[Array, ...]:
        if self.outside is None:
            return self.index
        return tuple(np.where(self.outside, 0, i) for i in self.index)

    def _check_race(self, new: Array) -> None:
        if not self.lanes or math.prod(self.lanes) == 1:
            return
        if self.keep is None and covers_every_axis(self.index, self.lanes):
            return
        flat = self._flat()
        if flat.size == np.unique(flat).size:
            return
        if self.buffer.machine.core.simt:
            self._check_threads(flat, new)
            return
        raise SimError(
            "race",
            f"several T.Parallel iterations write the same element of {self.buffer.name}",
        )

    def _check_threads(self, flat: Array, new: Array) -> None:
        """Threads may store one and the same value to one element: nobody can tell which of them was last."""
        keep = np.broadcast_to(True if self.keep is None else self.keep, self.lanes)
        bits = np.ascontiguousarray(np.broadcast_to(new, self.lanes)[keep])
        order = np.argsort(flat, kind="stable")
        at, value = flat[order], bits[order].view(f"V{bits.itemsize}")
        if np.any((at[1:] == at[:-1]) & (value[1:] != value[:-1])):
            raise SimError(
                "race", f"threads store different values to one element of {self.buffer.name}"
            )

    def _flat(self) -> Array:
        """Return the flat element number of each lane that takes part."""
        keep = np.broadcast_to(True if self.keep is None else self.keep, self.lanes)
        flat = np.zeros(self.lanes, np.int64)
        for i, n in zip(self.index, self.buffer.data.shape, strict=True):
            flat = flat * n + i
        return np.asarray(flat[keep])

    def _log(self, *, loads: bool) -> None:
        exchange = self.buffer.machine.core.exchange
        if not exchange:
            return
        log = exchange.get(id(self.buffer))
        if log is None:
            return
        keep = np.broadcast_to(True if self.keep is None else self.keep, self.lanes)
        lane = np.arange(math.prod(self.lanes)).reshape(self.lanes)[keep]
        (log.loads if loads else log.stores).append((self._flat(), lane))


def covers_every_axis(index: tuple[Array, ...], lanes: tuple[int, ...]) -> bool:
    """Return whether each lane axis alone decides one index, so that no two lanes can meet."""
    open_axes = {axis for axis, n in enumerate(lanes) if n > 1}
    for i in index:
        if i.ndim != len(lanes):
            continue
        axes = [axis for axis, n in enumerate(i.shape) if n > 1]
        if len(axes) == 1 and axes[0] in open_axes:
            steps = np.diff(i.reshape(-1))
            if (steps > 0).all() or (steps < 0).all():
                open_axes.discard(axes[0])
    return not open_axes


def lane_index(buffer: Buffer, index: tuple[Value, ...], what: str) -> LaneIndex:
    """Return the access `buffer[index]` of the lanes that run now, with bounds checked.

    Scratch memory: any taking-part lane outside is an error. Parameters: those lanes are guarded
    (reads give 0, writes are dropped), as TileLang's legalised accesses are.
    """
    core = buffer.machine.core
    lanes = core.lanes
    if buffer.private and not core.simt:
        raise NotImplementedError(
            f"{what} of {buffer.name}, of which every thread has its own, by all of them"
        )
    arrays: list[Array] = list(buffer.machine.lane_axes()) if buffer.private else []
    outside: Array | None = None
    for d, (value, n) in enumerate(zip(index, buffer.shape, strict=True)):
        if is_float(value.dtype):
            raise SimError("type", f"{what} of {buffer.name}: index {d} is a {value.dtype}")
        i = np.asarray(value.data, np.int64)
        arrays.append(i)
        if i.size and (int(i.min()) < 0 or int(i.max()) >= n):
            bad = (i < 0) | (i >= n)
            outside = bad if outside is None else outside | bad
    keep = core.mask
    if outside is not None:
        taking_part = outside if keep is None else outside & keep
        if buffer.scope != "global" and taking_part.any():
            raise SimError(
                "bounds", f"{what} of {buffer.name}{list(buffer.shape)} outside its bounds"
            )
        keep = ~outside if keep is None else keep & ~outside
    return LaneIndex(buffer, tuple(arrays), lanes, keep, outside)
