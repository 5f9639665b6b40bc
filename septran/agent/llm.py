"""The llm, command and replay writers: one search, three ways to reach a model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from septran.agent.chat import Chat
from septran.agent.client import OpenAIChat, read_key
from septran.agent.command import CommandChat
from septran.agent.config import AgentConfig
from septran.agent.evolve import evolve
from septran.agent.faults import Fault
from septran.agent.figures import preferred
from septran.agent.ledger import Ledger
from septran.agent.loop import best_of
from septran.agent.memory import Memory, told
from septran.agent.prompt import Prompter
from septran.agent.record import Record, RecordedChat
from septran.agent.redact import Redactor
from septran.agent.session import Session, quality
from septran.agent.store import LeafStore
from septran.agent.writer import Attempt, Budget, Judge, LeafVerdict, Usage, Written
from septran.backends.base import Backend
from septran.errors import EnvironmentProblem, SeptranError
from septran.kernel import Leaf, LeafSpec
from septran.outcome import LEVELS

ChatFor = Callable[[str], Chat]
"""role -> chat."""


class SearchWriter:
    """Asks a model for leaves, judges them, and never returns one worse than the library's.

    kind: "llm", "command" or "replay", the name under which leaves are filed.
    chat_for: role -> chat, called at the first request that the record does not answer; None = replay.
    """

    def __init__(
        self,
        *,
        backend: Backend,
        config: AgentConfig,
        record: Record,
        chat_for: ChatFor | None,
        kind: str = "llm",
        store: LeafStore | None = None,
        memory: Memory | None = None,
    ) -> None:
        """One writer serves all leaves of a run; its budget and its usage are theirs together."""
        self._backend = backend
        self._config = config
        self._record = record
        self._chat_for = chat_for
        self._kind = kind
        self._store = store
        self._memory = memory
        self._chats: dict[str, RecordedChat] = {}
        self._models: dict[str, str] = {}
        self._lock = threading.Lock()
        self.ledger = Ledger(config.get("prices"))
        record.write("config.json", {k: v["value"] for k, v in config.to_json().items()})
        old = record.source
        if chat_for is None and old is None:
            raise EnvironmentProblem.of("L530", "a replay needs a recorded run")

    @property
    def usage(self) -> Usage:
        """What all leaves of this run used."""
        return self.ledger.usage

    def write(self, spec: LeafSpec, judge: Judge, budget: Budget) -> Written:
        """Return the best leaf found; see LeafWriter.write."""
        if self._chat_for is None:
            judge = _ReplayJudge(judge, self._record)
        before = self.ledger.usage
        session = Session(
            prompter=self._prompter(spec, judge),
            config=self._config,
            judge=judge,
            budget=budget,
            ledger=self.ledger,
            record=self._record,
            chat_of=self._chat_of,
            model_of=self._model_of,
            writer="llm" if self._kind == "replay" else self._kind,
        )
        self._record.event("leaf", spec=spec.key, task=spec.task)
        try:
            search = evolve if self._config.get("search", "kind") == "evolve" else best_of
            reason = search(session)
            if session.silent is not None:
                raise session.silent
        except Fault as fault:
            reason = self._unreachable(fault, session)
        finally:
            for chat in self._chats.values():
                chat.close()
        written = self._decide(session, reason, self.ledger.usage.minus(before))
        self._record.store_outcome(spec.key, outcome_json(written))
        self._record.event("written", spec=spec.key, writer=written.leaf.writer, reason=reason)
        return written

    def _prompter(self, spec: LeafSpec, judge: Judge) -> Prompter:
        """Return the prompter with what is remembered and measured, as it was when this run first asked for the leaf."""
        prompter = Prompter.of(spec, self._backend, self._config)
        tokens = int(self._config.get("memory", "tokens"))
        kept = self._record.memory(spec.key)
        if kept is None and self._memory is not None and tokens:
            near = self._memory.near(spec, self._backend.docs)
            kept = told(near, prompter.frame.language, tokens)
        if kept is not None:
            self._record.write(f"memory/{spec.key}.json", {"text": kept})
        library = self._record.library(spec.key)
        if (
            library is None
        ):  # a time that changed with each start would be another prompt, paid for again
            library = judge.library(spec)
        self._record.write(f"library/{spec.key}.json", {"text": library})
        return replace(prompter, memory=kept or "", library=library)

    def _unreachable(self, fault: Fault, session: Session) -> str:
        """Say why the search ended, or raise when the model left nothing that could be used."""
        if session.best is None and self._config.get("on_unreachable") == "fail":
            raise self._problem(fault) from fault
        return f"the model cannot be used: {fault.message}"

    def _decide(self, session: Session, reason: str, usage: Usage) -> Written:
        spec = session.spec
        floor = self._backend.floor(spec)
        best = session.best
        history = tuple(session.attempts)
        if best is not None and best.leaf is not None:
            self._keep(best)
            if self._memory is not None and self._kind != "replay":
                self._memory.learn(session.lesson(best, self._backend.docs))
            gain = best.verdict.speedup
            enough = gain is not None and gain >= float(self._config.get("min_gain"))
            accept = self._config.get("accept")
            predicted = accept == "predicted" and best.verdict.predicted_better
            if floor is None or enough or predicted or accept == "verified":
                if predicted and floor is not None:
                    reason = f"{reason}; better by static figures, its speed was not measured"
                return Written(
                    leaf=best.leaf,
                    verdict=best.verdict,
                    history=history,
                    usage=usage,
                    reason=reason,
                    model=best.model,
                    predicted=predicted and floor is not None,
                )
            reason = (
                f"{reason}; the library leaf stays: reply {best.number} is right{self._short(best)}"
                f"{_others(history, best)}"
            )
        elif floor is not None:
            reason = f"{reason}; the library leaf stays: no reply was a verified leaf"
        if floor is None:
            raise SeptranError.of(
                "L520",
                f"no leaf for {spec.task}: the library has none and no reply was verified ({reason})",
                notes=[f"attempt {a.number}: {a.verdict.status}" for a in history[-5:]],
                help="raise --attempts, use another model, or bind a file of your own in the mapping",
            )
        return Written(leaf=floor, verdict=None, history=history, usage=usage, reason=reason)

    def _short(self, best: Attempt) -> str:
        """Return why a right reply does not replace the library's leaf: what would have decided did not say so."""
        verdict = best.verdict
        if verdict.speedup is not None or self._config.get("accept") != "predicted":
            return " but not measured faster"
        if preferred(verdict.figures, verdict.baseline_figures) is None:
            return ", but it was not timed and no static figures compare it"
        return " but not better by static figures"

    def _keep(self, best: Attempt) -> None:
        if self._store is not None and best.leaf is not None and self._kind != "replay":
            self._store.put(best.leaf, best.verdict, model=best.model)

    def _problem(self, fault: Fault) -> EnvironmentProblem:
        if self._kind == "command" and self._chat_for is not None:
            return fault.as_problem(self._chat_for("coder").where, command=True)
        return fault.as_problem(self._config.role("coder").base_url)

    def _chat_of(self, role: str) -> RecordedChat:
        with self._lock:
            if role not in self._chats:
                make = self._chat_for
                inner = (lambda: make(role)) if make is not None else None
                self._chats[role] = RecordedChat(inner, self._record)
            return self._chats[role]

    def _model_of(self, role: str) -> str:
        """Return the model's name; "auto" is asked from the endpoint once and recorded."""
        name = self._config.role(role).model
        if name != "auto" or self._kind == "command":
            return name
        with self._lock:
            if not self._models:
                self._models.update(self._record.models())
            if role not in self._models:
                if self._chat_for is None:
                    raise Fault("setup", f"the recorded run names no model for the {role}")
                self._models[role] = _only_model(self._chat_for(role))
            self._record.write("models.json", dict(sorted(self._models.items())))
            return self._models[role]


