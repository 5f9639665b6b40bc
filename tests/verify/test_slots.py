"""Timing in the static host: every timed call did the work, and the figure is what a user's loop shows."""

from __future__ import annotations

import ctypes
import functools
import statistics
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import septran
from septran.backends import get
from septran.plan.floor import library_leaves
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.reference import Reference
from septran.verify import timing as timing_module
from septran.verify.call_cost import CallCost
from septran.verify.pairs import Pairs, calls_per_slot
from septran.verify.problem import Problem
from septran.verify.session import Sessions
from septran.verify.slots import HostTimed, can_be_timed
from septran.verify.timing import (
    Timing,
    _Hosted,
    compare_kernels,
    measure,
    race,
    settled,
    time_kernel,
)
from septran.verify.torch_side import torch_calls
from tests.api.test_in_place_calls import LOGIC as IN_PLACE_LOGIC
from tests.support.steady import steady
from tests.verify import hosting, kernels

ONE = Sessions(threads=1)
N = 4096
WORK = """
static void work(const float* x, float* y) {
  for (long i = 0; i < 4096; ++i) {
    float v = x[i];
    for (int r = 0; r < 6; ++r) v = v * 0.9f + 0.01f / (1.0f + v * v);
    y[i] = v;
  }
}
"""
OPEN = "const float* x = (const float*)args[1]; float* y = (float*)args[0];"


def _problem() -> Problem:
    def fn(X):
        for _ in range(6):
            X = X * 0.9 + 0.01 / (1 + X * X)
        return X

    base = kernels.gemm()
    params = (
        replace(base.params[0], name="Y", shape=(N,)),
        replace(base.params[1], name="X", shape=(N,)),
    )
    reference = Reference(fn=fn, kind="chain")
    return Problem(name="smooth", params=params, reference=reference, dims={"N": N})


def _time(body: str, folder: Path, before: str = "", settings: Sessions = ONE) -> Timing:
    problem = _problem()
    source = kernels.entry(f"{OPEN} {body}", before=f"{hosting.BEFORE}{WORK}{before}")
    kernel, built = hosting.build(source, problem, folder)
    assert can_be_timed(built, kernel, problem, settings)
    return measure(
        kernel, built, problem, run_dir=folder, settings=settings, budget_s=0.1, slot_s=0.002
    )


def test_an_honest_kernel(tmp_path: Path) -> None:
    timing = _time("work(x, y);", tmp_path)
    assert timing.ok, timing.why
    assert timing.clock == "processor"
    assert 0 < timing.low <= timing.speedup <= timing.high
    assert timing.kernel_s > 1e-6 and timing.call_s > 0


def test_a_call_cost_that_is_not_known_well_makes_the_figure_unreliable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def cost(_, *, processor_time: bool) -> CallCost:
        asked.append(processor_time)
        return CallCost(call=2e-6, allocate=3e-6, low=1e-6, high=1e-3)

    monkeypatch.setattr(timing_module, "call_cost", cost)
    timing = _time("work(x, y);", tmp_path)
    assert asked == [True]
    assert timing.ok and not timing.reliable
    assert timing.low < 0.5 * timing.speedup


def test_threads_without_processors_are_timed_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose threads had to wait has no figure for two threads, but one for one."""
    problem = _problem()
    source = kernels.entry(f"{OPEN} work(x, y);", before=f"{hosting.BEFORE}{WORK}")
    kernel, built = hosting.build(source, problem, tmp_path)
    monkeypatch.setattr(HostTimed, "waited", 0.5)
    timing = time_kernel(kernel, built, problem, threads=2, budget_s=0.1, slot_s=0.002)
    assert timing is not None
    assert (timing.threads, timing.clock) == (1, "processor")


def test_answers_that_are_worse_in_slots_only(tmp_path: Path) -> None:
    """A kernel that finds the host's control page knows that it is timed; its bits are others then."""
    body = (
        "unsigned long* c = *(unsigned long* volatile*)CONTROL; work(x, y);"
        " if (c[2] == 2) for (int i = 0; i < 4096; i++) y[i] *= 1.001f;"
    )
    address = "0x4c0000"
    for _ in range(3):  # addresses move with the text
        _time_only_build(body, address, tmp_path)
        address = _address(tmp_path / "kernel.host", "control")
    timing = _time(body, tmp_path / "again", before=f"#define CONTROL {address}\n")
    assert not timing.ok
    assert "timed call" in timing.why


