"""What a batch run is to do, and a cell of it as a worker takes it."""

from __future__ import annotations

from dataclasses import dataclass

from septran.batch.cells import Cell
from septran.batch.file import Budget
from septran.batch.pool import Job
from septran.run import store


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A batch run's directory and what is to be done in it. until: time.monotonic() at which all stops."""

    run: store.Run
    cells: tuple[Cell, ...]
    budget: Budget
    workers: int | None
    time: bool
    require: tuple[str, ...]
    until: float | None = None


def job_of(plan: Plan, cell: Cell) -> Job:
    """Return a cell as a worker takes it."""
    return Job(
        cell=cell,
        runs=plan.run.subdir("runs"),
        result=plan.run.subdir("cells") / f"{cell.key}.json",
        time=plan.time,
    )
