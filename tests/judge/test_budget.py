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


def test_what_16_bits_hold_of_tiny_probabilities_is_as_far_apart_as_at_the_smallest_normal_number():
    """Half precision has nothing between 0 and 6e-8: an honest flash attention was called wrong for such probabilities."""
    import torch

    problem = load_wanted(REFERENCES / "attention_half.py").problem
    given = {p.name: torch.ones(p.shape, dtype=torch.float64) for p in problem.inputs}
    _, key, _ = given.values()
    key[:, 1:] = -1000.0  # all of the weight is the first one's
    assert problem.reference.magnitude is not None
    found = problem.reference.magnitude(**given)
    others = (key.shape[1] - 1) * torch.finfo(torch.float16).tiny
    torch.testing.assert_close(found, torch.full_like(found, 1 + others), rtol=1e-12, atol=0)


def test_a_product_of_inputs_is_rounded_by_nobody():
    assert load_wanted(REFERENCES / "matmul_half.py").problem.reference.storage_roundings == 0
    assert load_wanted(REFERENCES / "attention_half.py").problem.reference.storage_roundings == 1
