"""Fourier transforms and complex numbers: products with tables, pairs of real tensors; compiled, verified, compared with torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import septran
from septran.errors import ConfigError, NotCorrect
from septran.frontend.partition import HostPart, partition
from septran.frontend.table import spectral
from septran.frontend.translate import forms, translate
from septran.frontend.view import View
from tests.frontend.importing import graph_of
from tests.frontend.modules import Module

WITHOUT = ("logcumsumexp",)
"""Operators that have no form in these tests."""

pytestmark = pytest.mark.filterwarnings("ignore")


class Call(nn.Module):
    """A function of a tensor and a weight as a module."""

    def __init__(self, fn: Callable[..., Any], *weight: int) -> None:
        super().__init__()
        self.fn = fn
        self.w = nn.Parameter(torch.randn(*weight)) if weight else None

    def forward(self, x: torch.Tensor) -> Any:
        """Return what the function returns."""
        return self.fn(x) if self.w is None else self.fn(x, self.w)


def neural_operator(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Mix channels of the lowest frequencies alone."""
    y = torch.fft.rfft(x)
    out = torch.zeros(x.shape[0], w.shape[1], y.shape[-1], dtype=torch.cfloat)
    low = w.shape[2]
    out[:, :, :low] = torch.einsum("bix,iox->box", y[:, :, :low], torch.view_as_complex(w))
    return torch.fft.irfft(out, n=x.shape[-1])


def rotated(x: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
    """Turn pairs of features by an angle for each position."""
    turn = torch.polar(torch.ones_like(angle), angle)
    return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * turn).flatten(-2)


CASES: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "mixing": (Call(lambda x: torch.fft.fftn(x, dim=(1, 2)).real), (2, 5, 8)),
    "one_after_another": (Call(lambda x: torch.fft.fft(torch.fft.fft(x), dim=-2).imag), (2, 4, 6)),
    "sizes": (Call(lambda x: torch.view_as_real(torch.fft.rfft(x, norm="ortho"))), (3, 7)),
    "magnitude": (Call(lambda x: torch.fft.rfft(x, dim=0, norm="forward").abs()), (12, 5)),
    "there_and_back": (
        Call(lambda x: torch.fft.irfft2(torch.fft.rfft2(x, norm="ortho"), s=(5, 9), norm="ortho")),
        (3, 5, 9),
    ),
    "cut_and_padded": (
        Call(
            lambda x: (
                torch.fft.fft(x, n=11).real,
                torch.fft.ifft(x, n=6, norm="forward").imag,
                torch.fft.irfftn(torch.fft.fftn(x)[..., :5]),
                torch.fft.irfft(x, n=12),
            )
        ),
        (2, 3, 8),
    ),
    "convolution": (
        Call(lambda x, w: torch.fft.ifft(torch.fft.fft(x) * torch.fft.fft(w).conj()).real, 8),
        (3, 8),
    ),
    "neural_operator": (Call(neural_operator, 3, 6, 3, 2), (2, 3, 17)),
    "rotated": (Call(rotated, 5, 4), (2, 5, 8)),
}


@pytest.mark.parametrize(
    "name", ["mixing", *(pytest.param(n, marks=pytest.mark.slow) for n in CASES if n != "mixing")]
)
def test_what_is_compiled_is_the_module(name: str) -> None:
    module, shape = CASES[name]
    x = torch.randn(*shape)
    compiled = septran.compile(module, (x,))
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), module(x), atol=1e-5, rtol=1e-4)


def test_the_real_part_alone_takes_no_imaginary_one(tmp_path: Path) -> None:
    mixing = Module(name="mixing", body="torch.fft.fft(x).real", inputs="torch.randn(4, 8)")
    kinds = [o.kind for o in translate(graph_of(mixing.write(tmp_path))).ops]
    assert kinds.count("matmul") == 1


@pytest.mark.parametrize(
    ("body", "inputs", "told"),
    [
        ("torch.fft.fft(x)", "torch.randn(2, 4)", "complex64"),
        ("torch.fft.fft(x).real", "torch.randn(2, 4096)", "more than 2048"),
        ("torch.abs(x)", "torch.randn(2, 4, dtype=torch.cfloat)", "complex64"),
        ("torch.fft.rfft(x).exp().real", "torch.randn(2, 4)", "no Task Lang form yet"),
    ],
)
def test_what_has_no_form_is_refused(body: str, inputs: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        translate(graph_of(Module(name="odd", body=body, inputs=inputs).write(tmp_path)))
    assert caught.value.codes == ("C150",)
    assert told in str(caught.value)


def test_nothing_complex_stands_between_kernels_and_torch(tmp_path: Path) -> None:
    mixed = Module(
        name="mixed",
        body="y = torch.fft.rfft(torch.relu(x))\nz = torch.logcumsumexp(y.abs(), 1)\n"
        "return torch.fft.irfft(y * z, n=8) * 2.0",
        inputs="torch.randn(4, 8)",
    )
    graph = graph_of(mixed.write(tmp_path))
    known = forms(graph)
    steps = partition(graph, known, known.missing)
    assert [isinstance(s, HostPart) for s in steps] == [False, True, False]
    crossing = [i.meta.dtype for s in steps for i in s.graph.inputs]
    assert set(crossing) == {"float32"}


@pytest.mark.slow
def test_a_table_that_is_off_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = spectral._tables

    def off(b: Any, rows: int, columns: int, n: int) -> tuple[View, View]:
        cos, sin = right(b, rows, columns, n)
        return cos, b.map("x * 1.00002", {"x": sin})

    monkeypatch.setattr(spectral, "_tables", off)
    module, shape = CASES["there_and_back"]
    x = torch.randn(*shape)
    with pytest.raises(NotCorrect):
        septran.compile(module, (x,))(x)
