"""A torch sum over several dims is one line of a leaf."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.plan.torch_module import load_imported
from tests.frontend.importing import computes_the_module, imported
from tests.frontend.planning import accepted

MODULE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return {body}

def get_inputs():
    return [torch.randn({shape})]

def get_init_inputs():
    return []
"""
CASES = {
    "statistics": ("x - x.mean((0, 2), keepdim=True)", "4, 6, 10", "axis=(0, 2)"),
    "three": ("x.amax((0, 2, 4))", "3, 4, 5, 6, 7", "axis=(0, 2, 4)"),
    "long": ("x.sum((0, 2))", "70, 3, 9000", '"reduce_acc"'),
}


@pytest.mark.parametrize("name", CASES)
def test_a_sum_over_several_dims_is_one_reduction(name: str, tmp_path: Path) -> None:
    body, shape, told = CASES[name]
    path = tmp_path / "module.py"
    path.write_text(MODULE.format(body=body, shape=shape))
    found = imported(path)
    assert told in found.text
    assert "_part" not in found.text
    reductions = [line for line in found.text.splitlines() if '"reduce' in line]
    assert len(reductions) == 1
    computes_the_module(found, tmp_path)


@pytest.mark.wider
@pytest.mark.parametrize("target", ["cpp", "cuda_c", "triton_cuda"])
def test_the_judge_accepts_it(target: str, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(MODULE.format(body=CASES["statistics"][0], shape=CASES["statistics"][1]))
    accepted(load_imported(imported(path)), target, tmp_path)
