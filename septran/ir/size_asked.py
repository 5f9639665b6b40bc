"""What a judged file asks of its sizes: a comparison, with what it reckons of them before."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]
    Values = int | float | Array

Number = int | float
SIGNS = ("<", "<=", ">", ">=", "==", "!=")
TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
LEAST = 32
"""Small numbers are those of tails and dimensions."""
_LEAST_BLOCKS = 8
_WINDOW = 16
"""What comes out both ways within so many sizes, wherever they begin, asks for a tail."""
_MOST_WAYS, _MOST_PARTS, _MOST_NUMBER, _ALTERNATIVES = 64, 40, 2.0**53, 4


@dataclass(frozen=True, slots=True)
class Size:
    """A size. of: a parameter, "size(AXIS)" or "numel()" of a tensor, or "", where that is not known. name: as the file has it."""

    of: str
    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Reckoned:
    """Two numbers and an operator: + - * / // % << >> & | ^ min max cdiv; / is exact, and // cuts off."""

    op: str
    a: Term
    b: Term

    def __str__(self) -> str:
        if self.op in ("min", "max", "cdiv"):
            return f"{self.op}({self.a}, {self.b})"
        sides = [f"({x})" if isinstance(x, Reckoned) and x.op not in _CALLS else f"{x}" for x in (self.a, self.b)]  # fmt: skip
        return f" {'/' if self.op == '//' else self.op} ".join(sides)


BLOCKS = "blocks"
"""`Size.of` of a place in a grid, and of its extent: nobody knows what they are at a size, and the more elements there are, the more they are."""
Term = Size | Reckoned | int | float
_CALLS = ("min", "max", "cdiv")


@dataclass(frozen=True, slots=True)
class SizeAsked:
    """A comparison of what is reckoned of sizes with another such, or with a number. sign: one of SIGNS; "": whether it is not 0."""

    term: Term
    sign: str
    other: Term = 0

    def __str__(self) -> str:
        if not self.sign:
            return f"{self.term}"
        bits = ("&", "|", "^")
        sides = [f"({t})" if getattr(t, "op", "") in bits else f"{t}" for t in (self.term, self.other)]  # fmt: skip
        return f" {self.sign} ".join(sides)

    @property
    def sizes(self) -> tuple[Size, ...]:
        """The sizes that it asks for, each once."""
        return tuple(dict.fromkeys((*sizes_of(self.term), *sizes_of(self.other))))

    def holds(self, sizes: Mapping[Size, Values]) -> Array:
        """Return how it comes out where its sizes are these: numbers, or arrays of like lengths."""
        import numpy as np

        a, b = value(self.term, sizes), value(self.other, sizes)
        match self.sign:
            case "<" | ">":
                found = np.less(a, b) if self.sign == "<" else np.greater(a, b)
            case "<=" | ">=":
                found = np.less_equal(a, b) if self.sign == "<=" else np.greater_equal(a, b)
            case _:
                found = np.equal(a, b) if self.sign == "==" else np.not_equal(a, b)
        return np.asarray(found)


def sizes_of(term: Term) -> Iterator[Size]:
    """Yield the sizes that a term is reckoned of."""
    if isinstance(term, Size):
        yield term
    elif isinstance(term, Reckoned):
        yield from sizes_of(term.a)
        yield from sizes_of(term.b)


def value(term: Term, sizes: Mapping[Size, Values]) -> Values:
    """Return what a term is where its sizes are these; of a division by 0, 0."""
    import numpy as np

    if isinstance(term, Size):
        return sizes[term]
    if not isinstance(term, Reckoned):
        return term
    a, b = np.asarray(value(term.a, sizes)), np.asarray(value(term.b, sizes))
    with np.errstate(all="ignore"):
        return _of_two(term.op, a, b)


def _of_two(op: str, a: Array, b: Array) -> Array:
    import numpy as np

    found: Array
    if op in ("/", "//", "%", "cdiv"):
        none = b == 0
        by = np.where(none, 1, b)
        if op == "/" or (op == "//" and "f" in (a.dtype.kind, b.dtype.kind)):
            found = a / by
        else:
            found = a // by if op == "//" else a % by if op == "%" else -(-a // by)
        return np.where(none, 0, found)
    if op in ("<<", ">>", "&", "|", "^"):
        a, b = a.astype(np.int64), b.astype(np.int64)
    match op:
        case "+":
            found = a + b
        case "-":
            found = a - b
        case "*":
            found = a * b
        case "**":
            found = a.astype(float) ** np.clip(b, 0, 8)
        case "<<":
            found = a << np.clip(b, 0, 40)
        case ">>":
            found = a >> np.clip(b, 0, 63)
        case "&":
            found = a & b
        case "|":
            found = a | b
        case "^":
            found = a ^ b
        case _:
            found = np.minimum(a, b) if op == "min" else np.maximum(a, b)
    return np.asarray(found)


