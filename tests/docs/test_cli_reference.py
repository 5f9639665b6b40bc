"""docs/cli.md is the help of every command; --update-golden rewrites it."""

from __future__ import annotations

import click

from septran.cli.main import _COMMANDS, cli
from tests.packaging.sources import ROOT

PAGE = ROOT / "docs" / "cli.md"
MARK = "<!-- generated from the commands' own help below this line: pytest tests/docs --update-golden -->"


def reference() -> str:
    top = click.Context(cli, info_name="septran", help_option_names=["-h", "--help"])
    parts = [_help(cli, top, "septran")]
    for name in _COMMANDS:
        command = cli.get_command(top, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=top)
        parts.append(_help(command, context, name))
        if isinstance(command, click.Group):
            for word, each in command.commands.items():
                inner = click.Context(each, info_name=word, parent=context)
                parts.append(_help(each, inner, word))
    return "\n".join(parts)


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
