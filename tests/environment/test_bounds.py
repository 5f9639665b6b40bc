"""What one submission may take: elements before it is accepted, memory and time while it is judged."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from septran import settings
from septran.environment import service as service_
from septran.environment.request import Bounds, submission_of
from septran.environment.service import Service, held
from septran.environment.tasks import Asked
from septran.environment.used import memory_mib, processor_s
from septran.errors import ConfigError

SENT = {
    "op": "softmax",
    "backend": "cpp",
    "leaf": "softmax_leaf",
    "reply": "```cpp\nfor (;;) {}\n```",
}


@pytest.mark.parametrize("size", [200_000, 2_000_000_000])
def test_a_submission_with_large_tensors_is_refused_before_it_is_accepted(
    size: int, tmp_path: Path
) -> None:
    service = Service(tmp_path, settings=settings.load())
    sent = submission_of({**SENT, "dims": {"M": size}})
    for ask in (lambda: service.submit(sent), lambda: service.contracts(sent.asked)):
        with pytest.raises(ConfigError, match="elements") as error:
            ask()
        assert error.value.codes == ("C180",)
    assert not list((tmp_path / "sent").iterdir())
    service.close()


def test_what_is_small_enough_is_taken() -> None:
    Bounds(elements=2 * 33 * 18).admit(
        Asked(op="transpose", backend="cpp", dims={"M": 33, "N": 18})
    )
    with pytest.raises(ConfigError):
        Bounds(elements=2 * 33 * 18 - 1).admit(
            Asked(op="transpose", backend="cpp", dims={"M": 33, "N": 18})
        )


def test_what_a_process_used_is_seen() -> None:
    before = processor_s(os.getpid())
    held_ = bytearray(os.urandom(1 << 20)) * 64
    assert memory_mib(os.getpid()) >= 64
    until = time.process_time() + 0.1
    while time.process_time() < until:
        sum(held_[:1000])
    assert 0.05 <= processor_s(os.getpid()) - before < 60
    assert memory_mib(1 << 30) == 0


@contextlib.contextmanager
def judging(folder: Path, bounds: Bounds, worker: str) -> Iterator[Service]:
    """A service whose workers run `worker` after they were given a job."""
    (folder / "slow_worker.py").write_text(f"import sys\nsys.stdin.readline()\n{worker}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder))
        make = service_.Worker
        patch.setattr(service_, "Worker", lambda log, n, module: make(log, n, module="slow_worker"))
        patch.setattr(service_, "_PAUSE_S", 60.0)
        patch.setattr(service_, "_START_S", -1e9)  # a busy machine is no part of this
        service = Service(folder / "ledger", settings=settings.load(), bounds=bounds)
        service.start()
        try:
            yield service
        finally:
            service.close()


@pytest.mark.parametrize(
    ("bounds", "worker", "why"),
    [
        (Bounds(memory_mib=200), "x = bytearray(1 << 28)\nimport time\ntime.sleep(60)", "200 MiB"),
        (Bounds(seconds=1.0), "while True: pass", "1 s"),
    ],
)
def test_a_submission_that_takes_too_much_is_ended_and_not_tried_again(
    bounds: Bounds, worker: str, why: str, tmp_path: Path
) -> None:
    with judging(tmp_path, bounds, worker) as service:
        name, _ = service.submit(submission_of(SENT))
        state = service.verdict(name, wait_s=30.0)
        assert state is not None and state["state"] == "unavailable"
        assert state["result"]["errors"][0]["code"] == "V214"
        assert why in state["result"]["errors"][0]["message"]
        assert service.health()["queued"] == service.health()["running"] == 0


def test_a_ledger_has_one_server(tmp_path: Path) -> None:
    with held(tmp_path):
        command = ["serve", "--port", "0", "--dir", str(tmp_path), "--json"]
        done = subprocess.run(
            [sys.executable, "-m", "septran", *command],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 2, done.stderr
        assert json.loads(done.stdout)["errors"][0]["code"] == "C182"
        assert not (tmp_path / "token").exists()
    held(tmp_path).close()


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a folder where nothing can be made")
def test_a_folder_that_cannot_be_made_is_the_systems_refusal() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "septran", "serve", "--port", "0", "--dir", "/proc/septran/x"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, "error[V002]" in done.stderr) == (3, True), done.stderr
