"""Run a batch: expand the file, reuse what is known, run the rest in workers, count.

    <run>/batch.json        the plan: file, cells with their keys; written once
    <run>/cells/KEY.json    a cell's septran.gen/1 object; a cell counts when this file is there
    <run>/runs/...          the cells' run directories
    <run>/texts/KEY.json    of what ran, for cells with the same text (batch/same_text.py)
    <home>/cells/KEY.json   results with a verdict, for reuse by later batches

Nothing is kept anywhere else, so that a batch can be killed at any moment and resumed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from septran.batch.cells import Cell, expand, planned_cell
from septran.batch.choose import Choose, selector
from septran.batch.file import load_batch
from septran.batch.order import spread
from septran.batch.plan import Plan, job_of, read_plan, write_plan
from septran.batch.pool import Outcome, run_jobs, slots
from septran.batch.score import Score, scores
from septran.document import read_object
from septran.errors import ConfigError, NothingSelected, exit_code_of
from septran.run import store
from septran.run.result import Result
from septran.seal import is_sealed, read_sealed, write_sealed
from septran.settings import Settings

SCHEMA = "septran.batch/1"
Outcomes = Generator[Outcome, None, None]
Sort = Literal["accurate", "rejected", "unavailable", "failed"]
_ENDED = {
    "timeout": ("V121", "the cell's time is over"),
    "died": ("V122", "two workers died on this cell; see workers.log"),
}
_BAD = ("rejected", "failed")
SORTS: tuple[Sort, ...] = ("accurate", "rejected", "unavailable", "failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRequest:
    """What the user asked for. file or resume (a run) is given. timeout_s: seconds for all of it.

    With resume, what is not given is as it was when the run began.
    """

    file: Path | None = None
    resume: str | None = None
    last_failed: bool = False
    select: str | None = None
    fresh: bool = False
    workers: int | None = None
    executor: str | None = None
    require: tuple[str, ...] = ()
    junit: Path | None = None
    timeout_s: float | None = None


@dataclass(slots=True, kw_only=True)
class BatchResult:
    """What came out.

    not_run: cells that the batch's minutes or --timeout did not reach; no_model: cells whose
    model could not be used.
    """

    run: Path
    counts: dict[Sort, int] = field(default_factory=lambda: dict.fromkeys(SORTS, 0))
    reused: int = 0
    not_run: int = 0
    no_model: int = 0
    seconds: float = 0.0
    exit_code: int = 0
    scores: tuple[Score, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the septran.batch/1 object."""
        return {
            "schema": SCHEMA,
            "cells": sum(self.counts.values()),
            **{str(sort): n for sort, n in self.counts.items()},
            "reused": self.reused,
            "not_run": self.not_run,
            "no_model": self.no_model,
            "seconds": round(self.seconds, 1),
            "exit_code": self.exit_code,
            "run": str(self.run),
            **({"tasks": {s.backend: s.to_json() for s in self.scores}} if self.scores else {}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Who is told: the plan, cells that start, results (with whether they were reused), remarks."""

    planned: Callable[[Plan], None]
    started: Callable[[Cell], None]
    ended: Callable[[Mapping[str, Any], bool], None]
    note: Callable[[str], None]


def run_batch(request: BatchRequest, *, settings: Settings, watch: Watch) -> BatchResult:
    """Run every cell that has no result yet and return the counts.

    Raises:
        ConfigError: C06x, the file or the run to resume; C067, another process runs it. NothingSelected: C066,
            no cell is left. EnvironmentProblem: V120, the
            executor's library is missing. KeyboardInterrupt: after saying how to go on.
    """
    if request.executor is not None:
        _executor(request.executor)  # before there is a run
    until = None if request.timeout_s is None else time.monotonic() + request.timeout_s
    plan = replace(_plan(request, settings), until=until)
    with plan.run.held():
        return _run(request, plan, settings=settings, watch=watch)


def _run(
    request: BatchRequest,
    plan: Plan,
    *,
    settings: Settings,
    watch: Watch,
) -> BatchResult:
    execute = _executor(plan.executor)
    plan.run.update(status="running", pid=os.getpid())
    if request.resume is not None and request.last_failed:
        _forget_failed(plan)
    watch.planned(plan)
    result = BatchResult(run=plan.run.dir)
    begun = time.monotonic()
    known = settings.home / "cells"
    repeat = plan.fresh or request.last_failed
    try:
        todo = []
        for cell in plan.cells:
            found = _finished(plan.run, cell) or (None if repeat else _reuse(plan.run, cell, known))
            if found is None:
                todo.append(cell)
            else:
                result.reused += 1
                _count(result, found)
                watch.ended(found, True)
        if result.reused:
            watch.note(f"{result.reused} of {len(plan.cells)} cells reused")
        with closing(execute(plan, todo, watch.started)) as outcomes:
            for outcome in outcomes:
                data = _settle(plan.run, outcome)
                if data is None:
                    result.not_run += 1
                    continue
                _remember(known, data)
                _count(result, data)
                watch.ended(data, False)
    except KeyboardInterrupt as e:
        plan.run.finish("interrupted", exit_code=exit_code_of(e), summary=result.to_json())
        watch.note(f"to go on: septran batch --resume {store.reference(plan.run)}")
        raise
    except Exception as e:
        plan.run.fail(e, **result.to_json())
        watch.note(f"to go on: septran batch --resume {store.reference(plan.run)}")
        raise
    result.seconds = time.monotonic() - begun
    result.exit_code = exit_code(result, plan.require)
    result.scores = scored(plan.run)
    if result.not_run:
        again = store.reference(plan.run)
        watch.note(f"{result.not_run} cells not run: septran batch --resume {again}")
    if result.no_model:
        watch.note(
            f"{result.no_model} cells asked for a model that cannot be used; "
            "`on_unreachable: library` goes on without it"
        )
    plan.run.finish("finished", exit_code=result.exit_code, summary=result.to_json())
    return result


def scored(run: store.Run) -> tuple[Score, ...]:
    """Return how the task files of a batch came out on each target."""
    found = results(run)
    good = frozenset(str(d["cell"]) for d in found if sort_of(d) == "accurate")
    return scores(planned_requests(run), found, good)


def sort_of(data: Mapping[str, Any]) -> Sort:
    """Return under which word a cell is counted."""
    code = data.get("exit_code")
    if code == 3 or data.get("level") == "unavailable":
        return "unavailable"
    if code == 0 and data.get("level") in ("accurate", "attested"):
        return "accurate"
    return "rejected" if code == 1 and data.get("level") != "failed" else "failed"


def without_model(data: Mapping[str, Any]) -> bool:
    """Return whether a cell has no kernel because the model that it asked for cannot be used."""
    codes = (str(e.get("code")) for e in data.get("errors") or ())
    return sort_of(data) == "unavailable" and any(code.startswith("L5") for code in codes)


def exit_code(result: BatchResult, require: Sequence[str]) -> int:
    """Return 0 all accurate, 1 something is not correct, 3 only the environment is in the way."""
    counts = result.counts
    if counts["rejected"] or counts["failed"]:
        return 1
    short = counts["unavailable"] and (require or not counts["accurate"])
    return 3 if short or result.not_run or result.no_model else 0


def listed(
    file: Path | None, resume: str | None, select: str | None, settings: Settings
) -> tuple[str, ...]:
    """Return the ids of the cells that a call would look at; raises as `run_batch`."""
    choose = selector(select) if select else None
    if resume is not None:
        cells = _resumed(BatchRequest(resume=resume), settings).cells
    else:
        assert file is not None
        cells = expand(load_batch(file), settings)
    return tuple(c.id for c in _chosen(cells, choose, BatchRequest(select=select)))


def results(run: store.Run) -> list[dict[str, Any]]:
    """Return the finished cells of a batch run, in the plan's order."""
    return [data for _, data in planned(run) if data is not None]


def planned(run: store.Run) -> list[tuple[str, dict[str, Any] | None]]:
    """Return the id of each planned cell of a batch run, with its result when it has one.

    A result that is not as this home wrote it has `edited`.
    """
    return [(cell.id, _told(run, f"cells/{cell.key}.json")) for cell in _cells(run)]


def _told(run: store.Run, name: str) -> dict[str, Any] | None:
    found = read_object(run.dir / name)
    if found is not None and not is_sealed(run.dir, name):
        found["edited"] = True
    return found


def planned_requests(run: store.Run) -> dict[str, dict[str, Any]]:
    """Return the request of each planned cell of a batch run, by the cell's id."""
    return {cell.id: dict(cell.request) for cell in _cells(run)}


def _cells(run: store.Run) -> tuple[Cell, ...]:
    found = read_object(run.dir / "batch.json")
    try:
        return tuple(planned_cell(cell) for cell in found["cells"]) if found else ()
    except (KeyError, TypeError) as e:
        raise ConfigError.of(
            "C136",
            f"run {run.id} is damaged: batch.json: {e}",
            help="begin another with `septran batch FILE`",
        ) from e


def _plan(request: BatchRequest, settings: Settings) -> Plan:
    choose = selector(request.select) if request.select else None
    if request.resume is not None:
        plan = _resumed(request, settings)
    else:
        assert request.file is not None
        batch = load_batch(request.file)
        batch = replace(batch, require=request.require or batch.require)
        cells = expand(batch, settings)
        cells = spread(cells) if batch.order == "spread" else cells
        if request.last_failed:
            cells = _failed_last_time(batch.path, cells, settings)
        cells = _chosen(cells, choose, request)
        plan = Plan(
            run=_open(batch.path, batch.name, cells, request, settings),
            cells=cells,
            budget=batch.budget,
            workers=request.workers or batch.workers,
            time=batch.time,
            require=batch.require,
            fresh=request.fresh,
            executor=request.executor or "local",
            junit=None if request.junit is None else request.junit.absolute(),
        )
        write_plan(plan, batch.path)
        return plan
    return replace(plan, cells=_chosen(plan.cells, choose, request))


def _chosen(
    cells: tuple[Cell, ...], choose: Choose | None, request: BatchRequest
) -> tuple[Cell, ...]:
    """Return the cells that -k chooses; raises NothingSelected C066 when none is left."""
    found = tuple(cell for cell in cells if choose is None or choose(cell.id))
    if not found:
        why = f"-k {request.select!r} selects none of {len(cells)} cells" if cells else ""
        raise NothingSelected.of(
            "C066",
            why or "nothing failed last time",
            help="`septran batch FILE --list` shows the cells",
        )
    return found


def _open(
    path: Path, name: str, cells: Sequence[Cell], request: BatchRequest, settings: Settings
) -> store.Run:
    asked = {"batch": str(path), "select": request.select, "cells": len(cells)}
    return store.create(asked, label=("batch", name), settings=settings)


def batch_run(reference: str, settings: Settings) -> store.Run:
    """Return the batch run with that id, part of it, path or "latest", which is the newest batch.

    Raises:
        ConfigError: C064, there is none; C030, C031 as `store.find`.
    """
    folder = store.root(settings)
    run = _newest(folder, "batch.json") if reference == "latest" else store.find(reference, folder)
    if run is None or not (run.dir / "batch.json").is_file():
        raise ConfigError.of(
            "C064",
            f"{reference!r} is not a batch run that was planned",
            help="`septran runs ls` lists the runs",
        )
    return run


def _resumed(request: BatchRequest, settings: Settings) -> Plan:
    """Return the plan that the run was started with, with what the call says anew."""
    assert request.resume is not None
    run = batch_run(request.resume, settings)
    plan = read_plan(run)
    store.require_sealed(run, "batch.json")
    if request.require and request.require != plan.require:
        raise ConfigError.of(
            "C064",
            f"batch run {plan.run.id} began with --require {' '.join(plan.require) or 'nothing'}",
            help="its cells were asked for with that; begin another with `septran batch FILE`",
        )
    return replace(
        plan,
        workers=request.workers or plan.workers,
        fresh=request.fresh or plan.fresh,
        executor=request.executor or plan.executor,
        junit=plan.junit if request.junit is None else request.junit.absolute(),
    )


def _forget_failed(plan: Plan) -> None:
    for cell in plan.cells:
        found = _finished(plan.run, cell)
        if found is not None and sort_of(found) in _BAD:
            (plan.run.dir / "cells" / f"{cell.key}.json").unlink()


def _failed_last_time(path: Path, cells: Sequence[Cell], settings: Settings) -> tuple[Cell, ...]:
    """Return the cells that were rejected or failed when this file was run last."""
    for run in store.listing(store.root(settings)):
        data = read_object(run.dir / "batch.json")
        if data is not None and data["file"] == str(path):
            found = results(run)
            bad = {d["cell"] for d in found if d.get("edited") or sort_of(d) in _BAD}
            return tuple(cell for cell in cells if cell.id in bad)
    raise ConfigError.of("C064", f"{path.name} was not run before, so nothing failed last time")


def _newest(folder: Path, name: str) -> store.Run | None:
    return next((run for run in store.listing(folder) if (run.dir / name).is_file()), None)


def _executor(name: str) -> Callable[..., Outcomes]:
    if name == "ray":
        from septran.batch.ray import require_ray, run_on_ray

        require_ray()
        return run_on_ray
    return _local


def _local(plan: Plan, todo: Sequence[Cell], started: Callable[[Cell], None]) -> Outcomes:
    minutes = plan.budget.minutes
    return run_jobs(
        [job_of(plan, cell) for cell in todo],
        workers=slots(plan.workers, len(todo)),
        log=plan.run.dir / "workers.log",
        cell_s=60 * plan.budget.cell_minutes,
        deadline=None if minutes is None else time.monotonic() + 60 * minutes,
        until=plan.until,
        started=started,
    )


def _settle(run: store.Run, outcome: Outcome) -> dict[str, Any] | None:
    """Return the cell's result, made here when the worker could not; None when it was not run."""
    cell = outcome.job.cell
    if outcome.how == "stopped":
        return None
    found = _finished(run, cell)
    if found is not None:
        return found
    code, why = _ENDED[outcome.how]
    found_out = replace(
        Result.of_cell(cell.to_json()), level="failed", exit_code=4, reason=f"[{code}] {why}"
    )
    data = found_out.to_json()
    write_sealed(run.dir, f"cells/{cell.key}.json", json.dumps(data) + "\n")
    return data


def _finished(run: store.Run, cell: Cell) -> dict[str, Any] | None:
    """Return a cell's result that this home wrote; one that somebody edited is none, and the cell runs again."""
    return read_sealed(run.dir, f"cells/{cell.key}.json")


def _reuse(run: store.Run, cell: Cell, known: Path) -> dict[str, Any] | None:
    """Return an earlier result with the same content key, copied into this run."""
    found = read_sealed(known, f"{cell.key}.json")
    if found is None or not Path(found.get("run", "")).is_dir():
        return None
    found["reused"] = True
    write_sealed(run.dir, f"cells/{cell.key}.json", json.dumps(found) + "\n")
    return found


def _remember(known: Path, data: Mapping[str, Any]) -> None:
    if data.get("run") and sort_of(data) in ("accurate", "rejected"):
        write_sealed(known, f"{data['key']}.json", json.dumps(data) + "\n")


def _count(result: BatchResult, data: Mapping[str, Any]) -> None:
    result.counts[sort_of(data)] += 1
    result.no_model += without_model(data)
