"""The ray executor: the same cells as tasks of a Ray cluster (extra septran[ray]).

A cell lost with its node is retried by Ray on another. Results come back as values and are written here, so the
nodes need no shared folder; a run directory stays on the node that made it unless the folder is shared.
"""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

from septran.batch.cells import Cell
from septran.batch.plan import Plan, job_of
from septran.batch.pool import Outcome
from septran.batch.worker import keep_result
from septran.errors import EnvironmentProblem

_RETRIES = 2
_POLL_S = 0.5


def require_ray() -> None:
    """Raise EnvironmentProblem V120 when ray is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise EnvironmentProblem.of(
            "V120",
            "--executor ray needs the library ray",
            help="pip install 'septran[ray]', or use --executor local",
        )


def run_on_ray(
    plan: Plan, todo: Sequence[Cell], started: Callable[[Cell], None]
) -> Generator[Outcome, None, None]:
    """Yield each cell's outcome as its task ends; tasks that still run are cancelled on the way out."""
    import ray

    if not ray.is_initialized():
        ray.init(log_to_driver=False, include_dashboard=False)
    task = ray.remote(max_retries=_RETRIES, retry_exceptions=False)(_cell)
    jobs = {}
    for cell in todo:
        started(cell)
        job = job_of(plan, cell)
        gpus = 1 if "device" in (cell.request.get("where"), *cell.request["require"]) else 0
        remote = task.options(num_cpus=1, num_gpus=gpus)
        jobs[remote.remote(cell.to_json(), str(job.runs), plan.time)] = job
    limit = plan.budget.minutes
    ends = [] if limit is None else [time.monotonic() + 60 * limit]
    ends += [] if plan.until is None else [plan.until]
    try:
        while jobs:
            done, _ = ray.wait(list(jobs), num_returns=1, timeout=_POLL_S)
            for ref in done:
                job = jobs.pop(ref)
                try:
                    data = ray.get(ref)
                except ray.exceptions.RayError:
                    yield Outcome(job, "died")
                    continue
                keep_result(job.result, data)
                yield Outcome(job, "done")
            if ends and time.monotonic() > min(ends):
                for job in jobs.values():
                    yield Outcome(job, "stopped")
                return
    finally:
        for ref in jobs:
            ray.cancel(ref, force=True)


def _cell(cell: dict[str, Any], runs: str, timed: bool) -> dict[str, Any]:
    from septran.batch.worker import run_cell

    os.environ.setdefault("SEPTRAN_THREADS", "1")  # what num_cpus promised the other tasks
    return run_cell(cell, into=Path(runs), timed=timed)
