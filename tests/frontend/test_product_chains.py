"""Two small products one after another are one kernel; what speaks against it is seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.plan.torch_module import load_imported
from tests.frontend.importing import computes_the_module, imported
from tests.frontend.modules import Module
from tests.frontend.planning import accepted

TWO = "self.a = nn.Linear(24, 8)\nself.b = nn.Linear(8, 70)"
ROWS = "torch.randn(37, 24)"
SQUEEZE = """\
self.conv = nn.Conv2d(3, 6, 3, padding=1)
self.bn = nn.BatchNorm2d(6)
self.a = nn.Linear(6, 2)
self.b = nn.Linear(2, 6)"""
EXCITE = """\
y = torch.relu(self.bn(self.conv(x)))
s = torch.sigmoid(self.b(torch.relu(self.a(y.mean((2, 3))))))
return y * s[:, :, None, None]"""
AS_CONVOLUTIONS = """\
s = F.adaptive_avg_pool2d(x, 1)
return x * F.hardsigmoid(self.b(F.silu(self.a(s))))"""


def _kernels(
    folder: Path, body: str, inputs: str = ROWS, init: str = TWO, mode: str = "eval"
) -> int:
    found = imported(Module(name="m", init=init, body=body, inputs=inputs).write(folder), mode)
    computes_the_module(found, folder)
    return found.written.kernels


TOGETHER = {
    "layers": ("self.b(torch.relu(self.a(x)))", TWO),
    "nothing_between": ("self.b(self.a(x))", TWO),
    "no_bias": ("x @ self.w @ self.v", "self.w = nn.Parameter(torch.randn(24, 9))\nself.v = nn.Parameter(torch.randn(9, 5))"),
    "behind_the_second": ("torch.tanh(self.b(F.gelu(self.a(x)))) * x[:, :1] + x[:1, :1]", TWO),
    "two_results": ("y = self.b(self.a(x))\nreturn y, torch.exp(y)", TWO),
    "same_weight_names": ("(x @ self.a).relu() @ self.a.t()", "self.a = nn.Parameter(torch.randn(24, 7))"),
}  # fmt: skip


@pytest.mark.few(2)
@pytest.mark.parametrize("name", TOGETHER)
def test_one_kernel(tmp_path: Path, name: str) -> None:
    body, init = TOGETHER[name]
    assert _kernels(tmp_path, body, init=init) == 1


@pytest.mark.few(2)
@pytest.mark.parametrize("rows", [1, 2, 16, 17])
def test_any_number_of_rows(tmp_path: Path, rows: int) -> None:
    assert _kernels(tmp_path, "self.b(F.silu(self.a(x)))", f"torch.randn({rows}, 24)") == 1


APART = {
    "read_twice": ("h = torch.relu(self.a(x))\nreturn self.b(h) * h.sum(1, keepdim=True)", TWO, 4),
    "a_result": ("h = torch.relu(self.a(x))\nreturn h, self.b(h)", TWO, 2),
    "right_side": ("h = self.a(x)\nreturn self.w @ h", "self.a = nn.Linear(24, 8)\nself.w = nn.Parameter(torch.randn(5, 37))", 2),
    "wide": ("self.b(torch.relu(self.a(x)))", "self.a = nn.Linear(24, 130)\nself.b = nn.Linear(130, 4)", 2),
    "a_norm_between": ("h = self.a(x)\nreturn self.b(F.layer_norm(h, h.shape[1:]))", TWO, 3),
}  # fmt: skip


@pytest.mark.few(1)
@pytest.mark.parametrize("name", APART)
def test_more_kernels(tmp_path: Path, name: str) -> None:
    body, init, kernels = APART[name]
    assert _kernels(tmp_path, body, init=init) == kernels


@pytest.mark.wider
def test_large_products_stay_apart(tmp_path: Path) -> None:
    init = "self.a = nn.Linear(128, 64)\nself.b = nn.Linear(64, 128)"
    body = "self.b(torch.relu(self.a(x)))"
    at_most, more = "torch.randn(64, 128)", "torch.randn(65, 128)"
    assert _kernels(tmp_path, body, at_most, init) == 1
    assert _kernels(tmp_path, body, more, init) == 2


@pytest.mark.few(1)
@pytest.mark.parametrize("mode", ["eval", "as-is"])
def test_squeeze_and_excite_takes_four_kernels(tmp_path: Path, mode: str) -> None:
    """With batch statistics the norm's counter is a number that the products' only block makes."""
    assert _kernels(tmp_path, EXCITE, "torch.randn(2, 3, 5, 7)", SQUEEZE, mode) == 4


def test_a_counter_is_not_made_by_many_blocks(tmp_path: Path) -> None:
    assert _kernels(tmp_path, EXCITE, "torch.randn(17, 3, 3, 2)", SQUEEZE, "as-is") == 5


@pytest.mark.wider
def test_convolutions_of_one_window_are_products(tmp_path: Path) -> None:
    init = "self.a = nn.Conv2d(6, 2, 1)\nself.b = nn.Conv2d(2, 6, 1)"
    assert _kernels(tmp_path, AS_CONVOLUTIONS, "torch.randn(2, 6, 5, 7)", init) == 3
    whole = "self.a = nn.Conv2d(3, 4, (5, 7), stride=3)\nself.b = nn.Conv2d(4, 4, 1, groups=2)"
    found = imported(
        Module(name="m", init=whole, body="self.a(x)", inputs="torch.randn(2, 3, 5, 7)").write(
            tmp_path
        )
    )
    computes_the_module(found, tmp_path)
    assert [o.kind for o in found.canon.ops] == ["matmul", "map"]
    for body, size in (("self.a(x)", "2, 3, 8, 7"), ("self.b(self.a(x))", "2, 3, 5, 7")):
        module = Module(name="m", init=whole, body=body, inputs=f"torch.randn({size})")
        assert "conv" in {o.kind for o in imported(module.write(tmp_path)).canon.ops}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cpp", "cuda_c", "triton_cuda", "dsa_c", "tilelang_npuir"])
@pytest.mark.parametrize("rows", [5, 150])
def test_the_judge_accepts_a_chain(tmp_path: Path, target: str, rows: int) -> None:
    module = Module(
        name="m",
        init="self.a = nn.Linear(24, 40)\nself.b = nn.Linear(40, 70)",
        body="torch.sigmoid(self.b(F.gelu(self.a(x))))",
        inputs=f"torch.randn({rows}, 24)",
    )
    found = imported(module.write(tmp_path))
    assert found.written.kernels == 1
    accepted(load_imported(found), target, tmp_path / "work")
