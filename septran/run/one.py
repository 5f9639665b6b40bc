"""The straight line: one operator, one target, one verified kernel.

resolve -> bind + lower -> write leaves -> emit -> build -> verify -> time
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from septran.atomic import write_atomic
from septran.errors import EnvironmentProblem, exit_code_of
from septran.ir.text import print_program
from septran.kernel import Kernel, Leaf, content_hash
from septran.mapping.schema import Policy
from septran.outcome import Status
from septran.passes.run import PassRun
from septran.plan.dynamic import judged_sizes, named_sizes
from septran.plan.fit import Lowered
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, Plan, lower_plan
from septran.plan.workspace import Workspace, workspace_of
from septran.prove import Certificate
from septran.run import store
from septran.run.leaves import ChosenLeaves, choose
from septran.run.prove import prove_and_keep, prove_rows, unproven
from septran.run.require import with_exit_code
from septran.run.result import Result
from septran.run.roofline import share_of
from septran.seal import seal_file
from septran.settings import Settings
from septran.toolchain.built import Built
from septran.trial.culprit import find_culprit
from septran.trial.judge import Judged, build_only, judge_at, judge_kernel
from septran.trial.place import Place, place_in
from septran.trial.row_bits import DIFFER, compare_rows
from septran.verify.problem import Problem
from septran.verify.timing import Timing, time_kernel
from septran.verify.verdict import Verdict, write_evidence

_MOST_NATIVE, _MOST_EMULATED = 1 << 18, 1 << 12
"""elements of an open dim at which a build is judged because a leaf names them"""
_BLAME = (Status.INCORRECT_NUMERICAL, Status.RUNTIME_ERROR, Status.TIMEOUT)
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """One kernel on its way. seconds: step -> seconds, filled as they end. judged: the kernel once it is judged."""

    request: GenRequest
    plan: Plan
    lowered: Lowered
    run: store.Run
    settings: Settings
    progress: Progress
    timed: bool
    seconds: dict[str, float]
    rows: Certificate | None
    judged: list[Judged] = field(default_factory=list)

    def lap(self, name: str, start: float) -> None:
        self.seconds[name] = round(time.perf_counter() - start, 3)


def line(
    request: GenRequest,
    plan: Plan,
    *,
    settings: Settings,
    progress: Progress,
    into: Path | None,
    timed: bool,
) -> tuple[Result, Judged | None]:
    """Return what is known of the kernel of a plan, and the built kernel where it got that far; raises as `run.gen.gen`."""
    start = time.perf_counter()
    lowered = lower_plan(plan)
    rows = prove_rows(plan, lowered).certificate if _invariant(plan) else None
    seconds = {"lower": round(time.perf_counter() - start, 3)}
    run = open_run(request, plan, settings, into)
    job = _Job(
        request=request,
        plan=plan,
        lowered=lowered,
        run=run,
        settings=settings,
        progress=progress,
        timed=timed,
        seconds=seconds,
        rows=rows,
    )
    with recorded(run, progress), run.held():
        result = _gen(job)
    return result, job.judged[-1] if job.judged else None


@contextmanager
def recorded(run: store.Run, progress: Progress) -> Iterator[None]:
    """Write into the run's record how it ended when it did not finish."""
    try:
        yield
    except KeyboardInterrupt as e:
        run.finish("interrupted", exit_code=exit_code_of(e), summary={})
        progress(f"to go on: septran gen --resume {store.reference(run)}")
        raise
    except Exception as e:
        run.fail(e)
        raise


def open_run(request: GenRequest, plan: Plan, settings: Settings, into: Path | None) -> store.Run:
    """Return the run directory of a request: that which it resumes, or a new one."""
    if request.resume is not None:
        run = store.find(request.resume, store.root(settings))
        with run.held():
            run.update(status="running", pid=os.getpid())
        return run
    asked = _plain(request)
    key = content_hash(
        [
            plan.logic.sha,
            plan.backend.name,
            plan.arch,
            dict(plan.dims),
            plan.dtype,
            request.writer,
            *plan.dynamic,
        ]
    )
    return store.create(
        asked,
        label=(plan.operator.name, plan.backend.name),
        settings=settings,
        key=key,
        folder=into,
    )


