"""What the judge draws for inputs of which a module wants more than a shape and a dtype."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from septran.domain import Domain
from septran.plan.problem import problem_of
from septran.plan.torch_module import load_imported
from septran.verify.cases import Case, draw
from tests.frontend.importing import imported
from tests.frontend.modules import Module
from tests.frontend.planning import planned


def _domains(module: Module, folder: Path) -> dict[str, Domain]:
    return dict(load_imported(imported(module.write(folder)))[0].domains)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "target", ["t", "t.reshape(-1, 7)", "t * 0.9 + 0.05"], ids=["as it is", "in another layout", "smoothed"]
)  # fmt: skip
def test_targets_of_a_binary_cross_entropy_are_probabilities(tmp_path: Path, target: str) -> None:
    module = Module(
        name="bce",
        args="x, t",
        body=f"F.binary_cross_entropy(torch.sigmoid(x), {target})",
        inputs="torch.randn(4, 7), torch.rand(4, 7)",
    )
    found = _domains(module, tmp_path)
    assert (found["x"].kind, found["t"].kind) == ("real", "unit")


def test_a_label_that_stands_for_none_is_no_end_of_a_range(tmp_path: Path) -> None:
    module = Module(
        name="labels",
        args="x, y",
        body="F.cross_entropy(x, y)",
        inputs="torch.randn(6, 9), torch.tensor([0, 8, -100, 3, -100, 1])",
    )
    loaded = load_imported(imported(module.write(tmp_path)))
    assert loaded[0].domains["y"] == Domain(kind="index", low=0, high=9, sentinel=-100)
    plan, lowered = planned(loaded, "cpp")
    problem = problem_of(plan, lowered.program, {})
    drawn = [draw(problem, Case(name="n", family="normal", seed=s))["y"] for s in range(40)]
    values = set(np.concatenate(drawn).tolist())
    assert -100 in values
    assert values <= {-100, *range(9)}


def test_integers_on_both_sides_of_zero_are_a_range(tmp_path: Path) -> None:
    module = Module(name="signed", args="y", body="y * 2", inputs="torch.tensor([-3, -1, 4, 2])")
    assert _domains(module, tmp_path)["y"] == Domain(kind="index", low=-3, high=5)
