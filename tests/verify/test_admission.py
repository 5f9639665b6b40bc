"""A task is a judge only if trivial answers fail on it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from septran.reference import Reference
from septran.verify.admission import Admission, admit
from septran.verify.verify import Request, verify
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


@pytest.mark.parametrize("trivial", [False, True])
def test_a_verdict_says_that_its_task_accepts_trivial_answers(
    trivial: bool, tmp_path: Path
) -> None:
    problem = kernels.relu()
    body = "float* y = (float*)args[0]; const float* x = (const float*)args[1];\n"
    body += f"for (int i = 0; i < {19 * 67}; ++i) y[i] = "
    if trivial:
        reference = Reference(fn=lambda X: X.nan_to_num(0, 0, 0) * 0, kind="elementwise")
        problem = dataclasses.replace(problem, reference=reference)
        body += "0;"
    else:
        body += "x[i] < 0 ? 0 : x[i];"
    source = kernels.entry(body)
    built = kernels.build(source, tmp_path / "build")
    request = Request(gate=False, admission=True)
    verdict = verify(
        kernels.kernel_of(problem, source), built, problem, run_dir=tmp_path, request=request
    )
    assert verdict.passed, verdict.message
    stored = json.loads((tmp_path / "admission.json").read_text())
    assert ("zeros" in stored["accepted"]) == trivial
    warned = [item for item in verdict.not_checked if item.startswith("task: ")]
    assert bool(warned) == trivial
    assert not trivial or "zeros" in warned[0]
    again = json.loads((tmp_path / "verdict.json").read_text())
    assert again["not_checked"] == list(verdict.not_checked)


def test_what_is_skipped_is_said() -> None:
    assert "large" in Admission(tried=(), accepted=(), skipped="the tensors are large").warnings[0]
