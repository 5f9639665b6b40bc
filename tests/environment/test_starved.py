"""A machine that does not serve a child says nothing of the kernel: `unavailable`, tried again, and never a finished result."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from septran import sandbox
from septran.environment import service
from septran.environment.ledger import Ledger, ends, record
from septran.environment.request import Bounds
from septran.environment.service import Service
from septran.environment.step import Submission, step
from septran.environment.tasks import Asked
from septran.errors import EnvironmentProblem, Failure
from septran.host import process
from septran.outcome import Level
from septran.sandbox import STARVED, Confined, Limits, _cpu_seconds
from septran.settings import load
from septran.toolchain import confined
from septran.unserved import Unserved, tree
from septran.verify import pipe
from septran.verify.session import Sessions
from tests.verify import kernels

ASKED = Asked(op="transpose", backend="cpp", dims={"M": 33, "N": 18})


def sent(seed: int = 1) -> Submission:
    return Submission(
        asked=ASKED, leaf="transpose_leaf", reply="```cpp\nlong i = 0;\n```", seed=seed
    )


def runs(pid: int, name: str) -> bool:
    """Whether a process is a program or script called `name`; a fork of a preloaded Python has that one's words, and lies in the script's folder."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    names = [Path(word).name for word in words][:4]
    return name in names or (
        "sandbox_warm.py" in names and Path(f"/proc/{pid}/cwd/{name}").exists()
    )


@contextlib.contextmanager
def stopping(under: int, name: str, *, after_s: float = 0.0) -> Iterator[list[int]]:
    """Stop every process below `under` that runs a program or script called `name`, once it has used so many processor seconds."""
    end, stopped = threading.Event(), []

    def hunt() -> None:
        while not end.is_set():
            for pid in tree(under)[1:]:
                with contextlib.suppress(OSError):
                    if pid not in stopped and runs(pid, name) and _cpu_seconds(pid) >= after_s:
                        os.kill(pid, signal.SIGSTOP)
                        stopped.append(pid)
            end.wait(0.002)

    thread = threading.Thread(target=hunt)
    thread.start()
    try:
        yield stopped
    finally:
        end.set()
        thread.join()
        for pid in stopped:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def test_time_in_which_a_process_is_stopped_is_not_its_own() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        asleep, stopped = Unserved(process.pid), Unserved(process.pid)
        for clock, number in ((asleep, signal.SIGCONT), (stopped, signal.SIGSTOP)):
            process.send_signal(number)
            clock.look(0.0)
            for _ in range(10):
                time.sleep(0.03)
                clock.look(0.03)
        process.kill()
    assert stopped.seconds() > 0.2
    assert asleep.seconds() < 0.2, "a process that sleeps was served"


def test_a_process_without_a_processor_is_not_served() -> None:
    code = "import os\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nwhile True: pass"
    with contextlib.ExitStack() as stack:
        busy = [stack.enter_context(subprocess.Popen([sys.executable, "-c", code])) for _ in "abcd"]
        time.sleep(0.3)
        clock = Unserved(busy[0].pid)
        time.sleep(1.0)
        queued = clock.seconds()
        for one in busy:
            one.kill()
    assert queued > 0.4, "four processes share one processor"


@pytest.mark.parametrize("stop", [True, False])
def test_a_stopped_command_is_starved_and_a_sleeping_one_is_late(
    stop: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "_MOST", 3)
    limits = Limits(timeout_s=0.6)
    child = Confined(["/bin/sleep", "60"], rw_dir=tmp_path, limits=limits)
    if stop:
        time.sleep(0.2)
        os.killpg(child.pid, signal.SIGSTOP)
        for pid in tree(child.pid):
            os.kill(pid, signal.SIGSTOP)
    assert child.wait().why == (STARVED if stop else "timeout")


def test_a_compiler_that_is_not_run_is_the_machines_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(confined, "patience", lambda: 0.5)
    monkeypatch.setattr(sandbox, "_MOST", 3)
    limit_s = 2.0  # on a busy machine it takes a while to find what is to be stopped
    with stopping(os.getpid(), "sleep"), pytest.raises(EnvironmentProblem) as error:
        confined.run(["/bin/sleep", "60"], tmp_path, limit_s)
    assert error.value.codes == ("V214",)
    assert confined.run(["/bin/sleep", "60"], tmp_path, limit_s).code == 124


