"""From a lowered program and leaves to a built kernel, and from there to a verdict."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from septran.backends.base import Built
from septran.ir.nodes import Program
from septran.kernel import Kernel, LeafSpec, leaf_specs
from septran.outcome import Status
from septran.trial.control import control_trouble
from septran.trial.place import Place
from septran.verify.problem import Problem
from septran.verify.races import watch
from septran.verify.refusal import unavailable
from septran.verify.session import Sessions
from septran.verify.verdict import Verdict, write_evidence
from septran.verify.verify import Request, verify


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
    races: bool = False,
) -> Judged:
    """Build `kernel` in `work`/build, verify it at `place`, leave the evidence in `work`.

    admission: also try trivial answers on the task (docs/verification.md, Admission).
    races: also watch its threads (docs/verification.md, Races of threads): for what somebody else may have written.

    Raises:
        EnvironmentProblem: V110, neither compiler nor emulator for this backend works here. V214, the
            compiler did not even start. V113, `device` is asked for and there is none that fits.
    """
    place.require()
    backend = place.backend
    folder = work / "build"
    folder.mkdir(parents=True, exist_ok=True)
    built = place.build(kernel, folder)
    request = _request(place, seed, admission=admission)
    verdict = verify(kernel, built, problem, run_dir=work, request=request)
    if verdict.status in (Status.COMPILE_ERROR, Status.RUNTIME_ERROR):
        trouble = control_trouble(backend, kernel.arch, request)
        if trouble:
            verdict = unavailable(
                verdict, f"a kernel that is known to be good fails, too: {trouble}"
            )
            write_evidence(verdict, work, files={})
    if races and verdict.passed and backend.watched is not None:
        verdict = watch(verdict, kernel, built, problem, backend.watched, work / "watched")
        write_evidence(verdict, work, files={"child.log": verdict.log})
    return Judged(kernel=kernel, built=built, verdict=verdict, sessions=place.sessions)


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