def reckoned(op: str, a: list[Term], b: list[Term]) -> list[Term]:
    """Return the terms that an operator makes of what its sides may be: numbers where both are, and none that is long."""
    made: dict[Term, None] = {}
    for x, y in itertools.product(a, b):
        one: Term = Reckoned(op, x, y)
        if isinstance(x, int | float) and isinstance(y, int | float):
            number: Any = value(one, {})
            number = number.item()
            if not abs(number) < _MOST_NUMBER:
                continue
            one = int(number) if op == "**" and isinstance(x, int) else number
        if len(list(itertools.islice(_parts(one), _MOST_PARTS))) < _MOST_PARTS:
            made.setdefault(one)
    return list(made)[:_ALTERNATIVES]


def _parts(term: Term) -> Iterator[Term]:
    """Yield a term and what it is made of, without recursion."""
    left = [term]
    while left:
        one = left.pop()
        yield one
        if isinstance(one, Reckoned):
            left += [one.a, one.b]


def compared(a: Term, sign: str, b: Term) -> SizeAsked | None:
    """Return what a comparison asks of sizes, the number behind; None where it asks nothing, or for a tail or a dimension."""
    if not any(sizes_of(a)):
        a, sign, b = b, TURNED.get(sign, sign), a
    asked = SizeAsked(a, sign, b)
    if not asked.sizes or _without_offset(a) == _without_offset(b):
        return None  # `n - 1 < n` comes out the same way at every size
    if isinstance(a, Size) and isinstance(b, int | float):
        return asked if b >= _least(a) else None
    if _rest(a) and sign in ("==", "!="):  # a rest of a plain size: by the number that divides
        return asked if a.b >= LEAST else None  # type: ignore[union-attr, operator]
    return None if len(asked.sizes) == 1 and _is_small(asked) else asked


def _without_offset(term: Term) -> Term:
    """Return a term without the numbers that are added to it."""
    while isinstance(term, Reckoned) and term.op in ("+", "-") and isinstance(term.b, int | float):
        term = term.a
    return term


def rests(term: Term) -> Iterator[SizeAsked]:
    """Yield what a term that nothing compares asks: whether its divisions and bits leave nothing, and where its min and max end."""
    if not isinstance(term, Reckoned) or any(s.of == BLOCKS for s in sizes_of(term)):
        return
    found: SizeAsked | None = None
    if term.op == "%" and isinstance(term.b, int):
        found = compared(term, "!=", 0)
    elif term.op in ("&", "//", ">>"):
        found = compared(term, "", 0)
    elif term.op in ("min", "max"):
        found = compared(term.a, "<=", term.b)
    if found is not None:
        yield found
    for inner in (term.a, term.b):
        yield from rests(inner)


def ways(sizes: tuple[Size, ...], known: Mapping[str, set[int]]) -> list[dict[Size, int]]:
    """Return what sizes may be together. known: `of` -> its values; under "" those of a size of which no more is known."""
    each = [sorted(known[s.of if s.of in known else ""]) for s in sizes]
    found = itertools.islice(itertools.product(*each), _MOST_WAYS)
    return [dict(zip(sizes, one, strict=True)) for one in found]


def _rest(term: Term) -> bool:
    plain = isinstance(term, Reckoned) and term.op in ("%", "&") and isinstance(term.a, Size)
    return plain and isinstance(term.b, int)  # type: ignore[union-attr]


def _least(size: Size) -> int:
    return _LEAST_BLOCKS if size.of == BLOCKS else LEAST


def _is_small(asked: SizeAsked) -> bool:
    """Whether it turns only below small sizes, or with each few of them."""
    import numpy as np

    (size,) = asked.sizes
    near = np.arange(_least(size), 8192)
    far = np.concatenate([np.arange(8192, 1 << 24, 997), *(2 ** np.arange(13, 25) + d for d in (-1, 0, 1))])  # fmt: skip
    held = np.broadcast_to(np.asarray(asked.holds({size: near}), bool), near.shape)
    if held.all() or not held.any():
        further = np.asarray(asked.holds({size: far}), bool)
        return bool((further == held[0]).all())
    turns = np.flatnonzero(held[1:] != held[:-1])
    lengths = np.diff(np.concatenate([[-1], turns, [len(near) - 1]]))
    return bool(lengths.max() < _WINDOW)
