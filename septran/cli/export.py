"""`septran export`: a verdict and its kernel as a signed bundle."""

from __future__ import annotations

from pathlib import Path

import click

from septran.cli.files import OUTPUT
from septran.cli.options import common, complete, run_names, terminal
from septran.cli.printed import Exported


@click.command("export")
@click.argument("run", default="latest", shell_complete=complete(run_names))
@click.option("-o", "--output", type=OUTPUT, required=True, help="The bundle to write.")
@common
def command(run: str, output: Path) -> None:
    r"""Verify RUN's kernel again and write it with the accurate verdict as a signed bundle.

    \b
    septran export latest -o gemm.septran.json
    septran verify --bundle gemm.septran.json     # on another machine
    """
    from septran import settings as settings_
    from septran.run import store
    from septran.run.bundle import export_run

    settings = settings_.load()
    term = terminal()
    found = store.find(run, store.root(settings))
    path = export_run(found, output, settings=settings, progress=term.detail)
    term.show(Exported(run=str(found.dir), bundle=str(path)), str(path))
