"""Where the text puts arrays: apart from each other, inside what is reserved, an element at each position."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from septran.errors import Span
from septran.ir.dtypes import nbytes
from septran.ir.nodes import Buffer
from septran.prove.certificate import Finding
from septran.prove.printed import Place, Printed, Room
from septran.prove.sets import Model, affine
from septran.prove.text_operands import CODE


@dataclass(slots=True)
class Arrays:
    """The arrays of one kernel."""

    model: Model
    printed: Printed

    def findings(self) -> Iterator[Finding]:
        """Yield arrays that meet, end outside their memory, or are declared as something else."""
        params = tuple(p.buffer.name for p in self.model.program.params)
        order = tuple(self.printed.names.get(n, n) for n in self.printed.order)
        if params != order:
            yield Finding(code=CODE, text=f"the parameters are {params}, the text has {order}")
        for option, value in self.printed.options.items():
            if self.model.program.option(option, 1) != value:
                asked = self.model.program.option(option, 1)
                yield Finding(code=CODE, text=f"{option} is {value} in the text, not {asked}")
        for name, layout in self.printed.places.items():
            yield from self._bijection(name, layout)
        rooms = list(self.printed.rooms.items())
        for at, (name, room) in enumerate(rooms):
            low, high = room.offset, room.offset + self._bytes(name)
            if low % self._unit(name):
                yield self._finding(name, f"{name} lies at {low}, between two elements")
            if high > self.printed.memories.get(room.memory, high):
                yield self._finding(name, f"{name} ends outside {room.memory}")
            for other, room2 in rooms[:at]:
                # the text's order: an earlier one in a deeper block is gone when this one begins
                together = room.scope[: len(room2.scope)] == room2.scope
                apart = room2.offset >= high or room2.offset + self._bytes(other) <= low
                same = room.memory and room.memory == room2.memory
                if same and together and not apart and not self._in_turn(name, other):
                    yield self._finding(name, f"{name} lies on {other}")
        for name, room in rooms:
            buffer = self.model.buffers.get(self.printed.names.get(name, ""))
            if buffer is None:
                continue
            place = self.printed.places.get(buffer.name)
            pairs: tuple[tuple[object, object], ...] = (
                (room.dtype, buffer.dtype),
                (room.layout, buffer.layout),
                (room.shape, self._shape(buffer, room)),
                (room.allocator, "" if place is None else place.allocator),
            )
            for told, meant in pairs:
                if told and told != meant:
                    yield self._finding(name, f"{name} is {told} in the text, not {meant}")
        for name, buffer in self.model.buffers.items():
            if buffer.offset is not None:
                mine = [r for n, r in rooms if self.printed.names.get(n) == name]
                if mine and mine[0].offset != buffer.offset:
                    text = f"{name} lies at {mine[0].offset}, not at {buffer.offset}"
                    yield self._finding(name, text)

    def _in_turn(self, name: str, other: str) -> bool:
        """Whether the Program places both, and has done with one of them before it touches the other."""
        told = (self.printed.names.get(name, ""), self.printed.names.get(other, ""))
        buffers = [self.model.buffers.get(n) for n in told]
        if any(b is None or b.offset is None for b in buffers):
            return False
        uses: dict[str, list[int | str]] = {n: [] for n in told}
        for s in self.model.statements:
            for a in s.accesses:
                if a.region.buffer.name in uses:
                    uses[a.region.buffer.name].append(s.path[0])
        mine, theirs = (sorted(map(int, uses[n])) for n in told)
        return not mine or not theirs or mine[-1] < theirs[0] or theirs[-1] < mine[0]

    def _shape(self, buffer: Buffer, room: Room) -> tuple[int, ...]:
        """Return the extents that the text declares of a buffer."""
        place, values = self.printed.places.get(buffer.name), self.printed.values
        if place is not None and place.shape:
            return place.shape
        if values is not None and values.padded is not None and room.memory == "":
            return tuple(map(values.padded, buffer.shape))
        return buffer.shape

    def _finding(self, name: str, text: str) -> Finding:
        return Finding(
            code=CODE, text=text, places=(Span(self.printed.file, self.printed.rooms[name].line),)
        )

    def _bytes(self, name: str) -> int:
        buffer = self.model.buffers.get(self.printed.names.get(name, ""))
        if buffer is None:
            return 0
        place = self.printed.places.get(buffer.name)
        return 0 if place is None else place.size * buffer.versions * nbytes(buffer.dtype)

    def _unit(self, name: str) -> int:
        buffer = self.model.buffers.get(self.printed.names.get(name, ""))
        return nbytes(buffer.dtype) if buffer is not None else 1

    def _bijection(self, name: str, place: Place) -> Iterator[Finding]:
        buffer = self.model.buffers.get(name)
        if buffer is None:
            return
        box = " and ".join(
            f"0 <= {x} < {n}" for x, n in zip(place.index, buffer.shape, strict=True)
        )
        at = self.model.map(
            f"E[{', '.join(place.index)}] -> A[{affine(place.address)}] : {box or 'true'}"
        )
        size = self.model.set(f"A[a] : 0 <= a < {place.size}")
        if buffer.mem == "GLOBAL" and (buffer.start or buffer.strides):
            return  # a view of a larger array, whose bounds are asked of that array
        if not at.is_injective() or not at.range().is_subset(size):
            yield Finding(
                code=CODE, text=f"two elements of {name} share a position, or one has none"
            )
