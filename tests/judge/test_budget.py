"""What a 16-bit reference lets a foreign kernel round: operands of products that the module computed, once each."""

from __future__ import annotations

import pytest

from septran.plan.wanted import load_wanted
from tests.judge.corpus import REFERENCES

LAYERS = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, x, w, v):
        return torch.relu(x @ w) @ v
def get_inputs():
    return [torch.randn(5, 6, dtype=torch.{0}), torch.randn(6, 7, dtype=torch.{0}), torch.randn(7, 8, dtype=torch.{0})]
def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(("dtype", "held"), [("float16", 1), ("bfloat16", 1), ("float32", 0)])
def test_a_hidden_layer_is_rounded_once_where_it_is_stored_in_16_bits(dtype, held, tmp_path):
    import torch

    file = tmp_path / "layers.py"
    file.write_text(LAYERS.format(dtype), encoding="utf-8")
    reference = load_wanted(file).problem.reference
    assert reference.storage_roundings == held
    assert (reference.magnitude is not None) is bool(held)
    if held:
        x, w, v = torch.ones(5, 6), torch.ones(6, 7), torch.full((7, 8), -1.0)
        found = reference.magnitude(x=x.double(), w=w.double(), v=v.double())
        assert bool((found == 42).all()), "sizes, not signs"


def test_a_product_of_inputs_is_rounded_by_nobody():
    assert load_wanted(REFERENCES / "matmul_half.py").problem.reference.storage_roundings == 0
    assert load_wanted(REFERENCES / "attention_half.py").problem.reference.storage_roundings == 1
