"""compiled.save(path) of a module whose constants are prepared: what is prepared is said as a graph, and done again where it is loaded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import septran
from septran.errors import InputError, NotCorrect
from septran.verify import evidence

pytestmark = pytest.mark.filterwarnings("ignore")


class Net(nn.Module):
    """A batch norm that is folded, a product of two weights, and a weight that is read as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.c = nn.Conv2d(3, 4, 3, bias=False)
        self.b = nn.BatchNorm2d(4)
        self.low, self.high = nn.Parameter(torch.randn(4, 2)), nn.Parameter(torch.randn(2, 5))
        self.end = nn.Linear(5, 3)
        self.b.running_mean.normal_()
        self.b.running_var.uniform_(0.5, 2.0)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return rows in a dict."""
        y = torch.relu(self.b(self.c(x))).amax((2, 3))
        return {"rows": self.end(y @ (self.low @ self.high))}


X = torch.linspace(-2, 2, 216).reshape(2, 3, 6, 6)


@pytest.fixture
def net() -> Net:
    torch.manual_seed(1)
    return Net().eval()


@pytest.fixture
def kept(net: Net, tmp_path: Path) -> Path:
    compiled = septran.compile(net, (X,), prepare=True)
    assert compiled.prepared == ("b_folded_weight", "b_folded_bias", "matmul")
    compiled.save(tmp_path / "net")
    return tmp_path / "net"


OTHER = """
import json, sys, torch, septran
loaded = septran.load(sys.argv[1])
found = loaded(torch.linspace(-2, 2, 216).reshape(2, 3, 6, 6))
print(json.dumps([
    found["rows"].tolist(), loaded.judged_again,
    any(m.startswith(("septran.frontend", "septran.trial")) for m in sys.modules)]))
"""


def _right(loaded: septran.call.loaded.LoadedModule, net: Net) -> bool:
    with torch.no_grad():
        return torch.allclose(loaded(X)["rows"], net(X)["rows"], rtol=1e-4, atol=1e-4)


@pytest.mark.wider
def test_another_process_prepares_and_calls_it(kept: Path, net: Net) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OTHER, str(kept)], capture_output=True, text=True, check=True
    )
    rows, again, imported = json.loads(done.stdout.splitlines()[-1])
    assert (again, imported) == (False, False)
    torch.testing.assert_close(torch.tensor(rows), net(X)["rows"].detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.wider
def test_what_is_saved_is_the_modules_own_and_not_what_is_made_of_it(kept: Path) -> None:
    data = json.loads((kept / "module.json").read_text())
    names = {row["name"] for row in data["weights"]}
    assert {"c.weight", "b.running_var", "low", "high", "end.weight"} <= names
    assert not any(name.startswith("prepared.") for name in names)


def test_a_module_that_is_given_is_followed(kept: Path) -> None:
    other = Net().eval()
    loaded = septran.load(kept, other)
    assert _right(loaded, other)
    with torch.no_grad():
        other.b.weight.mul_(3.0)
        other.low.add_(1.0)
    assert _right(loaded, other)


def _signed_elsewhere(folder: Path, home: Path, before: str = "", after: str = "") -> None:
    main = folder / "module.json"
    data = json.loads(main.read_text())
    del data["signature"], data["key"]
    one = data["kernels"][0]
    assert before in one["prepared"]
    one["prepared"] = one["prepared"].replace(before, after) if before else one["prepared"]
    main.write_text(evidence.signed(data, home))


def test_a_strangers_is_prepared_and_judged_again(kept: Path, net: Net, tmp_path: Path) -> None:
    _signed_elsewhere(kept, tmp_path / "stranger")
    loaded = septran.load(kept)
    assert loaded.judged_again and _right(loaded, net)


def test_a_strangers_other_preparation_is_refused(kept: Path, tmp_path: Path) -> None:
    _signed_elsewhere(kept, tmp_path / "stranger", "aten.rsqrt.default", "aten.sqrt.default")
    with pytest.raises((InputError, NotCorrect)) as caught:
        septran.load(kept)
    assert caught.value.codes == ("V222",)


@pytest.mark.wider
def test_it_is_judged_before_it_is_saved(
    net: Net, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the user asked for kernels that are not verified."""
    one = X[:1]  # no other test's kernel: what was judged in this home is not judged again
    compiled = septran.compile(net, (one,), prepare=True, verify=False)
    judged: list[bool] = []
    whole = septran.call.partitioned.Split.verdict
    monkeypatch.setattr(
        septran.call.partitioned.Split,
        "verdict",
        lambda self: (judged.append(True), whole(self))[1],
    )
    compiled(one)
    assert not judged
    compiled.save(tmp_path / "net")
    assert judged == [True]
