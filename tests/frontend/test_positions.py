"""A call with a position outside is an IndexError, as in torch, and never a result with zeros in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import septran
from septran.aten.index_uses import check_positions, index_uses, open_index_uses
from septran.call.export import export, export_open
from septran.errors import DivisionProblem, IndexProblem

pytestmark = pytest.mark.filterwarnings("ignore")
X = torch.arange(35.0).reshape(5, 7)


class Of(nn.Module):
    """A function of positions."""

    def __init__(self, fn: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return what the function does."""
        return self.fn(ids)


class Words(nn.Module):
    """Rows of a table at positions, and the sum of each."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 4)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return sums of rows."""
        return self.table(ids).sum(-1)


PICKS = {
    "embedding": (lambda i: nn.functional.embedding(i, X), 0, 4),
    "reshaped": (lambda i: nn.functional.embedding(i.reshape(1, -1).int().unsqueeze(0), X), 0, 4),
    "index_select": (lambda i: X.index_select(1, i), 0, 6),
    "gather": (lambda i: X.gather(-1, i.expand(5, 2)), 0, 6),
    "index": (lambda i: X[i], -5, 4),
    "index of a later dim": (lambda i: X[:, i], -7, 6),
    "take": (lambda i: X.take(i), -35, 34),
    "scatter": (lambda i: X.scatter(1, i.expand(5, 2), 1.0), 0, 6),
    "index_add": (lambda i: X.index_add(0, i, torch.ones(2, 7)), 0, 4),
    "index_copy": (lambda i: X.index_copy(0, i, torch.ones(2, 7)), 0, 4),
    "index_put": (lambda i: X.index_put((i,), torch.ones(2, 7)), -5, 4),
}


@pytest.mark.few(4)
@pytest.mark.parametrize("name", PICKS)
def test_what_torch_refuses_is_refused(name: str) -> None:
    fn, low, high = PICKS[name]
    module = Of(fn)
    uses = index_uses(export(module, (torch.tensor([0, 1]),), {}, mode="eval")[0])
    assert {(u.name, u.low, u.high) for u in uses} == {("ids", low, high + 1)}
    for good in (low, high):
        ids = torch.tensor([good, 1])
        module(ids)
        check_positions(uses, {"ids": ids}, "Of")
    for bad in (low - 1, high + 1):
        ids = torch.tensor([1, bad])
        with pytest.raises((IndexError, RuntimeError)):
            module(ids)
        with pytest.raises(IndexError, match=rf"C145.*ids holds {bad}, .*{low} to {high}"):
            check_positions(uses, {"ids": ids}, "Of")


def test_what_is_computed_before_and_what_is_no_position_are_not_looked_at() -> None:
    for fn in (
        lambda i: X[i + 2],
        lambda i: X[i[:1]],
        lambda i: i * 2.5,
        lambda i: X.take_along_dim(i[:, None], 0),
    ):
        assert index_uses(export(Of(fn), (torch.tensor([0, 1]),), {}, mode="eval")[0]) == ()


DIVIDED = {
    "floor_divide": lambda i: torch.arange(2) // i,
    "remainder": lambda i: X.sum(0)[:2].long() % i.reshape(1, 2),
    "fmod": lambda i: torch.fmod(i + 1, i.int()),
    "div": lambda i: torch.div(9 - i, i, rounding_mode="trunc"),
}


@pytest.mark.parametrize("name", DIVIDED)
def test_a_zero_that_divides_whole_numbers_is_refused(name: str) -> None:
    fn, good, bad = DIVIDED[name], torch.tensor([3, -1]), torch.tensor([1, 0])
    uses = index_uses(export(Of(fn), (good,), {}, mode="eval")[0])
    assert [(u.name, u.op, u.divides) for u in uses] == [("ids", name, True)]
    Of(fn)(good)
    check_positions(uses, {"ids": good}, "Of")
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        Of(fn)(bad)
    for kind in (DivisionProblem, ZeroDivisionError, RuntimeError):
        with pytest.raises(kind, match=r"C147.*ids holds a zero"):
            check_positions(uses, {"ids": bad}, "Of")


def test_a_zero_that_divides_floats_or_nothing_is_none() -> None:
    for fn in (
        lambda i: X[0, :2] // i,
        lambda i: 3 / i,
        lambda i: i // 2,
        lambda i: torch.div(i, i),
        lambda i: 5 % (i + 1),
    ):
        assert index_uses(export(Of(fn), (torch.tensor([1, 1]),), {}, mode="eval")[0]) == ()


@pytest.mark.wider
def test_a_compiled_division_by_zero_raises_at_each_call() -> None:
    halved = Of(lambda i: 9 // i)
    compiled = septran.compile(halved, (torch.tensor([2, 3]),), target="cpp")
    for _ in range(3):
        assert compiled(torch.tensor([4, -2])).tolist() == [2, -5]
        with pytest.raises(DivisionProblem):
            compiled(torch.tensor([4, 0]))


def test_an_open_size_says_no_range() -> None:
    class Picks(nn.Module):
        def forward(self, x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
            return x.index_select(0, ids) + nn.functional.embedding(ids, X)

    shapes = {"x": {0: torch.export.Dim("B")}, "ids": None}
    found, _ = export_open(
        Picks(), (torch.randn(9, 7), torch.tensor([0, 1])), {}, mode="eval", shapes=shapes
    )
    assert [(u.op, u.high) for u in open_index_uses(found)] == [("embedding", 5)]


def test_a_compiled_module_and_a_saved_one_raise(tmp_path: Path) -> None:
    words = Words().eval()
    ids = torch.tensor([[0, 10, 3], [5, 5, 1]])
    compiled = septran.compile(words, (ids,), target="cpp")
    torch.testing.assert_close(compiled(ids), words(ids).detach())
    compiled.save(tmp_path / "words")
    loaded = septran.load(tmp_path / "words")
    for run in (compiled, loaded):
        for bad in (11, -1):
            with pytest.raises(IndexProblem) as told:
                run(torch.full((2, 3), bad))
            assert "C145" in told.value.codes
            assert isinstance(told.value, IndexError)
        torch.testing.assert_close(run(ids), words(ids).detach())
        run(torch.zeros(2, 3, dtype=torch.int64))
