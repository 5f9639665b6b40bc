"""Where output goes: the result to stdout, everything else to stderr, colour only for people."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TextIO

import click

from septran.document import Document
from septran.surroundings import STDOUT

if TYPE_CHECKING:
    from rich.console import Console

Color = Literal["auto", "always", "never"]


class ReaderLeft(Exception):
    """The program that reads our stdout is gone; click would turn BrokenPipeError into exit 1."""


@dataclass(slots=True)
class Terminal:
    """The output choices of one call; lives on click's context and nowhere else."""

    json: bool = False
    quiet: int = 0
    verbose: int = 0
    color: Color = "auto"

    def result(self, text: str) -> None:
        """Write the command's result to stdout."""
        try:
            sys.stdout.write(text if text.endswith("\n") else text + "\n")
            sys.stdout.flush()
        except BrokenPipeError as e:
            raise ReaderLeft from e
        except OSError as e:
            e.filename = STDOUT
            raise

    def emit(self, value: Document | Mapping[str, Any]) -> None:
        """Write one JSON object on one line to stdout; not-a-number becomes null."""
        plain = value.to_json() if isinstance(value, Document) else value
        self.result(json.dumps(_finite(plain), default=str, allow_nan=False))

    def show(self, value: Document | Mapping[str, Any], text: str) -> None:
        """Write the command's result to stdout: `value` with --json, else `text`."""
        if self.json:
            self.emit(value)
        else:
            self.result(text)

    def note(self, text: str) -> None:
        """Write progress or a hint to stderr unless --quiet."""
        if not self.quiet:
            _say(text)

    def detail(self, text: str) -> None:
        """Write to stderr with --verbose only."""
        if self.verbose:
            self.note(text)

    def error(self, text: str) -> None:
        """Write a rendered diagnostic to stderr, coloured for a person."""
        _say(paint(text) if self.colored(sys.stderr) else text)

    def colored(self, stream: TextIO) -> bool:
        """Return whether colour codes may be written to `stream`."""
        if self.color != "auto":
            return self.color == "always"
        return stream.isatty() and not os.environ.get("NO_COLOR")

    def people(self) -> bool:
        """Return whether stdout is read by a person (a terminal)."""
        return sys.stdout.isatty() or self.color == "always"

    def rich(self) -> Console:
        """Return a rich console on stdout that follows --color."""
        from rich.console import Console

        colored = self.colored(sys.stdout)
        console = Console(
            file=sys.stdout,
            force_terminal=True if self.color == "always" else None,
            no_color=not colored,
            highlight=False,
            soft_wrap=not sys.stdout.isatty(),
        )
        if console.width < _NARROW:
            console.width = _WIDTH
        return console

    def table(self, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Write a table to stdout: ruled for a person, aligned columns for a pipe."""
        cells = [[str(cell) for cell in row] for row in rows]
        if not self.people():
            self.result(columns(head, cells))
            return
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        for name in head:
            table.add_column(name, overflow="fold")
        for row in cells:
            table.add_row(*(Text(cell) for cell in row))
        self.rich().print(table)


_NARROW, _WIDTH = 20, 80  # a terminal that says less than that does not know its size


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # a closed or full stderr changes no result
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


_WIDEST = 60  # one long cell must not push the other rows off the screen


def columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return the rows as aligned text, two spaces between columns, no trailing blanks."""
    every = [list(head), *[list(row) for row in rows]]
    widths = [min(_WIDEST, max(len(row[i]) for row in every)) for i in range(len(head))]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in every
    )
    return "\n".join(lines) + "\n"


_HEADER = re.compile(r"^(error\[[A-Z]\d+\]|error|internal error)(: .*)$")
_CARET = re.compile(r"^(\s*\|\s*)(\^+.*)$")


def paint(text: str) -> str:
    """Return a rendered diagnostic with colours: header red, caret red, help and note cyan."""
    lines = []
    for line in text.splitlines():
        if found := _HEADER.match(line):
            line = click.style(found[1], fg="red", bold=True) + click.style(found[2], bold=True)
        elif found := _CARET.match(line):
            line = found[1] + click.style(found[2], fg="red", bold=True)
        elif line.lstrip().startswith(("= help:", "= note:")):
            line = click.style(line, fg="cyan")
        lines.append(line)
    return "\n".join(lines)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value
