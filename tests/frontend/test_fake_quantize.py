"""Fake quantisation is rounding to multiples, and the rule for it is what torch computes, ties, NaN and infinities too."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import septran
from septran.frontend.child.rules import fake_quantized, fake_quantized_channels

pytestmark = pytest.mark.filterwarnings("ignore")
TIES = torch.cat(
    (
        torch.arange(-700, 700) * 0.0625,
        torch.tensor([torch.nan, torch.inf, -torch.inf, 31.875, -32.125]),
    )
)


class Quantized(nn.Module):
    """A linear layer of weights that have a scale for each row, on inputs that have one scale."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(9, 7)
        self.register_buffer("scales", torch.linspace(0.02, 0.5, 7))
        self.register_buffer("zeros", torch.zeros(7, dtype=torch.int32))
        self.register_buffer("scale", torch.tensor([0.03]))
        self.register_buffer("zero", torch.tensor([4], dtype=torch.int32))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the layer's result and a rounded one."""
        w = torch.fake_quantize_per_channel_affine(
            self.linear.weight, self.scales, self.zeros, 0, -128, 127
        )
        x = torch.fake_quantize_per_tensor_affine(x, self.scale, self.zero, 0, 255)
        y = F.linear(x, w, self.linear.bias)
        return y, torch.fake_quantize_per_tensor_affine(y, 0.25, -3, -128, 127)


@pytest.mark.parametrize("zero", [0, 5, -3])
def test_the_rule_is_what_torch_computes(zero: int) -> None:
    right = torch.fake_quantize_per_tensor_affine(TIES, 0.25, zero, -128, 127)
    assert torch.equal(fake_quantized(TIES, 0.25, zero, -128, 127), right)
    x = TIES[:1400].reshape(2, 4, 175)
    scales, zeros = (
        torch.tensor([0.25, 0.5, 1.0, 0.125]),
        torch.tensor([0, 3, -2, zero], dtype=torch.int32),
    )
    right = torch.fake_quantize_per_channel_affine(x, scales, zeros, 1, -8, 7)
    assert torch.equal(fake_quantized_channels(x, scales, zeros, 1, -8, 7), right)


@pytest.mark.wider
def test_ties_of_a_kernel_are_torchs() -> None:
    def quantized(x: torch.Tensor) -> torch.Tensor:
        return torch.fake_quantize_per_tensor_affine(x, 0.25, 0, -128, 127)

    found = septran.compile(_module(quantized), (TIES,), verify=False)(TIES)
    assert torch.equal(found, quantized(TIES))


@pytest.mark.slow
def test_a_quantized_layer_is_compiled_and_verified() -> None:
    module, x = Quantized().eval(), torch.randn(5, 9)
    for one, right in zip(septran.compile(module, (x,))(x), module(x), strict=True):
        torch.testing.assert_close(one, right)


def _module(fn: object) -> nn.Module:
    from tests.frontend.calls import Call

    return Call(fn)  # type: ignore[arg-type]
