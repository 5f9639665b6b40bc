"""Inputs that `forward` writes are written, and a derivative through a compiled module is refused, never lost."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import septran
from septran.call.dispatch import derivative_check
from septran.call.memory import meets
from septran.errors import ArgumentError, InputError

pytestmark = pytest.mark.filterwarnings("ignore")


class Cache(nn.Module):
    """One step of attention's bookkeeping: keys are put into their place of a cache."""

    def __init__(self) -> None:
        super().__init__()
        self.k = nn.Linear(4, 4)

    def forward(self, cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """Return products with all of the cache."""
        cache.index_copy_(1, at, self.k(x))
        return (cache * x).sum(-1)


class Doubles(nn.Module):
    """Writes one input and reads another."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Return a sum."""
        x.mul_(2)
        return x + y


def _by_compile(module: nn.Module, example: Any, tmp_path: Path) -> Any:
    return septran.compile(module, example, verify=False)


def _by_load(module: nn.Module, example: Any, tmp_path: Path) -> Any:
    septran.compile(module, example).save(tmp_path / "saved")
    return septran.load(tmp_path / "saved")


def _by_torch_compile(module: nn.Module, example: Any, tmp_path: Path) -> Any:
    torch._dynamo.reset()
    return torch.compile(module, backend=septran.torch_backend)


@pytest.mark.few(1)
@pytest.mark.parametrize("way", [_by_compile, _by_load, _by_torch_compile])
def test_a_cache_that_forward_writes_is_written(way: Callable[..., Any], tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = Cache().eval()
    example = (torch.zeros(2, 6, 4), torch.randn(2, 1, 4), torch.tensor([0]))
    with torch.no_grad():
        found = way(module, example, tmp_path)
        cache, own = torch.zeros(2, 6, 4), torch.zeros(2, 6, 4)
        for step in range(3):
            x, at = torch.randn(2, 1, 4), torch.tensor([step])
            torch.testing.assert_close(found(cache, x, at), module(own, x, at))
            torch.testing.assert_close(cache, own)


@pytest.fixture(scope="module")
def doubles(_session_home: Path) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEPTRAN_HOME", str(_session_home))
        found = septran.compile(Doubles(), (torch.ones(4), torch.ones(4)), verify=False)
        found(torch.ones(4), torch.ones(4))
    return found


def test_an_input_that_is_written_lies_apart_from_the_others(doubles: Any) -> None:
    z = torch.ones(4)
    with pytest.raises(ArgumentError, match="writes its input x, which shares memory with y"):
        doubles(z, z)
    with pytest.raises(ArgumentError, match="writes its input x, whose elements share memory"):
        doubles(torch.ones(1).expand(4), z)
    assert torch.equal(z, torch.ones(4))
    both = torch.ones(4, 2)  # two columns of one matrix have no element in common
    assert torch.equal(doubles(both[:, 0], both[:, 1]), torch.full((4,), 3.0))
    assert torch.equal(both, torch.tensor([[2.0, 1.0]] * 4))


def test_memory_of_two_views_meets_where_an_element_does() -> None:
    whole = torch.arange(24.0).reshape(4, 6)
    assert not meets(whole[:, ::2], whole[:, 1::2])
    assert meets(whole[:, ::2], whole[:, 2::3])
    assert not meets(whole[:2], whole[2:])
    assert meets(whole, whole.view(torch.int32)[3:, 5:])


@pytest.fixture(scope="module")
def net(_session_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A module, compiled, loaded and called until its calls are quick."""
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    x = torch.randn(3, 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEPTRAN_HOME", str(_session_home))
        compiled = septran.compile(module, (x,))
        folder = tmp_path_factory.mktemp("derivatives") / "net"
        compiled.save(folder)
        loaded = septran.load(folder)
    for found in (compiled, loaded) * 3:
        torch.testing.assert_close(found(x), module(x).detach())
    return module, compiled, loaded


WANTED: dict[str, Callable[[Any, torch.Tensor], Any]] = {
    "backward": lambda f, x: f(x.clone().requires_grad_()),
    "torch.func.grad": lambda f, x: torch.func.grad(lambda t: f(t).sum())(x),
    "torch.func.jvp": lambda f, x: torch.func.jvp(f, (x,), (x,)),
    "grad of vmap": lambda f, x: torch.func.grad(lambda t: torch.vmap(f)(t).sum())(x[None]),
    "jacrev": lambda f, x: torch.func.jacrev(f)(x),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("wanted", WANTED)
def test_a_derivative_is_refused(net: Any, wanted: str) -> None:
    for found in net[1:]:
        with pytest.raises(InputError) as caught:
            WANTED[wanted](found, torch.randn(3, 4))
        assert caught.value.codes == ("C142",)


def test_no_derivative_is_wanted_where_none_is_recorded(net: Any) -> None:
    module, compiled, loaded = net
    x = torch.randn(3, 4, requires_grad=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), module(x))
        torch.testing.assert_close(loaded(x), module(x))
    torch.testing.assert_close(torch.vmap(compiled)(torch.ones(2, 3, 4)).shape, (2, 3, 4))
    wanted = derivative_check()
    assert not wanted([x.detach(), 3, None]) and wanted([x])


def _told(module: nn.Module, x: torch.Tensor) -> tuple[Any, list[str]]:
    torch._dynamo.reset()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = torch.compile(module, backend=septran.torch_backend)(x)
    return found, [str(w.message) for w in told if str(w.message).startswith("septran")]


def test_torch_compile_leaves_a_graph_to_torch_whose_gradient_is_wanted() -> None:
    torch.manual_seed(0)
    module, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(3, 4)
    own = copy.deepcopy(module)
    found, told = _told(module, x)
    found.sum().backward()
    own(x).sum().backward()
    torch.testing.assert_close(module[0].weight.grad, own[0].weight.grad)
    assert any("as its gradient is wanted" in t for t in told)
    with torch.no_grad():
        found, told = _told(module, x)
        torch.testing.assert_close(found, own(x))
        assert told == []


def test_a_graph_with_its_own_no_grad_becomes_kernels() -> None:
    class Served(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(4, 4)

        @torch.no_grad()
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.a(x))

    module, x = Served(), torch.randn(3, 4)
    found, told = _told(module, x)
    torch.testing.assert_close(found, module(x))
    assert told == []


def test_an_error_is_asked_for_where_a_gradient_is_wanted() -> None:
    torch._dynamo.reset()
    run = torch.compile(
        nn.Linear(4, 4), backend=septran.torch_backend, options={"fallback": "error"}
    )
    with pytest.raises(Exception, match="C142"):
        run(torch.randn(3, 4))
