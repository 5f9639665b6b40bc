"""Values inside of one operator whose rounding its result shows, because they cancel in it.

Left of zero a GELU is what 1 + erf leaves of erf's last place, in torch's float32, too. The result is small there, and no change of
it or of its input by a little of itself shows that; so erf is moved besides, up to where it is -1 in every dtype. A norm takes a mean away
that is rounded itself: all elements of a row are off alike, which moved inputs never are (their mean is taken away again), and a sum behind the norm adds it up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    Given = Mapping[str, Any]
    Part = Callable[[Given], tuple[torch.Tensor, torch.Tensor | float]]


def _gelu(given: Given) -> tuple[torch.Tensor, torch.Tensor]:
    import torch

    x = given["self"]
    if given.get("approximate", "none") == "tanh":
        share = torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    else:
        share = torch.erf(x * math.sqrt(0.5))
    return 0.5 * x * share, 1 - share.abs()


def _norm(given: Given) -> tuple[torch.Tensor, float]:
    """Of a layer norm: its mean over the deviation, times the weight."""
    x = given["input"]
    axes = tuple(range(x.dim() - len(given["normalized_shape"]), x.dim()))
    part = _mean_over_deviation(x, axes, given["eps"])
    weight = given.get("weight")
    return (part if weight is None else part * weight).expand(x.shape), math.inf


def _group_norm(given: Given) -> tuple[torch.Tensor, float]:
    x = given["input"]
    n, c = x.shape[:2]
    split = x.reshape(n, given["num_groups"], -1)
    part = _mean_over_deviation(split, (2,), given["eps"]).expand(split.shape).reshape(x.shape)
    weight = given.get("weight")
    if weight is not None:
        part = part * weight.reshape(c, *(1,) * (x.dim() - 2))
    return part, math.inf


def _mean_over_deviation(x: torch.Tensor, axes: tuple[int, ...], eps: float) -> torch.Tensor:
    mean = x.mean(axes, keepdim=True)
    return mean * ((x - mean).square().mean(axes, keepdim=True) + eps).rsqrt()


INSIDE: Mapping[str, Part] = {"gelu": _gelu, "layer_norm": _norm, "group_norm": _group_norm}
"""Operator -> of its arguments: a part of its result that the rest takes away again, and how far the value inside is from the number that
it stays at, which no dtype misses."""


def cancelled(name: str, given: Mapping[str, Any], size: float) -> torch.Tensor:
    """Return the part of an operator's result that cancels, element by element.

    name: in INSIDE. given: its arguments by name. size: by how much of itself the part is moved; a value nearer to its last one than a
    sixteenth of that (half a last place, as the judge moves by eight) is that one.
    """
    import torch

    found, left = INSIDE[name](given)
    if isinstance(left, torch.Tensor):
        found = torch.where(left > abs(size) / 16, found, 0.0)
    return found.nan_to_num(0.0, 0.0, 0.0)
