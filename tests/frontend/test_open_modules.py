"""septran.compile(module, ..., dynamic=...): one build of a chain of kernels serves all sizes that stay open."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import septran
from septran.errors import ArgumentError, SeptranError

pytestmark = pytest.mark.filterwarnings("ignore")


class Residual(nn.Module):
    """A norm, two products, and a second result whose size is a product of two."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(16, 24)
        self.down = nn.Linear(24, 16)
        self.norm = nn.LayerNorm(16)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return a residual block's result and its rows."""
        y = x + self.down(torch.relu(self.up(self.norm(x))))
        return {"y": y, "rows": x.flatten(0, 1)}


class Attention(nn.Module):
    """Heads are permuted views of one product."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return causal attention over axis 1."""
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, 2, 8).permute(2, 0, 3, 1, 4)
        return (
            F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        )


class Pooled(nn.Module):
    """A convolution, a pool, and two halves of one result."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return means and maxima of each channel."""
        y = F.max_pool2d(F.relu(self.conv(x)), 2)
        return torch.cat([y.mean((2, 3)), y.amax((2, 3))], 1)


class Words(nn.Module):
    """An embedding of integers."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 16)

    def forward(self, i: torch.Tensor) -> torch.Tensor:
        """Return a softmax over the table's rows."""
        return torch.softmax(self.table(i), -1)


def same(found: Any, wanted: Any) -> None:
    one, two = (torch.utils._pytree.tree_leaves(v) for v in (found, wanted))
    assert len(one) == len(two)
    for a, b in zip(one, two, strict=True):
        torch.testing.assert_close(a, b.detach(), rtol=1e-4, atol=1e-5)


def builds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows with each build."""
    from septran.call import open_build as open_dims

    built: list[int] = []
    kept = open_dims.OpenBuild.__init__
    monkeypatch.setattr(
        open_dims.OpenBuild, "__init__", lambda self, *a: (built.append(1), kept(self, *a))[1]
    )
    return built


@pytest.mark.wider
def test_one_build_serves_every_batch_and_length(monkeypatch: pytest.MonkeyPatch) -> None:
    built = builds(monkeypatch)
    torch.manual_seed(0)
    net = Residual().eval()
    compiled = septran.compile(
        net, (torch.randn(8, 5, 16),), dynamic={"x": {0: "B", 1: "T"}}, verify=False
    )
    for batch, length in ((8, 5), (1, 1), (3, 7), (40, 33)):
        x = torch.randn(batch, length, 16)
        same(compiled(x), net(x))
    assert len(built) == 1
    # the text of all sizes is what a person would write
    assert "B = " in compiled.logic and "task.reshape(x, (B * T, 16))" in compiled.logic
    assert [r.shape for r in compiled.workspace.rows] == [(8, 5, 16), (8, 5, 24)]
    with torch.no_grad():
        net.up.weight.mul_(2.0)
    x = torch.randn(2, 2, 16)
    same(compiled(x), net(x))


def test_torchs_own_way_has_ends_that_are_guarded() -> None:
    batch = torch.export.Dim("batch", min=2, max=9)
    compiled = septran.compile(
        Words().eval(), (torch.zeros(4, 3, dtype=torch.int64),),
        dynamic_shapes=({0: batch},), verify=False,
    )  # fmt: skip
    assert compiled(torch.ones(9, 3, dtype=torch.int64)).shape == (9, 3, 16)
    with pytest.raises(ArgumentError) as e:
        compiled(torch.ones(10, 3, dtype=torch.int64))
    assert e.value.codes == ("C140",) and "batch = 10 is not from 1 to 9" in str(e.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("net", "shape", "dynamic"),
    [
        (Residual(), (8, 5, 16), {"x": {0: "B", 1: "T"}}),
        (Attention(), (4, 6, 16), {"x": {0: "B"}}),
        (Pooled(), (4, 3, 8, 8), {"x": {0: "B"}}),
        (Words(), (4, 6), {"i": {0: "B", 1: "T"}}),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, nn.Module) else "",
)
def test_open_modules_are_judged_against_the_graph_at_other_sizes(
    net: nn.Module, shape: tuple[int, ...], dynamic: Mapping[str, Mapping[int, str]]
) -> None:
    def given(*sizes: int) -> torch.Tensor:
        return torch.randint(0, 20, sizes) if isinstance(net, Words) else torch.randn(sizes)

    net.eval()
    compiled = septran.compile(net, (given(*shape),), dynamic=dynamic)
    (axes,) = dynamic.values()
    for n in (1, 3, 50):
        x = given(*(n if a in axes else size for a, size in enumerate(shape)))
        same(compiled(x), net(x))
    (verdict,) = compiled._first.made.kernel.verdicts.values()
    assert verdict.passed


OTHER = """
import json, sys, torch, septran
loaded = septran.load(sys.argv[1])
found = loaded(torch.linspace(-2, 2, 7 * 2 * 16).reshape(7, 2, 16))
try:
    loaded(torch.ones(3, 3, 16))
