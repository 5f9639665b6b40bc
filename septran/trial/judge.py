"""From a lowered program and leaves to a built kernel, and from there to a verdict."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from septran.backends.base import Backend, Built
from septran.ir.nodes import Program
from septran.kernel import Kernel, LeafSpec, leaf_specs
from septran.outcome import Level, Status
from septran.seal import read_sealed, write_sealed
from septran.trial.control import control_trouble
from septran.trial.place import Place
from septran.verify.moved import with_other_surroundings
from septran.verify.noted import with_noted_accesses
from septran.verify.points import points
from septran.verify.problem import Problem
from septran.verify.races import watch
from septran.verify.refusal import unavailable
from septran.verify.session import Sessions
from septran.verify.sought import Search, search_for, with_sought_inputs
from septran.verify.verdict import Verdict, write_evidence
from septran.verify.verify import Request, static_checks, verify


def distinct_specs(program: Program) -> tuple[LeafSpec, ...]:
    """Return the specs of a program's leaves, each once, in order of first use."""
    found: dict[str, LeafSpec] = {}
    for _, spec in leaf_specs(program):
        found.setdefault(spec.key, spec)
    return tuple(found.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A built kernel and its verdict. sessions: how it was run."""

    kernel: Kernel
    built: Built
    verdict: Verdict
    sessions: Sessions = field(default_factory=Sessions)


def judge_kernel(
    place: Place,
    kernel: Kernel,
    problem: Problem,
    *,
    work: Path,
    seed: int | None = None,
    admission: bool = False,
    suspect: bool = False,
) -> Judged:
    """Build `kernel` in `work`/build, verify it at `place`, leave the evidence in `work`.

    admission: also try trivial answers on the task (docs/verification.md, Admission).
    suspect: somebody else may have written some of it: also watch its threads, fill its locals and move its tensors (docs/verification.md).

    Raises:
        EnvironmentProblem: V110, neither compiler nor emulator for this backend works here. V214, the
            compiler did not even start. V113, `device` is asked for and there is none that fits.
    """
    place.require()
    backend = place.backend
    problem = _asked_at_its_numbers(kernel, problem)
    folder = work / "build"
    folder.mkdir(parents=True, exist_ok=True)
    built = place.build(kernel, folder)
    search = search_for(kernel, place.sessions) if suspect and place.where != "device" else None
    request = replace(_request(place, seed, admission=admission), search=search)
    verdict = verify(kernel, built, problem, run_dir=work, request=request)
    if verdict.status in (Status.COMPILE_ERROR, Status.RUNTIME_ERROR):
        trouble = control_trouble(backend, kernel.arch, request)
        if trouble:
            verdict = unavailable(
                verdict, f"a kernel that is known to be good fails, too: {trouble}"
            )
            write_evidence(verdict, work, files={})
    if suspect and verdict.passed:
        verdict = _suspected(backend, verdict, kernel, built, problem, request, work, search)
        write_evidence(verdict, work, files={"child.log": verdict.log})
    return Judged(kernel=kernel, built=built, verdict=verdict, sessions=place.sessions)


def _asked_at_its_numbers(kernel: Kernel, problem: Problem) -> Problem:
    """Return the problem with one more case: values at the numbers that somebody else's leaves hold."""
    told = points("\n".join(leaf.source for leaf in kernel.leaves if leaf.writer != "library"))
    return replace(problem, points=told) if told and not problem.points else problem


def judge_once(
    place: Place, kernel: Kernel, problem: Problem, *, work: Path, seed: int | None = None
) -> Judged:
    """Return `judge_kernel`, or what it found in `work` before where the same binary was built again and had passed.

    What it found is believed only as this home wrote it, for this kernel at these sizes.
    """
    passed = read_sealed(work, _PASSED)
    if passed is not None:
        built = build_only(place, kernel, folder=work / "build")
        try:
            verdict = Verdict.from_json(passed["verdict"])
        except (ValueError, KeyError, TypeError):
            verdict = None
        if verdict and verdict.passed and passed["of"] == _of(kernel, problem, built):
            return Judged(kernel=kernel, built=built, verdict=verdict, sessions=place.sessions)
    (work / _PASSED).unlink(missing_ok=True)
    judged = judge_kernel(place, kernel, problem, work=work, seed=seed)
    if judged.verdict.passed:
        found = {"of": _of(kernel, problem, judged.built), "verdict": judged.verdict.to_json()}
        write_sealed(work, _PASSED, json.dumps(found) + "\n")
    return judged


def _of(kernel: Kernel, problem: Problem, built: Built) -> list[Any]:
    return [kernel.sha, [[n, size] for n, size in sorted(problem.dims.items())], _binary(built)]


def _binary(built: Built) -> str:
    return hashlib.sha256(built.artifact.read_bytes()).hexdigest() if built.artifact else ""


def build_candidate(place: Place, kernel: Kernel, problem: Problem, *, work: Path) -> Judged:
    """Build a kernel that may be run and timed, but counts only once `judge_kernel` has passed it.

    The verdict's code says why it may not even be run.
    """
    built = build_only(place, kernel, folder=work / "build")
    base = Verdict.of(kernel, where=place.where, dims=problem.dims, seed=None)
    verdict = static_checks(base, kernel, built, problem, _request(place, None))
    return Judged(kernel=kernel, built=built, verdict=verdict, sessions=place.sessions)


def _suspected(
    backend: Backend,
    verdict: Verdict,
    kernel: Kernel,
    built: Built,
    problem: Problem,
    request: Request,
    work: Path,
    search: Search | None,
) -> Verdict:
    """Return an accurate verdict on somebody's kernel after the checks that need builds of their own."""
    if backend.filled is not None:
        folder = work / "filled"
        verdict = _with_filled_locals(backend.filled, verdict, kernel, problem, request, folder)
    if backend.watched is not None:
        verdict = watch(verdict, kernel, built, problem, backend.watched, work / "watched")
    if backend.noted is not None and verdict.where == "emulated":
        sessions, folder = request.sessions, work / "noted"
        verdict = with_noted_accesses(verdict, kernel, problem, backend.noted, folder, sessions)
    if verdict.where != "device":
        sessions, folder = request.sessions, work / "sought"
        verdict = with_other_surroundings(verdict, kernel, built, problem, sessions, suspect=True)
        verdict = with_sought_inputs(
            verdict, kernel, built, problem, backend.sought or search, folder, sessions
        )
    return verdict


_PASSED = "passed.json"
_TRAPS = ("SIGILL", "SIGTRAP")
"""how a build ends that checks what C++ leaves open"""


def _with_filled_locals(
    build: Callable[[Kernel, Path], Built],
    verdict: Verdict,
    kernel: Kernel,
    problem: Problem,
    request: Request,
    folder: Path,
) -> Verdict:
    """Return `verdict`, or V223 when the kernel is wrong once variables that nobody set are not zero by luck.

    The kernel that users run is built without the pattern, which costs stores; the other one is judged for this alone.
    """
    built = build(kernel, folder)
    if not built.ok:
        why = f"locals that nobody set: {(built.log.splitlines() or ['no build'])[0][:200]}"
        return verdict.without(why)
    asked = replace(request, seed=verdict.seed, admission=False, gate=False)
    found = verify(kernel, built, problem, run_dir=folder, request=asked)
    if found.passed:
        return replace(verdict, enforced=(*verdict.enforced, "a pattern in locals that nobody set"))
    if found.level is Level.UNAVAILABLE:
        return verdict.without_for_now(f"locals that nobody set: {found.message}")
    if found.code == "V205" and any(name in found.message for name in _TRAPS):
        return found.rejected(
            "V205",
            "an index outside a local array, or a shift by as many bits as its type has or more, whose result C++ leaves open",
            "the build that ends there checks both; keep an index below the array's length and n below 32 in `x << n`",
        )
    return found.rejected(
        "V223",
        f"it reads a variable that nobody set: with a pattern in those, {found.message}",
        "initialise every variable and every element of a local array before it is read",
    )


def judge_at(
    place: Place, judged: Judged, problem: Problem, *, work: Path, seed: int | None = None
) -> Verdict:
    """Return the verdict on a kernel with open dims at the sizes of `problem`; what was built once is run again."""
    work.mkdir(parents=True, exist_ok=True)
    kernel = replace(judged.kernel, params=problem.params)
    return verify(kernel, judged.built, problem, run_dir=work, request=_request(place, seed))


def _request(place: Place, seed: int | None, *, admission: bool = False) -> Request:
    return Request(
        where=place.where,
        language=place.backend.language,
        seed=seed,
        sessions=place.sessions,
        admission=admission,
        figures=place.backend.figures,
    )


def build_only(place: Place, kernel: Kernel, *, folder: Path) -> Built:
    """Build `kernel` in `folder` and run nothing of it.

    Raises:
        EnvironmentProblem: V110, V113, V214 as `judge_kernel`.
    """
    place.require()
    folder.mkdir(parents=True, exist_ok=True)
    return place.build(kernel, folder)
