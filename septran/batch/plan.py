"""What a batch run is to do, and a cell of it as a worker takes it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from septran.batch.cells import Cell, planned_cell
from septran.batch.file import Budget
from septran.batch.pool import Job
from septran.document import plain_text
from septran.errors import ConfigError
from septran.run import store


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A batch run's directory and what is to be done in it.

    fresh: no results of other batches. junit: where the cells also go as XML. until: time.monotonic() at which all
    stops; of one call, the rest is the run's.
    """

    run: store.Run
    cells: tuple[Cell, ...]
    budget: Budget
    workers: int | None
    time: bool
    require: tuple[str, ...]
    fresh: bool = False
    executor: str = "local"
    junit: Path | None = None
    until: float | None = None


def write_plan(plan: Plan, file: Path) -> None:
    """Write batch.json; `file`: the batch file the plan was made of."""
    plan.run.write_sealed(
        "batch.json",
        {
            "schema": "septran.batch-plan/1",
            "file": str(file),
            "budget": asdict(plan.budget),
            "workers": plan.workers,
            "time": plan.time,
            "require": list(plan.require),
            "fresh": plan.fresh,
            "executor": plan.executor,
            "junit": None if plan.junit is None else str(plan.junit),
            "cells": [cell.to_json() for cell in plan.cells],
        },
    )


def read_plan(run: store.Run) -> Plan:
    """Return the plan that `run` was started with: its keys hold even when a source changed since.

    Raises:
        ConfigError: C136, batch.json is damaged.
    """
    try:
        data = json.loads(plain_text(run.dir / "batch.json"))
        return Plan(
            run=run,
            cells=tuple(planned_cell(cell) for cell in data["cells"]),
            budget=Budget(**data["budget"]),
            workers=data["workers"],
            time=data["time"],
            require=tuple(data["require"]),
            fresh=data.get("fresh", False),
            executor=data.get("executor", "local"),
            junit=Path(data["junit"]) if data.get("junit") else None,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ConfigError.of(
            "C136",
            f"run {run.id} is damaged: batch.json",
            help="begin another with `septran batch FILE`",
        ) from None


def job_of(plan: Plan, cell: Cell) -> Job:
    """Return a cell as a worker takes it."""
    return Job(
        cell=cell,
        runs=plan.run.subdir("runs"),
        result=plan.run.subdir("cells") / f"{cell.key}.json",
        texts=plan.run.subdir("texts"),
        time=plan.time,
    )
