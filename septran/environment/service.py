"""The environment's five verbs for any front: list tasks, contract, submit, verdict, explain.

A bounded queue over worker processes. What is accepted is on disk before the caller hears of it, and what ended is on
disk before anybody is told, so a kill loses no verdict; a restart goes on with what was open.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from septran import assets
from septran.batch.pool import Worker
from septran.environment.ledger import Ledger
from septran.environment.step import Submission
from septran.environment.tasks import Asked, find, kernels, leaf_tasks
from septran.environment.told import Health, KernelList, State, TaskList
from septran.errors import Failure, SeptranError
from septran.settings import Settings

_POLL_S = 0.05


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
    result: Path

    def line(self) -> bytes:
        """Return the job as the worker reads it."""
        plain = {"id": self.name, "submission": self.submission, "result": str(self.result)}
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
        limit_s: float = 900.0,
    ) -> None:
        """folder: of the ledger. limit_s: wall time of one submission, after which its worker is ended."""
        self.ledger = Ledger(folder)
        self._settings, self._workers, self._most, self._limit_s = settings, workers, most, limit_s
        self._queue: deque[str] = deque(self.ledger.open())
        self._running: set[str] = set()
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

    def health(self) -> dict[str, Any]:
        """Return how much waits and runs."""
        with self._lock:
            waiting, running = len(self._queue), len(self._running)
        return Health(queued=waiting, running=running, most=self._most).to_json()

    def tasks(self) -> dict[str, Any]:
        """Return the kernels that have tasks, as a septran.kernels/1 object."""
        return KernelList(kernels=list(kernels())).to_json()

    def contracts(self, asked: Asked) -> dict[str, Any]:
        """Return the leaf tasks of a kernel with contract, frame and prompt. Raises InputError."""
        with self._plan:
            found = [task.to_json(self._settings) for task in leaf_tasks(asked)]
        return TaskList(tasks=found).to_json()

    def submit(self, sent: Submission) -> tuple[str, bool]:
        """Return the name of a submission and whether it is new.

        Raises:
            InputError: there is no such task. Full: the queue holds no more.
        """
        with self._plan:
            find(sent.asked, sent.leaf)
        name = Ledger.id_of(sent)
        with self._lock:
            if name in self._running or name in self._queue or self.ledger.result(name) is not None:
                return name, False
            if len(self._queue) >= self._most:
                raise Full(max(1, round(self._seconds * len(self._queue) / self._workers)))
            self.ledger.accept(sent)
            self._queue.append(name)
        return name, True

    def verdict(self, name: str, *, wait_s: float = 0.0) -> dict[str, Any] | None:
        """Return the state of a submission, with its result when it ended; None when it is unknown.

        wait_s: for how long to wait for the end.
        """
        until = time.monotonic() + wait_s
        while True:
            result = self.ledger.result(name)
            left = until - time.monotonic()
            if result is not None or left <= 0 or self.ledger.sent(name) is None:
                break
            time.sleep(min(_POLL_S, left))
        if result is None and self.ledger.sent(name) is None:
            return None
        if result is not None:
            self.ledger.note(name)  # nobody hears of an end that has no line yet
        with self._lock:
            state = (
                "done" if result is not None else "running" if name in self._running else "queued"
            )
        return State(id=name, state=state, result=result).to_json()

    def explain(self, name: str) -> str | None:
        """Return a result in words, or the page of an error code; None when it is neither."""
        result = self.ledger.result(name)
        if result is None:
            return page(name)
        return words(result)

    def _dispatch(self) -> None:
        team: list[Worker] = []
        since: dict[str, float] = {}
        again: set[str] = set()
        log = self.ledger.folder / "workers.log"
        try:
            while not self._stop.is_set():
                for worker in [w for w in team if w.gone()]:
                    team.remove(worker)
                self._give(team, since, log)
                for worker in [w for w in team if w.job is not None]:
                    job = worker.job
                    assert isinstance(job, Job)
                    how = worker.collect(self._limit_s)
                    if how:
                        self._ended(job, how, again, time.monotonic() - since.pop(job.name))
                self._stop.wait(_POLL_S)
        finally:
            for worker in team:
                worker.kill()

    def _give(self, team: list[Worker], since: dict[str, float], log: Path) -> None:
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
            since[name] = time.monotonic()
            free[0].give(Job(name, sent or {}, self.ledger.result_path(name)))

    def _ended(self, job: Job, how: str, again: set[str], seconds: float) -> None:
        """A worker that died may have been somebody else's victim: its submission is judged once more."""
        if how != "done" and how == "died" and job.name not in again:
            again.add(job.name)
            with self._lock:
                self._running.discard(job.name)
                self._queue.appendleft(job.name)
            return
        if how != "done":
            from septran.atomic import write_atomic

            why = f"the worker {how}; nothing is known about the leaf"
            found = Failure.said(3, "V206", why)
            write_atomic(job.result, json.dumps(found.to_json()) + "\n")
        self.ledger.note(job.name)
        with self._lock:
            self._running.discard(job.name)
            self._seconds = 0.8 * self._seconds + 0.2 * seconds


def words(result: dict[str, Any]) -> str:
    """Return a septran.reward/1 or septran.error/1 object in words."""
    if result.get("schema") == Failure.SCHEMA:
        return "\n".join(f"[{e.get('code')}] {e.get('message')}" for e in result["errors"])
    lines = [f"{result['task']} (seed {result['seed']}): {result['rung']}"]
    if result["message"]:
        code = f"[{result['code']}] " if result["code"] else ""
        lines.append(f"{result['place'] or 'reply'}: {code}{result['message']}")
    wrong = result.get("first_wrong")
    if wrong:
        at = ", ".join(map(str, wrong["index"]))
        lines.append(
            f"worst: {wrong['output']}[{at}] = {wrong['got']}, expected {wrong['expected']} within {wrong['budget']}, inputs {wrong['case']!r}"
        )
    if result["budget_share"] is not None:
        lines.append(f"{100 * result['budget_share']:.0f} % of the allowed error")
    if result["hack"]:
        lines.append(f"class: {result['hack']}")
    lines += [f"not checked: {text}" for text in result["unchecked"]]
    return "\n".join(lines)


def page(code: str) -> str | None:
    """Return the page of an error code, None when there is none."""
    if re.fullmatch(r"[A-Z]\d{3}", code.upper()) is None:
        return None
    path = assets.bundled() / "docs" / "errors" / f"{code.upper()}.md"
    return path.read_text(encoding="utf-8") if path.is_file() else None


__all__ = ["Full", "Job", "SeptranError", "Service", "words"]
