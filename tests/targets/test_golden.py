"""Kernels of targets whose own tests keep none: what is printed is read by a person before it changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from septran import backends
from septran.plan.floor import library_leaves
from septran.plan.resolve import GenRequest, lower_plan, resolve

HALF = {"pallas_tpu": "bfloat16"}
"""the 16-bit dtype of targets without float16"""
CASES = [
    (target, op, dtype, dims)
    for target in (
        "hip_c",
        "tilelang_hip",
        "tilelang_npuir",
        "dsa_c",
        "triton_hip",
        "triton_npu",
        "pallas_tpu",
    )
    for op, dtype, dims in (
        ("gemm", HALF.get(target, "float16"), {"M": 200, "N": 136, "K": 72}),
        ("softmax", "float32", {"M": 10, "N": 37}),
    )
]


@pytest.mark.parametrize(("target", "op", "dtype", "dims"), CASES)
def test_the_kernel_is_the_one_that_was_read(
    golden: Callable[[str, str], None], target: str, op: str, dtype: str, dims: dict[str, int]
) -> None:
    backend = backends.get(target)
    plan = resolve(GenRequest(op=op, backend=target, dtype=dtype, dims=dims))
    lowered = lower_plan(plan)
    leaves = library_leaves(backend, lowered.program, lowered.bound.mapping)
    kernel = backend.emit(lowered.program, leaves)
    golden(f"{target}/{op}.{dtype}{backend.suffix}.txt", kernel.source)
