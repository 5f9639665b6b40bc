"""The straight line: one operator, one target, one verified kernel.

resolve -> bind + lower -> write leaves -> emit -> build -> verify -> time
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from septran.agent.writer import Usage
from septran.backends import get as get_backend
from septran.errors import SeptranError
from septran.gpu import Gpu
from septran.ir.text import print_program
from septran.kernel import Kernel, Leaf, content_hash
from septran.mapping.schema import Policy
from septran.passes.run import PassRun
from septran.plan.fit import Lowered
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, Plan, lower_plan, resolve
from septran.run import store
from septran.run.leaves import ChosenLeaves, choose
from septran.run.prove import prove_and_keep, unproven
from septran.run.roofline import share_of
from septran.settings import Settings
from septran.trial.culprit import find_culprit
from septran.trial.judge import Judged, build_only, judge_kernel
from septran.trial.place import device_for, place_in
from septran.verify.evidence import bad_name
from septran.verify.timing import Timing, time_kernel
from septran.verify.verdict import Status, Verdict

__all__ = ["GenRequest", "GenResult", "gen", "verify_again"]
SCHEMA = "septran.gen/1"
_BLAME = (Status.INCORRECT_NUMERICAL, Status.RUNTIME_ERROR, Status.TIMEOUT)
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GenResult:
    """What a run established; `data` is the septran.gen/1 object."""

    data: Mapping[str, Any]
    exit_code: int

    def to_json(self) -> dict[str, Any]:
        """Return the septran.gen/1 object."""
        return dict(self.data)


@dataclass(slots=True)
class _Clock:
    seconds: dict[str, float] = field(default_factory=dict)

    def lap(self, name: str, start: float) -> None:
        self.seconds[name] = round(time.perf_counter() - start, 3)


def gen(
    request: GenRequest,
    *,
    settings: Settings,
    progress: Progress,
    into: Path | None = None,
    timed: bool = True,
) -> GenResult:
    """Generate, verify and time one kernel; everything is written to a run directory as it happens.

    into: folder of the run directory instead of the stored runs. timed: whether to measure speed.

    Raises:
        InputError: the user's mistake. EnvironmentProblem: V110, L5xx.
    """
    plan = resolve(request)
    clock = _Clock()
    start = time.perf_counter()
    lowered = lower_plan(plan)
    clock.lap("lower", start)
    run = _open(request, plan, settings, into)
    try:
        return _gen(request, plan, lowered, run, settings, progress, clock, timed)
    except KeyboardInterrupt:
        run.finish("interrupted", exit_code=130, summary={})
        raise
    except SeptranError as e:
        run.event("error", codes=list(e.codes), message=str(e))
        run.finish("failed", exit_code=e.exit_code, summary={"codes": list(e.codes)})
        raise


def _open(request: GenRequest, plan: Plan, settings: Settings, into: Path | None) -> store.Run:
    if request.resume is not None:
        return store.find(request.resume, store.root(settings))
    asked = {k: str(v) if isinstance(v, Path) else v for k, v in _plain(request).items()}
    key = content_hash(
        [plan.logic.sha, plan.backend.name, plan.arch, dict(plan.dims), plan.dtype, request.writer]
    )
    return store.create(
        asked,
        label=(plan.operator.name, plan.backend.name),
        settings=settings,
        key=key,
        folder=into,
    )


def _plain(request: GenRequest) -> dict[str, Any]:
    found = {name: getattr(request, name) for name in GenRequest.__slots__}
    found["dims"] = dict(request.dims)
    return found


def _gen(
    request: GenRequest,
    plan: Plan,
    lowered: Lowered,
    run: store.Run,
    settings: Settings,
    progress: Progress,
    clock: _Clock,
    timed: bool,
) -> GenResult:
    _dump(run, lowered.passes)
    data = _head(plan)
    if request.stop_after in ("parse", "bind", "lower"):
        return _stop(run, data, request.stop_after, clock)
    problem = problem_of(plan, lowered.program, plan.dims)
    start = time.perf_counter()
    data |= prove_and_keep(plan, lowered, run)
    clock.lap("prove", start)
    start = time.perf_counter()
    place = place_in(settings, plan.backend, plan.arch, request.where)
    chosen = choose(
        request,
        place,
        lowered.program,
        lowered.bound.mapping,
        problem,
        folder=run.dir,
        settings=settings,
        progress=progress,
    )
    clock.lap("leaves", start)
    finish: list[PassRun] = []
    kernel = plan.backend.emit(lowered.program, chosen.leaves, after=finish.append)
    _dump(run, finish, len(lowered.passes))
    _write_kernel(run, kernel)
    data |= _leaves(chosen) | {"kernel": str(run.dir / kernel.main)}
    if request.stop_after == "emit":
        return _stop(run, data, "emitted", clock)
    if request.stop_after == "compile":
        progress(f"building {kernel.main}")
        built = build_only(place, kernel, folder=run.dir / "build")
        if built.ok:  # else the verdict says what the compiler did not like
            clock.seconds["compile"] = round(built.seconds, 3)
            data |= {"build": dict(built.facts), "not_checked": list(built.not_checked)}
            return _stop(run, data, "compiled", clock)
    progress(f"building and verifying {kernel.main}")
    start = time.perf_counter()
    judged = judge_kernel(
        place, kernel, problem, work=run.dir / "verify", seed=request.seed, admission=True
    )
    total = time.perf_counter() - start
    clock.seconds["compile"] = round(judged.built.seconds, 3)
    clock.seconds["verify"] = round(total - judged.built.seconds, 3)
    run.event("verdict", level=str(judged.verdict.level), status=str(judged.verdict.status))
    if judged.verdict.status in _BLAME:
        progress("finding out what is wrong: logic, leaf or compiler")
        culprit = find_culprit(
            plan,
            lowered,
            chosen.leaves,
            problem,
            judged.verdict,
            place,
            work=run.dir / "culprit",
        )
        data["culprit"] = {"kind": culprit.kind, "name": culprit.name, "why": culprit.why}
    timing = None
    if timed and judged.verdict.passed and judged.verdict.where != "emulated":
        progress("timing against torch")
        start = time.perf_counter()
        timing = time_kernel(
            judged.kernel, judged.built, problem, threads=place.threads, sessions=place.sessions
        )
        clock.lap("time", start)
    seconds = timing.kernel_s if timing is not None and timing.ok else None
    if judged.verdict.passed:
        share = share_of(
            plan, lowered.bound.program, seconds, where=judged.verdict.where, threads=place.threads
        )
        data |= {"limit_share": share.share, "limit": share.to_json()}
    return _finish(run, data, judged, timing, request, clock)


def _dump(run: store.Run, outcomes: Sequence[PassRun], first: int = 0) -> None:
    for number, outcome in enumerate(outcomes, first):
        run.write(f"ir/{number:02d}_{outcome.name}.ir", print_program(outcome.program))


def _head(plan: Plan) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "op": plan.operator.name,
        "backend": plan.backend.name,
        "arch": plan.arch,
        "dims": dict(plan.dims),
        "dtype": plan.dtype,
        "mapping": plan.mapping.file,
        "policy": isinstance(plan.mapping, Policy),
    }


def _stop(run: store.Run, data: dict[str, Any], level: str, clock: _Clock) -> GenResult:
    data |= {"level": level, "where": None, "seconds": clock.seconds, "run": str(run.dir)}
    run.write_json("result.json", data)
    run.finish("finished", exit_code=0, summary={"level": level})
    return GenResult(data=data, exit_code=0)


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


def _leaves(chosen: ChosenLeaves) -> dict[str, Any]:
    models = {w.leaf.spec.key: w.model for w in chosen.written}
    found = []
    for key, leaf in chosen.leaves.items():
        entry = _leaf(leaf)
        if models.get(key):
            entry["model"] = models[key]
        found.append(entry)
    usage: Usage = chosen.usage
    return {
        "leaves": found,
        "model": {
            "calls": usage.calls,
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "cost": usage.cost,
            "estimated": usage.estimated,
        },
    }


def _leaf(leaf: Leaf) -> dict[str, Any]:
    return {
        "task": leaf.spec.task,
        "writer": leaf.writer,
        "name": leaf.name,
        "spec": leaf.spec.key,
        "sha": leaf.sha,
    }


def _finish(
    run: store.Run,
    data: dict[str, Any],
    judged: Judged,
    timing: Timing | None,
    request: GenRequest,
    clock: _Clock,
) -> GenResult:
    verdict = judged.verdict
    data |= verdict_fields(verdict)
    data |= {
        "speedup": {
            "torch_eager": None if timing is None else round(timing.ratio, 3),
            "torch_compile": None,
        },
        "build": dict(judged.built.facts),
        "seconds": clock.seconds,
        "run": str(run.dir),
    }
    if timing is not None:
        data["timing"] = timing.to_json()
    code = exit_code(verdict, request.require)
    data |= _no_device(judged, code)
    if code == 0 and "proved" in request.require and (missing := unproven(data)):
        code = 1 if data["proof"]["refused"] else 3
        data["reason"] = missing
    data["exit_code"] = code
    run.write_json("result.json", data)
    run.finish(
        "finished",
        exit_code=code,
        summary={
            "level": data["level"],
            "where": data["where"],
            "max_error": data["max_error"],
            "torch_eager": data["speedup"]["torch_eager"],
        },
    )
    return GenResult(data=data, exit_code=code)


def verdict_fields(verdict: Verdict) -> dict[str, Any]:
    """Return the part of the septran.gen/1 object that a verdict decides."""
    plain = verdict.to_json()
    found = {
        "level": str(verdict.level),
        "where": verdict.where,
        "status": str(verdict.status),
        "max_error": plain["max_error"],
        "budget_ratio": plain["budget_ratio"],
        "not_checked": list(verdict.not_checked),
        "seed": verdict.seed,
    }
    if verdict.cycles:
        found["cycles"] = dict(verdict.cycles)
    if not verdict.passed:
        found |= {
            "reason": f"[{verdict.code}] {verdict.message}",
            "hint": verdict.hint,
            "worst": plain["worst"],
        }
    return found


def exit_code(verdict: Verdict, require: tuple[str, ...]) -> int:
    """Return 0 verified, 1 not correct, 3 not verifiable here or a requirement that is not met."""
    if verdict.status is Status.UNAVAILABLE:
        return 3
    if not verdict.passed:
        return 1
    if "device" in require and verdict.where == "emulated":
        return 3
    if "compile" in require and _not_compiled(verdict):
        return 3
    return 0


def _no_device(judged: Judged, code: int) -> dict[str, Any]:
    """Return what is missing when a right kernel was only emulated and a device is required."""
    if code != 3 or not judged.verdict.passed or judged.verdict.where != "emulated":
        return {}
    found = device_for(get_backend(judged.kernel.backend), judged.kernel.arch)
    if isinstance(found, Gpu):  # asked to emulate beside a GPU that fits
        return {"reason": f"[V113] a device is required, and {found} was not used"}
    return {
        "reason": f"[V113] a device is required: {found.detail}",
        "hint": found.install,
    }


def _not_compiled(verdict: Verdict) -> bool:
    """Whether the target's compiler did not run (a sandbox part missing around it is another matter)."""
    notes = [item for item in verdict.not_checked if not item.startswith("compile sandbox")]
    return any("compile" in item for item in notes)


