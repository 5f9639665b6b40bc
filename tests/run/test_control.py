"""A broken toolchain is told from a broken kernel by a kernel that is known to be good."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from septran.backends import get
from septran.backends.base import Backend, Built
from septran.kernel import Kernel
from septran.outcome import Level, Status
from septran.plan.floor import library_leaves
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.run.require import exit_code
from septran.trial import control
from septran.trial.judge import judge_kernel
from septran.trial.place import place_of
from septran.verify.problem import Problem
from septran.verify.verdict import Verdict

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")


@pytest.fixture(autouse=True)
def fresh() -> None:
    control._trouble.cache_clear()


def row_sum() -> tuple[Kernel, Problem]:
    plan = resolve(GenRequest(op="row_sum", backend="cpp", dims={"M": 7, "N": 33}))
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    kernel = plan.backend.emit(lowered.program, leaves)
    return kernel, problem_of(plan, lowered.program, plan.dims)


def judged(folder: Path, backend: Backend, *, change: tuple[str, str] | None = None) -> Verdict:
    kernel, problem = row_sum()
    if change is not None:
        assert change[0] in kernel.source
        source = kernel.source.replace(*change, 1)
        files = tuple((n, source if n == kernel.main else t) for n, t in kernel.files)
        kernel = replace(kernel, files=files)
    return judge_kernel(
        place_of(backend, kernel.arch, "auto", 1), kernel, problem, work=folder
    ).verdict


def test_a_compiler_that_refuses_everything_is_the_environment(tmp_path: Path) -> None:
    def build(kernel: Kernel, folder: Path) -> Built:
        return Built(ok=False, artifact=None, log="fatal error: cannot execute 'cc1plus'")

    verdict = judged(tmp_path, replace(get("cpp"), build=build))
    assert verdict.level is Level.UNAVAILABLE
    assert verdict.code == "V214"
    assert "cc1plus" in verdict.message
    assert exit_code(verdict, ()) == 3
    assert '"V214"' in (tmp_path / "verdict.json").read_text()


def test_a_runtime_that_breaks_every_kernel_is_the_environment(tmp_path: Path) -> None:
    cpp = get("cpp")

    def build(kernel: Kernel, folder: Path) -> Built:
        built = cpp.build(kernel, folder)
        assert built.artifact is not None
        built.artifact.write_bytes(b"not a library")
        return built

    verdict = judged(tmp_path, replace(cpp, build=build))
    assert verdict.status is Status.UNAVAILABLE, verdict.message


def test_a_kernel_that_does_not_compile_is_at_fault(tmp_path: Path) -> None:
    text = "// ---- leaves", '#error "No space left on device"\n// ---- leaves'
    verdict = judged(tmp_path, get("cpp"), change=text)
    assert verdict.status is Status.COMPILE_ERROR, verdict.message
    assert verdict.code == "V201"
    assert exit_code(verdict, ()) == 1


def test_a_kernel_that_crashes_is_at_fault(tmp_path: Path) -> None:
    text = (
        "// ---- leaves",
        "struct Early { Early() { __builtin_trap(); } } early;\n// ---- leaves",
    )
    verdict = judged(tmp_path, get("cpp"), change=text)
    assert verdict.code in ("V205", "V210"), verdict.message
    assert exit_code(verdict, ()) == 1


def test_the_control_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    cpp = get("cpp")

    def build(kernel: Kernel, folder: Path) -> Built:
        tried.append(kernel.name)
        if "relu" in kernel.name:
            return cpp.build(kernel, folder)
        return Built(ok=False, artifact=None, log="error: no")

    backend = replace(cpp, build=build)
    for number in range(2):
        assert judged(tmp_path / str(number), backend).code == "V201"
    assert len([name for name in tried if "relu" in name]) == 1
