"""`septran ls`: what there is to choose from."""

from __future__ import annotations

from typing import Any

import click

from septran.cli.options import common, terminal
from septran.cli.printed import Listed

_COLUMNS = {
    "ops": ("name", "about", "dims", "dtypes"),
    "backends": ("name", "title", "arches", "where", "here"),
    "mappings": ("name", "layer", "path"),
    "machines": ("name", "layer", "path"),
    "agents": ("name", "layer", "path"),
    "models": ("name", "layer", "path"),
}


@click.command("ls")
@click.argument("what", type=click.Choice(list(_COLUMNS)), default="ops")
@common
def command(what: str) -> None:
    """List operators (the default), backends, mappings, machines, agents or models."""
    from septran.plan import catalog

    entries: list[dict[str, Any]] = getattr(catalog, what)()
    term = terminal()
    if term.json:
        term.emit(Listed(what=what, entries=entries))
        return
    head = _COLUMNS[what]
    term.table(head, [[_cell(entry.get(name)) for name in head] for entry in entries])


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{k}={v}" for k, v in value.items())
    if isinstance(value, list):
        return " ".join(str(v) for v in value) or "-"
    return str(value)
