"""Streaming a panel: what accumulates, and in which precision."""

from __future__ import annotations

import pytest

from septran.ir.nodes import Alloc, leaf_calls, walk
from septran.plan.resolve import GenRequest, lower_plan, resolve


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_half_result_left_in_place_accumulates_in_float32(dtype: str) -> None:
    """The cpp policy leaves C where it is; rounding it after each block of K was 60 times over budget."""
    request = GenRequest(op="gemm_seed", backend="cpp", dims={"K": 1500}, dtype=dtype)
    program = lower_plan(resolve(request)).bound.program
    made = {s.buffer.name: s.buffer for s in walk(program.body) if isinstance(s, Alloc)}
    steps = [c for c in leaf_calls(program) if c.prims[0].name == "gemm_acc"]
    assert len(steps) == 1
    target = steps[0].arg("C").region.buffer
    assert made[target.name].dtype == "float32"
