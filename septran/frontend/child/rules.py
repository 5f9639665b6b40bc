"""Operators taken apart where torch has no rule for it, or one of another function; they are called with what a graph's node has."""

from __future__ import annotations

import itertools
from typing import Any

import torch


def multilabel_margin_loss(x: Any, target: Any, reduction: int) -> tuple[Any, Any]:
    """Torch's own rule adds a loss for each place behind the last label, which the operator leaves out."""
    shape = target.shape
    x, target = torch.atleast_2d(x), torch.atleast_2d(target)
    classes = x.shape[1]
    at = torch.arange(classes, device=target.device)
    end = torch.where(target == -1, at, classes).amin(-1, keepdim=True)
    valid = at < end
    own = x.gather(-1, torch.where(valid, target, 0))
    chosen = (at == torch.where(valid, target, -1).unsqueeze(-1)).any(1)
    loss = (1.0 - own.unsqueeze(-1) + x.unsqueeze(1)).clamp_min(0) / classes
    counts = valid.unsqueeze(-1) & ~chosen.unsqueeze(1)
    total = torch.where(counts, loss, 0).sum((1, 2))
    total = total.mean() if reduction == 1 else total.sum() if reduction == 2 else total
    if reduction == 0 and len(shape) < 2:
        total = total.squeeze(0)
    return total, chosen.to(x.dtype).reshape(shape)


def grid_sampler_3d(x: Any, grid: Any, mode: int, padding: int, corners: bool) -> Any:
    """Return x [N, C, D, H, W] read at the places of grid [N, d, h, w, 3], which names W first, from -1 to 1.

    mode: 0 weighs the eight neighbours, 1 takes the nearest. padding: outside counts as 0 (0), as the border (1) or is
    reflected (2). corners: 1 is the middle of the last element, and not its end. A place that is NaN gives 0.
    """
    sizes = tuple(x.shape[2:])
    places = [_inside(grid[..., 2 - d], n, padding, corners) for d, n in enumerate(sizes)]
    if mode == 1:
        return _read(x, [p.round() for p in places])
    low = [p.floor() for p in places]
    total = None
    for corner in itertools.product((0, 1), repeat=3):
        weight = None
        for p, first, up in zip(places, low, corner, strict=True):
            part = p - first if up else 1 - (p - first)
            weight = part if weight is None else weight * part
        found = _read(x, [first + up for first, up in zip(low, corner, strict=True)])
        weight = torch.where(weight == weight, weight, 0).unsqueeze(1)
        total = found * weight if total is None else total + found * weight
    return total


def _inside(place: Any, n: int, padding: int, corners: bool) -> Any:
    """Return places from -1 to 1 as positions of an axis of `n`, brought back inside as the padding says."""
    found = (place + 1) * ((n - 1) / 2) if corners else ((place + 1) * n - 1) / 2
    if padding == 2:
        low, span = (0.0, float(n - 1)) if corners else (-0.5, float(n))
        if span == 0:
            return torch.zeros_like(found)
        far = (found - low).abs()
        rest = torch.fmod(far, span)
        odd = torch.fmod((far / span).floor(), 2.0) != 0
        found = torch.where(odd, span - rest, rest) + low
    return found.clamp(0, n - 1) if padding else found


def _read(x: Any, places: list[Any]) -> Any:
    """Return the elements of x [N, C, D, H, W] at whole positions [N, d, h, w] of its last axes, 0 for those outside."""
    flat = inside = None
    for p, n in zip(places, x.shape[2:], strict=True):
        within = torch.logical_and(p >= 0, p < n)
        at = torch.where(within, p, 0).to(torch.int64)
        inside = within if inside is None else torch.logical_and(inside, within)
        flat = at if flat is None else flat * n + at
    assert flat is not None and inside is not None
    batch, channels, out = x.shape[0], x.shape[1], tuple(flat.shape[1:])
    wide = flat.reshape(batch, 1, -1).expand(batch, channels, -1)
    found = torch.gather(x.reshape(batch, channels, -1), 2, wide).reshape(batch, channels, *out)
    return torch.where(inside.unsqueeze(1), found, 0)


def fake_quantized(x: Any, scale: Any, zero: Any, low: int, high: int) -> Any:
    """Return x rounded to a multiple of `scale`; NaN becomes the lowest, as where torch converts it to an integer."""
    places = (x * (1 / scale)).round() + zero
    places = torch.where(places == places, places, low).clamp(low, high)
    return ((places - zero) * scale).to(x.dtype)


def fake_quantized_channels(x: Any, scale: Any, zero: Any, axis: int, low: int, high: int) -> Any:
    """Return x with a scale and a zero for each position of `axis`."""
    shape = tuple(-1 if d == axis % x.dim() else 1 for d in range(x.dim()))
    return fake_quantized(x, scale.reshape(shape), zero.reshape(shape), low, high)


RULES = {
    torch.ops.aten.fake_quantize_per_tensor_affine.default: fake_quantized,
    torch.ops.aten.fake_quantize_per_tensor_affine.tensor_qparams: fake_quantized,
    torch.ops.aten.fake_quantize_per_channel_affine.default: fake_quantized_channels,
    torch.ops.aten.multilabel_margin_loss_forward.default: multilabel_margin_loss,
    torch.ops.aten.grid_sampler_3d.default: grid_sampler_3d,
}
"""Operator -> what computes the same in others."""
