"""PTX's `cvt` of `tl.inline_asm_elementwise`: integers, floats, halves, tf32 and the two float8, one or two in a register.

Lies beside a judged kernel as septran_triton_asm_conversions.py. Source: PTX ISA, "cvt" and "cvt.pack".
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from septran_triton_asm_opcodes import TYPES, halves, of_halves

Read = Callable[[int, str], np.ndarray]
_INT = "[sub](?:8|16|32|64)"
_ROUNDED = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_LARGEST = {"e4m3x2": 448.0, "e5m2x2": 57344.0}


def converted(name: str, read: Read) -> tuple[np.ndarray, str] | None:
    """Return what a `cvt` gives, and its kind; None: it is none of these."""
    for pattern, function in _TABLE:
        if match := re.fullmatch(pattern, name):
            return function(read, *match.groups())
    return None


def _float(read: Read, at: int, kind: str) -> np.ndarray:
    bits = read(at, kind)
    return halves(kind, bits).ravel() if kind in ("f16", "bf16") else bits


def _to_integer(read: Read, how: str, kind: str, source: str) -> tuple[np.ndarray, str]:
    """Cut to what the type holds; NaN is 0."""
    limits = np.iinfo(TYPES[kind])
    values = _ROUNDED[how](_float(read, 0, source).astype(np.float64))
    above, below = values >= float(limits.max), values <= float(limits.min)
    inside = np.where(np.isnan(values) | above | below, 0, values).astype(TYPES[kind])
    return np.select([above, below], [limits.max, limits.min], inside).astype(TYPES[kind]), kind


def _between_integers(read: Read, sat: str | None, kind: str, source: str) -> tuple[np.ndarray, str]:  # fmt: skip
    values, limits = read(0, source), np.iinfo(TYPES[kind])
    if sat:
        own = np.iinfo(values.dtype)
        values = np.clip(values, max(own.min, limits.min), min(own.max, limits.max))
    return values.astype(TYPES[kind]), kind


def _to_float(read: Read, kind: str, source: str) -> tuple[np.ndarray, str]:
    values: Any = _float(read, 0, source)
    if kind in ("f16", "bf16"):
        return of_halves(kind, values.astype(np.float32)), kind
    return values.astype(TYPES[kind]), kind


def _to_halves(read: Read, relu: str | None, kind: str) -> tuple[np.ndarray, str]:
    values = [read(at, "f32") for at in range(2 if kind.endswith("x2") else 1)]
    both = np.stack(values[::-1], axis=1)  # the first operand is the upper half
    return of_halves(kind, _kept(both, relu)), kind


def _kept(values: np.ndarray, relu: str | None) -> np.ndarray:
    return np.where(values > 0, values, np.where(np.isnan(values), values, 0)).astype(np.float32) if relu else values  # fmt: skip


def _to_tf32(read: Read, how: str) -> tuple[np.ndarray, str]:
    bits = read(0, "b32").astype(np.uint64)
    half = np.uint64(0x1000) if how == "rna" else np.uint64(0xFFF) + (bits >> np.uint64(13) & np.uint64(1))  # fmt: skip
    return (bits + half & np.uint64(0xFFFFE000)).astype(np.uint32), "b32"


def _to_float8(read: Read, relu: str | None, kind: str, source: str) -> tuple[np.ndarray, str]:
    import torch

    if source == "f32":
        both = np.stack([read(1, "f32"), read(0, "f32")], axis=1)
    else:
        both = halves(source, read(0, source))
    most = _LARGEST[kind]
    values = np.ascontiguousarray(np.clip(_kept(both, relu), -most, most))
    with _unwatched():
        found = torch.from_numpy(values).to(_torch_type(kind)).view(torch.uint8).numpy()
    found = np.where(np.isnan(both), np.uint8(0x7F), found)
    return np.ascontiguousarray(found).view(np.uint16).ravel(), "b16"


def _of_float8(read: Read, relu: str | None, kind: str) -> tuple[np.ndarray, str]:
    import torch

    raw = np.ascontiguousarray(read(0, "b16")).view(np.uint8).reshape(-1, 2)
    with _unwatched():
        values = torch.from_numpy(raw.copy()).view(_torch_type(kind)).to(torch.float32).numpy()
    return of_halves("f16x2", _kept(values, relu)), "f16x2"


@contextlib.contextmanager
def _unwatched() -> Iterator[None]:
    """Whoever watches what a host calls does not mean the interpreter's own arithmetic."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes as disable_modes

    with disable_modes(), torch._C.DisableTorchFunction():
        yield


def _torch_type(kind: str) -> Any:
    import torch

    return torch.float8_e4m3fn if kind.startswith("e4m3") else torch.float8_e5m2


_TABLE: tuple[tuple[str, Callable[..., tuple[np.ndarray, str]]], ...] = (
    (rf"cvt\.(rni|rzi|rmi|rpi)(?:\.ftz)?(?:\.sat)?\.({_INT})\.(f32|f64|f16|bf16)", _to_integer),
    (rf"cvt(\.sat)?\.({_INT})\.({_INT})", _between_integers),
    (rf"cvt\.rn\.(f16|bf16|f32|f64)\.({_INT}|f64)", _to_float),
    (r"cvt\.(f32|f64)\.(f16|bf16|f32)", _to_float),
    (r"cvt\.rn(\.relu)?\.(f16x2|bf16x2|f16|bf16)\.f32", _to_halves),
    (r"cvt\.(rna|rn)\.tf32\.f32", _to_tf32),
    (r"cvt\.rn\.satfinite(\.relu)?\.(e4m3x2|e5m2x2)\.(f32|f16x2)", _to_float8),
    (r"cvt\.rn(\.relu)?\.f16x2\.(e4m3x2|e5m2x2)", _of_float8),
)
