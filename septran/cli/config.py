"""`septran config`: every setting, its value and the layer that set it."""

from __future__ import annotations

import click

from septran import settings
from septran.cli.options import common, terminal


@click.command("config")
@common
def command() -> None:
    """Print the settings and where each comes from."""
    term = terminal()
    found = settings.load().to_json()
    if term.json:
        term.emit(
            {
                "schema": "septran.config/1",
                "settings": found,
                "environment": dict(settings.ENVIRONMENT),
            }
        )
        return
    rows = [
        (name, "-" if entry["value"] is None else entry["value"], entry["from"])
        for name, entry in found.items()
    ]
    term.table(("setting", "value", "from"), rows)
