"""Unique names for the text of a Python DSL's kernel."""

from __future__ import annotations

import keyword
from dataclasses import dataclass, field

_RESERVED = frozenset(
    ("tl", "triton", "torch", "entry", "pid", "LAUNCHES", "range", "min", "max", "float", "int")
) | frozenset(keyword.kwlist)


@dataclass(slots=True)
class Names:
    """Unique Python identifiers for one function body."""

    taken: set[str] = field(default_factory=lambda: set(_RESERVED))

    def fresh(self, wanted: str) -> str:
        """Return `wanted`, made a free identifier, and take it."""
        base = "".join(c if c.isalnum() or c == "_" else "_" for c in wanted)
        if not base or base[0].isdigit():
            base = f"v_{base}"
        name, n = base, 1
        while name in self.taken:
            n += 1
            name = f"{base}_{n}"
        self.taken.add(name)
        return name

    def may_be(self, name: str, wanted: str) -> bool:
        """Whether `fresh` makes `name` of `wanted`, perhaps with a number behind it where more was taken."""
        base = self.fresh(wanted)
        return name == base or (name.startswith(f"{base}_") and name[len(base) + 1 :].isdigit())
