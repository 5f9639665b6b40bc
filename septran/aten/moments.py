"""Loops inside of one operator: the mean that a norm takes away, the squares that it or a variance adds up, and a softmax's logarithm.

The backward pass of a fused attention makes its probabilities anew, exp(s - L), of the logarithm L of their sum, which the forward pass stored: they are
off by u |L| then, all of a row alike, also where one of them is 1 and no change of s would move it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from septran.aten.loops import loop_scale

if TYPE_CHECKING:
    import torch

    Given = Mapping[str, Any]
    Shift = Callable[[torch.Tensor], torch.Tensor]
    Part = Callable[[Given, Shift, float], torch.Tensor]


def _layer_norm(given: Given, shift: Shift, unit: float) -> torch.Tensor:
    x = given["input"]
    axes = tuple(range(x.dim() - len(given["normalized_shape"]), x.dim()))
    return _times(_normed(x, axes, given["eps"], shift, unit), given.get("weight"))


def _group_norm(given: Given, shift: Shift, unit: float) -> torch.Tensor:
    x = given["input"]
    n, c = x.shape[:2]
    split = x.reshape(n, given["num_groups"], -1)
    weight = given.get("weight")
    if weight is not None:
        weight = weight.reshape(c, *(1,) * (x.dim() - 2))
    return _times(_normed(split, (2,), given["eps"], shift, unit).reshape(x.shape), weight)


def _times(found: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
    return found if weight is None else found * weight


def _normed(
    x: torch.Tensor, axes: tuple[int, ...], eps: float, shift: Shift, unit: float
) -> torch.Tensor:
    """All elements of a row are off by the same part of its deviation, and by the same part of themselves."""
    count = math.prod(x.shape[a] for a in axes)
    apart = x - x.mean(axes, keepdim=True)
    inverse = (apart.square().mean(axes, keepdim=True) + eps).rsqrt()
    mean = shift(loop_scale(x, axes, unit) / count)
    variance = shift(loop_scale(apart.square(), axes, unit) / count)
    return -(mean + 0.5 * apart * variance * inverse.square()) * inverse


def _variance(given: Given, shift: Shift, unit: float) -> torch.Tensor:
    x = given["self"]
    axes = _axes(x, given.get("dim"))
    count = math.prod(x.shape[a] for a in axes)
    correction = given.get("correction")
    by = max(1.0, count - float(1 if correction is None else correction))
    found = shift(loop_scale((x - x.mean(axes, keepdim=True)).square(), axes, unit) / by)
    return found if given.get("keepdim") else found.squeeze(axes)


def _deviation(given: Given, shift: Shift, unit: float) -> torch.Tensor:
    import torch

    moved = _variance(given, shift, unit)
    named = {k: v for k, v in given.items() if k in ("dim", "correction", "keepdim")}
    return moved / (2 * torch.std(given["self"], **named))


def _softmax(given: Given, shift: Shift, unit: float) -> torch.Tensor:
    import torch

    x, axis = given["self"], given["dim"]
    if not x.is_floating_point():
        return torch.zeros(())
    held = torch.logsumexp(x, axis, keepdim=True).abs()
    return torch.softmax(x, axis) * shift(held)


def _axes(x: torch.Tensor, dim: Any) -> tuple[int, ...]:
    some = tuple(dim) if isinstance(dim, tuple | list) else () if dim is None else (dim,)
    return tuple(sorted({a % x.dim() for a in some})) or tuple(range(x.dim()))


MOMENTS: Mapping[str, Part] = {
    "layer_norm": _layer_norm,
    "group_norm": _group_norm,
    "softmax": _softmax,
    "_softmax": _softmax,
    "var": _variance,
    "std": _deviation,
}
"""Operator -> of its arguments by name, of what moves a scale up or down, and of the rounding of one addition: the change of its result."""


def moments(name: str, given: Given, shift: Shift, unit: float) -> torch.Tensor:
    """Return by how much an operator in MOMENTS changes where its loops are rounded; 0 where that is no number."""
    return MOMENTS[name](given, shift, unit).nan_to_num(0.0, 0.0, 0.0)