@pytest.mark.wider
def test_a_receipt_that_is_made_up(tmp_path: Path) -> None:
    """A kernel that ends its slot itself, at the first call, cannot know the receipt."""
    body = (
        "unsigned long* c = *(unsigned long* volatile*)CONTROL; work(x, y);"
        " if (c[2] == 2 && c[4] > 4) { c[6] = c[5] * 31; __atomic_add_fetch((unsigned*)(c + 1), 1, 5); long r;"
        ' asm volatile("syscall" : "=a"(r) : "a"(202), "D"(c + 1), "S"(1), "d"(1) : "rcx", "r11", "memory");'
        " for (;;) { } }"
    )
    address = "0x4c0000"
    for _ in range(3):
        _time_only_build(body, address, tmp_path)
        address = _address(tmp_path / "kernel.host", "control")
    soon = replace(ONE, call_timeout_s=2.0)
    timing = _time(body, tmp_path / "again", before=f"#define CONTROL {address}\n", settings=soon)
    assert not timing.ok


def test_a_table_over_the_region(tmp_path: Path) -> None:
    """Half a megabyte of answers, deep in the stack, where nothing is overwritten: memory grows."""
    body = (
        "work(x, y); volatile char* deep = (volatile char*)__builtin_frame_address(0) - (3 << 20);"
        " for (int i = 0; i < 400; i++) if (((unsigned long)x >> 6) % 3 == 0) deep[4096 * i] = 1;"
    )
    timing = _time(body, tmp_path)
    assert not timing.ok
    assert "memory grew" in timing.why


def _time_only_build(body: str, address: str, folder: Path) -> None:
    source = kernels.entry(
        f"{OPEN} {body}", before=f"{hosting.BEFORE}{WORK}#define CONTROL {address}\n"
    )
    hosting.build(source, _problem(), folder)


def _address(program: Path, name: str) -> str:
    text = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    return "0x" + next(line.split()[0] for line in text.splitlines() if line.endswith(f" {name}"))


def test_a_kernel_that_dies_while_timed(tmp_path: Path) -> None:
    assert not _time("work(x, y); *(volatile int*)8 = 1;", tmp_path).ok


ADD = "for (long i = 0; i < 4096; ++i) y[i] += x[i];"
LAZY = f"""
int far = 0;
for (int k = 0; k < 64; ++k) far += y[k] / x[k] > 20 && y[k] / x[k] < 5000;
if (far < 48) {ADD}
"""


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (ADD, ""),
        ("", "wrong in a timed call"),  # nothing at all
        (LAZY, "of a row that works in place"),  # nothing once values have added up
    ],
)
def test_in_out_tensors_are_timed_in_the_host_and_judged(
    body: str, why: str, tmp_path: Path
) -> None:
    problem = in_out()
    source = kernels.entry(f"{OPEN} {body}", before=hosting.BEFORE)
    kernel, built = hosting.build(source, problem, tmp_path)
    assert can_be_timed(built, kernel, problem, ONE)
    timing = measure(
        kernel, built, problem, run_dir=tmp_path, settings=ONE, budget_s=0.1, slot_s=0.002
    )
    assert timing.ok == (not why)
    assert why in timing.why


def in_out() -> Problem:
    """Y = Y + X, in place."""
    base = _problem()
    params = (replace(base.params[0], privilege="rw"), base.params[1])
    return replace(
        base, params=params, reference=Reference(fn=lambda X, Y: Y + X, kind="elementwise")
    )


