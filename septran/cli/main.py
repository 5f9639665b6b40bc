"""The `septran` command: which commands there are, and how an error becomes an exit code.

Exit codes: 0 done and verified; 1 a kernel is not correct; 2 the user's input; 3 the environment, or it
cannot be verified here; 4 a SepTran bug; 130 interrupted. Commands load when they are called, so that
`septran --help` is instant.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from septran import __version__
from septran.cli.console import ReaderLeft, Terminal
from septran.cli.options import common
from septran.cli.signals import signals_interrupt
from septran.surroundings import STDOUT

_COMMANDS = {
    "gen": ("gen", "Generate one verified kernel."),
    "verify": ("verify", "Verify a stored run or kernel again."),
    "judge": ("judge", "Judge a kernel that SepTran did not write against a torch reference."),
    "batch": ("batch", "Run a matrix of operators, backends, sizes and types; resumable."),
    "report": ("report", "Write the report of a run or batch: html, md, json or csv; compare two."),
    "export": ("export", "Write a run's verdict and kernel as a signed bundle."),
    "bench": ("bench", "Measure kernels against torch."),
    "predict": ("predict", "Predict a kernel's time and what limits it; nothing runs."),
    "tune": ("tune", "Search the values that a mapping leaves open; gen takes what is better."),
    "import": ("importing", "Write a torch module as Task Lang text."),
    "eval": ("eval", "Measure how well a model writes leaves."),
    "tasks": ("tasks", "Write leaf tasks as data for training."),
    "serve": ("serve", "Judge leaves for trainers and agents over HTTP."),
    "mcp": ("mcp", "Judge leaves for coding agents: an MCP server."),
    "map": ("map", "Print the explicit mapping a policy produces."),
    "show": ("show", "Show the task, the program after a pass, TIR, a prompt or a kernel."),
    "prove": ("prove", "Prove bounds, races, coverage, order and data of a kernel's hierarchy."),
    "check": ("check", "Check logic and mapping files; no device, no model."),
    "runs": ("runs", "List, show and remove stored runs."),
    "ls": ("ls", "List operators, backends, mappings, agents or models."),
    "assets": ("assets", "List, compare and copy data files."),
    "config": ("config", "Print the settings and where each comes from."),
    "doctor": ("doctor", "Tell what can be emitted, compiled and run here."),
    "explain": ("explain", "Explain an error code."),
    "init": ("init", "Start a project folder."),
    "completion": ("completion", "Print a shell completion script."),
}
"""command -> (module in septran.cli that defines `command`, help line)."""


class Lazy(click.Group):
    """A group whose commands are imported when called; help lines come from the table."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the command names in the table's order."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command."""
        if cmd_name not in _COMMANDS:
            return None
        import importlib

        module = importlib.import_module(f"septran.cli.{_COMMANDS[cmd_name][0]}")
        found: click.Command = module.command
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; an unknown one is an error with the nearest name."""
        if args and args[0] not in self.list_commands(ctx):
            from septran.errors import closest

            near = closest(args[0], self.list_commands(ctx))
            raise click.UsageError(f"no command {args[0]!r}{near}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command list without importing the commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name][1]) for name in self.list_commands(ctx)])


@click.group(
    cls=Lazy,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 verified, 1 not correct, 2 your input, 3 environment, 4 SepTran bug, 5 nothing selected.",
)
@click.version_option(__version__, message="septran %(version)s")
@common
def cli() -> None:
    """Turn operator logic and a target's mapping into kernels that are verified against torch."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; never lets a traceback out."""
    args = list(sys.argv[1:] if argv is None else argv)
    term = Terminal(json="--json" in args)
    _usable_streams()
    try:
        with signals_interrupt():
            result = cli.main(args=args, prog_name="septran", standalone_mode=False, obj=term)
            sys.stdout.flush()
    except (BrokenPipeError, ReaderLeft):  # head or less has seen enough; not our mistake
        _forget_stdout()
        return 0
    except OSError as e:
        if e.errno == errno.ENOSPC and e.filename in (None, STDOUT):
            _forget_stdout()  # the same bytes would fail again when Python ends
        return _report(e, term)
    except BaseException as e:
        return _report(e, term)
    return result if isinstance(result, int) else 0


def _usable_streams() -> None:
    """Give Python streams where the shell closed them, and let no character stop the output."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # a full device tells a result that is lost; messages may get lost
            path = "/dev/full" if name == "stdout" and Path("/dev/full").exists() else os.devnull
            file = Path(path).open("w", encoding="utf-8")  # noqa: SIM115  # as long as the process
            setattr(sys, name, file)
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _forget_stdout() -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(e: BaseException, term: Terminal) -> int:
    """Print what a person (or, with --json, a program) needs about `e`; return the exit code."""
    from septran.errors import EnvironmentProblem, Interrupted, OutOfTime
    from septran.surroundings import as_problem

    if isinstance(e, SystemExit):
        return e.code if isinstance(e.code, int) else 2
    if isinstance(e, click.Abort) and isinstance(e.__cause__, KeyboardInterrupt):
        e = e.__cause__  # click's word for all of them
    if isinstance(e, OutOfTime):
        e = EnvironmentProblem.of("V003", str(e), help="allow more time")
    if isinstance(e, Interrupted):
        term.error(str(e))
        return e.exit_code
    if isinstance(e, (KeyboardInterrupt, click.Abort)):
        term.error("interrupted")
        return 130
    if isinstance(e, click.ClickException):
        return _usage(e, term)
    problem = as_problem(e)
    if problem is None:
        return _bug(e, term)
    text = "\n\n".join(d.render() for d in problem.diagnostics)
    _fail(term, problem.exit_code, problem.to_json(), text)
    return problem.exit_code


def _usage(e: click.ClickException, term: Terminal) -> int:
    lines = [f"error: {e.format_message()}"]
    if isinstance(e, click.UsageError) and e.ctx is not None:
        lines.append(f"   = help: {_instead(e.format_message(), e.ctx)}")
    problem: dict[str, object] = {
        "code": "C003",
        "message": e.format_message(),
        "file": None,
        "line": None,
    }
    _fail(term, 2, [problem], "\n".join(lines))
    return 2


def _instead(message: str, ctx: click.Context) -> str:
    """Return what to write in place of a usage error: an operator's name goes behind --op."""
    word = re.search(r"unexpected extra argument \((\w+)\)", message)
    if word and any("--op" in p.opts for p in ctx.command.params):
        from septran.plan import catalog

        if word[1] in {op["name"] for op in catalog.ops()}:
            return f"{ctx.command_path} --op {word[1]}"
    return f"{ctx.command_path} --help"


def _bug(e: BaseException, term: Terminal) -> int:
    """Keep the traceback in a file and say where; the terminal gets two lines."""
    import traceback
    from datetime import UTC, datetime

    from septran import assets

    text = "".join(traceback.format_exception(e))
    name = f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S}-{os.getpid()}.txt"
    path = assets.home() / "crashes" / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"septran {__version__}\n{sys.argv}\n\n{text}", encoding="utf-8")
        kept = f"the traceback is in {path}"
    except OSError:
        kept = text
    message = f"{type(e).__name__}: {e}".splitlines()[0]
    rendered = (
        f"internal error: {message}\n   = note: {kept}\n"
        "   = help: this is a bug in SepTran; please report it with that file"
    )
    _fail(term, 4, [{"code": "INTERNAL", "message": message, "traceback": str(path)}], rendered)
    return 4


def _fail(term: Terminal, code: int, problems: Sequence[dict[str, object]], rendered: str) -> None:
    if term.json:
        from septran.errors import Failure

        term.emit(Failure(code, tuple(problems)).to_json())
    term.error(rendered)
