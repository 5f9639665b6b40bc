"""Tensors on a pipe: a description as plain data, and the bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

DTYPES = (
    *("float64", "float32", "float16", "bfloat16"),
    *("int64", "int32", "int16", "int8", "uint8", "bool"),
)


def described(tensors: Mapping[str, torch.Tensor]) -> tuple[list[list[Any]], bytes]:
    """Return [name, dtype, shape] of each tensor and the bytes of all, in this order, row-major."""
    import torch

    rows, parts = [], []
    for name, tensor in tensors.items():
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        rows.append([name, str(tensor.dtype).removeprefix("torch."), list(tensor.shape)])
        parts.append(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
    return rows, b"".join(parts)


def rebuilt(rows: Any, payload: bytes) -> dict[str, torch.Tensor]:
    """Return the tensors of `described`; raises ValueError when rows and bytes do not agree."""
    import torch

    found: dict[str, torch.Tensor] = {}
    at = 0
    for row in rows if isinstance(rows, list) else [None]:
        match row:
            case [str(name), str(dtype), list(shape)] if dtype in DTYPES and all(
                type(n) is int and n >= 0 for n in shape
            ):
                kind = getattr(torch, dtype)
            case _:
                raise ValueError("tensors are not described as agreed")
        count = 1
        for n in shape:
            count *= n
        size = count * torch.empty(0, dtype=kind).element_size()
        raw = bytearray(payload[at : at + size])
        if len(raw) != size:
            raise ValueError(f"{name}: {len(raw)} bytes where {size} are expected")
        made = torch.frombuffer(raw, dtype=kind) if size else torch.empty(0, dtype=kind)
        found[name] = made.reshape(shape)
        at += size
    if at != len(payload):
        raise ValueError("more bytes than tensors")
    return found