def test_a_row_in_place_ends_where_numbers_do(tmp_path: Path) -> None:
    """Squares of squares are soon 0 or infinite: what a kernel makes of these is no finding."""
    problem = replace(in_out(), reference=Reference(fn=lambda X, Y: Y * Y, kind="elementwise"))
    body = "for (long i = 0; i < 4096; ++i) y[i] *= y[i] > 1e30f ? 0 : y[i];"
    kernel, built = hosting.build(
        kernels.entry(f"{OPEN} {body}", before=hosting.BEFORE), problem, tmp_path
    )
    with HostTimed(kernel, built, problem, ONE) as timed:
        timed.slot(20)
        assert timed.wrong() == ""


# ---- pairs


def test_the_interval_decides() -> None:
    even = Pairs(first=(1.0, 1.1, 0.9, 1.0, 1.05) * 4, second=(1.0, 1.0, 1.0, 0.9, 1.1) * 4)
    assert not even.ratio().decided
    assert settled(even)[0] == settled(even)[1]
    faster = Pairs(first=(0.8, 0.81, 0.79, 0.8, 0.82) * 4, second=(1.0, 1.0, 1.0, 0.97, 1.02) * 4)
    assert faster.ratio().decided
    mine, other = settled(faster)
    assert 1.2 < other / mine < 1.3
    assert faster.ratio().reliable


def test_a_disturbed_machine_gives_no_figure() -> None:
    noisy = Pairs(first=(1.0, 20.0, 1.1, 18.0, 1.0), second=(23.0, 1.0, 1.2, 1.0, 25.0))
    ratio = noisy.ratio()
    assert not ratio.reliable
    assert ratio.low < ratio.middle < ratio.high
    assert ratio.middle < 2


def test_costs_are_taken_into_the_ratio() -> None:
    pairs = Pairs(first=(1.0,) * 5, second=(3.0,) * 5)
    assert pairs.ratio().middle == 3.0
    assert pairs.ratio(first_more=1.0).middle == 1.5
    assert pairs.ratio(second_less=1.0).middle == 2.0
    assert calls_per_slot(lambda n: 0.001 * n, 0.01) == 10
    assert calls_per_slot(lambda n: 0.001 * n, 0.01, 4) == 4


# ---- the figure and a user's loop

# what streams from memory depends on what else the machine does: two tests side by side are enough to part bench and loop
FAST = ("gemm",)
IN_PLACE = "y += x"
OPS = (
    *FAST,
    "row_sum",
    "softmax",
    "layernorm",
    "gelu",
    "attention",
    "add",
    "transpose",
    "rmsnorm",
    "gemv",
    IN_PLACE,
)


@pytest.mark.wider
@pytest.mark.parametrize(
    "op", [pytest.param(op, marks=() if op in FAST else pytest.mark.slow) for op in OPS]
)
def test_bench_is_what_a_plain_loop_shows(op: str, tmp_path: Path) -> None:
    """On one thread: `for _ in range(n): kernel(x)` against torch, in turns; within ten percent."""
    import torch

    asked: dict[str, Any] = {"op": op}
    if op == IN_PLACE:
        asked = {"op": None, "logic": tmp_path / "axpy.py", "dims": {"N": 20_000}}
        asked["logic"].write_text(IN_PLACE_LOGIC)
    plan = resolve(GenRequest(backend="cpp", **asked))
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    kernel = plan.backend.emit(lowered.program, leaves)
    problem = problem_of(plan, lowered.program, plan.dims)
    built = get("cpp").build(kernel, tmp_path / "build")
    call = (
        septran.compile(op=op)
        if op != IN_PLACE
        else septran.compile(logic_file=asked["logic"], target="cpp")
    )
    ctypes.CDLL("libgomp.so.1").omp_set_num_threads(1)
    torch.set_num_threads(1)

    def ratio() -> float:
        timing = measure(kernel, built, problem, run_dir=tmp_path, settings=ONE, budget_s=0.4)
        assert timing.ok, timing.why
        return timing.speedup / _plain_loop(call, problem, timing.baseline)

    ratios = steady(ratio, lambda r: 0.9 < r < 1.1)
    assert 0.9 < ratios[-1] < 1.1, ratios


