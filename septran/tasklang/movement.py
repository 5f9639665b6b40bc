"""What `scan`, `argreduce`, `gather` and `scatter_acc` mean, on torch tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def apply(name: str, y: Any, ins: tuple[Any, ...], attrs: Mapping[str, Any]) -> None:
    """Run one of the four on torch tensors, `y` written in place.

    Floats are computed in float64 (a scan adds up along a whole axis), integers exactly.
    """
    axis = int(attrs["axis"]) % y.ndim
    match name:
        case "scan":
            y.copy_(
                _scan(_wide(ins[0]), str(attrs["op"]), axis, reverse=bool(attrs.get("reverse")))
            )
        case "argreduce":
            pick = ins[0].argmax if attrs["op"] == "max" else ins[0].argmin
            y.copy_(pick(axis, keepdim=True))
        case "gather":
            y.copy_(_gather(y.shape, ins[0], ins[1].long(), axis))
        case "scatter_acc":
            _scatter(y, ins[0], ins[1].long(), str(attrs["op"]), axis)


def _wide(x: Any) -> Any:
    import torch

    return x.to(torch.float64 if x.is_floating_point() else torch.int64)


def _scan(x: Any, op: str, axis: int, *, reverse: bool) -> Any:
    import torch

    x = x.flip(axis) if reverse else x
    match op:
        case "sum":
            found = x.cumsum(axis)
        case "prod":
            found = x.cumprod(axis)
        case "max":
            found = torch.cummax(x, axis)[0]
        case _:
            found = torch.cummin(x, axis)[0]
    return found.flip(axis) if reverse else found


def _gather(shape: Any, x: Any, index: Any, axis: int) -> Any:
    import torch

    wide = [n if d != axis else x.shape[axis] for d, n in enumerate(shape)]
    index = index.expand(shape)
    inside = (index >= 0) & (index < x.shape[axis])
    found = x.expand(wide).gather(axis, torch.where(inside, index, 0))
    return torch.where(inside, found, torch.zeros((), dtype=x.dtype))


def _scatter(y: Any, x: Any, index: Any, op: str, axis: int) -> None:
    import torch

    index = index.expand(x.shape)
    held = _wide(y)
    for j in range(x.shape[axis]):
        at, value = index.narrow(axis, j, 1), _wide(x.narrow(axis, j, 1))
        inside = (at >= 0) & (at < y.shape[axis])
        at = torch.where(inside, at, 0)
        old = held.gather(axis, at)
        new = {
            "sum": old + value,
            "prod": old * value,
            "max": torch.maximum(old, value),
            "min": torch.minimum(old, value),
            "last": value,
        }[op]
        held.scatter_(axis, at, torch.where(inside, new, old))
    y.copy_(held)
