"""The local executor: a fixed number of worker processes, one cell at a time in each.

A worker imports torch once and is used again. One that dies or overstays its cell's time is replaced; its
cell gets a second worker once when the first died, because the first may have been somebody else's victim.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import septran
from septran.batch.cells import Cell

_MIB = 1 << 20
_WORKER_MIB = 2048  # torch, a compiler and a confined child
_POLL_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A cell and where its run and its result go. texts: where cells that ran leave what others may take over."""

    cell: Cell
    runs: Path
    result: Path
    texts: Path
    time: bool

    def line(self) -> bytes:
        """Return the job as the worker reads it."""
        plain = {
            "cell": self.cell.to_json(),
            "runs": str(self.runs),
            "result": str(self.result),
            "texts": str(self.texts),
            "time": self.time,
        }
        return (json.dumps(plain) + "\n").encode()


class Task(Protocol):
    """What a worker is given: a line on its stdin, and the file that says when it is done."""

    @property
    def result(self) -> Path:
        """Where the result goes."""
        ...

    def line(self) -> bytes:
        """Return the job as the worker reads it."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended: its result file is there ("done"), or why not ("timeout", "died", "stopped")."""

    job: Job
    how: str


def slots(asked: int | None, cells: int) -> int:
    """Return how many workers this machine holds: at most `asked`, its cores, its free memory."""
    cores = len(os.sched_getaffinity(0))
    wanted = asked if asked is not None else max(1, cores)
    memory = max(1, _free_bytes() // (_WORKER_MIB * _MIB))
    return max(1, min(wanted, memory, cells))


def run_jobs(
    jobs: Sequence[Job],
    *,
    workers: int,
    log: Path,
    cell_s: float,
    deadline: float | None,
    until: float | None,
    started: Callable[[Cell], None],
) -> Generator[Outcome, None, None]:
    """Yield each job's outcome as it ends; closing the iterator kills the workers.

    cell_s: seconds for one cell. deadline: time.monotonic() after which no further cell starts.
    until: after which those that run are stopped, too.
    """
    queue = deque(jobs)
    again: set[str] = set()
    team: list[Worker] = []
    threads = max(1, len(os.sched_getaffinity(0)) // workers)
    try:
        while queue or any(worker.job for worker in team):
            now = time.monotonic()
            over = until is not None and now > until
            late = over or (deadline is not None and now > deadline)
            while late and queue:
                yield Outcome(queue.popleft(), "stopped")
            if over:
                yield from [
                    Outcome(worker.job, "stopped") for worker in team if isinstance(worker.job, Job)
                ]
                return
            for worker in [w for w in team if w.gone()]:
                team.remove(worker)
            while queue and len(team) < workers:
                team.append(Worker(log, threads))
            for worker in team:
                if worker.job is None and queue:
                    started(queue[0].cell)
                    worker.give(queue.popleft())
            for worker in _ready(team):
                job = worker.job
                assert isinstance(job, Job)
                how = worker.collect(cell_s)
                if how == "died" and job.cell.key not in again:
                    again.add(job.cell.key)
                    queue.appendleft(job)
                elif how:
                    yield Outcome(job, how)
    finally:
        for worker in team:
            worker.kill()


class Worker:
    """One worker process; `job` is what it works on. module: what it runs, which reads `Task.line`s."""

    def __init__(self, log: Path, threads: int, *, module: str = "septran.batch.worker") -> None:
        here = str(Path(septran.__file__).resolve().parent.parent)  # also when run from a checkout
        path = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))
        known = os.environ.get("SEPTRAN_THREADS")
        env = {**os.environ, "PYTHONPATH": path, "SEPTRAN_THREADS": known or str(threads)}
        with log.open("ab") as stream:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stream,
                env=env,
                start_new_session=True,
            )
        self.job: Task | None = None
        self.since = 0.0

    def give(self, job: Task) -> None:
        """Start a job."""
        assert self.process.stdin is not None
        self.job, self.since = job, time.monotonic()
        with suppress(BrokenPipeError):
            self.process.stdin.write(job.line())
            self.process.stdin.flush()

    def collect(self, cell_s: float) -> str:
        """Return "" while the job runs, else how it ended; the worker is then free or gone."""
        assert self.job is not None and self.process.stdout is not None
        if self._answered():
            word = self.process.stdout.readline()
            how = "done" if word else "died"
        elif time.monotonic() - self.since > cell_s:
            how = "timeout"
        else:
            return ""
        if self.job.result.is_file():  # the file decides, also when the word was lost
            how = "done" if how == "died" else how
        if how != "done":
            self.kill()
        self.job = None
        return how

    def gone(self) -> bool:
        """Return whether a worker without a job has ended."""
        return self.job is None and self.process.poll() is not None

    def kill(self) -> None:
        """End the worker's process group and wait for it."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
        self.process.wait()

    def _answered(self) -> bool:
        with selectors.DefaultSelector() as one:
            assert self.process.stdout is not None
            one.register(self.process.stdout, selectors.EVENT_READ)
            return bool(one.select(0))


def _ready(team: Sequence[Worker]) -> list[Worker]:
    """Return the busy workers after waiting until one has said something, or a moment."""
    busy = [worker for worker in team if worker.job is not None]
    with selectors.DefaultSelector() as all_:
        for worker in busy:
            assert worker.process.stdout is not None
            all_.register(worker.process.stdout, selectors.EVENT_READ)
        all_.select(_POLL_S)
    return busy


def _free_bytes() -> int:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return _WORKER_MIB * _MIB
