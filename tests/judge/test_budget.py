"""What a 16-bit reference lets a foreign kernel round: operands of products that the module computed, once each."""

from __future__ import annotations

import math

import pytest

from septran.accuracy import load_policy
from septran.plan.wanted import load_wanted
from septran.verify import budget, judge
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


@pytest.mark.few(1)
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


@pytest.mark.wider
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


@pytest.mark.wider
def test_a_product_of_inputs_is_rounded_by_nobody():
    assert load_wanted(REFERENCES / "matmul_half.py").problem.reference.storage_roundings == 0
    assert load_wanted(REFERENCES / "attention_half.py").problem.reference.storage_roundings == 1


def attention(step: float) -> tuple[float, float]:
    """Return error / budget of attention that stores its probabilities as multiples of `step`, and the largest probability but the first.

    All weight is the first key's, whose value is 0; the others have the value 1 and a probability of one and a half times half precision's least number.
    """
    import numpy as np
    import torch

    problem = load_wanted(REFERENCES / "attention_half.py").problem
    query, key, value = (p.shape for p in problem.inputs)
    width = query[-1]
    arrays = [np.full(query, 1.0), np.zeros(key), np.ones(value)]
    arrays[1][:, 1:] = math.log(1.47 * 2.0**-24) / math.sqrt(width)
    arrays[2][:, 0] = 0.0
    given = {p.name: a.astype(np.float16) for p, a in zip(problem.inputs, arrays, strict=True)}
    q, k, v = (torch.from_numpy(a.astype(np.float64)).transpose(1, 2) for a in given.values())
    exact = torch.softmax(q @ k.mT / math.sqrt(width), -1)
    stored = (exact / step).round() * step
    (known,) = budget.expected(problem, given, zero_mean=False, policy=load_policy(), seed=1)
    torch.testing.assert_close(known.values, (exact @ v).transpose(1, 2), rtol=1e-12, atol=0)
    (param,) = problem.outputs
    raw = (stored @ v).transpose(1, 2).half().numpy().tobytes()
    return judge.compare(param, known, raw).ratio, float(exact[..., 1:].max())


def test_probabilities_in_half_precision_are_accepted_down_to_its_least_number():
    least = 2.0**-24
    ratio, largest = attention(least)
    assert least < largest < 1.5 * least
    assert 0.5 < ratio <= 1, "nearly all of what is granted is needed"


@pytest.mark.parametrize("step", [4 * 2.0**-24, 2.0**-14], ids=["four times as coarse", "flushed"])
def test_probabilities_lost_below_half_precision_are_refused(step):
    """The planted bugs: two digits less than half precision holds there, and a flush of all below its normal numbers."""
    ratio, _ = attention(step)
    assert ratio > 1.5


@pytest.mark.parametrize(("step", "accepted"), [(2.0**-24, True), (2.0**-22, False)])
def test_a_hidden_layer_below_half_precisions_normal_numbers_is_stored_as_finely_as_it_can_be(
    step, accepted, tmp_path
):
    import numpy as np
    import torch

    file = tmp_path / "layers.py"
    file.write_text(LAYERS.format("float16"), encoding="utf-8")
    problem = load_wanted(file).problem
    x, w, v = np.ones((5, 6)), np.zeros((6, 7)), np.ones((7, 8))
    x[:, 0], w[0] = (
        1.5 * 2.0**-10,
        2.0**-14,
    )  # the product lies between the least number and its double
    given = {n: a.astype(np.float16) for n, a in zip("xwv", (x, w, v), strict=True)}
    hidden = torch.from_numpy(x @ w)
    (known,) = budget.expected(problem, given, zero_mean=False, policy=load_policy(), seed=1)
    stored = (hidden / step).round() * step
    raw = (stored @ torch.from_numpy(v)).half().numpy().tobytes()
    ratio = judge.compare(problem.outputs[0], known, raw).ratio
    assert (ratio <= 1) is accepted, ratio
    assert float((stored - hidden).abs().max()) > 0
