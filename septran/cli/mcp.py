"""`septran mcp`: the same tasks for coding agents, as an MCP server over stdin and stdout."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from septran.cli.files import OUTPUT_FOLDER
from septran.cli.options import common
from septran.cli.submission_bounds import bounded

if TYPE_CHECKING:
    from septran.environment.service import Service

_MOST_SERVERS = 100


@click.command("mcp")
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Submissions judged at once.",
)
@click.option(
    "--dir",
    "folder",
    type=OUTPUT_FOLDER,
    help="Of the ledger; default: environment below SEPTRAN_HOME, or environment-2, ... where others serve that.",
)
@bounded
@common
def command(
    *, workers: int, folder: Path | None, elements: int, seconds: float, memory_mib: int
) -> int:
    """Serve leaf tasks to a coding agent: an MCP server on stdin and stdout (pip install 'septran[mcp]')."""
    from septran import settings as settings_
    from septran.environment.mcp import server
    from septran.environment.request import Bounds
    from septran.environment.service import Service

    settings = settings_.load()
    bounds = Bounds(elements=elements, seconds=seconds, memory_mib=memory_mib)

    def serving(place: Path) -> Service:
        return Service(place, settings=settings, workers=workers, bounds=bounds)

    service = serving(folder) if folder else _first_free(serving, settings.home / "environment")
    found = server(service)
    service.start()
    try:
        found.run()
    finally:
        service.close()
    return 0


def _first_free(serving: Callable[[Path], Service], place: Path) -> Service:
    """Return the service of the first folder that nobody serves: several agents may each have started a server."""
    from septran.errors import ConfigError

    for number in itertools.count(2):
        try:
            return serving(place)
        except ConfigError as e:
            if e.codes != ("C182",) or number > _MOST_SERVERS:
                raise
            place = place.with_name(f"environment-{number}")
    raise AssertionError
