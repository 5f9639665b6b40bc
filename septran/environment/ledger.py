"""What was submitted and what became of it, in files: nothing that ended is lost, whatever kills the server.

A result says something of the submission. What only says that the machine could not judge it (no processor time, no memory, a
missing tool, a worker that died) ends nothing: it is kept apart, tried again, and forgotten when the server starts anew.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from septran import __version__
from septran.atomic import write_atomic
from septran.document import read_object
from septran.environment.step import Submission
from septran.environment.told import Trajectory
from septran.errors import Failure, InputError
from septran.kernel import content_hash
from septran.outcome import Level

_UNAVAILABLE = str(Level.UNAVAILABLE)


def ends(result: Mapping[str, Any]) -> bool:
    """Return whether a septran.reward/1 or septran.error/1 object says something of the submission, not of the machine."""
    if result.get("schema") == Failure.SCHEMA:
        return result.get("exit_code") == InputError.exit_code
    return result.get("rung") != _UNAVAILABLE


def record(folder: Path, name: str, result: Mapping[str, Any]) -> None:
    """Keep in a ledger's folder what a try came to: a result, or why there is none yet."""
    part = "done" if ends(result) else "unavailable"
    write_atomic(folder / part / f"{name}.json", json.dumps(result) + "\n")


class Ledger:
    """A folder: sent/ID.json as accepted, done/ID.json as judged, trajectories.jsonl with a line for each that ended.

    unavailable/ID.json: why the last try came to nothing.
    """

    def __init__(self, folder: Path) -> None:
        """Make the folder, and write the lines that a kill kept from being written."""
        self.folder = folder
        for name in ("sent", "done", "unavailable"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        for path in (folder / "done").glob("*.json"):
            if not ends(read_object(path) or {}):  # of a version that kept those
                path.unlink()
        for path in (folder / "unavailable").glob("*.json"):
            path.unlink()
        self._lock = threading.Lock()
        self._written = self._lines()
        for path in sorted((folder / "done").glob("*.json")):
            self.note(path.stem)

    @staticmethod
    def id_of(sent: Submission) -> str:
        """Return the submission's name: equal ones have one verdict."""
        return content_hash([sent.to_json(), __version__])

    def accept(self, sent: Submission) -> str:
        """Write the submission down and return its name."""
        name = self.id_of(sent)
        write_atomic(self.folder / "sent" / f"{name}.json", json.dumps(sent.to_json()) + "\n")
        return name

    def result_path(self, name: str) -> Path:
        """Return where the result of a submission is, whole."""
        return self.folder / "done" / f"{name}.json"

    def trouble(self, name: str) -> dict[str, Any] | None:
        """Return why the last try came to nothing, None when there was none or it was forgotten."""
        return self._read("unavailable", name)

    def forget(self, name: str) -> None:
        """Forget why the last try came to nothing."""
        if name.isalnum():
            (self.folder / "unavailable" / f"{name}.json").unlink(missing_ok=True)

    def sent(self, name: str) -> dict[str, Any] | None:
        """Return an accepted submission, None when there is none."""
        return self._read("sent", name)

    def result(self, name: str) -> dict[str, Any] | None:
        """Return what became of a submission, None while nothing did."""
        return self._read("done", name)

    def open(self) -> Iterator[str]:
        """Yield the names of what was accepted and has not ended, oldest first."""
        paths = sorted((self.folder / "sent").glob("*.json"), key=lambda p: p.stat().st_mtime_ns)
        yield from (p.stem for p in paths if not self.result_path(p.stem).is_file())

    def note(self, name: str) -> None:
        """Append the trajectory of a submission that ended, once."""
        with self._lock:
            if name not in self._written:
                self._append(name)

    def _append(self, name: str) -> None:
        sent, result = self.sent(name), self.result(name)
        if sent is None or result is None:
            return
        line = json.dumps(Trajectory(id=name, submission=sent, result=result).to_json())
        with (self.folder / "trajectories.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        self._written.add(name)

    def _read(self, part: str, name: str) -> dict[str, Any] | None:
        return read_object(self.folder / part / f"{name}.json") if name.isalnum() else None

    def _lines(self) -> set[str]:
        """Return the names that have a line; the end of a line that a kill cut is taken away."""
        path = self.folder / "trajectories.jsonl"
        found: set[str] = set()
        if not path.is_file():
            return found
        text = path.read_text(encoding="utf-8", errors="replace")
        if text and not text.endswith("\n"):
            text = text[: text.rfind("\n") + 1]
            write_atomic(path, text)
        for line in text.splitlines():
            try:
                found.add(str(json.loads(line)["id"]))
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
        return found
