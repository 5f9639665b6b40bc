"""`septran runs`: the stored runs."""

from __future__ import annotations

from datetime import timedelta

import click

from septran import settings
from septran.cli.options import common, complete, run_names, terminal
from septran.cli.printed import RunList, RunPath, RunRow, RunsRemoved
from septran.cli.values import Finite
from septran.run import store

_RUNS = complete(run_names)


@click.group(
    "runs", context_settings={"help_option_names": ["-h", "--help"]}, invoke_without_command=True
)
@click.pass_context
def command(ctx: click.Context) -> None:
    """List, show and remove stored runs; without a command: list."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(ls)


def _row(run: store.Run) -> RunRow:
    info = run.info()
    request = info.get("request", {})
    summary = info.get("summary", {})
    return RunRow(
        id=run.id,
        status=store.status(run),
        exit_code=info.get("exit_code"),
        op=request.get("op") or request.get("logic") or request.get("task_file"),
        backend=request.get("backend"),
        level=summary.get("level"),
        where=summary.get("where"),
        why=summary.get("why"),
        created=info.get("created"),
        path=str(run.dir),
    )


@command.command("ls")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Runs at most.",
)
@common
def ls(limit: int) -> None:
    """List the newest runs."""
    term = terminal()
    rows = [_row(run) for run in store.listing(store.root(settings.load()))[:limit]]
    if term.json:
        term.emit(RunList(runs=rows))
        return
    keys = ["id", "status", "level", "where"]
    keys += ["why"] if any(row.why for row in rows) else []
    term.table(keys, [[getattr(row, key) or "-" for key in keys] for row in rows])


@command.command("show")
@click.argument("run", default="latest", shell_complete=_RUNS)
@common
def show(run: str) -> int:
    """Show a run: what was asked, what came out, which files there are."""
    term = terminal()
    found = store.find(run, store.root(settings.load()))
    info = {**found.info(), "status": store.status(found), "path": str(found.dir)}
    files = sorted(p.relative_to(found.dir).as_posix() for p in found.dir.rglob("*") if p.is_file())
    code = 1 if info["status"] == "damaged" else 0
    if term.json:
        term.emit({**info, "events": found.events(), "files": files})
        return code
    lines = [f"{found.id}  {info['status']}", f"  path     {found.dir}"]
    facts = ("created", "finished", "key", "exit_code")
    lines.extend(f"  {name:8} {info[name]}" for name in facts if info.get(name) is not None)
    for title in ("request", "summary"):
        given = {k: v for k, v in info.get(title, {}).items() if v not in (None, [], {})}
        lines.extend(f"  {title:8} {k}: {v}" for k, v in given.items())
    lines.extend(f"  file     {name}" for name in files)
    term.result("\n".join(lines))
    return code


@command.command("path")
@click.argument("run", default="latest", shell_complete=_RUNS)
@common
def path(run: str) -> None:
    """Print a run's directory."""
    term = terminal()
    found = store.find(run, store.root(settings.load()))
    term.show(RunPath(path=str(found.dir)), str(found.dir))


@command.command("rm")
@click.argument("names", nargs=-1, required=True, metavar="RUN...", shell_complete=_RUNS)
@common
def rm(names: tuple[str, ...]) -> None:
    """Remove runs."""
    folder = store.root(settings.load())
    found = {run.id: run for run in (store.find(name, folder) for name in names)}
    for run in found.values():
        store.remove(run)
    _gone(list(found))


@command.command("prune")
@click.option("--keep", type=click.IntRange(min=0), help="How many to keep; default: keep_runs.")
@click.option("--days", type=Finite(), help="Only runs older than this.")
@common
def prune(keep: int | None, days: float | None) -> None:
    """Remove old runs; running ones stay."""
    current = settings.load()
    gone = store.prune(
        store.root(current),
        keep=current.keep_runs if keep is None else keep,
        older_than=None if days is None else timedelta(days=days),
    )
    _gone([run.id for run in gone])


def _gone(names: list[str]) -> None:
    text = "".join(f"removed {name}\n" for name in names) or "nothing to remove\n"
    terminal().show(RunsRemoved(removed=names), text)
