"""A report as html, md, json or csv text."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from septran import assets
from septran.report.data import Report, Row
from septran.report.history import sources, trend
from septran.report.picture import pictures
from septran.report.plots import budget_plot, cycles_plot, speed_plot, trend_plot
from septran.report.targets import table, targets

COLUMNS = (
    "cell op backend arch dims dtype writer sort level where max_error budget_ratio speedup low high reliable "
    "kernel_us limit_share compile_s verify_s calls tokens cost leaves not_checked same_text_as reason culprit seed command run edited"
).split()
EDITED = (
    "{n} of these results are not as this SEPTRAN_HOME wrote them: they were edited or made elsewhere. "
    "`septran verify` runs a kernel again."
)
"""What a report says above results whose seal does not fit."""
_SHORT = {"accurate": "ok", "rejected": "wrong", "unavailable": "-", "failed": "fail"}
_ORDER = ("failed", "rejected", "unavailable", "accurate")


def write_report(report: Report, format_: str, *, earlier: Sequence[Report] = ()) -> str:
    """Return the report's text; format_: html, md, json or csv. earlier: runs that did the same, for the page."""
    if format_ == "html":
        return _html(report, earlier)
    return {"md": _md, "json": _json, "csv": _csv}[format_](report)


def speed(row: Row) -> str:
    """Return "1.12 (0.89 to 1.27)": times as fast as torch with its interval, or "" when not measured."""
    if not row.speedup:
        return ""
    interval = f" ({row.low:.2f} to {row.high:.2f})" if row.low and row.high else ""
    return f"{row.speedup:.2f}{interval}{'' if row.reliable else ', busy machine'}"


def matrix(rows: Sequence[Row]) -> tuple[list[str], list[str], dict[tuple[str, str], list[Row]]]:
    """Return operators, backends and the rows of each pair, the worst first."""
    cells: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        cells.setdefault((row.op, row.backend), []).append(row)
    for found in cells.values():
        found.sort(key=lambda row: _ORDER.index(row.sort))
    return sorted({r.op for r in rows}), sorted({r.backend for r in rows}), cells


def _html(report: Report, earlier: Sequence[Report]) -> str:
    ops, backends, cells = matrix(report.rows)
    points = trend([*earlier, report]) if earlier else ()
    return assets.page(
        "report",
        report=report,
        told_edited=EDITED.format(n=len(report.edited())) if report.edited() else "",
        counts=report.counts(),
        ops=ops,
        backends=backends,
        targets=targets(report.rows),
        cells=cells,
        dtypes=sorted({row.dtype for row in report.rows}),
        budget_svg=budget_plot(report.rows),
        speed_svg=speed_plot(report.rows),
        cycles_svg=cycles_plot(report.rows),
        trend_svg=trend_plot(points),
        points=points,
        sources=sources(report, earlier),
        speed=speed,
        pictures=pictures,
        agents=[row for row in report.rows if row.calls],
    )


def _json(report: Report) -> str:
    data: dict[str, Any] = {
        "schema": "septran.report/1",
        "title": report.title,
        "run": report.run,
        "created": report.created,
        "counts": report.counts(),
        **({"tasks": {s.backend: s.to_json() for s in report.scores}} if report.scores else {}),
        "versions": dict(report.versions),
        "machine": dict(report.machine),
        "rows": [row.to_json() for row in report.rows],
    }
    return json.dumps(data, indent=1) + "\n"


def _csv(report: Report) -> str:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(row.to_json() for row in report.rows)
    return stream.getvalue()


def _md(report: Report) -> str:
    ops, backends, cells = matrix(report.rows)
    counts = ", ".join(f"{n} {name}" for name, n in report.counts().items() if n)
    lines = [f"# {report.title}", "", f"{counts}. Run `{report.run}`, {report.created}.", ""]
    lines += [EDITED.format(n=len(n)), ""] if (n := report.edited()) else []
    lines += [line for score in report.scores for line in (score.text(), "")]
    lines += ["| op | " + " | ".join(backends) + " |", "|---" * (len(backends) + 1) + "|"]
    for op in ops:
        shown = (_cell(cells.get((op, backend), [])) for backend in backends)
        lines.append(f"| {op} | " + " | ".join(shown) + " |")
    if len(found := targets(report.rows)) > len(backends):
        lines += ["", *table(found)]
    lines += ["", "| cell | verdict | error used | x torch | of limit |", "|---|---|---|---|---|"]
    for row in report.rows:
        text = f", same text as {row.same_text_as}" if row.same_text_as else ""
        text += ", not as it was written" if row.edited else ""
        used = "" if row.budget_ratio is None else f"{100 * row.budget_ratio:.0f} %"
        share = "" if row.limit_share is None else f"{100 * row.limit_share:.0f} %"
        lines.append(
            f"| {row.cell} | {row.level} {row.where}{text} | {used} | {speed(row)} | {share} |"
        )
    if counted := report.counted():
        lines += ["", "## Cycles", "", _CYCLES, ""]
        lines += ["| cell | cycles | LOAD | STORE | MMA | VEC | overlap |", "|---" * 7 + "|"]
        lines += [f"| {row.cell} | {_engines(row)} |" for row in counted]
    if failures := report.failures():
        lines += ["", "## Not correct", ""]
        for row in failures:
            lines += [f"### {row.cell}", "", f"{row.reason or row.level}", ""]
            lines += [f"Culprit: {row.culprit}", ""] if row.culprit else []
            lines += ["```text", row.command, "```", ""]
    return "\n".join(lines).rstrip() + "\n"


_CYCLES = "Of a simulator's cycle model, not of a device; the share of all cycles in which each engine works."


def _engines(row: Row) -> str:
    found = row.cycles
    used = [f"{100 * q['utilisation']:.0f} %" for q in found["queues"].values()]
    return " | ".join((str(found["total"]), *used, f"{found['overlap']:.2f}"))


def _cell(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    good = sum(row.sort == "accurate" for row in rows)
    word = _SHORT[rows[0].sort]
    where = next((row.where for row in rows if row.where), "")
    part = f"{good}/{len(rows)} " if len(rows) > 1 else ""
    return f"{part}{word} {where}".strip()
