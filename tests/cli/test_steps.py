"""Long steps say what is awaited and for how long; --timeout and Ctrl-C say how to go on."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from septran.cli import steps as steps_
from septran.cli.console import Terminal
from septran.cli.deadline import within
from septran.cli.signals import signals_interrupt
from septran.errors import Interrupted, OutOfTime
from septran.run import one as one_
from tests.packaging.sources import ROOT
from tests.tasklang.test_reader import written

RELU = ("gen", "--op", "relu", "--backend", "cpp", "--dim", "N=9")
EMIT = ("--stop-after", "emit")


def test_a_log_hears_what_is_awaited(monkeypatch, capsys):
    monkeypatch.setattr(steps_, "STILL_S", 0.02)
    with steps_.steps(Terminal()) as progress:
        progress("building x.cpp")
        time.sleep(0.2)
    err = capsys.readouterr().err.splitlines()
    assert err[0] == "building x.cpp"
    assert err[1] == "still building x.cpp: 0 s"


def test_quiet_is_quiet(monkeypatch, capsys):
    monkeypatch.setattr(steps_, "STILL_S", 0.02)
    with steps_.steps(Terminal(quiet=1)) as progress:
        progress("building x.cpp")
        time.sleep(0.1)
    assert capsys.readouterr().err == ""


@pytest.mark.wider
def test_a_terminal_shows_elapsed_time(tmp_path):
    main, other = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "septran", *RELU, "--stop-after", "compile"],
        cwd=tmp_path,
        env={**os.environ, "SEPTRAN_HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "TERM": "xterm"},
        stdout=subprocess.DEVNULL,
        stderr=other,
    ) as child:
        os.close(other)
        seen = b""
        while True:
            try:
                chunk = os.read(main, 4096)
            except OSError:  # a terminal that nobody holds any more
                break
            seen += chunk
        os.close(main)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())
    assert child.returncode == 0, text
    assert "building relu.cpp: 0 s" in text, "what is awaited"
    assert re.search(r"building relu.cpp  \d+\.\d s", text), "how long it took"


@pytest.fixture
def stopped(septran, monkeypatch, tmp_path):
    """Call gen, which is stopped by `why` halfway; then the command that it printed."""
    monkeypatch.setenv("SEPTRAN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def call(why: BaseException, *flags: str):
        def stop(*_: object) -> None:
            raise why

        with monkeypatch.context() as patched:
            patched.setattr(one_, "prove_and_keep", stop)
            first = septran(*flags)
        (line,) = [line for line in first.err.splitlines() if "septran gen --resume" in line]
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        words = line.partition("septran ")[2].split()
        return first, septran(*words, "--json")

    return call


def test_ctrl_c_prints_the_command_that_goes_on(stopped):
    first, again = stopped(KeyboardInterrupt(), *RELU, *EMIT, "--dtype", "float64")
    assert first.code == 130
    assert again.code == 0, again.err
    assert (again.json["level"], again.json["dtype"]) == ("emitted", "float64")


def test_a_logic_file_is_found_from_another_folder(stopped, tmp_path):
    written(tmp_path, reference="return X + X")
    flags = ("gen", "--logic", "logic.py", "--backend", "cpp", "--dim", "N=9", *EMIT)
    first, again = stopped(OutOfTime(2), *flags)
    assert first.code == 3 and "V003" in first.err and "2 s" in first.err
    assert again.code == 0, again.err
    assert again.json["dims"] == {"N": 9}


def test_a_project_a_model_and_a_copy_need_not_be_named_again(stopped, tmp_path, monkeypatch):
    (tmp_path / "project").mkdir()
    monkeypatch.setenv("SEPTRAN_MODEL", "m")
    flags = (*RELU, *EMIT, "--project", "project", "-o", "copy.cpp")

    class Forgetful(KeyboardInterrupt):
        """Another shell knows nothing of this one's variables."""

        def __init__(self) -> None:
            for name in ("SEPTRAN_PROJECT", "SEPTRAN_MODEL"):
                monkeypatch.setenv(name, "")

    first, again = stopped(Forgetful, *flags)
    assert first.code == 130
    assert again.code == 0, again.err
    assert Path(os.environ["SEPTRAN_PROJECT"]) == tmp_path / "project"
    assert os.environ["SEPTRAN_MODEL"] == "m"
    assert (tmp_path / "copy.cpp").read_text() == Path(again.json["kernel"]).read_text()


def test_a_run_in_a_project_elsewhere_is_named_by_its_path(stopped, tmp_path, monkeypatch):
    monkeypatch.delenv("SEPTRAN_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "project").mkdir()
    first, again = stopped(KeyboardInterrupt(), *RELU, *EMIT, "--project", "project")
    assert first.code == 130 and f"--resume {tmp_path}/project/.septran/runs/" in first.err
    assert again.code == 0, again.err


# the signal may come between open() and `with`; the file is closed by its destructor
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("command", [RELU, ("verify", "latest")])
def test_a_timeout_stops_for_good(septran, monkeypatch, tmp_path, command):
    monkeypatch.setenv("SEPTRAN_HOME", str(tmp_path))
    if command[0] == "verify":
        assert septran(*RELU, *EMIT).code == 0
    late = septran(*command, "--timeout", "0.001", "--json")
    assert (late.code, late.json["errors"][0]["code"]) == (3, "V003")
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.parametrize("when", ["set", "cleared"])
def test_an_alarm_at_either_end_of_the_body_leaves_no_handler(monkeypatch, when):
    set_timer, before = signal.setitimer, signal.getsignal(signal.SIGALRM)

    def rings(which: int, seconds: float) -> None:
        set_timer(which, 0)
        if (seconds > 0) == (when == "set"):
            signal.raise_signal(signal.SIGALRM)

    monkeypatch.setattr(signal, "setitimer", rings)
    with pytest.raises(OutOfTime), within(9):
        pass
    assert signal.getsignal(signal.SIGALRM) == before


class Slow:
    """Its destructor is where the signal finds the command; Python drops what is raised there."""

    def __init__(self, number: int | None = None) -> None:
        self.number = number

    def __del__(self) -> None:
        if self.number is not None:
            os.kill(os.getpid(), self.number)
        time.sleep(0.2)


@pytest.fixture
def heard():
    """Ctrl-C interrupts, also where the shell that started the tests in the background has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("number", [None, signal.SIGTERM, signal.SIGINT])
def test_what_ends_a_command_is_not_lost_in_a_destructor(number):
    ending = {None: OutOfTime, signal.SIGTERM: Interrupted, signal.SIGINT: KeyboardInterrupt}
    hook = sys.unraisablehook
    with (
        pytest.raises(ending[number]),
        signals_interrupt(),
        within(0.05 if number is None else None),
    ):
        Slow(number)
        for _ in range(1000):
            time.sleep(0.01)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert (sys.unraisablehook, signal.getsignal(signal.SIGALRM)) == (hook, signal.SIG_DFL)


def test_a_timeout_of_nothing_is_refused(septran):
    assert septran(*RELU, "--timeout", "0").code == 2
