"""`septran mcp`: the same tasks for coding agents, as an MCP server over stdin and stdout."""

from __future__ import annotations

from pathlib import Path

import click

from septran.cli.files import OUTPUT_FOLDER
from septran.cli.options import common


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
    help="Of the ledger; default: environment below SEPTRAN_HOME.",
)
@common
def command(*, workers: int, folder: Path | None) -> int:
    """Serve leaf tasks to a coding agent: an MCP server on stdin and stdout (pip install 'septran[mcp]')."""
    from septran import settings as settings_
    from septran.environment.mcp import server
    from septran.environment.service import Service

    settings = settings_.load()
    service = Service(folder or settings.home / "environment", settings=settings, workers=workers)
    found = server(service)
    service.start()
    try:
        found.run()
    finally:
        service.close()
    return 0
