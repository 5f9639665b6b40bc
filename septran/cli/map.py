"""`septran map`: the explicit mapping that the target's policy produces, ready to be edited."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from septran.cli.files import OUTPUT
from septran.cli.options import common, terminal
from septran.cli.printed import Mapped
from septran.cli.request import NO_TUNED, build, kernel_options


@click.command("map")
@kernel_options
@NO_TUNED
@click.option("-o", "--output", type=OUTPUT, help="Write it here instead of stdout.")
@common
def command(*, output: Path | None, **given: Any) -> None:
    r"""Print the explicit mapping a policy produces.

    \b
    septran map --op gemm --backend cpp > gemm.mapping.yaml
    septran gen --op gemm --mapping gemm.mapping.yaml
    """
    from septran import settings as settings_
    from septran.run import inspect

    settings = settings_.load()
    text = inspect.mapping_text(build(given, settings), settings=settings)
    term = terminal()
    if output is not None:
        from septran.atomic import write_atomic

        write_atomic(output, text)
        term.note(f"mapping written to {output}")
    if term.json:
        term.emit(Mapped(mapping=text))
    elif output is None:
        term.result(text)
