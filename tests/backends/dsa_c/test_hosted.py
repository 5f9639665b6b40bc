"""A kernel for the scratchpad machine and its simulator run in a static host, not inside Python."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from septran.backends import get
from septran.backends.base import Built
from septran.kernel import Kernel
from septran.plan.floor import library_leaves
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.verify.hosted import object_findings
from septran.verify.problem import Problem
from septran.verify.reports import Reports
from septran.verify.session import Sessions
from septran.verify.slots import can_be_timed
from septran.verify.verdict import Verdict
from septran.verify.verify import Request, verify

Made = tuple[Kernel, Problem]


@pytest.fixture(scope="module")
def made() -> Made:
    plan = resolve(GenRequest(op="row_sum", backend="dsa_c", dims={"M": 16, "N": 64}))
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    return plan.backend.emit(lowered.program, leaves), problem_of(plan, lowered.program, plan.dims)


def _edited(kernel: Kernel, *edits: tuple[str, str]) -> Kernel:
    text = dict(kernel.files)[kernel.main]
    for old, new in edits:
        assert old in text, text
        text = text.replace(old, new, 1)
    files = tuple((name, text if name == kernel.main else body) for name, body in kernel.files)
    return replace(kernel, files=files)


def _judged(kernel: Kernel, problem: Problem, folder: Path) -> tuple[Built, Verdict]:
    built = get("dsa_c").build(kernel, folder / "build")
    assert built.ok, built.log
    assert built.host is not None, built.not_checked
    request = Request(gate=False, figures=get("dsa_c").figures)
    return built, verify(kernel, built, problem, run_dir=folder / "run", request=request)


def test_the_library_s_kernel(made: Made, tmp_path: Path) -> None:
    built, verdict = _judged(*made, tmp_path)
    assert verdict.passed and "static host" in verdict.enforced
    assert verdict.cycles["total"] > 0
    # a simulator's processor time says nothing of the machine
    assert not can_be_timed(built, *made, Sessions())


def test_a_wait_that_is_left_out(made: Made, tmp_path: Path) -> None:
    """The simulator's report comes out of the host, and its orders differ from call to call."""
    kernel = _edited(made[0], ("vendor_lib_wait(VL_Q_LOAD, VL_Q_VEC, 0);", ""))
    _, verdict = _judged(kernel, made[1], tmp_path)
    assert not verdict.passed
    assert verdict.diagnostics and verdict.diagnostics[0]["kind"] == "hazard"


@pytest.mark.parametrize("name", ["vl_fail", "vl_at", "vl_me", "st_malloc"])
def test_the_simulator_s_own_names_cannot_be_reached(made: Made, name: str, tmp_path: Path) -> None:
    source = f"extern int {name}(void);\nint septran_probe(void) {{ return {name}(); }}\n"
    text = dict(made[0].files)[made[0].main]
    kernel = _edited(made[0], (text, f"{text}\n{source}"))
    built = get("dsa_c").build(kernel, tmp_path)
    assert f"calls {name}" in object_findings(built, kernel)


def test_a_kernel_cannot_change_the_machine(made: Made, tmp_path: Path) -> None:
    """The simulator's figures are the machine file's; a kernel's own copy of them is its own affair."""
    files = tuple(
        (name, body.replace("#define VL_DMA_LATENCY 200", "#define VL_DMA_LATENCY 1"))
        for name, body in made[0].files
    )
    _, honest = _judged(*made, tmp_path / "honest")
    _, verdict = _judged(replace(made[0], files=files), made[1], tmp_path / "quick")
    assert verdict.cycles["total"] == honest.cycles["total"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[1]",
        '{"cycles": 1}',
        '{"cycles": true, "errors": []}',
        '{"cycles": 3, "errors": 4}',
        9000 * "[",
    ],
)
def test_a_report_that_cannot_be_read_is_an_error(text: str) -> None:
    assert Reports().add(text)


def test_the_slowest_call_counts() -> None:
    reports = Reports()
    for cycles, errors in ((5, []), (9, ["late", "late"]), (7, ["late"])):
        assert not reports.add(f'{{"cycles": {cycles}, "errors": {errors}}}'.replace("'", '"'))
    assert reports.figures == {"cycles": 9, "varies": True}
    assert [d["message"] for d in reports.diagnostics] == ["late"]
