"""`septran export`: a verdict and its kernel as a signed bundle."""

from __future__ import annotations

from pathlib import Path

import click

from septran.cli.options import common, complete, run_names, terminal
from septran.cli.request import FILE


@click.command("export")
@click.argument("run", default="latest", shell_complete=complete(run_names))
@click.option("-o", "--output", type=FILE, required=True, help="The bundle to write.")
@common
def command(run: str, output: Path) -> None:
    r"""Write RUN's kernel and accurate verdict as a signed bundle.

    \b
    septran export latest -o gemm.septran.json
    septran verify --bundle gemm.septran.json     # on another machine
    """
    from septran import settings
    from septran.run import store
    from septran.run.bundle import export_run

    found = store.find(run, store.root(settings.load()))
    path = export_run(found, output)
    term = terminal()
    if term.json:
        term.emit({"schema": "septran.export/1", "run": str(found.dir), "bundle": str(path)})
    else:
        term.result(str(path))
