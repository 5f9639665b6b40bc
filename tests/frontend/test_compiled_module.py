"""septran.compile(module, ...): the module's signature, structure, weights and values."""

from __future__ import annotations

import ast
import pkgutil
import tomllib
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

import septran
from septran.call.library import register
from septran.errors import ArgumentError, ConfigError
from septran.plan import catalog
from septran.tasklang import operator
from tests.packaging.sources import ROOT

pytestmark = pytest.mark.filterwarnings("ignore")


class Net(nn.Module):
    """Two results, a keyword, a norm and two products."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(16, 24)
        self.b = nn.Linear(24, 16)
        self.n = nn.LayerNorm(16)

    def forward(self, x: torch.Tensor, scale: float = 2.0) -> dict[str, torch.Tensor]:
        """Return a residual block's result and the mean."""
        return {"y": x + scale * self.b(torch.relu(self.a(self.n(x)))), "m": x.mean(-1)}


def _same(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value.detach(), rtol=1e-5, atol=1e-5)


def test_it_returns_what_the_module_returns_with_its_present_weights() -> None:
    torch.manual_seed(0)
    net, x = Net().eval(), torch.randn(5, 16)
    compiled = septran.compile(net, (x,), target="cpp")
    _same(compiled(x), net(x))
    with torch.no_grad():
        net.a.weight.mul_(3.0)
    _same(compiled(x), net(x))
    wide = torch.randn(3, 2, 16)
    _same(compiled(wide), net(wide))
    _same(compiled(x, scale=0.5), net(x, scale=0.5))
    assert "task.define" in compiled.logic
    assert "aten.linear.default" in compiled.graph()
    room = compiled.workspace
    assert [r.name for r in room.rows] == ["layer_norm_2"]  # relu stays in a chain's kernel
    assert all(
        f"writes {r.name} (" in compiled.graph() for r in room.rows
    )  # by kernels that may be named after another result
    assert 0 < room.bytes <= room.separate
    assert str(room).startswith(f"{room.bytes} bytes for {len(room.rows)} tensors")


