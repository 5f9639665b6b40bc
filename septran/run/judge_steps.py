"""The steps of judging somebody's file: building it at a size, running it, and what is said of a file that was not run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from septran.backends.base import UNMODELLED
from septran.kernel import Kernel
from septran.outcome import Level, Status
from septran.toolchain.built import Built
from septran.toolchain.hosted import UNLINKED
from septran.toolchain.machine_asked import kept_between_calls, machine_asked
from septran.toolchain.watched import starts_threads
from septran.trial.place import Place
from septran.verify.problem import Problem
from septran.verify.verdict import Verdict
from septran.verify.verify import Request, verify

BITS = ("V202", "V207", "V208", "V209", "V215")
"""codes of verdicts on what a kernel computes and touches"""
AFTER = "calls after those that were made: {} live from call to call"
_THREADS = re.compile(
    r"\bstd\s*::\s*(?:jthread|thread|async|execution)\b(?!\s*::)|\bpthread_create\b"
)
# a pool of threads that shrank cannot grow again where no thread may be started
_TEAM = re.compile(r"\b(?:num_threads\s*\(\s*\w+|omp_set_num_threads\s*\(\s*\w+|omp\s+parallel)")


def ran(kernel: Kernel, built: Built, problem: Problem, folder: Path, request: Request) -> Verdict:
    """Return the verdict; a file that the static host cannot hold is not run in a process worth attacking instead."""
    what = ""
    if built.foreign and starts_threads(built):
        what = f"it starts threads of its own{_where(kernel.source, _THREADS)}"
    elif built.foreign and (asked := machine_asked(built, kernel.entry)):
        what = f"it asks for {', '.join(asked)}, so it may do something else where the answer is another"
    elif built.refused:
        what = built.refused
    elif UNLINKED in built.not_checked:
        what = "it needs shared libraries"
    if not what:
        verdict = verify(
            kernel, _with_state(built, kernel.entry), problem, run_dir=folder, request=request
        )
        sized = len(set(_TEAM.findall(kernel.source))) > 1
        if not (sized and verdict.code == "V205" and "the operating system" in verdict.message):
            return verdict
        what = "teams of one size (the first that it asks for); it ended where a team was to have more threads"
    return Verdict.of(
        kernel, where=request.where, dims=problem.dims, seed=request.seed
    ).unavailable(
        "V217",
        f"the static host, which judges such files, has not what this one needs: {what}",
        "OpenMP's threads, the C and C++ libraries and memory are there",
    )


def _where(source: str, wanted: re.Pattern[str]) -> str:
    """Return the first place of a word in a text, in words; "" where the text does not have it."""
    plain = re.sub(r"//[^\n]*", "", source)
    found = wanted.search(plain)
    return f", line {plain.count(chr(10), 0, found.start()) + 1} (`{found[0]}`)" if found else ""


def built_and_ran(
    place: Place, kernel: Kernel, problem: Problem, folder: Path, request: Request
) -> Verdict:
    """Return the verdict on a kernel that is built first, in `folder`."""
    (folder / "build").mkdir(parents=True, exist_ok=True)
    built = place.build(kernel, folder / "build")
    return ran(kernel, built, problem, folder, request)


def with_unset(
    verdict: Verdict,
    kernel: Kernel,
    builds: Callable[[Kernel, Path], Iterator[Built]],
    problem: Problem,
    folder: Path,
    request: Request,
) -> Verdict:
    """Return the verdict, or that of a build that is wrong because variables nobody set hold something else in it."""
    for number, built in enumerate(builds(kernel, folder / "unset")):
        if not built.ok:
            continue
        again = ran(kernel, built, problem, folder / f"unset{number}", request)
        # they are slow, and larger on the stack: only what is computed counts, and that it is the same twice and in each order
        if again.code in ("V202", "V208", "V209"):
            return replace(
                again,
                message=f"a variable that nobody set (uninitialised) decides: {again.message}",
            )
    return verdict


def _with_state(built: Built, entry: str) -> Built:
    """Return the build, saying what its calls may tell one from another by."""
    kept = kept_between_calls(built, entry) if built.foreign else ()
    if not kept:
        return built
    return replace(built, not_checked=(*built.not_checked, AFTER.format(", ".join(kept))))


def refused(
    file: Path,
    seed: int | None,
    sha: str,
    backend: str,
    where: Any,
    objections: tuple[tuple[str, str, int], ...],
) -> Verdict:
    """Return the verdict on a file that says what no kernel needs, or else what there is no model of; nothing of it has run."""
    hostile = [one for one in objections if one[0] != UNMODELLED]
    told = [f"{file.name}:{line} {what}" for _, what, line in hostile or objections]
    verdict = Verdict(
        level=Level.REJECTED,
        status=Status.REJECTED,
        where=where,
        kernel=file.stem,
        kernel_sha=sha,
        backend=backend,
        arch="",
        code="V216" if any(kind == "kernel" for kind, _, _ in hostile) else "V210",
        message="; ".join(told[:5]),
        hint="what the entry does not need may stay in the file: it is left out before",
        seed=seed,
        diagnostics=tuple({"kind": k, "message": w, "line": n} for k, w, n in objections),
    )
    if hostile:
        return verdict
    why = f"the judge has no model of what it uses, and did not run it: {verdict.message}"
    return verdict.unavailable("V217", why, verdict.hint)
