"""`septran batch`: many kernels, resumable."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from septran.cli.deadline import TIMEOUT
from septran.cli.files import INPUT, OUTPUT
from septran.cli.options import common, requires, set_threads, terminal
from septran.cli.printed import BatchCells

if TYPE_CHECKING:
    from septran.run.store import Run


@click.command("batch")
@click.argument("file", required=False, type=INPUT)
@click.option(
    "--resume",
    metavar="RUN",
    help="Go on with a batch run (id, part of it, or latest); flags may be left out.",
)
@click.option("--lf", "last_failed", is_flag=True, help="Only what was not correct last time.")
@click.option("-k", "select", metavar="EXPR", help='Only cells like "gemm and not bfloat16".')
@click.option("--fresh", is_flag=True, help="Do not reuse results of earlier batches.")
@click.option("--workers", type=click.IntRange(min=1), help="Cells at once; default: the cores.")
@click.option("--executor", type=click.Choice(["local", "ray"]), help="Default: local.")
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    expose_value=False,
    callback=set_threads,
    help="Threads of each kernel; default: cores / workers.  [env: SEPTRAN_THREADS]",
)
@click.option("--seed", type=click.IntRange(min=0), help="Of the secret inputs; default: random.")
@requires("compile", "device", "proved")
@TIMEOUT
@click.option(
    "--junit", type=OUTPUT, help="Also write the cells here as JUnit XML, for a CI server."
)
@click.option("--list", "only_list", is_flag=True, help="Print the cells and stop.")
@common
def command(
    *,
    file: Path | None,
    resume: str | None,
    last_failed: bool,
    select: str | None,
    fresh: bool,
    workers: int | None,
    executor: str | None,
    seed: int | None,
    require: tuple[str, ...],
    timeout: float | None,
    junit: Path | None,
    only_list: bool,
) -> int:
    r"""Run a matrix of operators, backends, sizes and types; FILE describes it.

    \b
    septran batch configs/batches/smoke.yaml
    septran batch nightly.yaml -k "softmax or norm" --workers 4
    septran batch --resume latest

    Exit codes: 0 all accurate (what is unavailable here is allowed without --require), 1 a kernel is not
    correct, 3 only the environment was in the way.
    """
    from septran import settings as settings_
    from septran.batch.run import BatchRequest, run_batch
    from septran.errors import ConfigError

    if resume is not None and seed is not None:
        raise ConfigError.of("C064", "--seed is decided when a batch begins", help="leave it out")
    if (file is None) == (resume is None):
        raise ConfigError.of(
            "C064", "give a batch file, or --resume RUN", help="septran batch --help"
        )
    if resume is not None:
        _surround(resume)
    settings = settings_.load(flags={"seed": seed})
    path = None if file is None else _find(file)
    term = terminal()
    if only_list:
        from septran.batch.run import listed

        names = listed(path, resume, select, settings)
        term.show(BatchCells(cells=list(names)), "\n".join(names))
        return 0
    from septran.cli.batch_view import BatchView

    view = BatchView(term)
    request = BatchRequest(
        file=path,
        resume=resume,
        last_failed=last_failed,
        select=select,
        fresh=fresh,
        workers=workers,
        executor=executor,
        require=require,
        junit=junit,
        timeout_s=timeout,
    )
    try:
        with view.shown():
            result = run_batch(request, settings=settings, watch=view.watch())
    finally:  # an interrupted batch tells a CI server, too, what it has
        if view.plan is not None and view.plan.junit is not None:
            _write_junit(view.plan.run, view.plan.junit)
    view.result(result)
    return result.exit_code


def _surround(resume: str) -> None:
    from septran import settings as settings_
    from septran.batch.run import batch_run
    from septran.cli.recall import surround

    surround(batch_run(resume, settings_.load()))


def _write_junit(run: Run, path: Path) -> None:
    from septran.atomic import write_atomic
    from septran.report.junit import junit

    write_atomic(path, junit(run))


def _find(path: Path) -> Path:
    """Return `path`, or the shipped or own batch file of that name (configs/batches/NAME.yaml)."""
    from septran import assets

    if path.is_file():
        return path
    for name in (str(path), f"configs/batches/{path.name}", f"configs/batches/{path.name}.yaml"):
        if not path.is_absolute() and name.startswith("configs/") and assets.exists(name):
            return assets.find(name).path
    return path
