"""A task is a judge only if trivial answers fail on it."""

from __future__ import annotations

import dataclasses

import pytest

from septran.reference import Reference
from septran.verify.admission import admit
from tests.verify import kernels


@pytest.mark.parametrize("name", kernels.HONEST)
def test_good_tasks_refuse_every_trivial_answer(name: str) -> None:
    admission = admit(kernels.HONEST[name][1](), seed=3)
    assert admission.accepted == ()
    assert "zeros" in admission.tried


def test_a_task_whose_result_is_always_zero_is_named() -> None:
    problem = dataclasses.replace(
        kernels.relu(), reference=Reference(fn=lambda X: X.nan_to_num(0, 0, 0) * 0, kind="exact")
    )
    admission = admit(problem, seed=3)
    assert not admission.admitted
    assert {"zeros", "constant", "X ignored"} <= set(admission.accepted)


def test_an_unused_input_is_named() -> None:
    problem = dataclasses.replace(
        kernels.gemm(), reference=Reference(fn=lambda A, B: A.sum(1, keepdim=True).expand(37, 29))
    )
    assert "B ignored" in admit(problem, seed=3).accepted