def _others(history: Sequence[Attempt], best: Attempt) -> str:
    """Say of the other replies that were not right how the one that got furthest failed: "right" is said of one reply alone."""
    wrong = [a for a in history if not a.verdict.verified and a.verdict.status != "unavailable"]
    if not wrong:
        return ""
    worst = max(wrong, key=lambda a: (LEVELS.index(a.verdict.level), a.number))
    count = f"{len(wrong)} of {len(history)} replies {'was' if len(wrong) == 1 else 'were'} refused"
    return f"; {count}, reply {worst.number}: {quality(worst.verdict)}"


def _only_model(chat: Chat) -> str:
    if not isinstance(chat, OpenAIChat):
        return "auto"
    try:
        names = chat.models()
    finally:
        chat.close()
    if len(names) == 1:
        return names[0]
    raise Fault(
        "setup",
        f"the endpoint lists {len(names)} models ({', '.join(names[:8])}); name one with --model",
    )


class _ReplayJudge:
    """Recorded verdicts first; a leaf without one is judged for real."""

    def __init__(self, judge: Judge, record: Record) -> None:
        self._judge, self._record = judge, record

    def check(self, leaf: Leaf) -> LeafVerdict:
        return self._record.verdict(leaf) or self._judge.check(leaf)

    def library(self, spec: LeafSpec) -> str:
        """A run that recorded nothing was told nothing."""
        return ""


