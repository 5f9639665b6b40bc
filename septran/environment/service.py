"""The environment's verbs for any front: list tasks, contract, submit (to be judged, or to be timed), verdict, explain.

A bounded queue over worker processes. What is accepted is on disk before the caller hears of it, and what ended is on
disk before anybody is told, so a kill loses no verdict; a restart goes on with what was open. What this machine could not
judge for want of time, memory or a tool has not ended: it is tried again a few times, and again after a restart.
"""

from __future__ import annotations

import fcntl
import json
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from septran.atomic import make_folder
from septran.batch.pool import Worker
from septran.environment.admitted import admission
from septran.environment.ledger import Ledger, record
from septran.environment.request import Bounds
from septran.environment.step import Submission
from septran.environment.tasks import Asked, find, kernels, leaf_tasks
from septran.environment.told import Health, KernelList, State, TaskList
from septran.environment.used import memory_mib, processor_s
from septran.environment.words import page, words
from septran.errors import ConfigError, Failure
from septran.outcome import Level
from septran.settings import Settings

_POLL_S = 0.05
_TRIES, _PAUSE_S = 3, 5.0
"""tries of a submission that the machine could not judge, and the pause before the second; each further one is twice as long"""
_LACKS = frozenset({"V110", "V111", "V113"})
"""what another try would not find either: a tool or a device that is not there"""
_START_S = 20.0
"""processor time that a worker may take to start, which is nobody's submission"""
_MEMORY, _TIME = "took memory", "took time"
"""how a try ends that needed more than a submission may have, and would need it again"""


class Full(Exception):
    """The queue holds no more. retry_s: after how many seconds to ask again."""

    def __init__(self, retry_s: int) -> None:
        super().__init__(f"the queue is full; ask again in {retry_s} s")
        self.retry_s = retry_s


@dataclass(frozen=True, slots=True)
class Job:
    """A submission on its way to a worker."""

    name: str
    submission: dict[str, Any]
    ledger: Path

    @property
    def result(self) -> Path:
        """Where a result goes; what is none goes elsewhere."""
        return self.ledger / "done" / f"{self.name}.json"

    def line(self) -> bytes:
        """Return the job as the worker reads it."""
        plain = {"id": self.name, "submission": self.submission, "ledger": str(self.ledger)}
        return (json.dumps(plain) + "\n").encode()


