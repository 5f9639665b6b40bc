"""Modules that targets other than cpp once refused or got wrong, judged in their emulations."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.module_targets import outcome
from tests.frontend.importing import imported
from tests.frontend.modules import Module

SLOW = ("dsa_c", "triton_cuda")


def _targets(*names: str) -> list[object]:
    return [pytest.param(n, marks=(pytest.mark.slow,) if n in SLOW else ()) for n in names]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "target", _targets("dsa_c", "tilelang_npuir", "triton_cuda", "tilelang_cuda")
)
def test_functions_that_a_target_lacks_are_written_out(tmp_path: Path, target: str) -> None:
    body = "torch.log1p(x.abs()), torch.expm1(x.clamp(-5, 5)), torch.round(x) - torch.floor(x) * torch.ceil(x) + torch.trunc(x)"
    module = Module(name="functions", body=body, inputs="torch.randn(3, 11)")
    assert outcome(imported(module.write(tmp_path)), target, tmp_path) == ("accurate", "")


def test_parts_of_what_an_earlier_kernel_wrote_are_loaded_on_their_own(tmp_path: Path) -> None:
    """The NPU's tiles have no addressable parts; windows over a workspace were refused (V170)."""
    init = "self.c = nn.Conv2d(2, 3, 1)\nself.d = nn.Conv2d(3, 3, 2, groups=3)"
    module = Module(
        name="parts", init=init, body="self.d(F.relu(self.c(x)))", inputs="torch.randn(1, 2, 3, 4)"
    )
    assert outcome(imported(module.write(tmp_path)), "tilelang_npuir", tmp_path)[0] == "accurate"


def test_what_a_half_module_computed_meets_its_weights(tmp_path: Path) -> None:
    """It is kept in float32; the NPU had no leaf for a product of two dtypes (L520)."""
    module = Module(
        name="halves",
        init="self.a = nn.Linear(6, 5).half()\nself.b = nn.Linear(5, 4).half()",
        body="self.b(F.gelu(self.a(x)))",
        inputs="torch.randn(3, 6).half()",
    )
    assert outcome(imported(module.write(tmp_path)), "tilelang_npuir", tmp_path) == ("accurate", "")


@pytest.mark.parametrize("target", _targets("dsa_c", "tilelang_npuir"))
def test_positions_of_64_bits_are_compared_with_places(tmp_path: Path, target: str) -> None:
    """The k largest: the NPU refused the comparison (M172), though it compares 64 bits as they are."""
    module = Module(name="largest", body="torch.topk(x, 2)[0]", inputs="torch.randn(3, 7)")
    assert outcome(imported(module.write(tmp_path)), target, tmp_path) == ("accurate", "")


def test_a_refusal_shows_the_part_of_an_expression_that_it_is_about(tmp_path: Path) -> None:
    module = Module(name="angle", args="x, y", body="torch.atan2(x, y) * torch.sigmoid(x)", inputs="torch.randn(3, 5), torch.randn(3, 5)")  # fmt: skip
    kind, why = outcome(imported(module.write(tmp_path)), "dsa_c", tmp_path)
    assert kind == "unavailable" and why.startswith("M173 dsa_c has no atan in map expressions yet")
    assert "atan(" in why and len(why) < 200


@pytest.mark.few(1)
@pytest.mark.parametrize("target", _targets("cuda_c", "dsa_c", "triton_cuda"))
@pytest.mark.parametrize("spread", ["b", "b[0]"])
def test_products_of_turned_batches(tmp_path: Path, target: str, spread: str) -> None:
    """CUDA's leaf took the first dims of a turned left operand for the matrix: one term of the sum, or other rows."""
    module = Module(
        name="turned",
        args="a, b",
        body=f"a.transpose(2, 3) @ {spread}",
        inputs="torch.randn(2, 2, 7, 5), torch.randn(2, 2, 7, 3)",
    )
    assert outcome(imported(module.write(tmp_path)), target, tmp_path) == ("accurate", "")