def verify_again(
    run: store.Run,
    *,
    settings: Settings,
    require: tuple[str, ...],
    progress: Progress,
    where: str = "auto",
) -> GenResult:
    """Verify a stored run's kernel with new secret inputs; the result goes beside the old one.

    Raises:
        ConfigError: C136, the run holds no kernel.
    """
    request, kernel, data = stored_kernel(run)
    plan = resolve(request)
    lowered = lower_plan(plan)
    problem = problem_of(plan, lowered.program, plan.dims)
    progress(f"verifying {kernel.main} of {run.id}")
    number = len([p for p in run.dir.glob("verify*") if p.is_dir()])
    start = time.perf_counter()
    judged = judge_kernel(
        place_in(settings, plan.backend, kernel.arch, where),
        kernel,
        problem,
        work=run.dir / f"verify{number + 1}",
        seed=settings.seed,
    )
    data.pop("cycles", None)
    data |= verdict_fields(judged.verdict)
    for key in ("reason", "hint", "worst"):
        if judged.verdict.passed:
            data.pop(key, None)
    data["seconds"] = {
        "compile": round(judged.built.seconds, 3),
        "verify": round(time.perf_counter() - start - judged.built.seconds, 3),
    }
    code = exit_code(judged.verdict, require)
    data["exit_code"] = code
    data |= _no_device(judged, code)
    run.event("verified again", level=data["level"], exit_code=code)
    return GenResult(data=data, exit_code=code)


