"""`septran bench --suite`: measure the rows, keep them as they come, write the pages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from septran.cli.options import terminal
from septran.document import read_object

if TYPE_CHECKING:
    from septran.run.bench import Figure
    from septran.settings import Settings

_FORMS = (".json", ".md", ".html")


def run(
    name: str,
    only: Sequence[str],
    outputs: tuple[Path, ...],
    *,
    settings: Settings,
    resume: bool,
    against: Path | None,
    torch_compile: bool,
    long: bool,
) -> int:
    """Measure every row, or those of `only`; exit 1 when one cannot be measured or misses its gate."""
    from septran.atomic import write_atomic
    from septran.run import suite as suites
    from septran.run import suite_page
    from septran.verify.environment import environment_facts

    figures = [path for path in outputs if path.suffix == ".json"]
    for path in outputs:
        if path.suffix not in _FORMS:
            raise click.UsageError(f"--output {path}: a suite is written as {', '.join(_FORMS)}")
    if resume and not figures:
        raise click.UsageError("--resume continues the figures of an --output FILE.json")
    term = terminal()
    wanted = suites.load_suite(name).only(only, long=long)
    done = _figures(figures[0]) if resume and figures[0].exists() else {}
    earlier = _figures(against) if against else {}
    machine = dict(environment_facts())
    found: list[suites.Measured] = []

    def data() -> dict[str, Any]:
        return suites.SuiteMeasured(
            suite=wanted.name,
            backend=wanted.backend,
            machine=machine,
            rows=[each.to_json() for each in found],
        ).to_json()

    for each in suites.measure(
        wanted,
        settings=settings,
        progress=term.detail,
        done=done,
        earlier=earlier,
        torch_compile=torch_compile,
    ):
        found.append(each)
        term.note(f"{each.row.label}: {suite_page.brief(each)}")
        for path in figures:  # a suite that is stopped has what it measured
            write_atomic(path, json.dumps(data(), indent=1) + "\n")
    facts = f"{machine.get('cpu', 'this machine')}, {settings.threads or 'all'} thread(s)."
    text = suite_page.page(wanted, tuple(found), facts)
    for path in outputs:
        if path.suffix == ".md":
            write_atomic(path, text)
        elif path.suffix == ".html":
            from septran.report.suite import html

            write_atomic(
                path,
                html(
                    data(),
                    f"{facts} {suite_page.said_of(wanted)}",
                    [suite_page.bound(each) for each in found],
                ),
            )
    term.show(data(), text)
    return 0 if all(each.held is not False and each.known for each in found) else 1


def _figures(path: Path) -> Mapping[str, Figure]:
    """Return the figures of a file that an earlier call wrote."""
    from septran.run.suite import figures_of

    return figures_of(read_object(path), path)
