"""Operators as kernels with inputs and references, shared by the tests of this backend."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from septran.backends.cuda.backend import CUDA_C
from septran.kernel import Kernel
from septran.tasklang.operator import Operator
from tests.backends.cuda_c.running import kernel_of, rounded
from tests.backends.operators import all_operators, expected, program_of

TOLERANCE = {"float64": 1e-5, "float32": 3e-5, "float16": 4e-3, "bfloat16": 3e-2}
"""Largest error relative to the largest result."""


@cache
def operators() -> Mapping[str, tuple[Operator, object]]:
    return all_operators()


def kernel(name: str, dtype: str, dims: Mapping[str, int], arch: str = "sm_80") -> Kernel:
    op, path = operators()[name]
    return kernel_of(program_of(op, path, CUDA_C, arch, dtype, dims))  # type: ignore[arg-type]


def inputs(name: str, k: Kernel, dims: Mapping[str, int]) -> dict[str, np.ndarray]:
    op = operators()[name][0]
    rng = np.random.default_rng(7)
    found = {}
    for p in k.params:
        if p.name in op.outputs:
            continue
        if p.dtype.startswith("int"):
            domain = op.domains.get(p.name)
            high = dims.get(str(domain.high), 4) if domain is not None else 4
            found[p.name] = rng.integers(0, high, p.shape)
        else:
            found[p.name] = rounded(rng.standard_normal(p.shape), p.dtype)
    return found


def error(
    name: str,
    dims: Mapping[str, int],
    given: Mapping[str, np.ndarray],
    got: Mapping[str, np.ndarray],
) -> float:
    """Largest error over all outputs, relative to the largest result; NaN counts as infinite."""
    worst = 0.0
    for out, want in expected(operators()[name][0], dims, given).items():
        worse = np.abs(got[out].astype(float) - want).max() / max(1e-30, np.abs(want).max())
        worst = max(worst, float("inf") if np.isnan(worse) else float(worse))
    return worst
