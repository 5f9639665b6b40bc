"""Quotients are quick where 16 bits hide what that costs, and exact where little decides much."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.plan.floor import library_leaves
from septran.plan.torch_module import load_imported
from tests.frontend.importing import imported
from tests.frontend.modules import Module
from tests.frontend.planning import planned

QUICK = "st::divide_quick("


@pytest.mark.parametrize(
    ("body", "dtype", "quick"),
    [
        ("return x / y", "float16", True),
        ("return x / y", "bfloat16", True),
        ("return x / y", "float32", False),
        ("return torch.floor(x.float() / y.float()).half()", "float16", False),
        ("return (x.float() / y.float() > 2).half()", "float16", False),
        ("return (x.float() / y.float() * 3).long().half()", "float16", False),
    ],
)
def test_where_a_quotient_is_quick(body: str, dtype: str, quick: bool, tmp_path: Path) -> None:
    one = f"torch.randn(40).to(torch.{dtype})"
    module = Module(name="quotient", body=body, args="x, y", inputs=f"{one}, {one}")
    plan, lowered = planned(load_imported(imported(module.write(tmp_path))), "cuda_c")
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    text = plan.backend.emit(lowered.program, leaves).source
    assert (QUICK in text) == quick
    assert quick or " / " in text
