"""Order certificates on a machine: the bits of a row do not depend on how many rows there are.

The rule `sums` proves that the hierarchy adds in one order for every row (P061); this is the leaves' part.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from septran.plan.floor import library_leaves
from septran.plan.resolve import GenRequest, lower_plan, resolve


def rows_of(op: str, dims: dict[str, int], given: dict[str, torch.Tensor], folder: Path):
    plan = resolve(GenRequest(op=op, backend="cpp", dims=dims))
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    kernel = plan.backend.emit(lowered.program, leaves)
    assert plan.backend.load is not None
    out = {p.name: torch.full(p.shape, float("nan")) for p in kernel.params if p.privilege == "w"}
    folder.mkdir()
    plan.backend.load(kernel, folder)(*({**given, **out}[p.name] for p in kernel.params))
    (found,) = out.values()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 5, 37, 63])
def test_a_row_of_a_product_has_the_same_bits_in_every_batch(rows: int, tmp_path: Path):
    draw = torch.Generator().manual_seed(0)
    a, b = torch.randn(64, 300, generator=draw), torch.randn(300, 130, generator=draw)
    whole = rows_of("gemm", {"M": 64, "N": 130, "K": 300}, {"A": a, "B": b}, tmp_path / "whole")
    some = {"A": a[64 - rows :].contiguous(), "B": b}
    part = rows_of("gemm", {"M": rows, "N": 130, "K": 300}, some, tmp_path / "part")
    assert torch.equal(part, whole[64 - rows :])
