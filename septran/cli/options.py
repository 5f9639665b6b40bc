"""Options that every command has, and values that shells can complete."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from septran.cli.console import Terminal

F = TypeVar("F", bound=Callable[..., Any])


def terminal() -> Terminal:
    """Return the output choices of the running command."""
    return click.get_current_context().ensure_object(Terminal)


def _set(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        if value:  # a flag before the command's name stays when the command does not repeat it
            setattr(ctx.ensure_object(Terminal), name, value)

    return callback


def _project(ctx: click.Context, param: click.Parameter, value: Path | None) -> None:
    if value is not None:  # the one way that also reaches worker processes
        os.environ["SEPTRAN_PROJECT"] = str(value.resolve())


def set_threads(ctx: click.Context, param: click.Parameter, value: int | None) -> None:
    """Put --threads where worker processes find it too."""
    if value is not None:
        os.environ["SEPTRAN_THREADS"] = str(value)


THREADS = click.option(
    "--threads",
    type=click.IntRange(min=1),
    expose_value=False,
    callback=set_threads,
    help="Threads of the kernel.  [env: SEPTRAN_THREADS]",
)
WHERE = click.option(
    "--where",
    type=click.Choice(["auto", "device", "emulated"]),
    default="auto",
    show_default=True,
    help="Run on a GPU (auto: when one here fits) or emulate.",
)


def requires(*what: str) -> Callable[[F], F]:
    """Return --require: what a verdict must include."""
    return click.option(
        "--require",
        multiple=True,
        type=click.Choice(what),
        help="What must have happened; otherwise exit 3.",
    )


def common(command: F) -> F:
    """Add --json, -q, -v, --color and --project to a command; in its help, lines after a backslash and b stay lines."""
    command.__doc__ = (command.__doc__ or "").replace("\\b\n", "\b\n")
    for option in (
        click.option(
            "--project",
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            expose_value=False,
            is_eager=True,
            callback=_project,
            help="Folder with septran.toml and own data files.  [env: SEPTRAN_PROJECT]",
        ),
        click.option(
            "--color",
            type=click.Choice(["auto", "always", "never"]),
            expose_value=False,
            is_eager=True,
            callback=_set("color"),
            help="Colour output; auto also follows NO_COLOR.",
        ),
        click.option(
            "-v",
            "--verbose",
            count=True,
            expose_value=False,
            is_eager=True,
            callback=_set("verbose"),
            help="Say more on stderr.",
        ),
        click.option(
            "-q",
            "--quiet",
            count=True,
            expose_value=False,
            is_eager=True,
            callback=_set("quiet"),
            help="No progress on stderr.",
        ),
        click.option(
            "--json",
            "json_",
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_set("json"),
            help="One JSON object on stdout.",
        ),
    ):
        command = option(command)
    return command


Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def complete(names: Callable[[], list[str]]) -> Completer:
    """Return a shell completion over `names()`; a broken installation completes to nothing."""

    def completer(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        try:
            return [name for name in names() if name.startswith(incomplete)]
        except Exception:  # whatever it is, a prompt is no place for a traceback
            return []

    return completer


def op_names() -> list[str]:
    """Return the names of the known operators."""
    from septran.plan import catalog

    return [entry["name"] for entry in catalog.ops()]


def backend_names() -> list[str]:
    """Return the names of the known backends."""
    from septran import backends

    return list(backends.names())


def run_names() -> list[str]:
    """Return "latest" and the ids of the stored runs."""
    from septran import settings
    from septran.run import store

    return ["latest", *(run.id for run in store.listing(store.root(settings.load())))]
