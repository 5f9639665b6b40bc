"""Run emitted TileLang sources in the simulator and compare with the reference."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from septran.backends.base import Backend
from septran.backends.tilesim import dialect, load_file
from septran.kernel import Kernel
from tests.backends.operators import all_operators, expected, program_of

LIMIT = {"float32": 2e-4, "float16": 2e-2, "bfloat16": 0.15, "float64": 1e-9}


def kernel_of(
    backend: Backend, arch: str, op_name: str, dtype: str, dims: Mapping[str, int] | None = None
) -> Kernel:
    op, path = all_operators()[op_name]
    return backend.emit(program_of(op, path, backend, arch, dtype, dims or op.dims), {})


def to_storage(x: np.ndarray, dtype: str) -> np.ndarray:
    if dtype != "bfloat16":
        return x.astype(dtype)
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_storage(x: np.ndarray, dtype: str) -> np.ndarray:
    if dtype != "bfloat16":
        return x.astype(np.float64)
    return (x.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def error_of(
    source: str,
    kernel: Kernel,
    op_name: str,
    dtype: str,
    dims: Mapping[str, int],
    folder: Path,
) -> float:
    """Largest error relative to 1 + |expected| of `source` run in place of the kernel's own."""
    op, _ = all_operators()[op_name]
    kinds = op.types()
    rng = np.random.default_rng(7)
    arrays, exact = {}, {}
    for p in kernel.params:
        d = dtype if kinds[p.name].dtype == "T" else kinds[p.name].dtype
        if p.name in op.outputs:
            poison = np.full(p.shape, 0x7FC0, np.uint16)
            arrays[p.name] = poison if d == "bfloat16" else np.full(p.shape, np.nan).astype(d)
            continue
        x = rng.standard_normal(p.shape) if kinds[p.name].dtype == "T" else np.zeros(p.shape)
        low = getattr(op.domains.get(p.name), "low", None)
        if isinstance(low, int | float):
            x = np.abs(x) + max(low, 0.1)
        arrays[p.name] = to_storage(x, d)
        exact[p.name] = (
            from_storage(arrays[p.name], d) if kinds[p.name].dtype == "T" else x.astype(d)
        )
    path = folder / "kernel.py"
    path.write_text(source, encoding="utf-8")
    module, _ = load_file(path, dialect(kernel.arch))
    getattr(module, kernel.entry)(*[arrays[p.name] for p in kernel.params])
    worst = 0.0
    for name, want in expected(op, dims, exact).items():
        got = from_storage(arrays[name], dtype).reshape(want.shape)
        with np.errstate(invalid="ignore"):
            gap = np.abs(got - want) / (1 + np.abs(want))
        worst = max(worst, float("inf") if np.isnan(gap).any() else float(gap.max()))
    return worst
