"""What other surroundings may change of a result, and what not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from septran.verify.cases import Case
from septran.verify.moved import _near
from septran.verify.session import Call, Ran
from tests.verify import kernels

USUAL = np.linspace(-4, 4, 400, dtype=np.float32)


def _ran(values: Any, name: str) -> Ran:
    call = Call(case=Case(name="normal", family="normal", seed=1), placement="end")
    outputs = {name: np.asarray(values, np.float32).tobytes()}
    return Ran(call=call, outputs=outputs, beside=(), seconds=0.0, claims={})


@pytest.mark.parametrize(
    ("values", "near"),
    [
        (USUAL + np.float32(1e-3), True),  # a sum of many terms, each rounded upwards
        (np.where(np.arange(400) == 7, 9, USUAL), True),  # a value at a limit
        (np.zeros(400), False),
        (np.where(np.arange(400) < 9, 9, USUAL), False),
        (np.full(400, np.nan), False),
    ],
)
def test_how_far_another_rounding_mode_takes_a_result(values: Any, near: bool) -> None:
    problem = kernels.gemm(20, 20, 3)
    name = problem.outputs[0].name
    assert _near(problem, _ran(USUAL, name), _ran(values, name)) == near
