"""docs/cli.md is the help of every command; --update-golden rewrites it."""

from __future__ import annotations

import click

from septran.cli.main import _COMMANDS, cli
from tests.packaging.sources import ROOT

PAGE = ROOT / "docs" / "cli.md"
MARK = "<!-- generated from the commands' own help below this line: pytest tests/docs --update-golden -->"


def reference() -> str:
    parts = [_help(cli, None, "septran")]
    top = click.Context(cli, info_name="septran")
    for name in _COMMANDS:
        command = cli.get_command(top, name)
        assert command is not None
        parts.append(_help(command, top, name))
        if isinstance(command, click.Group):
            context = click.Context(command, info_name=name, parent=top)
            parts += [_help(each, context, word) for word, each in command.commands.items()]
    return "\n".join(parts)


def _help(command: click.Command, parent: click.Context | None, name: str) -> str:
    context = click.Context(
        command, info_name=name, parent=parent, terminal_width=100, max_content_width=100
    )
    level = "##" if parent is None or parent.parent is None else "###"
    return f"{level} {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"


def test_the_reference_is_up_to_date(request):
    head, _, body = PAGE.read_text(encoding="utf-8").partition(MARK + "\n\n")
    wanted = reference()
    if request.config.getoption("--update-golden"):
        PAGE.write_text(f"{head}{MARK}\n\n{wanted}", encoding="utf-8")
        return
    assert body == wanted, "run pytest tests/docs --update-golden"
