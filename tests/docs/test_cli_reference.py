"""docs/cli.md is the help of every command; --update-golden rewrites it."""

from __future__ import annotations

from collections.abc import Iterator

import click

from septran.cli.main import _COMMANDS, cli
from tests.packaging.sources import ROOT

PAGE = ROOT / "docs" / "cli.md"
MARK = "<!-- generated from the commands' own help below this line: pytest tests/docs --update-golden -->"


def commands() -> Iterator[tuple[click.Command, click.Context, str]]:
    """Yield every command with its context and name, groups before what is in them."""
    top = click.Context(cli, info_name="septran", help_option_names=["-h", "--help"])
    yield cli, top, "septran"
    for name in _COMMANDS:
        command = cli.get_command(top, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=top)
        yield command, context, name
        if isinstance(command, click.Group):
            for word, each in command.commands.items():
                yield each, click.Context(each, info_name=word, parent=context), word


def reference() -> str:
    return "\n".join(_help(*each) for each in commands())


def _help(command: click.Command, context: click.Context, name: str) -> str:
    context.terminal_width = context.max_content_width = 100
    level = "###" if context.parent is not None and context.parent.parent is not None else "##"
    return f"{level} {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"


def test_the_reference_is_up_to_date(request):
    head, _, body = PAGE.read_text(encoding="utf-8").partition(MARK + "\n\n")
    wanted = reference()
    if request.config.getoption("--update-golden"):
        PAGE.write_text(f"{head}{MARK}\n\n{wanted}", encoding="utf-8")
        return
    assert body == wanted, "run pytest tests/docs --update-golden"


def test_every_option_says_what_it_does():
    silent = [
        f"{context.command_path} {option.opts[-1]}"
        for command, context, _ in commands()
        for option in command.get_params(context)
        if isinstance(option, click.Option) and not option.hidden and not option.help
    ]
    assert silent == []
