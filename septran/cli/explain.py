"""`septran explain CODE`: the page of an error code. `septran explain verdict RUN`: a verdict in words."""

from __future__ import annotations

import re
from pathlib import Path

import click

from septran import assets
from septran.cli.options import common, complete, run_names, terminal
from septran.cli.printed import CodeList, CodeRow
from septran.environment.told import Explained
from septran.errors import ConfigError, closest


def pages() -> dict[str, Path]:
    """Return code -> page of every documented error."""
    folder = assets.bundled() / "docs" / "errors"
    return {path.stem: path for path in sorted(folder.glob("[A-Z]*.md")) if _is_code(path.stem)}


def _is_code(stem: str) -> bool:
    return re.fullmatch(r"[A-Z]\d{3}", stem) is not None


def title(path: Path) -> str:
    """Return the page's heading without the code."""
    heading = path.read_text(encoding="utf-8").splitlines()[0]
    return re.sub(r"^#\s*[A-Z]\d{3}\s*[:-]?\s*", "", heading)


@click.command("explain")
@click.argument("code", required=False, shell_complete=complete(lambda: ["verdict", *pages()]))
@click.argument("run", required=False, shell_complete=complete(run_names))
@common
def command(code: str | None, run: str | None) -> None:
    """Explain an error CODE, or list all codes; `explain verdict [RUN]` explains a run's verdict."""
    term = terminal()
    if code == "verdict":
        _verdict(run or "latest")
        return
    if run is not None:
        raise click.UsageError("only `explain verdict` takes a RUN")
    known = pages()
    if code is None:
        rows = [(name, title(path)) for name, path in known.items()]
        if term.json:
            term.emit(CodeList(codes=[CodeRow(code=name, title=text) for name, text in rows]))
        else:
            term.table(("code", "meaning"), rows)
        return
    page = known.get(code.upper())
    if page is None:
        raise ConfigError.of(
            "C004",
            f"no error code {code!r}{closest(code.upper(), known)}",
            help="`septran explain` lists all codes",
        )
    text = page.read_text(encoding="utf-8")
    if term.json:
        term.emit(Explained(code=page.stem, text=text))
    elif term.people():
        from rich.markdown import Markdown

        term.rich().print(Markdown(text))
    else:
        term.result(text)


def _verdict(run: str) -> None:
    from septran import settings
    from septran.report.explain import explain_verdict, lines
    from septran.run import store

    term = terminal()
    found = explain_verdict(store.find(run, store.root(settings.load())))
    if term.json:
        term.emit(found)
        return
    rows = lines(found)
    width = max(len(name) for name, _ in rows)
    term.result("".join(f"{name.ljust(width)}  {text}\n" for name, text in rows))
