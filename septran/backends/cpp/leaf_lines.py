"""The lines of a cpp leaf, its names and what its primitives read and write."""

from __future__ import annotations

from collections.abc import Mapping

from septran.backends.cpp.spelling import literal, wide_lanes
from septran.backends.cpp.stores import Traffic
from septran.backends.text.cstyle import identifier
from septran.kernel import LeafParam, LeafSpec


class LeafLines:
    """The lines of one leaf as they are printed. dropped: primitives whose result stays in registers. homes: temporary -> where it lives."""

    def __init__(
        self,
        spec: LeafSpec,
        *,
        dropped: frozenset[int] = frozenset(),
        homes: Mapping[str, str] | None = None,
    ) -> None:
        self.spec = spec
        self.dropped = dropped
        self.homes = homes or {}
        self.traffic = Traffic()
        self.params: dict[str, LeafParam] = {p.name: p for p in spec.params}
        self.double = self._needs_double()
        self.lines: list[str] = []
        self.depth = 1
        self.taken = {identifier(n) for n in self.params} | {identifier(n) for n, _ in spec.scalars}
        self.declared: set[str] = set()
        """what the function itself declares, which no later group of rows may declare again"""

    def _needs_double(self) -> bool:
        if any(p.dtype == "float64" for p in self.spec.params):
            return True
        maps = (p for p in self.spec.prims if p.name == "map")
        return any(wide_lanes(self.spec.expression(prim)) for prim in maps)

    def line(self, text: str) -> None:
        """Print a line."""
        self.lines.append("    " * self.depth + text)

    def open(self, text: str) -> None:
        """Print a line that opens a block."""
        self.line(f"{text} {{")
        self.depth += 1

    def close(self) -> None:
        """Close the block."""
        self.depth -= 1
        self.line("}")

    def fresh(self, name: str) -> str:
        """Return an identifier like `name` that is not taken."""
        name = identifier(name)
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def literal(self, value: object) -> str:
        """Return a number in the compute type."""
        assert isinstance(value, int | float)
        return literal(value, self.dtype)

    def kept_in_registers(self, name: str) -> bool:
        """Return whether nothing of a parameter is stored or loaded."""
        writers = {at for at, prim in enumerate(self.spec.prims) if prim.out == name}
        return bool(writers) and writers <= self.dropped and self.params[name].privilege == "w"

    @property
    def dtype(self) -> str:
        """What floats are computed in."""
        return "float64" if self.double else "float32"
