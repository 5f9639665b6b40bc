"""The next call of a compiled module goes straight to its kernel, and means what the first one means."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import septran
from septran.call import module as compiled_modules
from septran.call.loaded import LoadedModule
from septran.errors import IndexProblem
from septran.toolchain import launcher

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(launcher.extension() is None, reason="no extension: no call is quick"),
]


class Net(nn.Module):
    """A product, a norm over the batch, and two results."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(6, 4)
        self.inner = nn.Sequential(nn.BatchNorm1d(4), nn.ReLU())

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        """Return both."""
        y = self.inner(self.a(x))
        return {"y": y, "more": (y.sum(1),)}


X = torch.linspace(-2, 2, 18).reshape(3, 6)


@pytest.fixture(params=["compiled", "prepared", "loaded", "loaded module"], scope="module")
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, _session_home: Path
) -> tuple[nn.Module, Callable[..., Any]]:
    """A module and what computes it with its weights; it was called twice, as the second call prepares what is prepared."""
    torch.manual_seed(3)
    net = Net().eval()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEPTRAN_HOME", str(_session_home))
        found: Any = septran.compile(net, (X,), prepare=request.param == "prepared", verify=False)
        found(X)
        if request.param.startswith("loaded"):
            folder = tmp_path_factory.mktemp("quick") / "net"
            found.save(folder)
            found = septran.load(folder, net if request.param == "loaded module" else None)
            if request.param == "loaded":
                net = Net().eval()
                net.load_state_dict(dict(found.weights))
                for name, tensor in found.weights.items():  # the same memory
                    owner = net.get_submodule(name.rpartition(".")[0])
                    kind = (
                        owner._parameters if name.endswith(("weight", "bias")) else owner._buffers
                    )
                    kind[name.rpartition(".")[2]] = tensor
    found(X)
    return net, found


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the calls that are met with the parameters again."""
    seen: list[int] = []
    for kind in (compiled_modules.CompiledModule, LoadedModule):
        real = kind._keep_quick

        def counted(self: Any, *given: Any, real: Any = real) -> None:
            seen.append(1)
            real(self, *given)

        monkeypatch.setattr(kind, "_keep_quick", counted)
    return seen


def _same(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found["y"], wanted["y"].detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found["more"], (wanted["more"][0].detach(),), rtol=1e-5, atol=1e-5)
    assert type(found) is dict and type(found["more"]) is tuple


@pytest.mark.few(2)
def test_the_next_call_is_quick_and_its_results_are_new(pair: Any, slow: list[int]) -> None:
    net, compiled = pair
    one, two = compiled(X), compiled(X * 2)
    _same(one, net(X))
    _same(two, net(X * 2))
    assert not one["y"].requires_grad and slow == []
    with torch.inference_mode():
        _same(compiled(X), net(X))
    assert slow == []


def test_a_weight_that_changes_in_place_is_seen(pair: Any, slow: list[int]) -> None:
    net, compiled = pair
    with torch.no_grad():
        net.a.weight.mul_(3.0)
        net.inner[0].running_mean.add_(0.5)
    _same(compiled(X), net(X))
    _same(compiled(X), net(X))
    assert len(slow) <= 1  # once, where it is prepared again


def test_another_tensor_or_module_in_a_weight_s_place_is_seen(pair: Any, slow: list[int]) -> None:
    net, compiled = pair
    if isinstance(compiled, LoadedModule) and compiled._module is None:
        return  # its weights are its own
    was = net.a, net.inner[0].weight
    net.inner[0].weight = nn.Parameter(torch.full((4,), 2.0))
    _same(compiled(X), net(X))
    net.a = nn.Linear(6, 4)
    _same(compiled(X), net(X))
    _same(compiled(X), net(X))
    assert 1 <= len(slow) <= 2
    net.a, net.inner[0].weight = was
    _same(compiled(X), net(X))


@pytest.mark.parametrize(
    "x",
    [
        torch.rand(6, 3).T,
        torch._neg_view(X.clone()),
        X.clone().requires_grad_(),
        nn.Parameter(X.clone()),
        torch.rand(6, 6)[::2],
    ],
    ids=["permuted", "negative", "gradient", "parameter", "strided"],
)
def test_inputs_that_lie_otherwise_give_the_same(pair: Any, x: torch.Tensor) -> None:
    net, compiled = pair
    with torch.no_grad():
        _same(compiled(x), net(x))
    _same(compiled(X), net(X))


def test_another_shape_is_another_kind(pair: Any) -> None:
    net, compiled = pair
    if isinstance(compiled, LoadedModule):
        with pytest.raises(septran.SeptranError, match="C140"):
            compiled(X[:2].contiguous())
        return
    for x in (X, X[:2].clone(), X, X[:2].clone()):
        _same(compiled(x), net(x))
    with torch.no_grad():
        net.a.bias.add_(1.0)
    for x in (
        X,
        X[:2].clone(),
        X,
        X[:2].clone(),
    ):  # the second kind has prepared tensors of its own
        _same(compiled(x), net(x))


def test_positions_are_still_looked_at(slow: list[int]) -> None:
    table, x = nn.Embedding(5, 2), torch.tensor([0, 4])
    compiled = septran.compile(table, (x,), verify=False)
    compiled(x)
    assert torch.equal(compiled(x), table(x).detach()) and len(slow) == 1
    with pytest.raises(IndexProblem, match="C145"):
        compiled(torch.tensor([0, 5]))
    assert torch.equal(compiled(x), table(x).detach()) and len(slow) == 1


@pytest.mark.wider
def test_a_module_with_more_weights_than_64_is_quick(slow: list[int]) -> None:
    class Many(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ParameterList(torch.tensor([float(k)]) for k in range(70))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for part in self.parts:
                x = x + part
            return x

    net, x = Many().eval(), torch.randn(8)
    compiled = septran.compile(net, (x,), verify=False)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), net(x).detach())
    assert len(slow) == 1


@pytest.mark.wider
def test_what_is_left_to_torch_is_never_quick(slow: list[int]) -> None:
    class Sampled(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.svdvals(x) + 1.0

    x = torch.rand(3, 3)
    compiled = septran.compile(Sampled(), (x,), fallback="torch", verify=False)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), Sampled()(x))