except septran.errors.ArgumentError as e:
    told = str(e)
print(json.dumps([found["y"].tolist(), list(found["rows"].shape), loaded.judged_again, told,
    any(m.startswith(("septran.frontend", "septran.trial")) for m in sys.modules)]))
"""


@pytest.mark.slow
def test_a_saved_module_keeps_its_sizes_open(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = Residual().eval()
    compiled = septran.compile(net, (torch.randn(8, 2, 16),), dynamic={"x": {0: "B"}})
    compiled.save(tmp_path / "net")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", OTHER, str(tmp_path / "net")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    y, rows, again, told, imported = json.loads(done.stdout)
    wanted = net(torch.linspace(-2, 2, 7 * 2 * 16).reshape(7, 2, 16))
    torch.testing.assert_close(torch.tensor(y), wanted["y"].detach(), rtol=1e-4, atol=1e-5)
    assert (rows, again, imported) == ([14, 16], False, False)
    assert "was not saved for [3, 3, 16]" in told and "[any, 2, 16]" in told


@pytest.mark.slow
def test_an_exported_program_keeps_its_own_open_sizes() -> None:
    net, x = Residual().eval(), torch.randn(4, 5, 16)
    program = torch.export.export(net, (x,), dynamic_shapes=({0: torch.export.Dim("B", max=50)},))
    compiled = septran.compile(program, target="cpp")
    for batch in (4, 1, 49):
        x = torch.randn(batch, 5, 16)
        same(compiled(x), net(x))


def test_what_is_judged_with_wrong_kernels_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that is right at the example's size alone is found at another."""
    from septran.plan import open_text

    kept = open_text.fitted
    monkeypatch.setattr(
        open_text, "fitted", lambda numbers, at: open_text.Size((((), numbers[0]),)) if numbers[0] == 8 else kept(numbers, at)
    )  # fmt: skip

    class Twice(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.softmax(x, -1).amax(0)

    with pytest.raises(SeptranError):
        compiled = septran.compile(Twice(), (torch.randn(8, 6),), dynamic={"x": {0: "B"}})
        compiled(torch.randn(8, 6))


@pytest.mark.parametrize(
    ("dynamic", "said"),
    [
        ({"z": {0: "B"}}, "no argument 'z'"),
        ({"x": {3: "B"}}, "has 3 axes"),
        ({"x": ("B",)}, "x is ('B',)"),
        ({"x": {0: "2"}}, "is no name of a size"),
        (("B",), "does not say which input"),
    ],
)
def test_what_is_said_wrong_is_told(dynamic: Any, said: str) -> None:
    with pytest.raises(ArgumentError) as e:
        septran.compile(Residual().eval(), (torch.randn(4, 5, 16),), dynamic=dynamic)
    assert e.value.codes == ("C140",) and said in str(e.value)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (2, "B is to stay open, but forward was traced for B = 2 only"),
        (1, "for B = 1 only (give an example of more than 1)"),
    ],
)
def test_a_size_that_forward_is_written_for_is_told(rows: int, said: str) -> None:
    class Twice(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.eye(4).repeat(2, 1)[:2].sum() if x.shape[0] == 2 else x * 2

    with pytest.raises(SeptranError) as caught:
        septran.compile(Twice(), (torch.randn(rows, 3),), dynamic={"x": {0: "B"}})
    assert caught.value.codes == ("C151",) and said in str(caught.value)


def test_a_size_that_decides_a_number_in_a_kernel_cannot_stay_open() -> None:
    with pytest.raises(SeptranError) as e:
        septran.compile(Pooled().eval(), (torch.randn(2, 3, 8, 8),), dynamic={"x": {2: "H"}})
    assert e.value.codes == ("C162",)


@pytest.mark.wider
def test_torch_compile_keeps_its_dynamic_sizes_open(monkeypatch: pytest.MonkeyPatch) -> None:
    built = builds(monkeypatch)
    net = Residual().eval()
    torch._dynamo.reset()
    fast = torch.compile(
        net, backend=septran.torch_backend, dynamic=True, options={"verify": False}
    )
    with torch.no_grad():
        for batch, length in ((4, 5), (3, 7), (20, 9)):
            x = torch.randn(batch, length, 16)
            same(fast(x), net(x))
    assert len(built) == 1
