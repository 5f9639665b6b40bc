"""Earlier runs of the same kernel, or of the same batch file: what a report shows a trend and differences of."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from septran.document import plain_text, read_object
from septran.errors import SeptranError
from septran.report.data import Report, Row, read_report
from septran.run import store

_RUNS = 12
_SAME = ("op", "logic", "task_file", "backend", "arch", "dims", "dtype", "mapping")
_MOST_BYTES, _ALL_BYTES = 200_000, 8_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A run in a trend. speed: geometric mean of the times-as-fast-as-torch of its kernels, with the interval's."""

    run: str
    created: str
    accurate: int
    kernels: int
    speed: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A kernel's main file. diff: from the kernel of the newest earlier run, "" when they are the same.

    before: that run, "" when there is none. left_out: why the text is not here.
    """

    path: str
    text: str = ""
    diff: str = ""
    before: str = ""
    left_out: str = ""


def earlier(run: store.Run) -> tuple[Report, ...]:
    """Return the reports of at most 12 runs before `run` that did the same, the oldest first."""
    mine = _identity(run)
    found: list[Report] = []
    for other in store.listing(run.dir.parent):
        if other.id < run.id and len(found) < _RUNS and _identity(other) == mine:
            try:
                found.append(read_report(other))
            except (SeptranError, KeyError, TypeError, ValueError, AttributeError):
                continue  # a damaged or unfinished run is no part of a trend
    return tuple(reversed(found))


def trend(reports: Sequence[Report]) -> tuple[Point, ...]:
    """Return the reports as points, in their order."""
    return tuple(_point(report) for report in reports)


def sources(report: Report, before: Sequence[Report]) -> dict[str, Source]:
    """Return cell -> its kernel, with what changed since the newest of the reports `before`."""
    found: dict[str, Source] = {}
    total = 0
    for row in report.rows:
        if not row.kernel:
            continue
        text = _text(row.kernel)
        total += len(text)
        if not text or total > _ALL_BYTES:
            why = "the page would be too large" if text else "the file is not here or too large"
            found[row.cell] = Source(path=row.kernel, left_out=why)
            continue
        old = _before(row, before)
        found[row.cell] = Source(
            path=row.kernel,
            text=text,
            before=old[0] if old else "",
            diff=_diff(_text(old[1]), text) if old else "",
        )
    return found


def _before(row: Row, before: Sequence[Report]) -> tuple[str, str] | None:
    for report in reversed(before):
        for other in report.rows:
            if other.cell == row.cell and other.kernel and other.kernel != row.kernel:
                return report.run, other.kernel
    return None


def _diff(old: str, new: str) -> str:
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), "before", "now", lineterm="")
    return "\n".join(lines)


def _text(path: str) -> str:
    file = Path(path)
    try:
        # a run that somebody else made may name any file of this machine
        in_run = any((folder / "run.json").is_file() for folder in list(file.parents)[:3])
        if not in_run or file.is_symlink() or file.stat().st_size > _MOST_BYTES:
            return ""
        return plain_text(file, errors="replace")
    except OSError:
        return ""


def _identity(run: store.Run) -> object:
    plan = run.dir / "batch.json"
    if plan.is_file():
        return (read_object(plan) or {}).get("file")
    request = run.info().get("request") or {}
    return tuple(str(request.get(name)) for name in _SAME)


def _point(report: Report) -> Point:
    good = [row for row in report.rows if row.sort == "accurate"]
    timed = [row for row in good if row.speedup]
    return Point(
        run=report.run,
        created=report.created,
        accurate=len(good),
        kernels=max(report.planned, len(report.rows)),
        speed=_mean([row.speedup for row in timed]),
        low=_mean([row.low or row.speedup for row in timed]),
        high=_mean([row.high or row.speedup for row in timed]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value]
    return math.exp(sum(map(math.log, known)) / len(known)) if known else None