def _plain(request: GenRequest) -> dict[str, Any]:
    """Return the request as JSON has it; files by their whole path, because a run is resumed from anywhere."""
    found = {name: getattr(request, name) for name in GenRequest.__slots__}
    found["dims"] = dict(request.dims)
    return {k: str(v.absolute()) if isinstance(v, Path) else v for k, v in found.items()}


def _gen(job: _Job) -> Result:
    request, plan, lowered, run = job.request, job.plan, job.lowered, job.run
    _dump(run, lowered.passes)
    result = Result.of_plan(plan)
    if lowered.tuned is not None:
        job.progress(f"tuned: {lowered.tuned.text()}")
        file = {"file": lowered.tuned.file, "text": lowered.tuned.text()}
        result = replace(result, tuned={**lowered.tuned.to_json(), **file})
    if request.stop_after in ("parse", "bind", "lower"):
        return _stop(job, result, request.stop_after)
    place = place_in(job.settings, plan.backend, plan.arch, request.where)
    problem = problem_of(plan, lowered.program, plan.dims)
    if problem.declared:
        result = replace(result, declared=problem.declared)
    chosen, kernel, room = _written(job, place, problem)
    start = time.perf_counter()
    result = replace(result, **prove_and_keep(plan, lowered, kernel, run))
    job.lap("prove", start)
    result = replace(
        result.with_leaves(chosen.leaves, chosen.written, chosen.usage).with_workspace(room),
        kernel=str(run.dir / kernel.main),
    )
    if request.stop_after == "emit":
        return _stop(job, result, "emitted")
    if request.stop_after == "compile":
        job.progress(f"building {kernel.main}")
        built = build_only(place, kernel, folder=run.dir / "build")
        if built.ok:  # else the verdict says what the compiler did not like
            job.seconds["compile"] = round(built.seconds, 3)
            return _stop(job, result.with_build(built), "compiled")
    if place.trouble is not None:
        return _finish(job, _unjudged(job, place.trouble, place, kernel, result))
    judged = _judged(job, place, kernel, problem)
    if judged.verdict.status in _BLAME and not plan.dynamic:
        job.progress("finding out what is wrong: logic, leaf or compiler")
        folder, verdict = run.dir / "culprit", judged.verdict
        found = find_culprit(plan, lowered, chosen.leaves, problem, verdict, place, work=folder)
        result = result.with_culprit(found)
    timing = _timed(job, place, judged, problem)
    judged, result = _at_other_sizes(job, place, judged, result, chosen.leaves)
    if judged.verdict.passed:
        seconds = None if timing is None else timing.kernel_s
        where, program = judged.verdict.where, lowered.bound.program
        threads = place.threads if timing is None else timing.threads
        result = result.with_share(share_of(plan, program, seconds, where=where, threads=threads))
    result = replace(
        result.with_verdict(judged.verdict).with_timing(timing), build=dict(judged.built.facts)
    )
    result = _required(result, judged, request.require)
    if job.rows is not None and judged.verdict.passed:
        result = _row_bits(job, place, chosen, result, job.rows)
    return _finish(job, result)


