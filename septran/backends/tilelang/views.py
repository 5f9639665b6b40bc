"""Arrays in global memory under the names that a kernel's text has for them: as stored, in another shape, or as one row of elements."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from septran.backends.text.names import Names
from septran.backends.text.pystyle import safe_name
from septran.ir import nodes as ir
from septran.ir.access import touches
from septran.ir.launch import launches, workspaces
from septran.ir.strides import row_major

Key = tuple[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Views:
    """own: array -> its shape. names: (array, shape) -> the name under which the text has it in that shape."""

    own: Mapping[str, tuple[int, ...]]
    names: Mapping[Key, str]

    def name(self, buffer: ir.Buffer) -> str:
        """Return the identifier of an array, in the shape of `buffer`, or as one row where no shape is that view."""
        key = self._key(buffer)
        return self.names.get(key) or safe_name(buffer.name)

    def at(self, buffer: ir.Buffer, where: Sequence[str]) -> list[str]:
        """Return the index of an element; where: its position in the shape of `buffer`."""
        if buffer.mem != "GLOBAL" or is_dense(buffer, self.own[buffer.name]):
            return list(where)
        terms = [str(buffer.start)] if buffer.start else []
        for text, step, n in zip(where, buffer.strides, buffer.shape, strict=True):
            if n > 1 and step:
                bare = text.replace("_", "").isalnum()
                terms.append(text if step == 1 else f"{text if bare else f'({text})'} * {step}")
        return [" + ".join(t for t in terms if t != "0") or "0"]

    def is_rows(self, region: ir.Region) -> bool:
        """Return whether the text has the array of a region in the region's own shape."""
        buffer = region.buffer
        return buffer.mem != "GLOBAL" or is_dense(buffer, self.own[buffer.name])

    def lines(self) -> list[str]:
        """Return the statements that give arrays their other names."""
        return [
            f"{alias} = T.reshape({safe_name(array)}, ({', '.join(map(str, shape))},))"
            for (array, shape), alias in self.names.items()
        ]

    def _key(self, buffer: ir.Buffer) -> Key:
        own = self.own.get(buffer.name, buffer.shape)
        if not buffer.strides or buffer.mem != "GLOBAL":
            return buffer.name, own
        shape = buffer.shape if is_dense(buffer, own) else (math.prod(own),)
        return buffer.name, shape


def views_of(program: ir.Program) -> Views:
    """Return the names of the arrays of a finished `program`."""
    arrays = [p.buffer for p in program.params]
    arrays += workspaces(launches(program))
    own = {b.name: b.shape for b in arrays}
    names = Names()
    names.taken |= {safe_name(b.name) for b in arrays}
    names.taken |= {
        safe_name(s.buffer.name if isinstance(s, ir.Alloc) else s.var)
        for s in ir.walk(program.body)
        if isinstance(s, ir.Alloc | ir.For)
    }
    found = Views(own, {})
    keys: dict[Key, str] = {}
    for stmt in ir.walk(program.body):
        if not isinstance(stmt, ir.Copy | ir.LeafCall):
            continue
        for region, _ in touches(stmt):
            key = found._key(region.buffer)
            if region.buffer.strides and key[1] != own[key[0]] and key not in keys:
                keys[key] = names.fresh(f"{key[0]}_{'x'.join(map(str, key[1]))}")
    return Views(own, keys)


def is_dense(buffer: ir.Buffer, own: tuple[int, ...]) -> bool:
    """Return whether a view of an array of shape `own` is all of it, row by row."""
    if not buffer.strides:
        return True
    if buffer.start or math.prod(buffer.shape) != math.prod(own):
        return False
    rows = zip(buffer.shape, buffer.strides, row_major(buffer.shape), strict=True)
    return all(n == 1 or step == wanted for n, step, wanted in rows)
