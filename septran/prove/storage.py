"""Elements of an array that is seen in several layouts, as coordinates that all of its views share.

A view (`task.permute`, `reshape`, `slice`, a broadcast) says where its element `index` lies: at start + sum of strides * index.
Two views touch the same memory where these numbers are equal. Such a sum over all dims is one long quasi-affine expression, which sets
decide slowly; so the number is written in a mixed radix, one coordinate a digit, with the weights chosen so that the views' dims
are digits themselves: permuted, sliced and broadcast arrays then need no division, and a reshape only where a dim is cut unevenly.
An array that is only seen as it is stored keeps its own index.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from septran.ir.access import regions
from septran.ir.expr import evaluate
from septran.ir.nodes import Buffer, Program, allocated
from septran.ir.strides import row_major


@dataclass(frozen=True, slots=True)
class Radix:
    """Coordinates of an array's elements: digits of their number, the heaviest first.

    shape: the array's own extents, the highest ones where sizes are open. weights: of the digits, each a multiple of
    the next, the last 1. highs: the highest value of each open dim.
    """

    shape: tuple[int, ...]
    weights: tuple[int, ...]
    highs: tuple[tuple[str, int], ...] = ()

    @property
    def size(self) -> int:
        """Elements of the array."""
        return math.prod(self.shape)

    @property
    def extents(self) -> tuple[int, ...]:
        """How many values each digit has."""
        heavier = (self.size, *self.weights)
        return tuple(a // b for a, b in zip(heavier, self.weights, strict=False))

    def cells(self, view: Buffer, index: Sequence[str]) -> tuple[str, ...]:
        """Return the digits of the element at `index` (isl texts) of a view."""
        return tuple(reversed([text for text, _ in self._digits(view, index)]))

    def carries(self, view: Buffer) -> int:
        """Return how many digits of a view need a division."""
        return sum(carry for _, carry in self._digits(view, [""] * len(view.shape)))

    def index(self, digits: Sequence[int]) -> tuple[int, ...]:
        """Return the array's own index of the element with these digits."""
        at = sum(d * w for d, w in zip(digits, self.weights, strict=True))
        found = []
        for step, n in zip(row_major(self.shape), self.shape, strict=True):
            found.append(at // step % n)
        return tuple(found)

    def _digits(self, view: Buffer, index: Sequence[str]) -> Iterable[tuple[str, bool]]:
        """Yield (text, whether it had to be divided) of each digit, the lightest first."""
        view = at_most(view, dict(self.highs))
        first = self._of(view.start)
        steps = [self._of(s if n > 1 else 0) for n, s in zip(view.shape, view.steps, strict=True)]
        carry, low, high = "", 0, 0
        for at in reversed(range(len(self.weights))):
            terms = [carry] if carry else []
            low, high = low + first[at], high + first[at]
            for x, step, n in zip(index, steps, view.shape, strict=True):
                if factor := step[at]:
                    terms.append(x if factor == 1 else f"{factor} * ({x})")
                    low, high = low + min(0, factor * (n - 1)), high + max(0, factor * (n - 1))
            if first[at] or not terms:
                terms.append(str(first[at]))
            text, radix = f"({' + '.join(terms)})", self.extents[at]
            if at == 0 or (low >= 0 and high < radix):
                yield text, False
                carry, low, high = "", 0, 0
            else:
                yield f"({text} mod {radix})", True
                carry, low, high = f"floor({text}/{radix})", low // radix, high // radix

    def _of(self, number: int) -> tuple[int, ...]:
        """Return the digits of a number of elements, of a negative one those of its magnitude with the other sign."""
        rest, found = abs(number), []
        for weight in self.weights:
            found.append(rest // weight if number >= 0 else -(rest // weight))
            rest %= weight
        return tuple(found)


def radixes(
    program: Program, *others: Program, highs: Mapping[str, int] | None = None
) -> dict[str, Radix]:
    """Return array -> coordinates of those arrays of `program` that are seen in another layout.

    others: Programs with the same parameters, whose elements are to be compared. highs: the highest value of each open dim.
    """
    most = dict(highs or {})
    arrays = {p.buffer.name: p.buffer for p in program.params}
    seen: dict[str, dict[Buffer, None]] = {}
    for each in (program, *others):
        for region, _ in regions(*each.body):
            buffer = region.buffer
            if each is program or buffer.name in arrays:
                seen.setdefault(buffer.name, {})[at_most(buffer, most)] = None
    own = {b.name: b for b in allocated(program.body)} | arrays
    return {
        name: replace(
            _radix(
                at_most(own[name], most),
                sorted(views, key=lambda v: (v.shape, v.steps, v.start)),
            ),
            highs=tuple(most.items()),
        )
        for name, views in seen.items()
        if any(v.strides for v in views)
    }


def at_most(buffer: Buffer, highs: Mapping[str, int]) -> Buffer:
    """Return an array or a view as it is where all open dims are highest."""
    if not highs or not buffer.extent:
        return buffer
    return replace(buffer, shape=tuple(evaluate(e, highs) for e in buffer.extent), extent=())


def reach(view: Buffer) -> tuple[int, int]:
    """Return the lowest and highest element of an array that a view has."""
    ends = [s * (n - 1) for n, s in zip(view.shape, view.steps, strict=True)]
    return view.start + sum(min(0, e) for e in ends), view.start + sum(max(0, e) for e in ends)


def _radix(array: Buffer, views: Sequence[Buffer]) -> Radix:
    """Return the coordinates in which the views need the fewest divisions."""
    size = math.prod(array.shape)
    asked = [_steps(array), *(_steps(v) for v in views)]
    # the strides of one view alone, and as many of all of them as go together, from either end
    every = sorted({s for steps in asked for s in steps})
    asked += [every, every[::-1], [s for steps in asked for s in steps]]
    found = {_chain(size, steps): None for steps in asked}
    radix = [Radix(array.shape, weights) for weights in found]
    return min(radix, key=lambda r: (sum(map(r.carries, views)), len(r.weights)))


def _steps(view: Buffer) -> list[int]:
    """Return the strides of a view, and where its dims end."""
    dims = [(n, abs(s)) for n, s in zip(view.shape, view.steps, strict=True) if n > 1 and s]
    return [*(s for _, s in dims), *(n * s for n, s in dims)]


def _chain(size: int, steps: Iterable[int]) -> tuple[int, ...]:
    """Return the weights among `steps` that divide one another, those that come first going first."""
    kept = [1]
    for s in steps:
        if size % s == 0 and s not in (*kept, size) and all(s % k == 0 or k % s == 0 for k in kept):
            kept.append(s)
    return tuple(sorted(kept, reverse=True))
