"""The state of a recurrent layer of 16 bits is held wider from step to step, as its reference is."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import septran


class Rnns(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.g = nn.GRU(4, 8, num_layers=2, bidirectional=True)
        self.r = nn.RNN(16, 8, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.r(self.g(x)[0])[0]


class Cells(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c = nn.LSTMCell(4, 8)
        self.g = nn.GRUCell(8, 8, bias=False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h, c = self.c(x)
        return self.g(h), c


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("module", "dtype", "shape"),
    [
        (nn.LSTM(4, 8), torch.float16, (3, 5, 4)),
        pytest.param(nn.LSTM(4, 8, proj_size=3), torch.float16, (3, 5, 4), marks=pytest.mark.wider),
        pytest.param(Rnns(), torch.bfloat16, (6, 5, 4), marks=pytest.mark.wider),
        (Cells(), torch.float16, (5, 4)),
    ],
    ids=["lstm", "projected", "gru and rnn", "cells"],
)
def test_it_is_verified(module: nn.Module, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape).to(dtype)
    ours = septran.compile(module.to(dtype), (x,))
    found, wanted = ours(x), module(x)
    for one, other in zip(_flat(found), _flat(wanted), strict=True):
        assert one.dtype == dtype
        torch.testing.assert_close(one, other, atol=0.02, rtol=0.02)


def _flat(given: object) -> list[torch.Tensor]:
    if isinstance(given, torch.Tensor):
        return [given]
    assert isinstance(given, (tuple, list))
    return [t for part in given for t in _flat(part)]