@pytest.mark.slow
def test_a_kernel_that_is_not_run_is_not_accused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spin = "for (volatile long i = 0; i < 200'000'000; ++i) {}\n" + kernels.GEMM
    asked = Sessions(call_timeout_s=1.0)
    with monkeypatch.context() as hasty, stopping(os.getpid(), "verify_child.py", after_s=1.2):
        # what is stopped for ever is not waited for longer; a busy machine is, below
        hasty.setattr(pipe, "patience", lambda: 1.0)
        hasty.setattr(pipe, "MOST", 1.1)
        verdict = kernels.check(kernels.entry(spin), kernels.gemm(), tmp_path / "s", sessions=asked)
    assert verdict.level is Level.UNAVAILABLE and verdict.code == "V214", verdict.message
    for body in ("for (volatile long i = 0;; ++i) {}", "sleep(60);"):
        source = kernels.entry(body, before="#include <unistd.h>")
        verdict = kernels.check(source, kernels.gemm(), tmp_path / "e", sessions=asked)
        assert verdict.code == "V206", (body, verdict.message)


def test_a_host_that_is_not_run_costs_a_leaf_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_START_S", 0.05)
    monkeypatch.setattr(process, "_PATIENCE", 2)
    answered = process.HostProcess.answered
    # one that is stopped after its start, as on a busy machine, is not waited for longer
    monkeypatch.setattr(
        process.HostProcess, "answered", lambda self, s: answered(self, min(s, 1.0))
    )
    with stopping(os.getpid(), "kernel.host"):
        found = step(sent(), settings=load())
    assert found.rung == "unavailable" and not ends(found.to_json())


@pytest.mark.slow
def test_what_could_not_be_judged_is_not_kept_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(service, "_PAUSE_S", 0.05)
    judge = Service(tmp_path, settings=load(), bounds=Bounds(seconds=4.0))
    judge.start()
    try:
        with stopping(os.getpid(), "kernel.host") as stopped:
            name, new = judge.submit(sent())
            state = judge.verdict(name, wait_s=60.0)
        assert new and state is not None
        assert (state["state"], state["result"]["errors"][0]["code"]) == ("unavailable", "V214")
        # on a busy machine a try may end before its kernel has begun
        assert judge._tries[name] == service._TRIES >= len(stopped)
        assert not list((tmp_path / "done").iterdir())
        assert not (tmp_path / "trajectories.jsonl").exists()
        assert "took too long" in judge.explain(name)
        # what is stopped for ever is not waited for longer; a machine that other tests keep busy is
        judge._bounds = Bounds(seconds=100.0)
        assert judge.submit(sent()) == (name, False)
        state = judge.verdict(name, wait_s=120.0)
        assert state is not None and state["result"].get("rung") == "ran", state
    finally:
        judge.close()
    lines = (tmp_path / "trajectories.jsonl").read_text().splitlines()
    assert [json.loads(x)["id"] for x in lines] == [name]


@pytest.mark.parametrize(
    ("result", "kept"),
    [
        ({"schema": "septran.reward/1", "rung": "ran"}, True),
        ({"schema": "septran.reward/1", "rung": "unavailable"}, False),
        (Failure.said(2, "C137", "no such leaf").to_json(), True),
        (Failure.said(3, "V214", "no time").to_json(), False),
        (Failure.said(4, "INTERNAL", "OSError: no space left").to_json(), False),
    ],
)
def test_only_what_says_something_of_the_submission_ends_it(
    result: dict, kept: bool, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path)
    name = ledger.accept(sent())
    record(tmp_path, name, result)
    assert (ledger.result(name) is not None, ledger.trouble(name) is not None) == (kept, not kept)
    (tmp_path / "done" / f"{name}.json").write_text(json.dumps(result))  # as an older version did
    assert list(Ledger(tmp_path).open()) == ([] if kept else [name])
