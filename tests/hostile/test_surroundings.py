"""Numbers that are none, variables that name nothing, files of other editors, addresses that are taken, odd terminals."""

from __future__ import annotations

import codecs
import os
import pty
import re
import socket
import subprocess
import sys

import pytest

from septran.cli import main as main_
from septran.errors import ConfigError, Diagnostic, Span
from tests.hostile.test_files import EMIT
from tests.hostile.test_modules import MODULE
from tests.hostile.test_modules import written as module
from tests.hostile.test_table import BATCH, refused, run  # noqa: F401  # a fixture
from tests.packaging.sources import ROOT
from tests.tasklang.test_reader import written

NUMBERS = {
    "gen --timeout": (*EMIT, "--timeout"),
    "gen --budget-minutes": (*EMIT, "--budget-minutes"),
    "verify --timeout": ("verify", "--timeout"),
    "batch --timeout": ("batch", "b.yaml", "--timeout"),
    "runs prune --days": ("runs", "prune", "--days"),
}


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e300", "-1", "", "1_0e"])
@pytest.mark.parametrize("command", NUMBERS)
def test_a_flag_that_is_no_number(run, command, value):  # noqa: F811
    refused(run(*NUMBERS[command], value), 2)


@pytest.mark.parametrize("line", ["budget_minutes = nan", "run_timeout_s = inf", "seed = -1"])
def test_a_setting_that_is_no_number(run, tmp_path, line):  # noqa: F811
    (tmp_path / "septran.toml").write_text(line)
    refused(run("config"), 2)


@pytest.mark.parametrize("word", [".nan", ".inf", "-1", "0", "many", "true"])
@pytest.mark.parametrize("name", ["minutes", "cell_minutes"])
def test_a_budget_that_is_no_number(run, tmp_path, name, word):  # noqa: F811
    (tmp_path / "b.yaml").write_text(f"{BATCH}budget: {{{name}: {word}}}\n")
    refused(run("batch", "b.yaml", "--list"), 2)


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("SEPTRAN_LOGIC_SECONDS", "abc", 2),
        ("SEPTRAN_LOGIC_SECONDS", "nan", 2),
        ("SEPTRAN_LOGIC_SECONDS", "0", 2),
        ("SEPTRAN_LOGIC_SECONDS", "-3", 2),
        ("SEPTRAN_PROJECT", "/none/such", 2),
        ("SEPTRAN_PROJECT", "/etc/passwd", 2),
        ("SEPTRAN_HOME", "~nobody-of-that-name/x", 3),
        ("SEPTRAN_HOME", f"/tmp/{'x' * 300}", 3),
        ("SEPTRAN_THREADS", "many", 2),
        ("SEPTRAN_THREADS", "0", 2),
    ],
)
def test_a_variable_that_names_nothing(run, tmp_path, monkeypatch, name, value, code):  # noqa: F811
    monkeypatch.setenv(name, value)
    logic = str(written(tmp_path))
    refused(run("gen", "--logic", logic, "--backend", "cpp", "--stop-after", "emit"), code)


def test_nobody_has_no_home(run, monkeypatch):  # noqa: F811
    """As in a container that runs as a number without a name."""
    monkeypatch.delenv("SEPTRAN_HOME")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", lambda uid: {}[uid])
    code, _, err = run(*EMIT)
    assert code == 3 and "set SEPTRAN_HOME" in err, err


@pytest.mark.parametrize("what", ["folder", "loop"])
def test_a_project_file_that_is_no_file(run, tmp_path, what):  # noqa: F811
    toml = tmp_path / "p" / "septran.toml"
    toml.parent.mkdir()
    toml.mkdir() if what == "folder" else toml.symlink_to(toml.name)
    refused(run("config", "--project", "p"), 2)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
def test_files_of_other_editors(run, tmp_path, mark, end):  # noqa: F811
    logic, batch = written(tmp_path), tmp_path / "b.yaml"
    batch.write_text(BATCH)
    for path in (logic, batch):
        path.write_bytes(mark + path.read_text().replace("\n", end).encode())
    assert run("check", str(logic))[0] == 0
    assert run("batch", "b.yaml", "--list")[0] == 0


@pytest.mark.slow
def test_a_module_of_another_editor(run, tmp_path):  # noqa: F811
    path = tmp_path / module(tmp_path)
    path.write_bytes(codecs.BOM_UTF8 + path.read_bytes())
    assert "class Model" in MODULE
    code, _, err = run("import", path.name)
    assert code == 0, err


def test_an_address_that_is_taken(run):  # noqa: F811
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused(run("serve", "--port", port), 3)


@pytest.mark.parametrize("host", ["nosuch.invalid", "999.1.1.1", "x" * 70 + ".invalid"])
def test_an_address_that_is_none(run, host):  # noqa: F811
    refused(run("serve", "--host", host, "--port", "0"), 3)


@pytest.mark.parametrize("command", [("verify", "--bundle"), ("prove", "--check")])
def test_a_bomb_of_json(run, tmp_path, command):  # noqa: F811
    (tmp_path / "bomb.json").write_text("[" * 100_000 + "]" * 100_000)
    refused(run(*command, "bomb.json"), 2)


def test_a_library_that_cannot_be_loaded(run, monkeypatch):  # noqa: F811
    def broken(**_: object) -> None:
        raise ImportError("libtorch.so: failed to map segment from shared object", name="torch")

    monkeypatch.setattr(main_.cli, "main", broken)
    refused(run("ls"), 3)


def test_a_line_of_megabytes_is_cut(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(f"{'a' * 10**6}here{'b' * 10**6}\n")
    span = Span(str(path), 1, 10**6 + 1, 4)
    error = ConfigError(Diagnostic(code="C010", message="m" * 10**6, span=span))
    text = error.diagnostics[0].render()
    assert len(text) < 4000
    excerpt, caret = text.splitlines()[-2:]
    assert excerpt[caret.index("^") :].startswith("here")


@pytest.mark.wider
@pytest.mark.parametrize(
    "surroundings",
    [
        {"COLUMNS": "0", "LINES": "0", "TERM": "nonsense"},
        pytest.param({"COLUMNS": "1", "TERM": "dumb"}, marks=pytest.mark.slow),
        pytest.param({"COLUMNS": "-7"}, marks=pytest.mark.slow),
    ],
)
def test_a_terminal_that_does_not_know_its_size_shows_the_verdict(tmp_path, surroundings):
    main, other = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "septran", *EMIT],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "SEPTRAN_HOME": "home", **surroundings},
        stdin=other,
        stdout=other,
        stderr=other,
    )
    os.close(other)
    seen = b""
    try:
        while chunk := os.read(main, 4096):
            seen += chunk
    except OSError:  # a terminal that nobody holds any more
        pass
    os.close(main)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())
    assert child.wait() == 0, text
    assert re.search(r"verdict\s+emitted", text), text
