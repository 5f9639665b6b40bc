"""`septran verify`: judge a stored kernel again, with new secret inputs."""

from __future__ import annotations

from pathlib import Path

import click

from septran.cli import card
from septran.cli.deadline import TIMEOUT, within
from septran.cli.files import INPUT
from septran.cli.options import WHERE, common, complete, requires, run_names, terminal
from septran.cli.steps import steps


@click.command("verify")
@click.argument("run", default="latest", shell_complete=complete(run_names))
@click.option("--seed", type=click.IntRange(min=0), help="Of the secret inputs; default: random.")
@requires("compile", "device")
@WHERE
@click.option("--bundle", type=INPUT, help="Verify a bundle of `septran export` instead of a run.")
@click.option(
    "--logic", type=INPUT, help="With --bundle: the logic file, if it is no known operator."
)
@TIMEOUT
@common
def command(
    run: str,
    seed: int | None,
    require: tuple[str, ...],
    where: str,
    bundle: Path | None,
    logic: Path | None,
    timeout: float | None,
) -> int:
    """Verify a stored run's kernel again (RUN: id, part of it, path, or latest)."""
    from septran import settings as settings_
    from septran.run import store
    from septran.run.stored import verify_again

    settings = settings_.load(flags={"seed": seed})
    term = terminal()
    with within(timeout), steps(term) as progress:
        if bundle is not None:
            from septran.run.bundle import Recheck, verify_bundle

            recheck = Recheck(path=bundle, logic=logic, require=require)
            result = verify_bundle(recheck, settings=settings, progress=progress)
        else:
            found = store.find(run, store.root(settings))
            result = verify_again(
                found, settings=settings, require=require, progress=progress, where=where
            )
    card.show(result.to_json(), term)
    return result.code
