"""What people give as a file: pipes, devices, loops, giants, folders that are files. Said before any work is done."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from tests.hostile.test_modules import written
from tests.hostile.test_table import refused, run  # noqa: F401  # a fixture

EMIT = ("gen", "--op", "relu", "--backend", "cpp", "--dim", "N=9", "--stop-after", "emit")
READ = {
    "gen --task": ("gen", "--backend", "cpp", "--task"),
    "gen --logic": ("gen", "--backend", "cpp", "--logic"),
    "gen --mapping": (*EMIT, "--mapping"),
    "gen --config": (*EMIT, "--writer", "llm", "--config"),
    "batch": ("batch",),
    "check": ("check",),
    "import": ("import",),
    "judge": ("judge", "--reference", "r.py"),
    "judge --reference": ("judge", "k.py", "--reference"),
    "verify --bundle": ("verify", "--bundle"),
    "prove --check": ("prove", "--check"),
    "config --config": ("config", "--dsl", "cpp", "--config"),
    "eval --list": ("eval", "--list"),
}
WRITTEN = {
    "gen": (*EMIT, "-o"),
    "batch --junit": ("batch", "b.yaml", "--junit"),
    "report": ("report", "-o"),
    "export": ("export", "-o"),
    "map": ("map", "--op", "relu", "--backend", "cpp", "-o"),
    "prove": ("prove", "--op", "relu", "--backend", "cpp", "--certificate"),
    "import": ("import", "m.py", "-o"),
    "judge --evidence": ("judge", "k.py", "--reference", "r.py", "--evidence"),
    "tasks export": ("tasks", "export", "--op", "relu", "-o"),
    "eval": ("eval", "-o"),
    "serve": ("serve", "--dir"),
    "init": ("init",),
}


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A folder with what is no plain file."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(20 << 30)
    return tmp_path


@pytest.mark.parametrize("name", ["pipe", "/dev/zero", "huge", "loop", "", "file/x", "x" * 300])
@pytest.mark.parametrize("command", READ)
def test_what_is_read(run, odd, command, name):  # noqa: F811
    refused(run(*READ[command], name), 2)


@pytest.mark.parametrize("name", ["loop", "file/x", "", "x" * 300])
@pytest.mark.parametrize("command", WRITTEN)
def test_what_is_written(run, odd, command, name):  # noqa: F811
    refused(run(*WRITTEN[command], name), 2)
    assert not (odd / "home" / "runs").exists(), "no work was done before"


@pytest.mark.parametrize("name", ["pipe", "/dev/full", "/proc/x", "/proc/sys/x"])
def test_what_the_system_refuses(run, odd, name):  # noqa: F811
    refused(run(*EMIT, "-o", name), 3)


def test_a_pipe_that_is_read_is_written_through(run, odd):  # noqa: F811
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append((odd / "pipe").read_text()), daemon=True)
    reader.start()
    code, _, err = run(*EMIT, "-o", "pipe")
    assert code == 0, err
    reader.join()
    assert "relu" in found[0]


def test_a_link_to_a_pipe_is_written_through(run, tmp_path):  # noqa: F811
    """As /dev/stdout is one."""
    inner, outer = os.pipe()
    code, _, err = run(*EMIT, "-o", f"/dev/fd/{outer}")
    os.close(outer)
    assert code == 0, err
    with os.fdopen(inner, encoding="utf-8") as stream:
        assert "relu" in stream.read()


@pytest.mark.slow
def test_an_import_is_written_whole_through_a_link_and_beside_no_device(run, tmp_path, monkeypatch):  # noqa: F811
    name = written(tmp_path)
    (tmp_path / "link.py").symlink_to("target.py")
    assert run("import", name, "-o", "link.py")[0] == 0
    assert (tmp_path / "link.py").is_symlink()
    before = (tmp_path / "target.py").read_text()
    assert "def " in before and (tmp_path / "link.graph.json").is_file()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        refused(run("import", name, "-o", "link.py"), 3)
    assert (tmp_path / "target.py").read_text() == before
    assert not list(tmp_path.glob(".*.py.*")), "no half file is left"
    assert run("import", name, "-o", "/dev/null")[0] == 0
    assert not Path("/dev/null.graph.json").exists()
