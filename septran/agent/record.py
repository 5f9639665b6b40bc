"""The run record: every request, reply, verdict and decision on disk the moment it exists.

    agent/
      config.json                what the run was configured with (no secrets)
      objects/ab/abcd...txt      message texts, named by their SHA-256
      calls/KEY.sent             a request is on its way (written before it is sent)
      calls/KEY.json             the request and its reply; a paid call with this key is never repeated
      verdicts/SPEC-SHA.json     the judge's verdict on one leaf source
      leaves/SPEC.json           the outcome for one leaf
      memory/SPEC.json           what its prompts were told of earlier runs
      library/SPEC.json          what its prompts were told of the library's leaf
      events.jsonl               what happened, in order

Files are written to a temporary name, flushed to the disk and renamed, so a kill at any moment leaves either
nothing or the whole file. No file holds a time stamp or a path, so a replay writes the same bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from septran.agent.chat import Chat, Reply, Request
from septran.agent.faults import Fault
from septran.agent.redact import Redactor
from septran.agent.writer import LeafVerdict
from septran.kernel import Leaf


def write_whole(path: Path, text: str) -> None:
    """Write `text` so that `path` holds all of it or does not exist, also after a kill or power loss."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    with temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _dump(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


class Record:
    """The agent's part of a run directory. `source`: an older record whose calls and verdicts are reused."""

    def __init__(
        self, folder: Path, redact: Redactor | None = None, source: Path | None = None
    ) -> None:
        """Open (or create) the record in `folder`."""
        self.folder = folder
        self.source = source
        self.redact = redact or Redactor()
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)
        self._events: list[str] = []

    def _read(self, name: str) -> dict[str, Any] | None:
        for root in (self.folder, self.source):
            if root is None:
                continue
            try:
                value = json.loads((root / name).read_text(encoding="utf-8"))
            except (OSError, ValueError):
                continue
            if isinstance(value, dict):
                return value
        return None

    def _write(self, name: str, value: Any) -> None:
        write_whole(self.folder / name, self.redact(_dump(value)))

    def text(self, sha: str) -> str:
        """Return a stored message text. Raises KeyError when it is not there."""
        for root in (self.folder, self.source):
            path = (root or self.folder) / "objects" / sha[:2] / f"{sha}.txt"
            if path.is_file():
                return path.read_text(encoding="utf-8")
        raise KeyError(sha)

    def _keep(self, text: str) -> str:
        text = self.redact(text)
        sha = hashlib.sha256(text.encode()).hexdigest()
        path = self.folder / "objects" / sha[:2] / f"{sha}.txt"
        if not path.is_file():
            write_whole(path, text)
        return sha

    def sending(self, request: Request) -> None:
        """Note that a request leaves now."""
        write_whole(self.folder / "calls" / f"{request.key}.sent", "")

    def store_reply(self, request: Request, outcome: Reply | Fault) -> None:
        """Keep the request and what came of it; called before the reply is used for anything."""
        value: dict[str, Any] = {
            "model": request.model,
            "slot": request.slot,
            "options": dict(request.options),
            "extra": dict(request.extra),
            "messages": [{"role": m.role, "object": self._keep(m.text)} for m in request.messages],
        }
        if isinstance(outcome, Fault):
            value["fault"] = {"kind": outcome.kind, "message": outcome.message}
        else:
            reply = asdict(outcome)
            reply["text"] = self._keep(outcome.text)
            reply["reasoning"] = self._keep(outcome.reasoning) if outcome.reasoning else ""
            value["reply"] = reply
        self._write(f"calls/{request.key}.json", value)
        with contextlib.suppress(OSError):
            (self.folder / "calls" / f"{request.key}.sent").unlink(missing_ok=True)

    def recorded(self, request: Request) -> Reply | Fault | None:
        """Return the recorded outcome of a request, None when there is none."""
        value = self._read(f"calls/{request.key}.json")
        if value is None:
            return None
        if "fault" in value:
            return Fault(value["fault"]["kind"], value["fault"]["message"])
        fields = dict(value["reply"])
        try:
            fields["text"] = self.text(fields["text"])
            fields["reasoning"] = self.text(fields["reasoning"]) if fields["reasoning"] else ""
            return Reply(**fields)
        except (KeyError, TypeError):
            return None

    def verdict(self, leaf: Leaf) -> LeafVerdict | None:
        """Return the recorded verdict on a leaf's source."""
        value = self._read(f"verdicts/{leaf.spec.key}-{leaf.sha}.json")
        if value is None:
            return None
        try:
            return LeafVerdict(**value["verdict"])
        except (KeyError, TypeError):
            return None

    def store_verdict(self, leaf: Leaf, verdict: LeafVerdict) -> None:
        """Keep a verdict with the source it is about."""
        name = f"verdicts/{leaf.spec.key}-{leaf.sha}.json"
        self._write(name, {"source": self._keep(leaf.source), "verdict": asdict(verdict)})

    def store_outcome(self, spec_key: str, value: dict[str, Any]) -> None:
        """Keep the outcome for one leaf."""
        self._write(f"leaves/{spec_key}.json", value)

    def outcome(self, spec_key: str) -> dict[str, Any] | None:
        """Return the recorded outcome for one leaf; of the source record in a replay."""
        return self._read(f"leaves/{spec_key}.json")

    def memory(self, spec_key: str) -> str | None:
        """Return what the first prompt for a leaf was told of earlier runs, None when it is not recorded."""
        return self._text_of(f"memory/{spec_key}.json")

    def library(self, spec_key: str) -> str | None:
        """Return what the prompts for a leaf were told of the library's, None when it is not recorded."""
        return self._text_of(f"library/{spec_key}.json")

    def _text_of(self, name: str) -> str | None:
        value = self._read(name)
        text = value.get("text") if value is not None else None
        return text if isinstance(text, str) else None

    def models(self) -> dict[str, str]:
        """Return role -> model name as an endpoint listed it when the run began."""
        return {str(k): str(v) for k, v in (self._read("models.json") or {}).items()}

    def write(self, name: str, value: Any) -> None:
        """Keep any JSON value under `name` (config.json, an archive)."""
        self._write(name, value)

    def event(self, kind: str, **facts: object) -> None:
        """Append one line to events.jsonl. A resumed run writes the file anew from its recorded past."""
        line = self.redact(json.dumps({"event": kind, **facts}, sort_keys=True, ensure_ascii=False))
        with self._lock:
            mode = "a" if self._events else "w"
            self._events.append(line)
            with (self.folder / "events.jsonl").open(mode, encoding="utf-8", newline="\n") as file:
                file.write(line + "\n")
                file.flush()
                os.fsync(file.fileno())


