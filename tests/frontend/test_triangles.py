"""Cholesky's factor and triangular systems as maps, and modules that have no value for what the judge draws."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import septran
from septran.errors import ConfigError
from septran.frontend.table.triangles import MAX_SIZE
from septran.plan.torch_module import load_imported
from tests.frontend.importing import computes_the_module, graph_of, imported
from tests.frontend.modules import Module
from tests.frontend.planning import accepted

pytestmark = pytest.mark.filterwarnings("ignore")

DEFINITE = "x @ x.mT + 2 * torch.eye(x.shape[-1], dtype=x.dtype)"
TRIANGLE = "x + 6 * torch.eye(x.shape[-1], dtype=x.dtype)"
SQUARE, SIDE = "torch.randn(5, 5)", "torch.randn(5, 3)"

BODIES = {
    "factor": (f"torch.linalg.cholesky({DEFINITE})", "torch.randn(2, 3, 5, 5)", ""),
    "factor_upper": (f"torch.linalg.cholesky({DEFINITE}, upper=True)", SQUARE, ""),
    "factor_old": (f"torch.cholesky({DEFINITE})", SQUARE, ""),
    "factor_ex": (f"torch.linalg.cholesky_ex({DEFINITE})[0]", SQUARE, ""),
    "one_row": (f"torch.linalg.cholesky({DEFINITE})", "torch.randn(4, 1, 1)", ""),
    "lower": (f"torch.linalg.solve_triangular({TRIANGLE}, r, upper=False)", SQUARE, SIDE),
    "upper": (f"torch.linalg.solve_triangular({TRIANGLE}, r, upper=True)", SQUARE, SIDE),
    "right": (f"torch.linalg.solve_triangular({TRIANGLE}, r, upper=True, left=False)", SQUARE, "torch.randn(3, 5)"),
    "ones": ("torch.linalg.solve_triangular(x * 0.1, r, upper=False, unitriangular=True)", SQUARE, SIDE),
    "batches": (f"torch.linalg.solve_triangular({TRIANGLE}, r, upper=False)", "torch.randn(3, 1, 4, 4)", "torch.randn(2, 4, 3)"),
    "transposed": (f"torch.triangular_solve(r, {TRIANGLE}, upper=False, transpose=True)[0]", SQUARE, SIDE),
    "solve": (f"torch.cholesky_solve(r, torch.linalg.cholesky({DEFINITE}))", SQUARE, SIDE),
    "solve_upper": (f"torch.cholesky_solve(r, torch.linalg.cholesky({DEFINITE}, upper=True), upper=True)", SQUARE, SIDE),
    "inverse": (f"torch.cholesky_inverse(torch.linalg.cholesky({DEFINITE}))", SQUARE, ""),
    "log_volume": (f"2 * torch.linalg.cholesky({DEFINITE}).diagonal(dim1=-2, dim2=-1).log().sum(-1)", SQUARE, ""),
}  # fmt: skip


@pytest.mark.few(5)
@pytest.mark.parametrize("name", BODIES)
def test_it_is_torchs_value(tmp_path: Path, name: str) -> None:
    """The written logic is run by the oracle in float64 on the file's own kind of input."""
    body, x, r = BODIES[name]
    inputs = f"{x}, {r}" if r else x
    found = imported(
        Module(name="m", body=body, inputs=inputs, args="x, r" if r else "x").write(tmp_path)
    )
    assert not found.opaque_leaves
    computes_the_module(found, tmp_path)


def test_the_other_half_of_a_triangle_is_not_read() -> None:
    module = _Module(lambda x, r: torch.linalg.solve_triangular(x, r, upper=False))
    x, r = torch.eye(4) * 2.0 + torch.full((4, 4), float("nan")).triu(1), torch.randn(4, 2)
    compiled = septran.compile(module, (x, r), target="cpp", verify=False)
    torch.testing.assert_close(compiled(x, r), r / 2.0)


def test_large_matrices_have_no_form(tmp_path: Path) -> None:
    module = Module(
        name="m",
        body=f"torch.linalg.cholesky({DEFINITE})",
        inputs=f"torch.randn({MAX_SIZE + 1}, {MAX_SIZE + 1})",
    )
    with pytest.raises(ConfigError) as caught:
        imported(module.write(tmp_path))
    assert caught.value.codes == ("C150",) and f"at most {MAX_SIZE}" in str(caught.value)
    assert graph_of(module.write(tmp_path)).nodes


class _Module(torch.nn.Module):
    def __init__(self, fn) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        return self.fn(*tensors)


def test_a_module_that_needs_a_definite_input_is_refused_in_words() -> None:
    """The judge draws no positive definite matrices, so it has nothing to compare; this ended in an IndexError."""
    x = torch.randn(7, 7)
    compiled = septran.compile(
        _Module(torch.linalg.cholesky), (x @ x.mT + torch.eye(7),), target="cpp"
    )
    with pytest.raises(ConfigError) as caught:
        compiled(x @ x.mT + torch.eye(7))
    assert caught.value.codes == ("C152",)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cpp", "cuda_c"])
def test_the_judge_accepts_a_gaussian_process(tmp_path: Path, target: str) -> None:
    module = Module(
        name="m",
        body="l = torch.linalg.cholesky(x @ x.mT + 4.0 * torch.eye(5))\n"
        "return torch.linalg.solve_triangular(l, r, upper=False).square().sum(1)",
        inputs="torch.randn(2, 5, 5), torch.randn(2, 5, 3)",
        args="x, r",
    )
    accepted(load_imported(imported(module.write(tmp_path))), target, tmp_path / "work")