def _plain_text(path: Path) -> str:
    if path.is_symlink():
        raise ValueError(f"{path.name} is a link")
    return path.read_text(encoding="utf-8")


def stored_kernel(run: store.Run) -> tuple[GenRequest, Kernel, dict[str, Any]]:
    """Return a finished run's request, kernel and result.

    Raises:
        ConfigError: C136, the run holds no kernel.
    """
    from septran.errors import ConfigError

    try:
        about = json.loads((run.dir / "kernel.json").read_text(encoding="utf-8"))
        data = json.loads((run.dir / "result.json").read_text(encoding="utf-8"))
        wrong = bad_name(about["files"], about["main"], about["entry"])
        if wrong:
            raise ValueError(wrong)
        files = tuple((name, _plain_text(run.dir / name)) for name in about["files"])
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise ConfigError.of(
            "C136",
            f"run {run.id} holds no finished kernel: {e}",
            help="`septran runs` lists the runs",
        ) from e
    asked = dict(run.info().get("request", {}))
    for name in ("task_file", "logic", "mapping", "config"):
        if asked.get(name):
            asked[name] = Path(asked[name])
    asked["require"] = tuple(asked.get("require") or ())
    known = set(GenRequest.__slots__)
    request = GenRequest(**{k: v for k, v in asked.items() if k in known})
    from septran.plan.problem import problem_of as _problem_of

    plan = resolve(request)
    params = _problem_of(plan, lower_plan(plan).program, plan.dims).params
    kernel = Kernel(
        name=about["name"],
        backend=about["backend"],
        arch=about["arch"],
        entry=about["entry"],
        params=params,
        main=about["main"],
        files=files,
        leaves=(),
    )
    return request, kernel, data