def _at_other_sizes(
    job: _Job, place: Place, judged: Judged, result: Result, leaves: Mapping[str, Leaf]
) -> tuple[Judged, Result]:
    """Return a kernel with open dims judged at edges and primes, too, and at what its leaves name: as wrong as at the first size where it is."""
    plan, program = job.plan, job.lowered.program
    if not program.dims or not judged.verdict.passed:
        return judged, result
    start, sizes = time.perf_counter(), []
    foreign = [leaf.source for leaf in leaves.values() if leaf.writer != "library"]
    native = judged.verdict.where == "native"
    named, left = named_sizes(program, foreign, _MOST_NATIVE if native else _MOST_EMULATED)
    asked = [{**plan.dims, **one} for one in named]
    usual = judged_sizes(plan, program)
    for dims in (*usual, *(one for one in asked if one not in usual and one != dict(plan.dims))):
        shown = " ".join(f"{d.name}={dims[d.name]}" for d in program.dims)
        job.progress(f"verifying the same build at {shown}")
        folder = job.run.dir / "sizes" / shown.replace(" ", "_")
        problem = problem_of(plan, program, dims)
        verdict = judge_at(place, judged, problem, work=folder, seed=job.request.seed)
        sizes.append(
            {
                "dims": shown,
                "status": str(verdict.status),
                "ratio": verdict.to_json()["budget_ratio"],
            }
        )
        if not verdict.passed:
            judged = replace(
                judged, verdict=replace(verdict, message=f"{verdict.message} (at {shown})")
            )
            break
    job.lap("sizes", start)
    if left and judged.verdict.passed:
        told = f"sizes that a leaf names and that were not tried: {', '.join(map(str, left))}"
        judged = replace(judged, verdict=judged.verdict.without(told))
    domain = {d.name: [d.low, d.high] for d in program.dims}
    return judged, replace(result, dynamic={"domain": domain, "sizes": sizes})


def _row_bits(
    job: _Job, place: Place, chosen: ChosenLeaves, result: Result, certificate: Certificate
) -> Result:
    """Return the result with the certificate of all rows, and whether their bits are the same when run.

    A row that differs is a failure (V218); where nothing can be compared it says so.
    """
    job.progress("comparing the bits of rows")
    start = time.perf_counter()
    job.run.write("rows.json", json.dumps(certificate.to_json(), indent=1) + "\n")
    found = compare_rows(place, job.plan, chosen.leaves, work=job.run.dir / "rows")
    job.lap("rows", start)
    result = replace(result, rows={"proved": list(certificate.proved), **found.to_json()})
    if result.code or not (found.differ or found.why):
        return result
    if found.why:
        return replace(
            result, exit_code=3, reason=f"[{DIFFER}] rows could not be compared: {found.why}"
        )
    few = ", ".join(map(str, found.differ))
    why = f"[{DIFFER}] a row has other bits among {few} rows than among {found.compared[0]}"
    return replace(result, exit_code=1, reason=why)


def _invariant(plan: Plan) -> bool:
    return isinstance(plan.mapping, Policy) and bool(plan.mapping.deterministic)


def _written(job: _Job, place: Place, problem: Problem) -> tuple[ChosenLeaves, Kernel, Workspace]:
    """Return the leaves that the request's writer delivers, the kernel that is printed with them, and its workspaces."""
    start = time.perf_counter()
    program = job.lowered.program
    chosen = choose(
        job.request,
        place,
        program,
        job.lowered.bound.mapping,
        problem,
        folder=job.run.dir,
        settings=job.settings,
        progress=job.progress,
    )
    job.lap("leaves", start)
    finish: list[PassRun] = []
    kernel = place.backend.emit(program, chosen.leaves, after=finish.append)
    _dump(job.run, finish, len(job.lowered.passes))
    _write_kernel(job.run, kernel)
    return chosen, kernel, workspace_of(finish[-1].program if finish else program, job.plan.dims)


def _judged(job: _Job, place: Place, kernel: Kernel, problem: Problem) -> Judged:
    job.progress(f"building and verifying {kernel.main}")
    start = time.perf_counter()
    work, seed = job.run.dir / "verify", job.request.seed
    suspect = any(leaf.writer != "library" for leaf in kernel.leaves)
    judged = judge_kernel(
        place, kernel, problem, work=work, seed=seed, admission=True, suspect=suspect
    )
    total = time.perf_counter() - start
    job.seconds["compile"] = round(judged.built.seconds, 3)
    job.seconds["verify"] = round(total - judged.built.seconds, 3)
    verdict = judged.verdict
    job.judged.append(judged)
    seal_file(job.run.dir, "verify/verdict.json")
    job.run.event("verdict", level=str(verdict.level), status=str(verdict.status))
    return judged


