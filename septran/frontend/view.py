"""Strided views of stored tensors: layout operators never move data, they change how a value is read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from septran.ir.strides import reshaped, row_major

Step = tuple[str, tuple[int, ...]]
"""One layout operator of Task Lang: ("reshape", shape), ("permute", perm), or
("slice", (*offset, *shape, *step))."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """How a stored tensor is read: element `i` is at `offset + sum(i * strides)`.

    source: name of the stored tensor. stride 0 on a dim of more than one is a broadcast. steps: the
    layout operators that give this view, broadcasts left out.
    """

    source: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    steps: tuple[Step, ...] = ()

    @classmethod
    def of(cls, source: str, shape: Sequence[int]) -> View:
        """Return the view of a whole contiguous tensor."""
        return cls(source=source, shape=tuple(shape), strides=row_major(shape))

    @property
    def rank(self) -> int:
        """Number of dims."""
        return len(self.shape)

    @property
    def elements(self) -> int:
        """Number of elements, broadcast ones counted."""
        return math.prod(self.shape)

    @property
    def contiguous(self) -> bool:
        """Whether the elements lie one after another from the tensor's start."""
        rows = zip(self.shape, self.strides, row_major(self.shape), strict=True)
        return self.offset == 0 and all(n == 1 or a == b for n, a, b in rows)

    def whole(self, elements: int) -> bool:
        """Return whether this is the stored tensor of so many elements, in order."""
        return self.contiguous and self.elements == elements

    def permute(self, perm: Sequence[int]) -> View:
        """Return the view with its dims in the order `perm`."""
        perm = tuple(perm)
        if perm == tuple(range(self.rank)):
            return self
        return replace(
            self,
            shape=tuple(self.shape[d] for d in perm),
            strides=tuple(self.strides[d] for d in perm),
            steps=_then(self.steps, ("permute", perm)),
        )

    def slice(
        self, offset: Sequence[int], shape: Sequence[int], step: Sequence[int] | None = None
    ) -> View:
        """Return the part that starts at `offset`, takes `shape` elements, every `step`-th."""
        step = tuple(step or (1,) * self.rank)
        offset, shape = tuple(offset), tuple(shape)
        if shape == self.shape and not any(offset) and set(step) <= {1}:
            return self
        # a broadcast dim has one stored element
        stored = tuple(0 if s == 0 else o for o, s in zip(offset, self.strides, strict=True))
        taken = tuple(1 if s == 0 else n for n, s in zip(shape, self.strides, strict=True))
        return replace(
            self,
            shape=shape,
            strides=tuple(a * b for a, b in zip(self.strides, step, strict=True)),
            offset=self.offset + sum(o * s for o, s in zip(offset, self.strides, strict=True)),
            steps=_then(self.steps, ("slice", (*stored, *taken, *step))),
        )

    def expand(self, shape: Sequence[int]) -> View:
        """Return the view broadcast to `shape` (numpy's rule)."""
        shape = tuple(shape)
        if shape == self.shape:
            return self
        wide = self if self.rank == len(shape) else self.pad_rank(len(shape))
        strides = []
        for n, m, s in zip(wide.shape, shape, wide.strides, strict=True):
            if n not in (1, m):
                raise ValueError(f"{self.shape} does not broadcast to {shape}")
            strides.append(s if n == m and n != 1 else 0)
        return replace(wide, shape=shape, strides=tuple(strides))

    def pad_rank(self, rank: int) -> View:
        """Return the view with dims of size 1 in front, up to `rank`."""
        return self.shaped((1,) * (rank - self.rank) + self.shape)

    def narrow(self) -> View:
        """Return the view with every broadcast dim of size 1: what is stored."""
        shape = tuple(1 if s == 0 else n for n, s in zip(self.shape, self.strides, strict=True))
        return replace(self, shape=shape)

    def shaped(self, shape: Sequence[int]) -> View:
        """Return the view with another shape that it has without a copy."""
        found = self.reshape(shape)
        assert found is not None, (self, shape)
        return found

    def reshape(self, shape: Sequence[int]) -> View | None:
        """Return the view with another shape, None when only a copy has it (torch's rule)."""
        shape = tuple(shape)
        if shape == self.shape:
            return self
        strides = reshaped(self.shape, self.strides, shape)
        if strides is None:
            return None
        # what is stored has size 1 where this view is broadcast
        stored = tuple(1 if s == 0 and n > 1 else n for n, s in zip(shape, strides, strict=True))
        return replace(
            self, shape=shape, strides=strides, steps=_then(self.steps, ("reshape", stored))
        )


def _then(steps: tuple[Step, ...], step: Step) -> tuple[Step, ...]:
    """Append a step, merging what is the same as one."""
    kind, values = step
    if steps and steps[-1][0] == kind:
        if kind == "reshape":
            return (*steps[:-1], step)
        if kind == "permute":
            before = steps[-1][1]
            merged = tuple(before[d] for d in values)
            if merged == tuple(range(len(merged))):
                return steps[:-1]
            return (*steps[:-1], ("permute", merged))
    return (*steps, step)
