"""Run directories survive kills, name themselves, and are found, listed and removed."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest

from septran import settings
from septran.atomic import write_atomic
from septran.cli.main import main
from septran.errors import ConfigError
from septran.run import store
from tests.packaging.sources import ROOT


@pytest.fixture
def current(fresh_home):
    return settings.load()


def test_a_new_run_has_its_record(current, fresh_home):
    run = store.create({"op": "gemm", "dims": {"M": 3}}, label=("gemm", "a/b c"), settings=current)
    assert run.dir.parent == fresh_home / "runs"
    assert run.id.split("--")[1:3] == ["gemm", "a-b-c"]
    info = run.info()
    assert (info["schema"], info["status"], info["pid"]) == (
        "septran.run/1",
        "running",
        os.getpid(),
    )
    assert info["request"] == {"op": "gemm", "dims": {"M": 3}}
    assert info["settings"]["writer"]["value"] == "library"
    assert info["versions"]["septran"] and info["machine"]["cores"] >= 1
    assert (run.dir.parent / "latest").resolve() == run.dir.resolve()
    run.finish("finished", exit_code=0, summary={"level": "accurate"})
    assert store.status(run) == "finished"
    assert run.info()["summary"] == {"level": "accurate"}


def test_equal_requests_have_equal_keys(current):
    keys = [
        store.create(request, label=("x",), settings=current).info()["key"]
        for request in ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1, "b": 3})
    ]
    assert keys[0] == keys[1] != keys[2]


def test_without_a_home_runs_live_in_the_project(monkeypatch, in_tmp):
    monkeypatch.delenv("SEPTRAN_HOME")
    run = store.create({}, label=("x",), settings=settings.load())
    assert run.dir.parent == in_tmp / ".septran" / "runs"
    assert (in_tmp / ".septran" / ".gitignore").read_text() == "*\n"


def test_write_and_events(current):
    run = store.create({}, label=("x",), settings=current)
    assert run.write("attempts/01/reply.md", "hi").read_text() == "hi"
    assert run.write("blob", b"\0").read_bytes() == b"\0"
    run.event("compiled", seconds=1.5)
    run.event("done")
    assert [e["kind"] for e in run.events()] == ["compiled", "done"]
    with (run.dir / "events.jsonl").open("a") as file:
        file.write('{"kind": "torn')
    assert len(run.events()) == 2
    with pytest.raises(ValueError, match="leaves the run"):
        run.write("../escape", "x")
    assert run.subdir("a/b").is_dir()


def test_write_atomic_keeps_the_old_file_when_it_fails(tmp_path, monkeypatch):
    path = write_atomic(tmp_path / "x", "old")

    def broken(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="No space"):
        write_atomic(path, "new" * 1000)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_run_that_filled_the_disk_says_so(current, monkeypatch, capsys):
    """The bytes kept for the last words are there when everything else fails."""
    run = store.create({}, label=("x",), settings=current)
    reserve = next(p for p in run.dir.iterdir() if p.stat().st_size >= 1 << 14)

    def full(handle: int) -> None:
        if reserve.exists():
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        run.write("kernel.cpp", "x")
    run.fail(OSError(errno.ENOSPC, "No space left on device"))
    assert store.status(run) == "failed"
    assert run.info()["exit_code"] == 3
    assert run.info()["summary"] == {"why": "[V002] No space left on device"}
    assert main(("runs", "ls")) == 0
    assert "No space left on device" in capsys.readouterr().out


def test_a_closed_run_keeps_no_space_back(current):
    run = store.create({}, label=("x",), settings=current)
    run.finish("finished", exit_code=0, summary={})
    assert sorted(p.name for p in run.dir.iterdir()) == ["run.json", "seals"]


def test_find(current):
    folder = store.root(current)
    runs = [store.create({"n": i}, label=(f"op{i}",), settings=current) for i in range(2)]
    assert store.find("latest", folder).id == store.listing(folder)[0].id
    assert store.find(runs[0].id, folder) == runs[0]
    assert store.find("op1", folder) == runs[1]
    assert store.find(str(runs[1].dir), folder).id == runs[1].id
    for name, code in (("op", "C031"), ("nothing", "C030")):
        with pytest.raises(ConfigError) as caught:
            store.find(name, folder)
        assert caught.value.codes == (code,)


def test_latest_is_the_last_run_whatever_the_clock_says(current):
    ahead = store.create(request={}, label=("ahead",), settings=current)
    ahead.dir.rename(ahead.dir.parent / f"2999{ahead.id[4:]}")
    run = store.create(request={}, label=("after",), settings=current)
    assert store.find("latest", run.dir.parent).id == run.id


def test_remove_points_latest_to_what_is_left(current):
    folder = store.root(current)
    first = store.create({}, label=("first",), settings=current)
    second = store.create({}, label=("second",), settings=current)
    store.remove(second)
    assert (folder / "latest").resolve() == first.dir.resolve()
    store.remove(first)
    assert not (folder / "latest").is_symlink()
    assert store.listing(folder) == ()


def test_prune_spares_the_newest_and_the_running(current):
    folder = store.root(current)
    runs = [store.create({}, label=(f"r{i}",), settings=current) for i in range(4)]
    for run in runs[1:]:
        run.finish("finished", exit_code=0, summary={})
    assert store.prune(folder, keep=0, older_than=timedelta(days=1)) == ()
    order = store.listing(folder)
    gone = store.prune(folder, keep=2)
    kept = set(store.listing(folder))
    assert set(order[:2]) <= kept
    assert runs[0] in kept
    assert runs[0] not in gone


def test_a_killed_run_is_interrupted_and_whole(fresh_home):
    code = (
        "from septran import settings\n"
        "from septran.run import store\n"
        "run = store.create({}, label=('k',), settings=settings.load())\n"
        "print(run.dir, flush=True)\n"
        "n = 0\n"
        "while True:\n"
        "    run.event('tick', n=n); run.write_json('state.json', {'n': n, 'pad': 'x' * 5000}); n += 1\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert child.stdout is not None
    run = store.Run(settings.Path(child.stdout.readline().strip()))
    deadline = time.monotonic() + 20
    while not (run.dir / "state.json").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert store.status(run) == "running"
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert store.status(run) == "interrupted"
    assert len(json.loads((run.dir / "state.json").read_text())["pad"]) == 5000
    assert [e["n"] for e in run.events()] == list(range(len(run.events())))


def test_a_device_and_a_link_are_written_through(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)  # dangling
    write_atomic(link, "one")
    assert link.is_symlink() and target.read_text() == "one"
    target.chmod(0o600)
    write_atomic(link, "two")
    assert link.is_symlink() and target.read_text() == "two"
    assert target.stat().st_mode & 0o777 == 0o600
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_atomic(pipe, "three")
    reader.join(timeout=10)
    assert read == ["three"] and pipe.is_fifo()
    before = Path("/dev/null").stat()
    write_atomic(Path("/dev/null"), "gone")
    assert Path("/dev/null").stat().st_rdev == before.st_rdev
