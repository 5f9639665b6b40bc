"""Export without what reaches no graph: the steps of recurrent layers, and checks that only raise errors."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch._decomp import decompositions

import septran
from tests.frontend.importing import computes_the_module, imported
from tests.frontend.modules import Module


@pytest.mark.parametrize(
    "init",
    [
        "self.r = nn.GRU(6, 5, 2, bidirectional=True)",
        pytest.param(
            "self.r = nn.LSTM(6, 5, bidirectional=True, batch_first=True)", marks=pytest.mark.slow
        ),
    ],
)
def test_no_step_of_a_recurrent_layer_is_walked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, init: str
) -> None:
    monkeypatch.setattr(decompositions, "one_layer_rnn", lambda *a, **k: pytest.fail("walked"))
    monkeypatch.setattr(decompositions, "one_layer_lstm", lambda *a, **k: pytest.fail("walked"))
    rules = dict(torch._decomp.decomposition_table)
    module = Module(name="m", init=init, body="self.r(x)", inputs="torch.randn(9, 4, 6)")
    computes_the_module(imported(module.write(tmp_path)), tmp_path)
    assert rules == torch._decomp.decomposition_table


def test_checks_of_values_are_left_out(tmp_path: Path) -> None:
    body = """a = F.gaussian_nll_loss(x, t, v.exp(), full=True)
b = nn.GaussianNLLLoss(reduction="none")(x, t, v.exp().mean(1, keepdim=True))
c = torch.distributions.Normal(t, v.exp()).log_prob(x)
return a, b, c"""
    module = Module(
        name="m", args="x, t, v", body=body, inputs=", ".join(["torch.randn(5, 37)"] * 3)
    )
    before = torch.distributions.Distribution._validate_args  # tracing elsewhere turns it off
    computes_the_module(imported(module.write(tmp_path)), tmp_path)
    assert torch.distributions.Distribution._validate_args is before
    with pytest.raises(ValueError, match="negative"):
        torch.nn.functional.gaussian_nll_loss(*[-torch.ones(2, 2)] * 3)


@pytest.mark.filterwarnings("ignore")
def test_a_mask_of_a_transformer_is_not_compared_with_the_causal_one() -> None:
    """torch looks at its values, and has one operator for a whole layer where batches come first."""
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))
    own = nn.modules.transformer._detect_is_causal_mask

    def one(kind: type[nn.Module]) -> nn.Module:
        return kind(8, 2, 16, batch_first=True)

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.TransformerEncoder(one(nn.TransformerEncoderLayer), 1)
            self.second = nn.TransformerDecoder(one(nn.TransformerDecoderLayer), 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(x, self.first(x, mask=mask), tgt_mask=mask)

    module = Both().eval()
    with torch.no_grad():
        found = septran.compile(module, (x,))(x)
        torch.testing.assert_close(found, module(x), atol=1e-5, rtol=1e-5)
    assert nn.modules.transformer._detect_is_causal_mask is own
    assert torch.backends.mha.get_fastpath_enabled()