def _unjudged(
    job: _Job, trouble: EnvironmentProblem, place: Place, kernel: Kernel, result: Result
) -> Result:
    """Return the result of a kernel that cannot be run here: it is printed and proven, and what brings the rest is said."""
    (why,) = trouble.diagnostics
    base = Verdict.of(kernel, where=place.where, dims=job.plan.dims, seed=job.request.seed)
    verdict = base.unavailable(why.code, why.message, why.help)
    write_evidence(verdict, job.run.dir / "verify", files={})
    seal_file(job.run.dir, "verify/verdict.json")
    job.run.event("verdict", level=str(verdict.level), status=str(verdict.status))
    judged = Judged(kernel=kernel, built=Built(ok=False, artifact=None), verdict=verdict)
    job.judged.append(judged)
    found = replace(result.with_verdict(verdict).with_timing(None), where=None, build={})
    return with_exit_code(found, judged, ())


def _timed(job: _Job, place: Place, judged: Judged, problem: Problem) -> Timing | None:
    verdict = judged.verdict
    if not job.timed or not verdict.passed or verdict.where == "emulated":
        return None
    job.progress("timing against torch")
    start = time.perf_counter()
    timing = time_kernel(
        judged.kernel, judged.built, problem, threads=place.threads, sessions=place.sessions
    )
    job.lap("time", start)
    return timing


def _required(result: Result, judged: Judged, require: tuple[str, ...]) -> Result:
    result = with_exit_code(result, judged, require)
    if result.code or "proved" not in require:
        return result
    data = result.to_json()
    missing = unproven(data)
    if not missing:
        return result
    return replace(result, exit_code=1 if data["proof"]["refused"] else 3, reason=missing)


def _stop(job: _Job, result: Result, level: str) -> Result:
    result = replace(
        result, level=level, where=None, seconds=dict(job.seconds), run=str(job.run.dir)
    )
    job.run.write_sealed("result.json", result.to_json())
    job.run.finish("finished", exit_code=0, summary={"level": level})
    _copy_kernel(job, result)
    return result


def _finish(job: _Job, result: Result) -> Result:
    result = replace(result, seconds=dict(job.seconds), run=str(job.run.dir))
    data = result.to_json()
    job.run.write_sealed("result.json", data)
    job.run.finish(
        "finished",
        exit_code=result.code,
        summary={
            "level": data["level"],
            "where": data["where"],
            "max_error": data["max_error"],
            "torch_eager": data["speedup"]["torch_eager"],
        },
    )
    _copy_kernel(job, result)
    return result


def _copy_kernel(job: _Job, result: Result) -> None:
    output = job.request.output
    if output is not None and isinstance(result.kernel, str):
        write_atomic(output, Path(result.kernel).read_bytes())
        job.progress(f"kernel copied to {output}")


def _dump(run: store.Run, outcomes: Sequence[PassRun], first: int = 0) -> None:
    for number, outcome in enumerate(outcomes, first):
        run.write(f"ir/{number:02d}_{outcome.name}.ir", print_program(outcome.program))


def _write_kernel(run: store.Run, kernel: Kernel) -> None:
    for name, text in kernel.files:
        run.write(name, text)
    run.write_json(
        "kernel.json",
        {
            "name": kernel.name,
            "backend": kernel.backend,
            "arch": kernel.arch,
            "entry": kernel.entry,
            "main": kernel.main,
            "files": [name for name, _ in kernel.files],
            "sha": kernel.sha,
        },
    )