def llm_writer(
    backend: Backend,
    config: AgentConfig,
    folder: Path,
    *,
    store: LeafStore | None = None,
    memory: Memory | None = None,
) -> SearchWriter:
    """Return the writer that asks the configured endpoint; `folder` is the run's agent/ directory.

    A folder that already holds a record is resumed: what was paid for is not asked again.

    Raises:
        EnvironmentProblem: L501 no key for an endpoint that is not on this machine.
    """
    keys: list[str] = []
    for role in ("coder", "designer", "conductor", "optimizer"):
        settings = config.role(role)
        keys.append(read_key(settings.api_key_env, settings.base_url))
    redact = Redactor(tuple(sorted(set(keys))))

    def chat_for(role: str) -> Chat:
        settings = config.role(role)
        key = read_key(settings.api_key_env, settings.base_url)
        return OpenAIChat(settings.base_url, key, config.limits)

    return SearchWriter(
        backend=backend,
        config=config,
        record=Record(folder, redact),
        chat_for=chat_for,
        store=store,
        memory=memory,
    )


def command_writer(
    backend: Backend,
    config: AgentConfig,
    folder: Path,
    program: str,
    *,
    store: LeafStore | None = None,
    memory: Memory | None = None,
) -> SearchWriter:
    """Return the writer that runs `program` for each call: prompt on stdin, reply on stdout."""
    chat = CommandChat(program, timeout=float(config.get("client", "deadline_s")))
    return SearchWriter(
        backend=backend,
        config=config,
        record=Record(folder),
        chat_for=lambda role: chat,
        kind="command",
        store=store,
        memory=memory,
    )


def replay_writer(
    backend: Backend, config: AgentConfig, folder: Path, recorded: Path
) -> SearchWriter:
    """Return the writer that repeats the run recorded in `recorded` (an agent/ directory), offline.

    Raises:
        EnvironmentProblem: L530 there is no record.
    """
    if not (recorded / "config.json").is_file():
        raise EnvironmentProblem.of(
            "L530",
            f"{recorded} holds no recorded run",
            help="`septran runs` lists the recorded runs",
        )
    return SearchWriter(
        backend=backend,
        config=config,
        record=Record(folder, source=recorded),
        chat_for=None,
        kind="replay",
    )


def outcome_json(written: Written) -> dict[str, Any]:
    """Return the outcome for one leaf as plain data (leaves/SPEC.json, reports)."""
    return {
        "schema": "septran.leaf/1",
        "task": written.leaf.spec.task,
        "spec": written.leaf.spec.key,
        "writer": written.leaf.writer,
        "name": written.leaf.name,
        "sha": written.leaf.sha,
        "source": written.leaf.source,
        "model": written.model,
        "reason": written.reason,
        "accepted": "predicted" if written.predicted else "",
        "verdict": asdict(written.verdict) if written.verdict else None,
        "usage": asdict(written.usage),
        "history": [
            {
                "number": a.number,
                "mode": a.mode,
                "model": a.model,
                "sha": a.leaf.sha if a.leaf else None,
                "verdict": asdict(a.verdict),
            }
            for a in written.history
        ],
    }


def with_flags(budget: Budget, **given: int | float | None) -> Budget:
    """Return `budget` with the flags that were given (None = not given)."""
    return replace(budget, **{k: v for k, v in given.items() if v is not None})  # type: ignore[arg-type]
