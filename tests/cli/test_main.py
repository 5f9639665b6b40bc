"""Exit codes, streams and speed of the command line itself."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys

import click
import pytest

from septran import __version__, assets
from septran.cli import main as main_
from septran.cli.console import Terminal, columns, paint
from septran.errors import (
    ConfigError,
    Diagnostic,
    EnvironmentProblem,
    InternalError,
    NotCorrect,
    Span,
    TaskLangError,
)
from tests.packaging.sources import ROOT


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    @click.command("boom")
    def boom() -> None:
        raise error

    monkeypatch.setattr(main_.Lazy, "get_command", lambda self, ctx, name: boom)
    monkeypatch.setattr(main_.Lazy, "list_commands", lambda self, ctx: ["boom"])


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError.of("C001", "x"), 2),
        (TaskLangError.of("E110", "x"), 2),
        (NotCorrect.of("V100", "x"), 1),
        (EnvironmentProblem.of("V001", "x"), 3),
        (OSError(errno.ENOSPC, "No space left on device", "/disk/f"), 3),
        (PermissionError(errno.EACCES, "Permission denied", "/disk/f"), 3),
        (click.UsageError("x"), 2),
        (KeyboardInterrupt(), 130),
        (click.Abort(), 130),
        (InternalError("x"), 4),
        (ZeroDivisionError("x"), 4),
        (RecursionError("x"), 4),
        (SystemExit(3), 3),
    ],
)
def test_each_error_has_its_exit_code(error, code, septran, monkeypatch):
    raising(monkeypatch, error)
    found = septran("boom")
    assert found.code == code
    assert found.out == ""
    assert "Traceback" not in found.err


def test_a_bug_keeps_its_traceback_in_a_file(septran, monkeypatch, fresh_home):
    raising(monkeypatch, ZeroDivisionError("secret sauce"))
    found = septran("boom")
    (kept,) = (fresh_home / "crashes").iterdir()
    assert "ZeroDivisionError: secret sauce" in kept.read_text()
    assert "Traceback" in kept.read_text()
    assert str(kept) in found.err
    assert "please report" in found.err


def test_errors_as_json(septran, monkeypatch, tmp_path):
    logic = tmp_path / "a.py"
    logic.write_text("x = 1\n")
    problems = [
        Diagnostic(code="E110", message="one", span=Span(str(logic), 1, 5), help="do this"),
        Diagnostic(code="E112", message="two"),
    ]
    raising(monkeypatch, TaskLangError(problems))

    @click.command("boom")
    @main_.common
    def boom() -> None:
        raise TaskLangError(problems)

    monkeypatch.setattr(main_.Lazy, "get_command", lambda self, ctx, name: boom)
    found = septran("boom", "--json")
    assert found.code == 2
    assert found.json["schema"] == "septran.error/1"
    assert [e["code"] for e in found.json["errors"]] == ["E110", "E112"]
    assert found.json["errors"][0]["line"] == 1
    assert "error[E110]: one" in found.err and "x = 1" in found.err


def test_unknown_command_names_the_nearest(septran):
    found = septran("doctr")
    assert found.code == 2
    assert "did you mean 'doctor'?" in found.err


def test_an_operator_s_name_alone_is_told_where_it_goes(septran):
    done = septran("gen", "softmax")
    assert done.code == 2
    assert "help: septran gen --op softmax" in done.err
    assert "help: septran gen --help" in septran("gen", "no_such_operator").err


def test_usage_errors_are_json_too(septran):
    found = septran("gen", "--attempts", "x", "--json")
    assert found.code == 2
    assert found.json["errors"][0]["code"] == "C003"


def test_version_and_help(septran):
    assert septran("--version").out == f"septran {__version__}\n"
    text = septran("--help").out
    for name in main_._COMMANDS:
        assert f"  {name} " in text


@pytest.mark.parametrize("name", sorted(main_._COMMANDS))
def test_every_command_explains_itself(name, septran):
    found = septran(name, "--help")
    assert found.code == 0
    assert "Usage: septran " + name in found.out
    context = click.Context(main_.cli)
    command = main_.cli.get_command(context, name)
    assert command is not None and command.name == name


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_help_is_instant():
    """Budget 300 ms of the processor's time; best of five, with slack for a machine that is busy."""
    times = []
    for _ in range(5):
        before = _spent()
        subprocess.run(
            [sys.executable, "-m", "septran", "--help"], cwd=ROOT, check=True, capture_output=True
        )
        times.append(_spent() - before)
    assert min(times) < 0.6


def test_a_reader_that_leaves_is_no_error(tmp_path):
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {sys.executable} -m septran completion bash | true"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_ctrl_c_is_130(tmp_path):
    code = (
        "import sys, time, click\n"
        "from septran.cli import main as m\n"
        "@click.command('boom')\n"
        "def boom():\n"
        "    print('up', flush=True)\n"
        # many sleeps: a signal between two instructions before the first one would wait for its end
        "    for _ in range(300): time.sleep(0.1)\n"
        "m.Lazy.get_command = lambda self, ctx, name: boom\n"
        "m.Lazy.list_commands = lambda self, ctx: ['boom']\n"
        "sys.exit(m.main(['boom']))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a test run in the background of a script inherits SIGINT ignored; a terminal does not
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as child:
        assert child.stdout is not None and child.stdout.readline() == "up\n"
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "Traceback" not in err


def test_project_option_reaches_the_layers(septran, tmp_path, monkeypatch):
    (tmp_path / "mappings").mkdir()
    (tmp_path / "mappings" / "mine.yaml").write_text("")
    monkeypatch.setenv("SEPTRAN_PROJECT", "/nowhere")
    found = septran("assets", "ls", "mappings", "--project", str(tmp_path), "--json")
    entry = next(e for e in found.json["assets"] if e["name"] == "mappings/mine.yaml")
    assert entry["layer"] == "project"
    assert os.environ["SEPTRAN_PROJECT"] == str(tmp_path.resolve())
    assert assets.find_project() == tmp_path.resolve()


def test_not_a_number_is_null_in_json(capsys):
    Terminal().emit({"a": float("nan"), "b": [float("inf"), 1.5], "c": {"d": -float("inf")}})
    assert capsys.readouterr().out == '{"a": null, "b": [null, 1.5], "c": {"d": null}}\n'


def test_quiet_and_verbose(capsys):
    Terminal(quiet=1).note("x")
    Terminal().detail("x")
    Terminal(verbose=1).detail("y")
    out, err = capsys.readouterr()
    assert (out, err) == ("", "y\n")


def test_colour_only_when_asked(capsys, monkeypatch):
    text = "error[E110]: bad\n   = help: x"
    Terminal().error(text)
    assert "\x1b" not in capsys.readouterr().err
    Terminal(color="always").error(text)
    assert "\x1b[31m" in capsys.readouterr().err
    assert click.unstyle(paint(text)) == text


def test_columns_line_up():
    assert columns(("a", "bb"), [["1", "2"], ["333", ""]]) == "a    bb\n1    2\n333\n"
