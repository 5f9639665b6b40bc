"""Checks every access of an emulated launch: bounds, writes to inputs, races between programs.

Programs run some at a time in step (see lockstep), so every check takes the numbers of all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

_NOBODY = -1
_SEVERAL = -2
_FAR = 1 << 24
"""bytes from a tensor at which an address may be meant for another one"""


class EmulationError(RuntimeError):
    """What a GPU would punish, or an interpreter that fails its self-test."""


@dataclass(slots=True)
class Memory:
    """One buffer: bytes [low, high). owner, reader: per item the program that stored or loaded it.

    stored, loaded: after how many of its atomic operations it did.
    """

    low: int
    high: int
    itemsize: int
    name: str
    writable: bool
    owner: np.ndarray = field(init=False)
    reader: np.ndarray = field(init=False)
    stored: np.ndarray = field(init=False)
    loaded: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        count = (self.high - self.low) // self.itemsize if self.writable else 0
        self.owner = np.full(count, _NOBODY, np.int32)
        self.reader = np.full(count, _NOBODY, np.int32)
        self.stored = np.zeros(count, np.int32)
        self.loaded = np.zeros(count, np.int32)


@dataclass(slots=True)
class Watch:
    """The buffers a launch may touch and who touched what.

    made: program -> how many atomic operations it has made. known, left: program, or address -> what it knows of `made`, because
    each such operation takes what the last one at that address left there, and leaves what its program knows (acquire and release).
    """

    memories: list[Memory] = field(default_factory=list)
    last_error: str = ""
    made: dict[int, int] = field(default_factory=dict)
    known: dict[int, dict[int, int]] = field(default_factory=dict)
    left: dict[int, dict[int, int]] = field(default_factory=dict)

    def add(
        self, address: int, nbytes: int, itemsize: int, name: str, *, writable: bool = True
    ) -> None:
        """Allow [address, address + nbytes), holding items of `itemsize` bytes."""
        self.memories.append(Memory(address, address + nbytes, itemsize, name, writable))

    def forget(self) -> None:
        """Allow nothing: the next call has other buffers."""
        self.memories.clear()

    def new_launch(self) -> None:
        """Forget who touched what: launches are ordered."""
        for memory in self.memories:
            memory.owner.fill(_NOBODY)
            memory.reader.fill(_NOBODY)
            memory.stored.fill(0)
            memory.loaded.fill(0)
        self.made.clear()
        self.known.clear()
        self.left.clear()

    def meet(self, program: int, addresses: np.ndarray) -> None:
        """Note an atomic operation of a program at `addresses`, which orders it with earlier ones there."""
        mine = self.known.setdefault(program, {})
        for address in map(int, addresses):
            for other, count in self.left.get(address, {}).items():
                mine[other] = max(mine.get(other, 0), count)
        self.made[program] = mine[program] = self.made.get(program, 0) + 1
        for address in map(int, addresses):
            self.left[address] = dict(mine)

    def check(
        self, ptrs: np.ndarray, mask: np.ndarray, size: int, programs: np.ndarray, what: str
    ) -> None:
        """Raise EmulationError when an access is out of bounds or races with another program.

        ptrs: addresses, the first axis is the program (extent 1: the same for all of `programs`).
        what: "load", "store" or "atomic" (atomic accesses race with plain ones only; not watched).
        """
        if not self.memories:
            return
        live = np.broadcast_to(mask, ptrs.shape)
        everywhere = bool(live.all())
        at = ptrs.reshape(-1) if everywhere else ptrs[live]
        if at.size == 0:
            return
        first, last = int(at.min()), int(at.max())
        memory = next((m for m in self.memories if m.low <= first < m.high), None)
        if memory is None:
            raise self.error(f"{what} out of bounds: {self._near(first, size)}")
        if last + size > memory.high:
            raise self.error(f"{what} out of bounds: {self._near(last, size)}")
        if what == "atomic":
            return
        if not memory.writable:
            if what == "store":
                raise self.error(f"store to {memory.name}, which is an input")
            return
        shape = (len(programs), *ptrs.shape[1:])
        if shape != ptrs.shape:
            ptrs, live = np.broadcast_to(ptrs, shape), np.broadcast_to(live, shape)
            at = ptrs.reshape(-1) if everywhere else ptrs[live]
        who = np.broadcast_to(programs.reshape(-1, *(1,) * (len(shape) - 1)), shape)
        who = who.reshape(-1) if everywhere else who[live]
        place = ((at - np.uint64(memory.low)) // np.uint64(memory.itemsize)).astype(np.int64)
        if what == "store":
            self._stored(memory, place, who)
        else:
            self._loaded(memory, place, who)

    def _stored(self, memory: Memory, place: np.ndarray, who: np.ndarray) -> None:
        self._clash(memory, memory.owner, memory.stored, place, who, "stores", "stored")
        self._clash(memory, memory.reader, memory.loaded, place, who, "stores", "loaded")
        order = np.arange(place.size, dtype=np.int32)
        memory.owner[place] = order
        lost = memory.owner[place] != order
        if lost.any():
            k = int(np.argmax(lost))
            other = int(who[memory.owner[place[k]]])
            text = f"element {int(place[k])} of {memory.name}"
            if other == int(who[k]):
                raise self.error(f"race: one tl.store writes {text} twice")
            raise self.error(f"race: programs {int(who[k])} and {other} both store {text}")
        memory.owner[place] = who
        if self.made:
            memory.stored[place] = self._counts(who)

    def _loaded(self, memory: Memory, place: np.ndarray, who: np.ndarray) -> None:
        self._clash(memory, memory.owner, memory.stored, place, who, "loads", "stored")
        before = memory.reader[place]
        if self.made:
            before = np.where(self._ordered(before, memory.loaded[place], who), who, before)
            memory.loaded[place] = self._counts(who)
        after = np.where((before == _NOBODY) | (before == who), who, _SEVERAL).astype(np.int32)
        memory.reader[place] = after
        shared = memory.reader[place] != after  # two programs of this very load
        memory.reader[place[shared]] = _SEVERAL

    def _clash(
        self,
        memory: Memory,
        touched: np.ndarray,
        when: np.ndarray,
        place: np.ndarray,
        who: np.ndarray,
        does: str,
        did: str,
    ) -> None:
        other = touched[place]
        clash = (other != _NOBODY) & (other != who)
        if self.made and clash.any():
            clash &= ~self._ordered(other, when[place], who)
        if clash.any():
            k = int(np.argmax(clash))
            whose = f"program {int(other[k])}" if other[k] >= 0 else "another program"
            raise self.error(
                f"race: program {int(who[k])} {does} element {int(place[k])} of {memory.name}, "
                f"which {whose} {did} in the same launch"
            )

    def _counts(self, who: np.ndarray) -> np.ndarray:
        return np.array([self.made.get(int(p), 0) for p in who], np.int32)

    def _ordered(self, other: np.ndarray, when: np.ndarray, who: np.ndarray) -> np.ndarray:
        """Return whether what `other` did after so many of its atomic operations is over for `who`, because it knows of a later one."""
        known = (
            self.known.get(int(p), {}).get(int(q), 0)
            for p, q in zip(who.tolist(), other.tolist(), strict=True)
        )
        return np.fromiter(known, np.int32, who.size) > when

    def error(self, text: str) -> EmulationError:
        """Return the error to raise; the text is kept, as Triton may wrap what it catches."""
        self.last_error = text
        return EmulationError(text)

    def _near(self, address: int, size: int) -> str:
        memory = min(self.memories, key=lambda m: min(abs(address - m.low), abs(address - m.high)))
        count = (memory.high - memory.low) // memory.itemsize
        place = (address - memory.low) // max(size, 1)
        text = f"element {place} of {memory.name} with {count} elements"
        away = min(abs(address - memory.low), abs(address - memory.high))
        if away < _FAR:
            return text
        return f"{text}, or memory that is none of this call's (an input of an earlier one)"


def watch_workspaces(watch: Watch) -> None:
    """Make `torch.empty`, which launchers use for workspaces, return watched NaN-filled memory."""
    import torch

    stock = getattr(torch.empty, "__septran_stock__", torch.empty)

    def empty(*shape: Any, **options: Any) -> Any:
        made = stock(*shape, **options)
        made.fill_(float("nan") if made.is_floating_point() else 77)
        watch.add(made.data_ptr(), made.nbytes, made.element_size(), "workspace")
        return made

    setattr(empty, "__septran_stock__", stock)  # noqa: B010
    torch.empty = empty  # type: ignore[assignment,unused-ignore]
