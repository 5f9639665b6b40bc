"""Whether the threads of a kernel touch the same memory without an order between them.

The kernel, compiled anew for ThreadSanitizer, is called in bursts with teams of different sizes. ThreadSanitizer asks what
orders two accesses, not whether they met, so a race shows that would go wrong once in a million calls. What the program
says is a claim, as from any child: it can only reject a kernel.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from septran.ir.dtypes import nbytes
from septran.kernel import Kernel
from septran.toolchain.built import Built
from septran.toolchain.watched import has_threads
from septran.verify.cases import draw, plan
from septran.verify.problem import Problem
from septran.verify.sandbox import MIB, STARVED, Confined, Limits, SandboxResult
from septran.verify.verdict import Verdict

Build = Callable[[Kernel, Path], Built]
_BURSTS, _CALLS, _MILLISECONDS, _CASES, _THREADS = 10, 200, 400, 4, 8
_CPU_S = 20
_OPTIONS = "exitcode=66:halt_on_error=1:atexit_sleep_ms=0:report_thread_leaks=0:history_size=2"
_RACE = "WARNING: ThreadSanitizer: data race"
_CHECK = "races of threads"
_BY_RACES = ("V202", "V208")
"""what a race may look like"""


def watch(
    verdict: Verdict, kernel: Kernel, built: Built, problem: Problem, build: Build, folder: Path
) -> Verdict:
    """Return an accurate `verdict`, or V219 where the watched bursts show a race.

    build: what makes the watched program in `folder`. A kernel without threads is not built again. One that is wrong, or never twice the same, is:
    how many results a race spoils, and by how much, is the machine's load.
    """
    asked = verdict.passed or verdict.code in _BY_RACES
    if not asked or not has_threads(built) or _threads(kernel) < 2:
        return verdict
    watched = build(kernel, folder)
    if watched.artifact is None:
        return _unchecked(verdict, _reason(watched.log)) if verdict.passed else verdict
    plan_file = folder / "watched.plan"
    plan_file.write_bytes(
        plan_of(kernel, problem, verdict.seed, bursts=_BURSTS, threads=_threads(kernel))
    )
    result = _run([watched.artifact, plan_file], folder)
    if "unexpected memory mapping" in result.stdout_tail:
        # more random addresses than this ThreadSanitizer knows
        result = _run(["setarch", "-R", watched.artifact, plan_file], folder)
    if _RACE in result.stdout_tail:
        return verdict.rejected(
            "V219",
            f"two threads touch the same memory and nothing orders them: {_where(result.stdout_tail)}"
            + (f"; {verdict.message}" if verdict.message else ""),
            "iterations of a parallel loop may share what they read, not what one of them writes",
            log=result.stdout_tail[-4000:],
        )
    if not verdict.passed:
        return verdict
    done = re.search(r"^watched (\d+) calls$", result.stdout_tail, re.M)
    if result.why in (STARVED, "machine memory"):
        return verdict.without_for_now(f"{_CHECK}: {_why(result)}")
    if result.rc or result.why or done is None:
        return _unchecked(verdict, _why(result))
    fact = f"races of threads: {done[1]} calls under ThreadSanitizer"
    return replace(verdict, enforced=(*verdict.enforced, fact))


def _run(command: list[str | Path], folder: Path) -> SandboxResult:
    limits = Limits(
        timeout_s=6.0 * _CPU_S,
        cpu_s=_CPU_S,
        memory_bytes=8192 * MIB,
        forks=False,
        address_space=False,  # the shadow of all memory
    )
    return Confined(command, rw_dir=folder, limits=limits, env={"TSAN_OPTIONS": _OPTIONS}).wait()


def _threads(kernel: Kernel) -> int:
    """The largest team: as many threads as the kernel was written for."""
    asked = dict(kernel.options).get("threads")
    return asked if isinstance(asked, int) else _THREADS


def plan_of(
    kernel: Kernel, problem: Problem, seed: int | None, *, bursts: int, threads: int
) -> bytes:
    """Return what septran/host/watched.c reads: how often it calls with how many threads, and the inputs of some cases."""
    import numpy as np

    cases = plan(problem, seed)[:_CASES]
    drawn = [draw(problem, case) for case in cases]
    head = [len(problem.params), len(cases), bursts, _CALLS, _MILLISECONDS, threads]
    rows = [[math.prod(p.shape) * nbytes(p.dtype), int(p.name in drawn[0])] for p in problem.params]
    parts = [np.array([*head, *np.ravel(rows)], np.uint64).tobytes()]
    for arrays in drawn:
        parts += [arrays[p.name].tobytes() for p in problem.params if p.name in arrays]
    return b"".join(parts)


def _where(text: str) -> str:
    """Return what the first report says of the two accesses: kind, file and line."""
    report = text[text.index(_RACE) :]
    found = re.findall(
        r"^  (?:Previous )?([Aa]tomic [wr]\w+|[WRwr]\w+) of size \d+.*?\n    #0 (?:.*?) (\S+):(\d+)",
        report,
        re.M,
    )
    told = [f"{kind.lower()} at {Path(file).name}:{line}" for kind, file, line in found[:2]]
    return ", ".join(told) or "see child.log"


def _unchecked(verdict: Verdict, why: str) -> Verdict:
    return verdict.without(f"{_CHECK}: {why}")


def _reason(log: str) -> str:
    missing = re.findall(r"undefined reference to [`'](\w+)'", log)
    if missing:
        return f"{missing[0]} is not watched"
    lines = [line for line in log.splitlines() if "error" in line or "cannot find" in line]
    return (lines or log.strip().splitlines() or ["it could not be built"])[0][:200]


def _why(result: SandboxResult) -> str:
    if result.why in (STARVED, "machine memory"):
        return "this machine had no time or no memory for the watched program"
    if result.why in ("timeout", "cpu"):
        return (
            f"its calls take more than {_CPU_S} s under ThreadSanitizer; smaller dims are watched"
        )
    last = [line for line in result.stdout_tail.splitlines() if line.strip()]
    return f"the watched program ended early: {(last or [f'status {result.rc}'])[-1][:200]}"
