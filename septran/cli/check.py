"""`septran check`: all mistakes of logic and mapping files at once."""

from __future__ import annotations

from pathlib import Path

import click

from septran.cli.files import INPUT
from septran.cli.options import common, terminal
from septran.cli.printed import Checked
from septran.errors import Diagnostic


@click.command("check")
@click.argument("files", nargs=-1, required=True, type=INPUT)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "github"]),
    default="text",
    help="github: annotations for a CI job.",
)
@common
def command(files: tuple[Path, ...], form: str) -> int:
    """Check logic and mapping FILES; no device, no model."""
    from septran.run.check import check_files

    problems = check_files(files)
    term = terminal()
    if term.json:
        term.emit(
            Checked(
                files=[str(path) for path in files],
                ok=not problems,
                errors=[problem.to_json() for problem in problems],
            )
        )
    elif form == "github":
        term.result("".join(f"{annotation(problem)}\n" for problem in problems))
    elif problems:
        term.error("\n\n".join(problem.render() for problem in problems))
    count = f"{len(files)} file{'s' if len(files) > 1 else ''}"
    found = (
        f"{len(problems)} problem{'s' if len(problems) != 1 else ''}" if problems else "no problems"
    )
    term.note(f"{found} in {count}")
    return 2 if problems else 0


def annotation(problem: Diagnostic) -> str:
    """Return a GitHub workflow command that marks the line of a problem."""
    text = problem.message + (f" (help: {problem.help})" if problem.help else "")
    place = ""
    if problem.span is not None:
        place = f"file={problem.span.file},line={problem.span.line},col={problem.span.col},"
    return f"::error {place}title={problem.code}::{_escaped(text)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