class Service:
    """Judges submissions with `workers` processes; at most `most` wait."""

    def __init__(
        self,
        folder: Path,
        *,
        settings: Settings,
        workers: int = 1,
        most: int = 64,
        bounds: Bounds | None = None,
    ) -> None:
        """folder: of the ledger, this process's until `close`. bounds: of one submission; default: `Bounds()`.

        Raises:
            ConfigError: C182, another process serves the folder. OSError: it cannot be made.
        """
        self._held = held(folder)
        try:
            self.ledger = Ledger(folder)
        except OSError:
            self._held.close()
            raise
        self._settings, self._workers, self._most = settings, workers, most
        self._bounds = bounds or Bounds()
        self._queue: deque[str] = deque(self.ledger.open())
        self._running: set[str] = set()
        self._tries: dict[str, int] = {}
        self._later: dict[str, float] = {}
        self._lock = threading.Lock()
        self._plan = threading.Lock()
        self._stop = threading.Event()
        self._seconds = 5.0
        self._thread = threading.Thread(target=self._dispatch, daemon=True)

    def start(self) -> None:
        """Begin to judge what waits."""
        self._thread.start()

    def close(self) -> None:
        """End the workers; what was not judged stays accepted."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(10)
        self._held.close()

    def health(self) -> dict[str, Any]:
        """Return how much waits and runs."""
        with self._lock:
            waiting, running = len(self._queue) + len(self._later), len(self._running)
        return Health(queued=waiting, running=running, most=self._most).to_json()

    def tasks(self) -> dict[str, Any]:
        """Return the kernels that have tasks, as a septran.kernels/1 object."""
        return KernelList(kernels=list(kernels())).to_json()

    def contracts(self, asked: Asked) -> dict[str, Any]:
        """Return the leaf tasks of a kernel with contract, frame, prompt and admission report. Raises InputError; C180, it is too large."""
        self._bounds.admit(asked)
        with self._plan:
            tasks = leaf_tasks(asked)
        found = [task.to_json(self._settings, admission=admission(task)) for task in tasks]
        return TaskList(tasks=found).to_json()

    def submit(self, sent: Submission) -> tuple[str, bool]:
        """Return the name of a submission and whether it is new.

        Raises:
            InputError: there is no such task; C180, its tensors are too large. Full: the queue holds no more.
        """
        self._bounds.admit(sent.asked)
        with self._plan:
            find(sent.asked, sent.leaf)
        name = Ledger.id_of(sent)
        with self._lock:
            if self._waits(name) or self.ledger.result(name) is not None:
                return name, False
            if len(self._queue) >= self._most:
                raise Full(max(1, round(self._seconds * len(self._queue) / self._workers)))
            new = self.ledger.sent(name) is None
            self.ledger.accept(sent)
            self.ledger.forget(name)
            self._tries.pop(name, None)
            self._queue.append(name)
        return name, new

    def verdict(self, name: str, *, wait_s: float = 0.0) -> dict[str, Any] | None:
        """Return the state of a submission, with its result when it ended; None when it is unknown.

        wait_s: for how long to wait for the end. `unavailable`: no try came to a result; why is the state's `result`.
        """
        until = time.monotonic() + wait_s
        if self.ledger.sent(name) is None:
            return None
        while True:
            with self._lock:
                running, waits = name in self._running, self._waits(name)
            result = self.ledger.result(name)
            trouble = None if result is not None or waits else self.ledger.trouble(name)
            left = until - time.monotonic()
            if result is not None or trouble is not None or left <= 0:
                break
            time.sleep(min(_POLL_S, left))
        if result is not None:
            self.ledger.note(name)  # nobody hears of an end that has no line yet
            return State(id=name, state="done", result=result).to_json()
        if trouble is not None:
            return State(id=name, state=str(Level.UNAVAILABLE), result=trouble).to_json()
        return State(id=name, state="running" if running else "queued", result=None).to_json()

    def _waits(self, name: str) -> bool:
        return name in self._running or name in self._queue or name in self._later

    def explain(self, name: str) -> str | None:
        """Return a result in words, or the page of an error code; None when it is neither."""
        result = self.ledger.result(name) or self.ledger.trouble(name)
        if result is None:
            return page(name)
        return words(result)

    def _dispatch(self) -> None:
        team: list[Worker] = []
        since: dict[str, _Begun] = {}
        log = self.ledger.folder / "workers.log"
        try:
            while not self._stop.is_set():
                for worker in [w for w in team if w.gone()]:
                    team.remove(worker)
                self._again()
                self._give(team, since, log)
                for worker in [w for w in team if w.job is not None]:
                    job = worker.job
                    assert isinstance(job, Job)
                    how = self._collected(worker, since[job.name])
                    if how:
                        self._ended(job, how, time.monotonic() - since.pop(job.name).clock)
                self._stop.wait(_POLL_S)
        finally:
            for worker in team:
                worker.kill()

    def _collected(self, worker: Worker, begun: _Begun) -> str:
        """Return "" while a worker judges, else how that ended; one that takes too much is ended."""
        pid = worker.process.pid
        if memory_mib(pid) > self._bounds.memory_mib:
            worker.kill()
            worker.job = None
            return _MEMORY
        late = time.monotonic() - begun.clock >= self._bounds.seconds
        used = processor_s(pid) - begun.processor if late else 0.0
        how = worker.collect(self._bounds.seconds)
        # one that the machine did not serve may do better another time
        own = used > _START_S + self._bounds.seconds / 2
        return _TIME if how == "timeout" and own else how

    def _give(self, team: list[Worker], since: dict[str, _Begun], log: Path) -> None:
        while True:
            with self._lock:
                free = [w for w in team if w.job is None]
                if not self._queue or (not free and len(team) >= self._workers):
                    return
                name = self._queue.popleft()
                self._running.add(name)
            if not free:
                free = [Worker(log, 1, module="septran.environment.worker")]
                team += free
            sent = self.ledger.sent(name)
            since[name] = _Begun(time.monotonic(), processor_s(free[0].process.pid))
            free[0].give(Job(name, sent or {}, self.ledger.folder))

    def _again(self) -> None:
        """Queue what has waited long enough for another try."""
        with self._lock:
            now = time.monotonic()
            for name in [n for n, when in self._later.items() if when <= now]:
                del self._later[name]
                self._queue.append(name)

    def _ended(self, job: Job, how: str, seconds: float) -> None:
        """Note a result; where there is none, try again: a worker that died may have been somebody else's victim."""
        name = job.name
        ended = self.ledger.result(name) is not None
        if ended:
            self.ledger.note(name)
            self.ledger.forget(name)
        elif how != "done":
            why = f"the worker {self._told(how)}; nothing is known about the leaf"
            record(self.ledger.folder, name, Failure.said(3, "V214", why).to_json())
        with self._lock:
            self._running.discard(name)
            self._seconds = 0.8 * self._seconds + 0.2 * seconds
            tries = self._tries.get(name, 0) + 1
            if ended:
                self._tries.pop(name, None)
                return
            self._tries[name] = tries
            hopeless = how in (_MEMORY, _TIME) or _LACKS & _codes(self.ledger.trouble(name))
            if tries < _TRIES and not hopeless:
                self._later[name] = time.monotonic() + _PAUSE_S * 2 ** (tries - 1)

    def _told(self, how: str) -> str:
        if how == _MEMORY:
            return f"needed more than {self._bounds.memory_mib} MiB (--memory)"
        if how in (_TIME, "timeout"):
            return f"took too long, more than {self._bounds.seconds:g} s (--seconds)"
        return how


@dataclass(frozen=True, slots=True)
class _Begun:
    """When a try began. clock: monotonic. processor: seconds that the worker had used by then."""

    clock: float
    processor: float


def held(folder: Path) -> IO[str]:
    """Return what keeps a ledger's folder to this process while it is open; the system ends it with the process.

    Raises:
        ConfigError: C182, another process has it. OSError: it cannot be made.
    """
    make_folder(folder)
    file = (folder / "lock").open("a", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise ConfigError.of(
            "C182",
            f"another process serves the ledger in {folder}",
            help="give this one another --dir, or end that one",
        ) from None
    return file


def _codes(trouble: dict[str, Any] | None) -> set[str]:
    return {str(e.get("code")) for e in (trouble or {}).get("errors", ())}