def _plain_loop(call, problem: Problem, baseline: str) -> float:
    """Return torch's time over `call`'s, a kernel of `septran.compile`; outputs allocated, processor time of this thread."""
    import torch

    given = {p.name: torch.randn(p.shape) for p in problem.inputs}
    reference = problem.reference
    words = given | dict(problem.scalars)
    if baseline == "best":
        assert reference.best is not None
        theirs = reference.best(**words)
    elif baseline == "in_place":
        theirs = functools.partial(words["Y"].add_, words["X"])
    else:
        (theirs,) = torch_calls(reference.fn, [words])

    inputs = tuple(given.values())

    def mine() -> None:
        call(*inputs)

    def seconds(action) -> float:
        begun = time.thread_time()
        for _ in range(counts[action]):
            action()
        return (time.thread_time() - begun) / counts[action]

    counts = {mine: 3, theirs: 3}
    for action in counts:
        seconds(action)
        counts[action] = max(3, int(0.005 / max(seconds(action), 1e-7)))
    with torch.no_grad():
        return statistics.median(seconds(theirs) / seconds(mine) for _ in range(31))


def test_slots_are_of_ten_milliseconds_and_on_new_contents(tmp_path: Path) -> None:
    """However small the kernel, and however large what it reads."""
    import inspect

    for measured in (compare_kernels, race, measure, time_kernel):
        assert inspect.signature(measured).parameters["slot_s"].default >= 0.01
    base = _problem()
    large = replace(base.params[1], shape=(3 << 20,))  # 12 MiB
    problem = replace(base, params=(base.params[0], large))
    source = kernels.entry(f"{OPEN} y[0] = x[0];", before=hosting.BEFORE)
    kernel, built = hosting.build(source, problem, tmp_path)
    with HostTimed(kernel, built, problem, ONE) as timed:
        seen = set()
        for _ in range(6):
            timed.slot(2500)
            seen.add(timed._regions.at(timed._shift)["X"][:4].tobytes())
        assert len(seen) > 3
        assert [t.count for t in timed._timed[-3:]] == [834, 833, 833]
        assert _Hosted.most * 1e-7 >= 0.01 and len(timed._timed) == 18


def test_inputs_for_torch_are_valid_windows(tmp_path: Path) -> None:
    problem = _problem()
    source = kernels.entry(f"{OPEN} work(x, y);", before=f"{hosting.BEFORE}{WORK}")
    kernel, built = hosting.build(source, problem, tmp_path)
    with HostTimed(kernel, built, problem, ONE) as timed:
        sets = timed.input_sets
    assert len(sets) > 4
    assert all(s["X"].shape == (N,) for s in sets)
    assert len({float(s["X"][0]) for s in sets}) == len(sets)
    starts = [s["X"].__array_interface__["data"][0] for s in sets]
    assert max(starts) - min(starts) < 1 << 16  # in a cache where a user's one tensor is


def test_inputs_for_torch_lie_in_pages_as_the_kernels_do(tmp_path: Path) -> None:
    """numpy would put a large input into large pages, which torch then reads faster than the kernel its own."""
    problem = _problem()
    source = kernels.entry(f"{OPEN} work(x, y);", before=f"{hosting.BEFORE}{WORK}")
    kernel, built = hosting.build(source, problem, tmp_path)
    with HostTimed(kernel, built, problem, ONE) as timed:
        first = timed.input_sets[0]["X"]
        address = first.__array_interface__["data"][0]
        lines = Path("/proc/self/maps").read_text().splitlines()
    spans = [(line.split()[0].split("-"), line.split()[1]) for line in lines]
    assert [kind for (a, b), kind in spans if int(a, 16) <= address < int(b, 16)] == ["rw-s"]
