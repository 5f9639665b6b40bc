"""What a module keeps from one call to the next: tensors are read and written as torch does, all else is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import septran
from septran.errors import ConfigError

pytestmark = pytest.mark.filterwarnings("ignore")

X = torch.ones(2, 3)


class Kept(nn.Module):
    """A sum so far, as a plain attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.k = torch.zeros(2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return twice the sum so far."""
        self.k = self.k + x
        return self.k * 2


class Parts(nn.Module):
    """States of parts: one returns the old state, one is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.late, self.sum, self.rate = Late(), Kept(), nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what all of them give."""
        old, one = self.late(x), self.sum(x)
        return old + 3 * self.late(self.rate(x)) + one


class Late(nn.Module):
    """What it was given before."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("h", torch.zeros(2, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the input of the call before."""
        old = self.h
        self.h = x
        return old


def _counts(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.n += 1
    return x * self.n


def _grows(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.seen.append(x)
    return x + len(self.seen)


def _puts(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.tables["a"][0] = self.tables["a"][0] + x
    return self.tables["a"][0] * 2


def _starts(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.h = x if self.h is None else self.h + x
    return self.h * 1


def _widens(self: Any, x: torch.Tensor) -> torch.Tensor:
    self.k = torch.cat([self.k, x])
    return self.k.sum(0)


class Other(nn.Module):
    """Keeps what no kernel can keep."""

    def __init__(self, forward: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.n, self.seen, self.h, self.k = 0, [], None, torch.zeros(1, 3)
        self.tables = {"a": [torch.zeros(2, 3)]}
        self.does = forward

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what the function gives."""
        return self.does(self, x)


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", [Kept, Parts])
def test_tensors_that_forward_replaces_are_kept(kind: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = kind().eval()
    torch.manual_seed(0)
    own = kind().eval()
    compiled = septran.compile(module, (X,))
    for step in range(3):
        torch.testing.assert_close(compiled(X + step), own(X + step).detach())
    state = own.sum.k if kind is Parts else own.k
    assert torch.equal(module.sum.k if kind is Parts else module.k, state)
    assert "k" not in dict(module.named_buffers()) and "k" not in module.state_dict()
    compiled.save(tmp_path / "kept")
    loaded = septran.load(tmp_path / "kept")
    for step in range(2):  # from the state that was saved
        torch.testing.assert_close(loaded(X + step), own(X + step).detach())
    beside, was = septran.load(tmp_path / "kept", module), state.clone()
    beside(X)
    assert not torch.equal(module.sum.k if kind is Parts else module.k, was)


def test_a_tensor_that_the_user_changes_is_seen() -> None:
    class Reads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.k = torch.zeros(2, 3)
            self.tables = {"a": [torch.ones(2, 3)]}
            self.hidden = [nn.Linear(3, 3)]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.hidden[0](x + self.k) * self.tables["a"][0]

    module = Reads()
    compiled = septran.compile(module, (X,), verify=False)

    def same() -> None:
        for _ in range(3):  # the second call and those behind it are quick where they can be
            torch.testing.assert_close(compiled(X), module(X).detach())

    same()
    module.k = torch.full((2, 3), 5.0)
    same()
    module.k.fill_(9)
    same()
    module.k = torch.arange(3.0)  # of another shape
    same()
    module.tables["a"][0].fill_(2)
    same()
    module.tables = {"a": [torch.full((2, 3), 7.0)]}
    same()
    module.hidden[0].weight.data.mul_(2)
    same()


def test_a_quick_call_reads_an_attribute() -> None:
    class Reads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.k = torch.zeros(2, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.k

    module = Reads()
    compiled = septran.compile(module, (X,), verify=False)
    for value in (0.0, 1.0, 2.0):
        module.k = torch.full((2, 3), value)
        assert torch.equal(compiled(X), X + value)
        module.k.fill_(value + 5)
        assert torch.equal(compiled(X), X + value + 5)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("does", "said"),
    [
        (_counts, r"changes n \(0, then 1\)"),
        (_grows, r"changes seen\[0\] \(nothing, then a tensor\)"),
        (_puts, r"changes tables\['a'\]\[0\] \(a tensor, then a tensor\)"),
        (_starts, r"changes h \(None, then a tensor\)"),
        (_widens, r"gives k another kind of tensor: float32 \[3, 3\], not float32 \[1, 3\]"),
    ],
)
def test_what_no_kernel_keeps_is_refused_and_left_as_it_was(does: Any, said: str) -> None:
    module = Other(does)
    seen, tables, k = module.seen, module.tables, module.k
    with pytest.raises(ConfigError, match=said) as caught:
        septran.compile(module, (X,))
    assert caught.value.codes == ("C151",)
    assert module.seen is seen and module.tables is tables and module.k is k
    assert (module.n, seen, module.h) == (0, [], None)
    assert torch.equal(tables["a"][0], torch.zeros(2, 3))
    own = Other(does)
    left = septran.compile(module, (X,), fallback="torch")
    for _ in range(2):
        assert torch.equal(left(X), own(X))


def test_an_attribute_that_each_call_makes_of_weights_alone_is_no_state() -> None:
    """Old-style weight_norm keeps the weight that it made; written back, it would cost a copy of all weights a call."""
    module = nn.utils.weight_norm(nn.Linear(3, 4)).eval()
    with torch.no_grad():
        compiled = septran.compile(module, (X,), target="cpp", verify=False)
        assert "_program(linear_bias, bias, weight_g, weight_v, input)" in compiled.logic
        module.weight_g.mul_(3)
        torch.testing.assert_close(compiled(X), module(X))
