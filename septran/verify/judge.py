"""Compare the bytes a kernel left with what they should be, element by element."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from septran.ir.dtypes import DTYPES, is_float
from septran.kernel import KernelParam
from septran.verify.budget import Expected

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """One element. at: its flat index."""

    at: int
    got: float
    wanted: float
    allowed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Figures of one output. ratio: error / budget, inf where a NaN or infinity is in the wrong place.

    worst: flat index of the element with the largest ratio; got, wanted and allowed are its. first: the same of the first wrong one,
    None where none is.
    """

    output: str
    max_error: float
    ratio: float
    wrong: int
    elements: int
    worst: int
    got: float
    wanted: float
    allowed: float
    first: Element | None = None


def compare(param: KernelParam, expected: Expected, raw: bytes) -> Comparison:
    """Return how `raw` (the tensor's bytes) compares with `expected`.

    Raises:
        ValueError: the reference's shape is not the parameter's (V204, an operator's mistake).
    """
    import torch

    if tuple(expected.values.shape) != tuple(param.shape):
        raise ValueError(
            f"reference gives shape {tuple(expected.values.shape)} for {param.name}, "
            f"the kernel's parameter has {tuple(param.shape)}"
        )
    stored = torch.frombuffer(bytearray(raw), dtype=torch_dtype(param.dtype)).reshape(param.shape)
    if not is_float(param.dtype):
        wanted = expected.values.to(stored.dtype)
        bad = stored != wanted
        for other in expected.others:
            bad &= stored != other.to(stored.dtype)
        error = (stored.to(torch.float64) - wanted.to(torch.float64)).abs()
        ratio = torch.where(bad, math.inf, 0.0)
        return _summary(param.name, error, ratio, bad, stored, wanted, expected.budget)
    got = stored.to(torch.float64)
    if expected.exact:
        wanted = expected.values.to(stored.dtype).to(torch.float64)
        same = (got == wanted) | (got.isnan() & wanted.isnan())
        if expected.flushes:
            same |= (got == 0) & (wanted.abs() < 2.0 ** DTYPES[param.dtype].least)
        error = _finite((got - wanted).abs())
        ratio = torch.where(same, 0.0, math.inf)
        return _summary(param.name, error, ratio, ~same, got, wanted, expected.budget)
    return _within_budget(param, expected, got)


def _within_budget(param: KernelParam, expected: Expected, got: torch.Tensor) -> Comparison:
    import torch

    wanted, budget = expected.values, expected.budget
    limit = DTYPES[param.dtype].overflow
    error = (got - wanted).abs()
    ratio = error / budget
    # beyond the largest finite number the correctly rounded result is an infinity
    overflows = wanted.abs() + budget >= limit
    right_inf = got.isinf() & (torch.sign(got) == torch.sign(wanted)) & overflows
    # near the overflow border a finite result within the budget was already accepted by `ratio`
    moot = _moot(expected, got)
    right_inf |= moot & got.isinf()
    fine = right_inf | (got.isnan() & wanted.isnan()) | moot
    misplaced = ((got.isnan() != wanted.isnan()) & ~moot) | (got.isinf() & ~right_inf)
    misplaced |= wanted.isinf() & ~right_inf
    ratio = torch.where(fine, 0.0, ratio)
    ratio = torch.where(misplaced | ratio.isnan(), math.inf, ratio)
    error = torch.where(fine, 0.0, error)
    bad = ~(ratio <= 1.0)
    return _summary(param.name, _finite(error), ratio, bad, got, wanted, budget)


def _moot(expected: Expected, got: torch.Tensor) -> torch.Tensor:
    """Return where a number stands for a NaN that only exact arithmetic has, none larger than rounding makes, and where torch's own float32 overflows in the same way."""
    import torch

    found = torch.zeros_like(got, dtype=torch.bool)
    if expected.undecided is not None:
        large = got.abs() > expected.undecided
        found |= expected.values.isnan() & (expected.undecided > 0) & ~large & ~got.isnan()
    if expected.torchs is not None:
        same = (got == expected.torchs) | (got.isnan() & expected.torchs.isnan())
        found |= expected.values.isfinite() & ~expected.torchs.isfinite() & same
        # what is left of numbers that cancelled stands over 0: of either sign
        found |= expected.values.isnan() & expected.torchs.isinf() & got.isinf()
    return found


def _finite(error: torch.Tensor) -> torch.Tensor:
    return error.nan_to_num(math.inf, math.inf, math.inf)


def _summary(
    name: str,
    error: torch.Tensor,
    ratio: torch.Tensor,
    bad: torch.Tensor,
    got: torch.Tensor,
    wanted: torch.Tensor,
    budget: torch.Tensor,
) -> Comparison:
    import torch

    flat = ratio.reshape(-1)
    at = int(flat.argmax()) if flat.numel() else 0
    ok = error.reshape(-1)
    wrong = int(bad.sum())
    first = None
    if wrong:
        where = int(bad.reshape(-1).to(torch.uint8).argmax())  # of equal ones the first
        values = (float(t.reshape(-1)[where]) for t in (got, wanted, budget))
        first = Element(at=where, got=next(values), wanted=next(values), allowed=next(values))
    return Comparison(
        output=name,
        max_error=float(ok.max()) if flat.numel() else 0.0,
        ratio=float(flat[at]) if flat.numel() else 0.0,
        wrong=wrong,
        elements=flat.numel(),
        worst=at,
        got=float(got.reshape(-1)[at]) if flat.numel() else 0.0,
        wanted=float(wanted.reshape(-1)[at]) if flat.numel() else 0.0,
        allowed=float(budget.reshape(-1)[at]) if flat.numel() else 0.0,
        first=first,
    )


def unravel(index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the multi-dimensional position of a flat index."""
    found: list[int] = []
    for extent in reversed(shape):
        found.append(index % extent)
        index //= extent
    return tuple(reversed(found))


def pattern(param: KernelParam, expected: Expected, raw: bytes) -> str:
    """Return a sentence about how the wrong elements lie: a tail, a row, everything, NaN, poison."""
    import torch

    stored = torch.frombuffer(bytearray(raw), dtype=torch_dtype(param.dtype)).reshape(param.shape)
    got, wanted = stored.to(torch.float64), expected.values.to(torch.float64)
    close = ((got - wanted).abs() <= expected.budget) | (got == wanted) | _moot(expected, got)
    for other in expected.others:
        close |= got == other.to(torch.float64)
    bad = ~(close | (got.isnan() & wanted.isnan()))
    count, total = int(bad.sum()), bad.numel()
    if count == 0:
        return ""
    if count == total:
        if bool((got == 0).all()):
            return "every element is 0"
        text = "every element is NaN: not written, or read before written"
        return text if bool(got.isnan().all()) else "all elements"
    where = bad.nonzero()
    low, high = where.min(dim=0).values.tolist(), where.max(dim=0).values.tolist()
    box = ", ".join(f"{a}..{b}" for a, b in zip(low, high, strict=True))
    nan = int((got.isnan() & ~wanted.isnan()).sum())
    text = f"{count} of {total} elements, all inside [{box}] of {tuple(param.shape)}"
    return text + (f"; {nan} are NaN (not written, or read before written)" if nan else "")


def torch_dtype(name: str) -> Any:
    """Return torch's dtype for a dtype name."""
    import torch

    return getattr(torch, DTYPES[name].name)
