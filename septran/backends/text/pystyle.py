"""Text of Python-embedded DSLs (TileLang, Triton, NPUIR): lines, names and index expressions."""

from __future__ import annotations

import keyword
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from septran.ir.expr import Bin, Const, Expr, Var


@dataclass(slots=True)
class Lines:
    """Source text under construction, indented by four spaces per level."""

    text: list[str] = field(default_factory=list)
    depth: int = 0

    def add(self, line: str = "") -> None:
        """Append one line."""
        self.text.append("    " * self.depth + line if line else "")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Append `head` and indent what is added inside; an empty block becomes `pass`."""
        self.add(head)
        self.depth += 1
        before = len(self.text)
        try:
            yield
        finally:
            if len(self.text) == before:
                self.add("pass")
            self.depth -= 1

    def __str__(self) -> str:
        return "\n".join(self.text) + "\n"


def safe_name(
    name: str, taken: frozenset[str] = frozenset({"T", "tl", "tilelang", "triton"})
) -> str:
    """Return `name` as an identifier that is neither a keyword nor one of the file's own names."""
    return f"{name}_" if keyword.iskeyword(name) or name in taken else name


def index_text(e: Expr | int, minimum: str = "T.min", maximum: str = "T.max") -> str:
    """Return the Python text of an index expression, with as few brackets as are needed."""
    return _index(e, minimum, maximum)[0]


_LEVEL = {"+": 1, "-": 1, "*": 2, "//": 2, "%": 2}


def _index(e: Expr | int, minimum: str, maximum: str) -> tuple[str, int]:
    match e:
        case int(value) | Const(value):
            return str(value), 3 if value >= 0 else 1
        case Var(name):
            return safe_name(name), 3
        case Bin("min" | "max" as op, a, b):
            fn = minimum if op == "min" else maximum
            return f"{fn}({_index(a, minimum, maximum)[0]}, {_index(b, minimum, maximum)[0]})", 3
        case Bin(op, a, b):
            level = _LEVEL[op]
            left, l_level = _index(a, minimum, maximum)
            right, r_level = _index(b, minimum, maximum)
            left = left if l_level >= level else f"({left})"
            right = right if r_level > level or (r_level == level and op == "+") else f"({right})"
            return f"{left} {op} {right}", level
    raise TypeError(e)
