"""`septran config`: every setting, its value and the layer that set it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from septran import settings
from septran.cli.files import INPUT
from septran.cli.options import backend_names, common, complete, terminal
from septran.cli.printed import Configured


@click.command("config")
@click.option(
    "--dsl",
    metavar="BACKEND",
    shell_complete=complete(backend_names),
    help="The model config of this backend (configs/vllm_dsl_BACKEND_config.yaml) instead.",
)
@click.option(
    "--config",
    "file",
    type=INPUT,
    help="With --dsl: a config file of your own over the bundled one.",
)
@common
def command(dsl: str | None, file: Path | None) -> None:
    """Print the settings and where each comes from."""
    term = terminal()
    current = settings.load()
    found: dict[str, dict[str, Any]] = (
        current.to_json() if dsl is None else _model_config(dsl, file, current)
    )
    if term.json:
        variables = dict(settings.ENVIRONMENT) if dsl is None else {}
        term.emit(Configured(settings=found, environment=variables))
        return
    rows = [
        (name, "-" if entry["value"] is None else entry["value"], entry["from"])
        for name, entry in found.items()
    ]
    term.table(("setting", "value", "from"), rows)


def _model_config(
    dsl: str, file: Path | None, current: settings.Settings
) -> dict[str, dict[str, Any]]:
    from septran.agent import config

    return config.load(dsl, file=file, among=current.layers).to_json()
