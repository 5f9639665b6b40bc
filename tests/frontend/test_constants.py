"""Numbers in a module's text are part of what it means, also where it is saved; a buffer's are not, and a kernel that has them is wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import septran
from septran.plan.floor import library_leaves
from septran.plan.problem import problem_of
from septran.plan.torch_module import load_imported
from septran.trial.judge import judge_kernel
from septran.trial.place import place_of
from tests.frontend.importing import imported
from tests.frontend.modules import Module
from tests.frontend.planning import planned

pytestmark = pytest.mark.filterwarnings("ignore")

BUFFER = "self.register_buffer('order', torch.arange(5))"
X = "torch.randn(5, 7)"


class Numbers(nn.Module):
    """Whole numbers, floats and truth values in its text, and a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([2.0]))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return rows in another order, and a table that is looked up."""
        order, by = torch.tensor([2, 0, 1]), torch.tensor([0.5, -3.0, 1 / 3])
        table = torch.tensor([7, 100000007, -1])
        kept = torch.where(torch.tensor([True, False, True]), x[order] * by, x)
        return kept * self.scale, table[order]


@pytest.mark.wider
def test_a_saved_module_keeps_the_numbers_of_its_text(tmp_path: Path) -> None:
    module, x = Numbers(), torch.linspace(-2, 2, 9).reshape(3, 3)
    septran.compile(module, (x,)).save(tmp_path / "numbers")
    loaded = septran.load(tmp_path / "numbers")
    with torch.no_grad():
        for given in (x, -3 * x):
            for got, right in zip(loaded(given), module(given), strict=True):
                torch.testing.assert_close(got, right)
        module.scale.mul_(5)
        again = septran.load(tmp_path / "numbers", module)
        for got, right in zip(again(x), module(x), strict=True):
            torch.testing.assert_close(got, right)


def test_a_kernel_with_a_buffers_numbers_in_it_is_wrong(tmp_path: Path) -> None:
    """It is right for the file's own buffer, and for no other that may be loaded."""
    body = "torch.where(self.order[:, None] >= 0, x, x[self.order])"
    meant = Module(name="orders", init=BUFFER, body="x[self.order]", inputs=X)
    wrong = Module(name="orders", init=BUFFER, body=body, inputs=X)
    reference = load_imported(imported(meant.write(tmp_path)))[0].reference
    operator, logic = load_imported(imported(wrong.write(tmp_path)))
    plan, lowered = planned((replace(operator, reference=reference), logic), "cpp")
    judged = judge_kernel(
        place_of(plan.backend, plan.arch, "auto", 1),
        plan.backend.emit(
            lowered.program, library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
        ),
        problem_of(plan, lowered.program, {}),
        work=tmp_path,
    )
    assert not judged.verdict.passed
    wrong_on = {c.case for c in judged.verdict.cases if c.wrong}
    assert wrong_on and "own" not in wrong_on
