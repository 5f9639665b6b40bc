"""`septran completion SHELL`: the script a shell sources to complete septran's words."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from septran.cli.options import common, terminal
from septran.cli.printed import Completion


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@common
def command(shell: str) -> None:
    """Print a completion script: eval "$(septran completion bash)"."""
    from septran.cli.main import cli

    maker = get_completion_class(shell)
    assert maker is not None
    script = maker(cli, {}, "septran", "_SEPTRAN_COMPLETE").source()
    term = terminal()
    term.show(Completion(shell=shell, script=script), script)
