"""`septran verify`: judge a stored kernel again, with new secret inputs."""

from __future__ import annotations

from typing import Any

import click

from septran.cli import card
from septran.cli.options import common, complete, run_names, terminal


@click.command("verify")
@click.argument("run", default="latest", shell_complete=complete(run_names))
@click.option("--seed", type=click.IntRange(min=0), help="Of the secret inputs; default: random.")
@click.option(
    "--require",
    multiple=True,
    type=click.Choice(["compile", "device"]),
    help="What must have happened; otherwise exit 3.",
)
@common
def command(run: str, seed: int | None, require: tuple[str, ...]) -> int:
    """Verify a stored run's kernel again (RUN: id, part of it, path, or latest)."""
    from septran import settings as settings_
    from septran.run import store
    from septran.run.gen import verify_again

    settings = settings_.load(flags={"seed": seed})
    term = terminal()
    found = store.find(run, store.root(settings))
    result = verify_again(found, settings=settings, require=require, progress=term.note)
    shown: dict[str, Any] = result.to_json()
    if term.json:
        term.emit(shown)
    else:
        card.show(shown, term)
    code: int = result.exit_code
    return code
