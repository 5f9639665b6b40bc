"""`septran tune --suite`: make the searches of a list, keep them as they come, write the table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from septran.cli.options import terminal
from septran.cli.steps import steps
from septran.document import read_object

if TYPE_CHECKING:
    from septran.settings import Settings

_FORMS = (".json", ".md")


def run(
    name: str,
    reports: tuple[Path, ...],
    *,
    seed: int,
    output: Path | None,
    settings: Settings,
) -> int:
    """Make every search; exit 1 when one could not be made. Where a .json report has rows already, it goes on behind them."""
    from septran.atomic import write_atomic
    from septran.run import searches
    from septran.verify.environment import environment_facts

    for path in reports:
        if path.suffix not in _FORMS:
            raise click.UsageError(f"--report {path}: a suite is written as {', '.join(_FORMS)}")
    term = terminal()
    wanted = searches.load_searches(name)
    kept = next((path for path in reports if path.suffix == ".json" and path.exists()), None)
    done = searches.rows_of(read_object(kept), kept) if kept else {}
    machine = dict(environment_facts())
    facts = f"{machine.get('cpu', 'this machine')}, {settings.threads or 'all'} thread(s)."
    found: dict[str, Mapping[str, Any]] = {}

    def data() -> dict[str, Any]:
        return searches.SearchesMade(
            suite=wanted.name,
            backend=wanted.backend,
            seed=seed,
            machine=machine,
            rows=list({**done, **found}.values()),
        ).to_json()

    def write() -> None:
        for path in reports:
            text = searches.page(wanted, tuple(found.values()), facts)
            write_atomic(
                path, json.dumps(data(), indent=1) + "\n" if path.suffix == ".json" else text
            )

    def keep(row: Mapping[str, Any]) -> None:
        found[row["row"]] = row
        write()

    with steps(term) as progress:
        for row in searches.made(
            wanted,
            seed=seed,
            settings=settings,
            progress=progress,
            done=done,
            begun=keep,
            output=output,
        ):
            keep(row)
            progress(f"{row['row']}: {searches.said(row)}")
    term.show(data(), searches.page(wanted, tuple(found.values()), facts))
    return 1 if any(row["state"] == "failed" for row in found.values()) else 0
