"""What a plain loop holds on its way, which rounding is relative to: its partial sums.

A loop that adds n terms one after another rounds each partial sum S_i, and is off by u sqrt(sum S_i^2) (Higham, Accuracy and Stability of
Numerical Algorithms, 2nd ed., 4.2), sqrt(n) times their root mean square. For terms whose signs are mixed that is less than the root of the terms'
squares allows; where they are sorted it is sqrt(n) times more, and the sum may be small all the same. Equal terms are rounded alike: c of
them are off by c roundings and not by sqrt(c), so that the root of all groups' squared counts stands in the place of sqrt(n). Terms that are not larger
than a few last places of what is added so far are lost, or rounded up, all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from septran.aten.graph import Node, Ref

if TYPE_CHECKING:
    import torch

    Run = Callable[[Mapping[str, Any], torch.dtype | None], Any]

_PARTS = 8
"""Places of a product's sum at which what is added so far is looked at."""
_FEW = 2 * _PARTS
"""Sums of fewer terms have no partial sums to speak of."""
_FEW_PLACES = 4
_FLOAT64 = 2.0**-50
_ALONG = {
    **dict.fromkeys(("bmm", "dot", "inner", "matmul", "mm", "mv"), ("self", -1)),
    "linear": ("input", -1), "addmm": ("mat1", -1), "addmv": ("mat", -1), "baddbmm": ("batch1", -1),
    "conv1d": ("input", -2), "conv2d": ("input", -3), "conv3d": ("input", -4), "convolution": ("input", 1),
}  # fmt: skip
"""Products: the operand, and its axis along which terms are added."""


def loop_scale(terms: torch.Tensor, axes: Sequence[int], unit: float) -> torch.Tensor:
    """Return the rounding of a plain loop over `axes`, over u and the root of their number; those axes are 1 long. 0 for short loops.

    unit: u, the rounding of one addition.
    """
    import torch

    dims = terms.dim()
    summed = sorted({a % dims for a in axes}) if dims else []
    count = math.prod(terms.shape[a] for a in summed)
    shape = [1 if a in summed else n for a, n in enumerate(terms.shape)]
    if count < _FEW:
        return torch.zeros(shape, dtype=terms.dtype)
    kept = [a for a in range(dims) if a not in summed]
    lines = terms.permute(*kept, *summed).reshape(-1, count)
    held = lines.cumsum(-1)
    each = (held.square().mean(-1) * _alike(lines, unit) / count).sqrt()
    place = unit * held.abs()  # half a last place, or up to a whole one
    lost = lines.where(lines.abs() <= _FEW_PLACES * place, 0.0)
    lost = lost.maximum(-place).minimum(place).sum(-1).abs()
    return each.maximum(lost / (unit * math.sqrt(count))).reshape(shape)


def _alike(lines: torch.Tensor, unit: float) -> torch.Tensor:
    """Return of each line the squared counts of numbers other than 0 that are equal where they are stored, added up."""
    import torch

    stored = lines.float().to(lines.dtype) if unit > _FLOAT64 else lines
    ordered = stored.sort(-1).values
    parts = (ordered[:, 1:] != ordered[:, :-1]).long().cumsum(-1)
    group = torch.nn.functional.pad(parts, (1, 0))
    counts = torch.zeros_like(ordered).scatter_add_(-1, group, (ordered != 0).to(ordered.dtype))
    return counts.square().sum(-1)


def partial_sums(
    node: Node,
    name: str,
    run: Run,
    read: Mapping[str, torch.Tensor],
    wide: torch.dtype | None,
    unit: float,
) -> torch.Tensor | None:
    """Return `loop_scale` of an operator that adds up, in a shape that spreads over its result; None where its terms are not known.

    name: the operator's, without namespace. run: what computes the node of values by name, `read` those that it takes.
    """
    operand, axes = _terms(node, name, read)
    if not axes:
        return None
    values = read[operand]
    if name == "cumsum":  # its results are what the loop holds
        sums = run(read, wide)
        return (sums.square().cumsum(axes[0]) / sums.shape[axes[0]]).sqrt()
    if name in ("mean", "sum"):
        found = loop_scale(values, axes, unit)
        found = found if node.named.get("keepdim") else found.squeeze(axes)
        return found / math.prod(values.shape[a] for a in axes) if name == "mean" else found
    return _of_products(operand, axes[0], values, run, read, wide)


def _of_products(
    operand: str,
    axis: int,
    values: torch.Tensor,
    run: Run,
    read: Mapping[str, torch.Tensor],
    wide: torch.dtype | None,
) -> torch.Tensor | None:
    import torch

    count = values.shape[axis]
    if count < _FEW:
        return None
    place = torch.arange(count).reshape([-1 if a == axis else 1 for a in range(values.dim())])
    found = None
    for part in range(1, _PARTS + 1):
        some = values.where(place < count * part // _PARTS, 0.0)
        one = run({**read, operand: some}, wide).square()
        found = one if found is None else found + one
    assert found is not None
    return (found / _PARTS).sqrt()


def _terms(node: Node, name: str, read: Mapping[str, torch.Tensor]) -> tuple[str, tuple[int, ...]]:
    """Return the operand whose elements are added, or multiplied and added, and along which axes, from 0 on; "" where that is not known."""
    if name in ("cumsum", "mean", "sum"):
        source, axes = node.named.get("self"), node.named.get("dim")
        axes = axes if isinstance(axes, tuple) else () if axes is None else (axes,)
    else:
        argument, axis = _ALONG.get(name, ("", 0))
        source, axes = node.named.get(argument), (axis,)
    operand = source.name if isinstance(source, Ref) else ""
    if operand not in read:
        return "", ()
    dims = read[operand].dim()
    return operand, tuple(sorted({a % dims for a in axes})) or tuple(range(dims)) if dims else ()
