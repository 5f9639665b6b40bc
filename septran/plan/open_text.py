"""One logic text for all sizes, from texts that were written at several: numbers that differ become expressions.

A graph with open sizes is written at a few points of its dims. The texts have to be the same but for numbers, and each
number a sum of products of dims, which is found at some of the points and has to hold at the others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

from septran.aten.open_graph import OpenDim
from septran.errors import InputError

_NUMBER = re.compile(r"(?<![\w.])(\d+)(?![\w.])")
_PROOF = 2
"""Points at which an expression is tried that was found at the others."""


@dataclass(frozen=True, slots=True)
class Size:
    """A sum of products of dims. terms: dims that are multiplied, () for the number alone -> its factor."""

    terms: tuple[tuple[tuple[str, ...], int], ...]

    def text(self, *, spaces: bool = True) -> str:
        """Return it as Task Lang has it; without spaces as an operator's dim."""
        found = []
        for names, factor in self.terms:
            words = [*names, *([str(factor)] if factor != 1 or not names else [])]
            found.append((" * " if spaces else "*").join(words))
        return (" + " if spaces else "+").join(found)


def points(dims: Sequence[OpenDim]) -> tuple[dict[str, int], ...]:
    """Return the sizes at which texts are compared: the example's, and primes behind them."""
    unknown = len(_basis(tuple(d.name for d in dims)))
    found = [{d.name: d.hint for d in dims}]
    taken: set[int] = set()
    for _ in range(unknown + _PROOF):
        at = {}
        for d in dims:
            size = next((n for n in _primes(max(d.hint, 4) + 1) if n not in taken), 0)
            size = size if size <= d.high else _within(d, taken)
            taken.add(size)
            at[d.name] = size
        found.append(at)
    return tuple(found)


def _primes(first: int) -> range | list[int]:
    return [n for n in range(first, first + 600) if all(n % k for k in range(2, int(n**0.5) + 1))]


def _within(dim: OpenDim, taken: set[int]) -> int:
    """Return a size of a dim with a low end; one that was taken where nothing else is left."""
    rest = [n for n in range(dim.high, max(dim.low, 2) - 1, -1) if n not in taken and n != dim.hint]
    return rest[0] if rest else dim.high


def one_text(
    texts: Sequence[str], entry: str, at: Sequence[Mapping[str, int]], told: str
) -> tuple[str, bool]:
    """Return the text of all sizes, and whether its tiles are those of the first point.

    Numbers inside `entry` become expressions over the dims; tiles keep the numbers of one point.

    Raises:
        InputError: C162, the texts differ otherwise.
    """
    split = [_NUMBER.split(t) for t in texts]
    own = split[0][::2] == split[1][::2]  # a size of 1, say, is written in another way
    base = split[0] if own else split[1]
    used = list(range(0 if own else 1, len(texts)))
    for other in used[1:]:
        if split[other][::2] != base[::2]:
            raise _differs(texts[used[0]], texts[other], told)
    whole = texts[used[0]]
    begin = whole.index(f"\ndef {entry}(")
    found, place = [base[0]], len(base[0])
    for k in range(1, len(base), 2):
        numbers = [int(split[i][k]) for i in used]
        text = base[k]
        if len(set(numbers)) > 1 and not _is_tile(whole, place):
            size = fitted(numbers, [at[i] for i in used])
            if size is None or place < begin:
                raise _fixed(whole, place, told)
            text = size.text()
        found += [text, base[k + 1]]
        place += len(base[k]) + len(base[k + 1])
    return "".join(found), own


def _is_tile(text: str, place: int) -> bool:
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return "task.tunable(" in line


def fitted(numbers: Sequence[int], at: Sequence[Mapping[str, int]]) -> Size | None:
    """Return the size that has these values at these points, None when there is none."""
    names = tuple(at[0])
    basis = _basis(names)
    rows = [[Fraction(_product(names, p)) for names in basis] for p in at]
    solved = _solved(rows, numbers)
    if solved is None or any(c.denominator != 1 for c in solved):
        return None
    for row, n in zip(rows, numbers, strict=True):
        if sum(c * x for c, x in zip(solved, row, strict=True)) != n:
            return None
    terms = [(names, int(c)) for names, c in zip(basis, solved, strict=True) if c]
    terms.sort(key=lambda t: -len(t[0]))
    return Size(tuple(terms)) if all(c > 0 for _, c in terms) and terms else None


def _basis(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [(), *((n,) for n in names), *combinations(names, 2)]


def _product(names: Sequence[str], at: Mapping[str, int]) -> int:
    found = 1
    for name in names:
        found *= at[name]
    return found


def _solved(rows: Sequence[Sequence[Fraction]], values: Sequence[int]) -> list[Fraction] | None:
    """Return the factors that give the values, None where the points do not decide them (Gauss, in fractions)."""
    work = [[*row, Fraction(v)] for row, v in zip(rows, values, strict=True)]
    count = len(rows[0])
    for column in range(count):
        pivot = next((r for r in range(column, len(work)) if work[r][column]), None)
        if pivot is None:
            return None
        work[column], work[pivot] = work[pivot], work[column]
        head = work[column]
        for r, row in enumerate(work):
            if r != column and row[column]:
                factor = row[column] / head[column]
                work[r] = [x - factor * y for x, y in zip(row, head, strict=True)]
    return [work[k][count] / work[k][k] for k in range(count)]


def _differs(one: str, other: str, told: str) -> InputError:
    rows = zip(one.splitlines(), other.splitlines(), strict=False)
    lines = next(((a, b) for a, b in rows if _NUMBER.sub("", a) != _NUMBER.sub("", b)), ("", ""))
    return InputError.of(
        "C162",
        f"{told}: other kernels are written for other sizes ({lines[0].strip()} or {lines[1].strip()})",
        help="leave out the dim that decides it, or call the module with given sizes",
    )


def _fixed(text: str, place: int, told: str) -> InputError:
    line = text[text.rfind("\n", 0, place) + 1 : text.find("\n", place)].strip()
    return InputError.of(
        "C162",
        f"{told}: a number that follows from it is fixed in the kernel ({line})",
        help="leave out the dim that decides it, or call the module with given sizes",
    )
