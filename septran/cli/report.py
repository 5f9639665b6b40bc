"""`septran report`: a run or batch as a page, a text, or data; or what changed between two."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from septran.atomic import write_atomic
from septran.cli.files import OUTPUT
from septran.cli.options import common, complete, run_names, terminal
from septran.document import read_object

if TYPE_CHECKING:
    from septran.run.store import Run

_FORMATS = ("html", "md", "json", "csv")


@click.command("report")
@click.argument("run", default="latest", shell_complete=complete(run_names))
@click.option(
    "--format",
    "format_",
    type=click.Choice(_FORMATS),
    default="html",
    show_default=True,
    help="A page, or what a program reads.",
)
@click.option(
    "-o", "--output", type=OUTPUT, help="Write here; default: report.html of the run, else stdout."
)
@click.option(
    "--diff",
    nargs=2,
    metavar="A B",
    help="What changed from run A to run B; exit 1 for regressions.",
)
@common
def command(run: str, format_: str, output: Path | None, diff: tuple[str, str] | None) -> int:
    r"""Write the report of RUN (id, part of it, path, or latest).

    \b
    septran report                       # report.html beside the newest run's files
    septran report latest --format csv
    septran report --diff 06-29-46 07-10-02
    """
    from septran import settings
    from septran.run import store

    folder = store.root(settings.load())
    if diff is not None:
        return _diff(store.find(diff[0], folder), store.find(diff[1], folder))
    from septran.report.data import read_report
    from septran.report.history import earlier
    from septran.report.write import write_report

    term = terminal()
    found = store.find(run, folder)
    if term.json:
        format_ = "json"
    searched = _search(found)
    if searched is not None and format_ == "html":
        from septran.report.tune import page

        text = page(searched)
    else:
        before = earlier(found) if format_ == "html" else ()
        text = write_report(read_report(found), format_, earlier=before)
    if output is None and format_ != "html":
        term.result(text)
        return 0
    path = output or found.dir / "report.html"
    write_atomic(path, text)
    term.result(str(path))
    return 0


def _diff(before: Run, after: Run) -> int:
    from septran.report.data import read_report
    from septran.report.diff import diff

    found = diff(read_report(before), read_report(after))
    term = terminal()
    if term.json:
        term.emit(found.to_json())
        return found.exit_code
    rows = [(c.kind, c.cell, c.before or "-", c.after or "-", c.reason) for c in found.changes]
    if rows:
        term.table(("change", "cell", "before", "after", "because"), rows)
    count = sum(change.kind == "regression" for change in found.changes)
    term.result(f"{count} regressions, {found.same} cells as before")
    return found.exit_code


def _search(run: Run) -> dict[str, Any] | None:
    """Return what a finished search of `septran tune` found, None for a run of another command."""
    from septran.run.tune_outcome import Outcome

    found = read_object(run.dir / "result.json")
    return found if found is not None and found.get("schema") == Outcome.SCHEMA else None
