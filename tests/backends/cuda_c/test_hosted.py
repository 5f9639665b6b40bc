"""An emulated CUDA kernel and the machine it calls run in a static host, not inside Python."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from septran.backends.base import Built
from septran.backends.cuda.toolchain import compile_emulated
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
from tests.attacks.corpus_cuda import TREE, row

Made = tuple[Kernel, Problem]
SESSIONS = Sessions(loader="cuda_emu.py.j2")


@pytest.fixture(scope="module")
def made() -> Made:
    plan = resolve(GenRequest(op="row_sum", backend="cuda_c", dims={"M": 19, "N": 67}))
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    return plan.backend.emit(lowered.program, leaves), problem_of(plan, lowered.program, plan.dims)


def _written(kernel: Kernel, text: str) -> Kernel:
    files = tuple((name, text if name == kernel.main else body) for name, body in kernel.files)
    return replace(kernel, files=files)


def _judged(kernel: Kernel, problem: Problem, folder: Path) -> tuple[Built, Verdict]:
    built = compile_emulated(kernel, folder / "build")
    assert built.ok, built.log
    assert built.host is not None, built.not_checked
    request = Request(where="emulated", gate=False, sessions=SESSIONS)
    return built, verify(kernel, built, problem, run_dir=folder / "run", request=request)


@pytest.mark.wider
def test_the_library_s_kernel(made: Made, tmp_path: Path) -> None:
    built, verdict = _judged(*made, tmp_path)
    assert verdict.passed, verdict.message
    assert "static host" in verdict.enforced and not verdict.not_checked
    # the processor time of an emulation says nothing of the device
    assert not can_be_timed(built, *made, Sessions())


def test_a_missing_barrier_is_reported_with_its_place(made: Made, tmp_path: Path) -> None:
    """The report comes out of a host that the emulation has ended."""
    kernel = _written(made[0], row(TREE.replace(" __syncthreads(); }", " }")))
    _, verdict = _judged(kernel, made[1], tmp_path)
    assert verdict.code == "V209"
    assert verdict.diagnostics[0]["kind"] == "race"
    assert verdict.diagnostics[0]["kernel"] == "row_kernel"


def test_an_overrun_of_a_shared_array_is_seen(made: Made, tmp_path: Path) -> None:
    kernel = _written(made[0], row(TREE.replace("s[t] = v;", "s[t] = v; s[t + 1] = v;")))
    _, verdict = _judged(kernel, made[1], tmp_path)
    assert verdict.code == "V209" and verdict.diagnostics[0]["kind"] == "shared memory"


DEEP = """  volatile unsigned* kept = (volatile unsigned*)((char*)__builtin_frame_address(0) - 60000);
  if (r == 0 && t == 0) {
    if (kept[0] == 0x5EED5EEDu) kept[1] = kept[1] + 1;
    else kept[0] = 0x5EED5EEDu, kept[1] = 1;
    if (kept[1] > LIMIT) v = 1e9f;
  }
"""


@pytest.mark.parametrize(("limit", "passes"), [(3, True), (2, False)])
def test_stacks_keep_nothing_from_call_to_call(
    made: Made, limit: int, passes: bool, tmp_path: Path
) -> None:
    """Three launches of the first call see each other's stacks; no later call sees theirs."""
    body = DEEP.replace("LIMIT", str(limit)) + TREE
    _, verdict = _judged(_written(made[0], row(body)), made[1], tmp_path)
    assert verdict.passed == passes, verdict.message


def test_a_local_that_nobody_set_is_no_zero(made: Made, tmp_path: Path) -> None:
    """Without a pattern it begins as what the stack holds, which is 0 on pages that were given back."""
    body = "  (void)s;\n  if (t == 0) {\n    float w[2];\n    for (int j = 0; j < 67; j++) w[r % 2] += X[r * 67 + j];\n    Y[r] = w[r % 2];\n  }"
    _, verdict = _judged(_written(made[0], row(body)), made[1], tmp_path)
    assert verdict.code == "V202"


def test_a_scalar_that_one_thread_sets_is_no_constant(made: Made, tmp_path: Path) -> None:
    """At -O2 g++ takes the other threads' for the same 0."""
    body = "  (void)s;\n  float w;\n  if (t == 1) w = 0.f;\n  if (t == 0) {\n    for (int j = 0; j < 67; j++) w += X[r * 67 + j];\n    Y[r] = w;\n  }"
    _, verdict = _judged(_written(made[0], row(body)), made[1], tmp_path)
    assert verdict.code == "V202"


@pytest.mark.parametrize(
    ("before", "finding"),
    [
        ("__device__ int calls[19];", "writable section"),
        ('extern "C" void st_after_call(); auto probe() { st_after_call(); }', "calls st_after"),
        (
            'extern "C" int open(const char*, int); auto probe() { return open("x", 0); }',
            "calls op",
        ),
    ],
)
def test_what_may_not_come_into_the_host(
    made: Made, before: str, finding: str, tmp_path: Path
) -> None:
    used = TREE + "\n  if (t == 99) calls[0]++;" if "calls" in before else TREE
    kernel = _written(made[0], row(used, before=before))
    built = compile_emulated(kernel, tmp_path)
    assert built.ok, built.log
    assert any(
        text.startswith(finding) or finding in text for text in object_findings(built, kernel)
    )


@pytest.mark.parametrize(
    "text",
    ['{"errors": [{}]}', '{"errors": [{"kind": "race", "message": "m", "block": 3, "thread": 0}]}'],
)
def test_a_mistake_that_cannot_be_read_is_an_error(text: str) -> None:
    assert Reports().add(text)


def test_a_mistake_and_its_place() -> None:
    reports = Reports()
    assert not reports.add(
        '{"errors": [{"kind": "race", "message": "m", "kernel": "k", "block": [1, 2, 3], "thread": 7}]}'
    )
    assert reports.diagnostics == (
        {"kind": "race", "message": "m", "kernel": "k", "block": [1, 2, 3], "thread": 7},
    )
    assert reports.figures == {}