class RecordedChat:
    """A chat whose outcomes are recorded and never asked for twice; without `inner` it is a replay."""

    def __init__(self, inner: Callable[[], Chat] | None, record: Record) -> None:
        """`inner` makes the real chat at the first call that is not recorded."""
        self._make = inner
        self._chat: Chat | None = None
        self._record = record
        self._lock = threading.Lock()

    @property
    def where(self) -> str:
        """The endpoint's address."""
        return self._chat.where if self._chat is not None else "the recorded run"

    def close(self) -> None:
        """Close the real chat's connections."""
        if self._chat is not None:
            self._chat.close()

    def ask(self, request: Request) -> Reply:
        """Return the recorded reply, else ask and record. Raises Fault."""
        found = self._record.recorded(request)
        replay = self._make is None
        if isinstance(found, Reply):
            if replay:
                self._record.store_reply(request, found)
            return found
        if replay:
            if isinstance(found, Fault):
                self._record.store_reply(request, found)
                raise found
            raise Fault("setup", f"the recorded run has no reply for this request ({request.slot})")
        with self._lock:
            if self._chat is None and self._make is not None:
                self._chat = self._make()
        assert self._chat is not None
        self._record.sending(request)
        try:
            reply = self._chat.ask(request)
        except Fault as fault:
            self._record.store_reply(request, fault)
            raise
        self._record.store_reply(request, reply)
        return reply
