"""Secret contents for timed calls: each input is a window into a region that is longer than it.

Which window a call reads nobody knows before; windows are STEP bytes apart. A region's contents move between slots.
"""

from __future__ import annotations

import math
import mmap
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from septran.domain import Domain
from septran.host.control import STEP
from septran.ir.dtypes import DTYPES, is_float
from septran.kernel import KernelParam
from septran.verify.arena import PAGE
from septran.verify.cases import Case, draw, numpy_dtype
from septran.verify.problem import Problem

_EXTRA = 1 << 20  # bytes of a region beyond its tensor: more than a kernel can keep unseen
_MOVED = 1 << 18  # bytes by which the contents of a region may be moved between slots
_SETS = 8  # windows that torch gets in turn
_NEAR = (
    1 << 16
)  # bytes within which these lie: torch hides nothing, and a loop of a user's finds in the caches what fits there
SHIFTS = _MOVED // STEP
"""Ways in which contents may be moved."""
ROUND = 32
"""Calls on what the call before left until a tensor that is read and written is filled anew."""


class Regions:
    """The regions of a problem's inputs, drawn from `case`; in/out tensors have one that they are filled from."""

    def __init__(self, problem: Problem, case: Case) -> None:
        self._problem, self._case = problem, case
        self._pool = draw(_longer(problem, _EXTRA + _MOVED), case)
        self.both = tuple(p.name for p in problem.params if p.privilege == "rw")

    def params(self, *, apart: bool = False) -> tuple[KernelParam, ...]:
        """Return what an arena has to hold: regions in place of inputs, outputs, then what in/out tensors are filled from.

        apart: inputs are tensors of their own, which are filled from regions behind them, too.
        """
        long = _longer(self._problem, _EXTRA).params
        pairs = list(zip(self._problem.params, long, strict=True))
        own = [region if p.privilege == "r" and not apart else p for p, region in pairs]
        filled = [
            replace(region, name=source(p.name), privilege="r")
            for p, region in pairs
            if p.privilege == "rw" or (apart and p.privilege == "r")
        ]
        return (*own, *filled)

    def windows(self, param: KernelParam) -> int:
        """Return how many places a tensor may be read from; 1 where only the region's beginning means something."""
        domain = self._problem.domain(param.name)
        stays = domain.value is not None or domain.rising or domain.distinct or domain.paired
        return 1 if stays or param.privilege == "w" else _EXTRA // STEP + 1

    def leaves_any(self, param: KernelParam) -> bool:
        """Return whether an in/out tensor may hold whatever a call leaves when the next one reads it."""
        return param.privilege == "rw" and self._problem.domain(param.name) == Domain()

    def at(self, shift: int) -> dict[str, Any]:
        """Return the regions' contents, moved by `shift` steps."""
        found = {}
        for name, pool in self._pool.items():
            param = next(p for p in self._problem.params if p.name == name)
            first = 0 if self.windows(param) == 1 else shift * STEP // pool.itemsize
            found[name] = pool[first : first + pool.size - _MOVED // pool.itemsize]
        return found

    def inputs(self, regions: Mapping[str, Any], windows: Sequence[int]) -> dict[str, Any]:
        """Return the tensors that lie in these windows, one for each parameter."""
        found = {}
        for param, window in zip(self._problem.params, windows, strict=True):
            if param.privilege != "w":
                flat = regions[param.name]
                first = window * STEP // flat.itemsize
                found[param.name] = flat[first : first + math.prod(param.shape)].reshape(
                    param.shape
                )
        return found

    def sets(self) -> list[dict[str, Any]]:
        """Inputs for torch: windows of the same kind into regions of its own, in pages of the kernel's size."""
        rng = random.Random(self._case.seed)
        pool = {name: _in_shared_pages(array) for name, array in self._pool.items()}
        counts = [min(self.windows(p), _NEAR // STEP) for p in self._problem.params]
        sets = [self.inputs(pool, [rng.randrange(n) for n in counts]) for _ in range(_SETS)]
        # what is written lies in one place, as the kernel's does
        return [s | {n: sets[0][n] for n in self.both} for s in sets]

    def ordinary(self, inputs: Mapping[str, Any]) -> bool:
        """Return whether what calls in place went on to is far from where its type ends: no special case."""
        params = (p for p in self._problem.params if p.name in self.both)
        return all(_ordinary(inputs[p.name], p.dtype) for p in params)


def source(name: str) -> str:
    """Return the name of the region that a tensor is filled from."""
    return f"{name} before"


def array_of(raw: bytes, param: KernelParam) -> Any:
    """Return a tensor's bytes as an array."""
    import numpy as np

    return np.frombuffer(raw, numpy_dtype(param.dtype)).reshape(param.shape)


def _longer(problem: Problem, extra: int) -> Problem:
    """Return the problem with flat inputs that are `extra` bytes longer; only for drawing them."""
    longer = []
    for param in problem.params:
        size, item = math.prod(param.shape), numpy_dtype(param.dtype).itemsize
        more = extra // item if param.privilege != "w" else 0
        longer.append(replace(param, shape=(size + more,)))
    return replace(problem, params=tuple(longer))


def _ordinary(array: Any, dtype: str) -> bool:
    import numpy as np

    kind = DTYPES[dtype]
    if not is_float(dtype):
        return bool((np.abs(array.astype(np.int64)) <= max(kind.high, 1) ** 0.5).all())
    sizes = np.abs(array.astype(np.float64))
    normal = (sizes == 0) | (sizes >= 2.0**kind.least)
    return bool((normal & (sizes <= kind.largest**0.5)).all())


def _in_shared_pages(array: Any) -> Any:
    """Return a copy in memory of the kind that the kernel's tensors lie in.

    numpy asks for large pages, which a user's `torch.randn` has not: torch would read faster than the kernel can.
    """
    import numpy as np

    pages = mmap.mmap(-1, max(array.nbytes, PAGE))
    copy = np.frombuffer(pages, array.dtype, array.size).reshape(array.shape)
    copy[:] = array
    return copy
