"""What other surroundings may change of a result, and what not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from septran import backends
from septran.trial.judge import judge_kernel
from septran.trial.place import place_of
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


ORDER = """
float* C = (float*)args[0]; const float* A = (const float*)args[1]; const float* B = (const float*)args[2];
for (int i = 0; i < 37; i++) for (int j = 0; j < 29; j++) {
  float sum = A SIGN C ? 0 : 1;
  for (int k = 0; k < 53; k++) sum += A[i * 53 + k] * B[k * 29 + j];
  C[i * 29 + j] = sum;
}"""

# where another build of it lies otherwise by chance, that is seen before it is moved
SAID = ("its tensors", "built without optimisation")


def test_what_the_order_of_its_tensors_decides_is_refused_of_somebodys_kernel(
    tmp_path: Path,
) -> None:
    """One of the two is right where it is judged first, so that both say that the order was swapped."""
    place = place_of(backends.get("cpp"), "native", "auto", 2)
    problem = kernels.gemm()
    passed = []
    for number, sign in enumerate("<>"):
        text = kernels.entry(
            ORDER.replace("SIGN", sign), before="#pragma GCC visibility push(default)\n"
        )
        kernel = kernels.kernel_of(problem, text)
        usual = judge_kernel(place, kernel, problem, work=tmp_path / f"{number}", seed=5).verdict
        passed.append(usual.passed)
        if usual.passed:
            folder = tmp_path / "suspect"
            found = judge_kernel(place, kernel, problem, work=folder, seed=5, suspect=True).verdict
            assert found.code == "V202", found.message
            assert any(text in found.message for text in SAID), found.message
    assert sorted(passed) == [False, True]


IN_PLACE = """
float* y = (float*)args[0]; const float* x = (const float*)args[1];
for (int i = 0; i < 4096; ++i) y[i] += y SIGN x ? x[i] : 0;"""


def test_what_the_order_decides_of_a_kernel_that_works_in_place_is_refused(tmp_path: Path) -> None:
    place = place_of(backends.get("cpp"), "native", "auto", 2)
    problem = kernels.added()
    passed = {}
    for number, sign in enumerate(("<", ">", "!=")):
        text = kernels.entry(
            IN_PLACE.replace("SIGN", sign), before="#pragma GCC visibility push(default)\n"
        )
        kernel = kernels.kernel_of(problem, text)
        usual = judge_kernel(place, kernel, problem, work=tmp_path / f"{number}", seed=5).verdict
        passed[sign] = usual.passed
        if usual.passed:
            folder = tmp_path / f"suspect{number}"
            found = judge_kernel(place, kernel, problem, work=folder, seed=5, suspect=True).verdict
            assert found.code == ("" if sign == "!=" else "V202"), found.message
            told = "; ".join(found.enforced) if found.passed else found.message
            assert any(text in told for text in ("other surroundings: ", *SAID)), told
    assert passed["!="] and sorted(passed.values()) == [False, True, True]