@pytest.mark.wider
def test_what_torch_says_of_its_own_export_is_not_told() -> None:
    net, x = nn.GRU(4, 4).eval(), torch.randn(2, 1, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = septran.compile(net, (x,), target="cpp")
    torch.testing.assert_close(compiled(x)[0], net(x)[0].detach())


def test_what_has_no_form_is_refused_at_its_line() -> None:
    class Inverse(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.inv(x)

    with pytest.raises(ConfigError) as caught:
        septran.compile(Inverse(), (torch.randn(3, 3),), target="cpp")
    assert caught.value.codes == ("C150",)
    assert caught.value.diagnostics[0].span.file.endswith("test_compiled_module.py")


@pytest.mark.wider
def test_sizes_that_depend_on_values_are_refused() -> None:
    class Picked(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[x > 0]

    with pytest.raises(ConfigError) as found:
        septran.compile(Picked(), (torch.randn(8),))
    assert found.value.codes == ("C151",)


def test_tensors_that_the_module_makes_are_computed_with_and_saved(tmp_path) -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.randn(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * torch.tensor([1.0, 2.0, 5.0]) * self.w

    module, x = Scaled(), torch.randn(4, 3)
    compiled = septran.compile(module, (x,))
    torch.testing.assert_close(compiled(x), module(x).detach())
    for weights in (True, False):
        compiled.save(tmp_path / str(weights), weights=weights)
        torch.testing.assert_close(
            septran.load(tmp_path / str(weights), module)(x), module(x).detach()
        )
    with pytest.raises(ArgumentError, match="needs a weight w"):
        septran.load(tmp_path / "False")


@pytest.mark.wider
def test_tied_weights_have_two_names(tmp_path) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(9, 4)
            self.head = nn.Linear(4, 9, bias=False)
            self.head.weight = self.words.weight

        def forward(self, i: torch.Tensor) -> torch.Tensor:
            return self.head(self.words(i))

    module, i = Tied(), torch.arange(5)
    compiled = septran.compile(module, (i,))
    torch.testing.assert_close(compiled(i), module(i).detach())
    compiled.save(tmp_path / "tied")
    torch.testing.assert_close(septran.load(tmp_path / "tied", module)(i), module(i).detach())


def test_an_operator_takes_more_tensors_than_torch_has_room_for() -> None:
    names = [f"X{i}" for i in range(103)]  # a ResNet-18 has as many
    operator = replace(
        catalog.shipped(catalog.op_file("relu")).operators["relu"],
        name="many",
        tensors=dict.fromkeys(("Y", *names), "N"),
        scalars={},
    )
    called = register(
        operator,
        names,
        lambda *tensors: sum(tensors),
        unique="many",
        backward=lambda gradient, *tensors: tuple(gradient * i for i in range(len(tensors))),
    )
    tensors = [torch.full((2,), float(i), requires_grad=True) for i in range(103)]
    found = called(*tensors)
    assert found.tolist() == [5253.0] * 2
    found.sum().backward()
    assert tensors[7].grad is not None and tensors[7].grad.tolist() == [7.0] * 2


def test_what_has_no_form_is_left_to_torch_where_that_is_asked() -> None:
    class Inverse(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.inv(x)

    x = torch.randn(3, 3)
    with pytest.warns(UserWarning, match="leaves Inverse to torch: linalg_inv"):
        compiled = septran.compile(Inverse(), (x,), target="cpp", fallback="torch")
    torch.testing.assert_close(compiled(x), torch.linalg.inv(x))
    assert len(compiled.host_leaves) == 1 and "linalg_inv" in compiled.host_leaves[0]
    with pytest.raises(ConfigError) as caught:
        compiled.verify()
    assert caught.value.codes == ("C150",)
    with pytest.raises(ArgumentError) as wrong:
        septran.compile(Inverse(), (x,), target="cpp", fallback="model")
    assert wrong.value.codes == ("C140",)


def test_torch_compile_finds_it_by_name() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    where = project["entry-points"]["torch_dynamo_backends"]["septran"]
    assert pkgutil.resolve_name(where) is septran.torch_backend


def _by_septran(
    function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, **given: Any
) -> list[str]:
    """Compare torch.compile's result with torch's own; return the warnings."""
    torch._dynamo.reset()
    with torch.no_grad(), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = torch.compile(function, backend=septran.torch_backend, **given)(x)
        torch.testing.assert_close(found, function(x), rtol=1e-5, atol=1e-5)
    return [str(w.message) for w in told if str(w.message).startswith("septran")]


def _known(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x * 2.0, -1)


def _partly(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(torch.linalg.inv(x))


def _unknown(x: torch.Tensor) -> torch.Tensor:
    return torch.linalg.inv(x)


def test_torch_compile_takes_it_as_a_backend_and_keeps_the_rest() -> None:
    x = torch.randn(8, 8)
    assert not _by_septran(_known, x)
    assert any("leaves GraphModule to torch: linalg_inv" in w for w in _by_septran(_unknown, x))
    assert any("leaves a part of GraphModule" in w for w in _by_septran(_partly, x))


@pytest.mark.wider
def test_torch_compile_hands_options_over() -> None:
    x = torch.randn(8, 8)
    told = _by_septran(_partly, x, options={"fallback": "graph", "target": "cpp", "verify": True})
    assert any("leaves a graph to torch: linalg_inv" in w for w in told)
    assert any("mode='max-autotune'" in w for w in _by_septran(_known, x, mode="max-autotune"))
    with pytest.raises(Exception, match="C150"):
        _by_septran(_partly, x, options={"fallback": "error"})


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"falback": "torch"}, "C140.*falback.*did you mean 'fallback'"),
        ({"fallback": "eager"}, "C140.*fallback='eager'.*torch, graph, error"),
        ({"verify": 1}, "C140.*verify is 1, not a bool"),
        ({"target": "cp"}, "C130.*cp"),
        ({"target": "cpp", "arch": "z80"}, "C131.*z80"),
    ],
)
def test_an_option_of_torch_compile_that_is_wrong_is_named(
    options: dict[str, Any], wanted: str
) -> None:
    with pytest.raises(Exception, match=f"(?s){wanted}"):
        _by_septran(_known, torch.randn(8, 8), options=options)


class Deep(nn.Module):
    """Many weights, so that what a call does for each of them shows."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the last layer's rows."""
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


@pytest.mark.few(1)
@pytest.mark.parametrize("dynamic", [None, {"x": {0: "B"}}])
def test_a_second_call_reads_no_sizes_from_text(
    dynamic: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For each weight the types of all weights were read again: 3.5 of the 5.9 ms of a small GPT's call."""
    x = torch.randn(3, 4)
    compiled = septran.compile(Deep().eval(), (x,), dynamic=dynamic, verify=False)
    first = compiled(x)

    parse, read = ast.parse, []

    def noted(text: str, *args: Any, **named: Any) -> Any:
        read.append(text)
        return parse(text, *args, **named)

    monkeypatch.setattr(ast, "parse", noted)
    monkeypatch.setattr(operator, "TensorType", lambda **kw: read.append(kw))
    second = compiled(x)
    monkeypatch.undo()
    assert torch.equal(second, first) and read == []


class Ones(nn.Module):
    """Computed of nothing."""

    def forward(self, *_: torch.Tensor) -> torch.Tensor:
        """Return ones."""
        return torch.ones(3, 4)


@pytest.mark.parametrize("inputs", [(), (torch.randn(2),)], ids=["no input", "none that is read"])
def test_a_module_of_no_tensor_gives_a_tensor(inputs: tuple[torch.Tensor, ...], tmp_path) -> None:
    compiled = septran.compile(Ones(), inputs)
    for _ in range(2):
        assert torch.equal(compiled(*inputs), torch.ones(3, 4))
    compiled.save(tmp_path / "ones")
    assert torch.equal(septran.load(tmp_path / "ones")(*inputs), torch.ones(3, 4))


def test_example_inputs_are_one_tensor_or_a_tuple() -> None:
    net, x = nn.ReLU(), torch.randn(8, 4)
    assert torch.equal(septran.compile(net, x, verify=False)(x), net(x))
    for wrong in ({"input": x}, "x", 3):
        with pytest.raises(
            ArgumentError, match=f"C140.*example inputs of ReLU are a {type(wrong).__name__}"
        ):
            septran.compile(net, wrong)


def test_a_call_that_does_not_fit_says_so_once(capfd: pytest.CaptureFixture[str]) -> None:
    compiled = septran.compile(nn.Linear(4, 4), torch.randn(2, 4), verify=False)
    capfd.readouterr()
    with pytest.raises(ConfigError, match=r"C151.*same reduction dim"):
        compiled(torch.randn(5, 17))
    assert "Traceback" not in capfd.readouterr().err
