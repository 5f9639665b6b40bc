"""compiled.save(path) and septran.load(path): another process, no import, no compilation; what was changed is refused."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

import septran
from septran.call.structure import structured
from septran.errors import ArgumentError, InputError, NotCorrect
from septran.verify import evidence

pytestmark = pytest.mark.filterwarnings("ignore")


class Net(nn.Module):
    """Two results in a dict, a buffer, and a product."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(8, 12)
        self.register_buffer("scale", torch.tensor([2.0]))

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        """Return a row-wise softmax, its largest values, and a number."""
        y = torch.softmax(self.a(x) * self.scale, -1)
        return {"y": y, "most": [y.amax(-1), 3]}


X = torch.linspace(-2, 2, 32).reshape(4, 8)


@pytest.fixture(scope="module")
def net() -> Net:
    torch.manual_seed(1)
    return Net().eval()


@pytest.fixture(scope="module")
def kept(net: Net, _session_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a compiled Net was saved, signed with the key of the home that all tests here have."""
    folder = tmp_path_factory.mktemp("saved") / "net"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEPTRAN_HOME", str(_session_home))
        septran.compile(net, (X,)).save(folder)
    return folder


@pytest.fixture
def copied(kept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept, tmp_path / "copy"))


OTHER = """
import json, sys, torch, septran
loaded = septran.load(sys.argv[1])
found = loaded(torch.linspace(-2, 2, 32).reshape(4, 8))
print(json.dumps([
    found["y"].tolist(), found["most"][0].tolist(), found["most"][1], loaded.judged_again,
    any(m.startswith(("septran.frontend", "septran.trial")) for m in sys.modules)]))
"""


@pytest.mark.wider
def test_another_process_calls_it_without_an_import(kept: Path, net: Net) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OTHER, str(kept)], capture_output=True, text=True, check=True
    )
    y, most, number, again, imported = json.loads(done.stdout)
    wanted = net(X)
    torch.testing.assert_close(torch.tensor(y), wanted["y"].detach())
    torch.testing.assert_close(torch.tensor(most), wanted["most"][0].detach())
    assert (number, again, imported) == (3, False, False)


def test_weights_are_saved_or_the_modules_own(copied: Path, net: Net, tmp_path: Path) -> None:
    loaded = septran.load(copied)
    assert set(loaded.weights) == {"a.weight", "a.bias", "scale"}
    loaded.weights["scale"].mul_(0.0)
    torch.testing.assert_close(loaded(X)["y"], torch.full((4, 12), 1 / 12))
    other = Net().eval()
    torch.testing.assert_close(septran.load(copied, other)(X)["y"], other(X)["y"].detach())
    septran.compile(net, (X,)).save(tmp_path / "bare", weights=False)
    assert (tmp_path / "bare" / "weights.bin").stat().st_size == 0
    torch.testing.assert_close(septran.load(tmp_path / "bare", net)(X)["y"], net(X)["y"].detach())
    with pytest.raises(ArgumentError, match="without weights"):
        septran.load(tmp_path / "bare")
    with pytest.raises(ArgumentError, match=r"needs a weight a.weight of \[12, 8\] float32"):
        septran.load(tmp_path / "bare", nn.Linear(8, 12))


def test_strided_and_negative_views_are_read_right(kept: Path, net: Net) -> None:
    loaded = septran.load(kept)
    opposite = torch.complex(X, X).conj().imag
    assert opposite.is_neg()
    for x in (X.T.contiguous().T, opposite, torch.cat((X, X), 1)[:, ::2]):
        torch.testing.assert_close(loaded(x)["y"], net(x)["y"].detach())


def test_other_shapes_are_told(kept: Path) -> None:
    with pytest.raises(ArgumentError, match=r"not saved for \[5, 8\]") as caught:
        septran.load(kept)(torch.zeros(5, 8))
    assert "it was saved for [4, 8]" in str(caught.value)


def test_what_is_no_kernel_is_not_saved(tmp_path: Path) -> None:
    class Inverse(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.inv(x)

    left = septran.compile(Inverse(), (torch.eye(3),), fallback="torch")
    with pytest.raises(InputError, match=r"V220.*linalg_inv"):
        left.save(tmp_path / "left")
    assert not (tmp_path / "left").exists()


class Point(NamedTuple):
    """A pair that a module returns."""

    y: torch.Tensor
    rest: dict[int, list[torch.Tensor]]


def test_results_in_named_tuples_and_dicts_come_back_as_they_were(tmp_path: Path) -> None:
    class Nested(nn.Module):
        def forward(self, x: torch.Tensor) -> OrderedDict[str, Point]:
            return OrderedDict(p=Point(x.relu(), {3: [x.exp()], 1: []}))

    x = torch.randn(4, 6)
    septran.compile(Nested(), (x,)).save(tmp_path / "nested")
    found = septran.load(tmp_path / "nested")(x)
    assert type(found) is OrderedDict and list(found) == ["p"]
    point = found["p"]
    assert type(point).__name__ == "Point" and point._fields == ("y", "rest")
    assert list(point.rest) == [3, 1] and point.rest[1] == []
    torch.testing.assert_close(point.y, x.relu())
    torch.testing.assert_close(point.rest[3][0], x.exp())


@pytest.mark.parametrize(
    "structure",
    [
        ["named", "a b", ["x"], 0],
        ["named", "P", ["x", "x"], 0, 0],
        ["named", "P", ["x"]],
        ["set", 0],
    ],
)
def test_a_structure_that_is_none_is_refused(structure: Any) -> None:
    with pytest.raises(ValueError):
        structured(structure, [1, 2])


def _edit(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        main = folder / "module.json"
        data = json.loads(main.read_text())
        change(data)
        main.write_text(json.dumps(data))

    return edit


def _flip(name: str) -> Callable[[Path], None]:
    def flip(folder: Path) -> None:
        raw = bytearray((folder / name).read_bytes())
        raw[len(raw) // 2] ^= 1
        (folder / name).write_bytes(raw)

    return flip


def _linked(folder: Path) -> None:
    (folder / "weights.bin").rename(folder / "elsewhere")
    (folder / "weights.bin").symlink_to(folder / "elsewhere")


DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "a weight": (_flip("weights.bin"), "V222"),
    "a character of the source": (
        _edit(lambda d: d["kernels"][0]["kernel"]["files"][0].__setitem__(1, "int x;")), "V222",
    ),
    "the place": (_edit(lambda d: d.update(place="0")), "V222"),
    "no signature": (_edit(lambda d: d.pop("signature")), "V221"),
    "half a file": (
        lambda f: (f / "module.json").write_text((f / "module.json").read_text()[:5000]), "V221",
    ),
    "a list": (lambda f: (f / "module.json").write_text("[]"), "V221"),
    "depth": (lambda f: (f / "module.json").write_text("[" * 100_000), "V221"),
    "a pickle": (lambda f: torch.save({}, f / "module.json"), "V221"),
    "a link": (_linked, "V221"),
    "nothing": (shutil.rmtree, "V221"),
}  # fmt: skip


@pytest.mark.parametrize("what", DAMAGE)
def test_what_was_damaged_is_refused(what: str, copied: Path) -> None:
    damage, code = DAMAGE[what]
    damage(copied)
    with pytest.raises(InputError) as caught:
        septran.load(copied)
    assert caught.value.codes == (code,)


def _signed_elsewhere(
    folder: Path, home: Path, change: Callable[[dict[str, Any]], None] = lambda d: None
) -> None:
    """Change what is saved and sign it with another installation's key."""
    main = folder / "module.json"
    data = json.loads(main.read_text())
    del data["signature"], data["key"]
    change(data)
    main.write_text(evidence.signed(data, home))


def _other_source(data: dict[str, Any]) -> None:
    from septran.kernel import content_hash

    kernel = data["kernels"][0]["kernel"]
    kernel["files"][0][1] = kernel["files"][0][1].replace("// ---- leaves", "// ---- mine")
    about = [kernel["backend"], kernel["arch"], kernel["entry"], kernel["files"]]
    kernel["sha"] = content_hash(about)


def _other_function(data: dict[str, Any]) -> None:
    one = data["kernels"][0]
    one["graph"] = one["graph"].replace("aten.amax.default", "aten.amin.default")


def _outside(data: dict[str, Any]) -> None:
    data["kernels"][0]["kernel"]["files"][0][0] = "../../evil.cpp"


def _swapped(data: dict[str, Any]) -> None:
    data["kernels"][0]["parameters"]["scale"] = ["user_input", "x"]


@pytest.mark.parametrize(
    ("change", "code"),
    [(_other_source, "V222"), (_other_function, "V222"), (_outside, "V221"), (_swapped, "V222")],
)
def test_a_strangers_signature_makes_nothing_true(
    change: Callable[[dict[str, Any]], None], code: str, copied: Path, tmp_path: Path
) -> None:
    _signed_elsewhere(copied, tmp_path / "stranger", change)
    with pytest.raises((InputError, NotCorrect)) as caught:
        septran.load(copied)
    assert caught.value.codes == (code,)


def test_a_strangers_module_is_made_again_from_its_graph(
    copied: Path, tmp_path: Path, net: Net
) -> None:
    _signed_elsewhere(copied, tmp_path / "stranger")
    loaded = septran.load(copied)
    assert loaded.judged_again
    torch.testing.assert_close(loaded(X)["y"], net(X)["y"].detach())
