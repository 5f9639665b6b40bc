"""The work on one leaf: what was tried, what it was worth, and the calls and checks of the next round."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from septran.agent.chat import Message, Reply, Request, messages_tokens
from septran.agent.config import AgentConfig
from septran.agent.faults import Fault
from septran.agent.figures import preferred, told_figures
from septran.agent.frame import assemble
from septran.agent.ledger import Ledger
from septran.agent.memory import Lesson, features_of
from septran.agent.prompt import Context, Prompter, Shown
from septran.agent.record import Record, RecordedChat
from septran.agent.reply import extract_body
from septran.agent.writer import Attempt, Budget, Judge, LeafVerdict
from septran.kernel import Leaf, LeafSpec
from septran.outcome import LEVELS, Level

ChatOf = Callable[[str], RecordedChat]
ModelOf = Callable[[str], str]
_SILENCES = 2
"""Calls in a row without a reply, each with its retries, after which the model counts as gone."""

_REFUSALS = 2
"""Replies in a row in which the model or its server refuses, after which it is not asked again for this leaf."""
_SAME = 3
"""The same words without code so often in a row: the model has no other answer."""


class Exhausted(Exception):
    """Nothing more may be asked for this leaf; the text says why."""


class Session:
    """State of the search for one leaf; every judged leaf and every call goes through here."""

    def __init__(
        self,
        *,
        prompter: Prompter,
        config: AgentConfig,
        judge: Judge,
        budget: Budget,
        ledger: Ledger,
        record: Record,
        chat_of: ChatOf,
        model_of: ModelOf,
        writer: str,
    ) -> None:
        """Everything is handed in; nothing is read from the environment."""
        self.prompter = prompter
        self.spec: LeafSpec = prompter.spec
        self.config = config
        self.budget = budget
        self.ledger = ledger
        self.record = record
        self.attempts: list[Attempt] = []
        self.bodies: dict[str, str] = {}
        self.asked = 0
        self.failures = 0
        self.flat = 0
        self.repeated = False
        self.cut = False
        self.log = ""
        self._judge = judge
        self._chat_of = chat_of
        self._model_of = model_of
        self._writer = writer
        self._round = 0
        self._shown: dict[int, Shown] = {}
        self._lead: Attempt | None = None
        self._best: Attempt | None = None
        self._silences = 0
        self._refusals = 0
        self._said = ("", 0)
        self.silent: Fault | None = None
        """why the last call gave no reply; None when it gave one"""

    @property
    def calls_left(self) -> int:
        """How many calls of any role the budget has left."""
        return max(0, self.budget.attempts - self.asked)

    @property
    def best(self) -> Attempt | None:
        """The fastest verified attempt; where times are not measured the best by static figures, of equal ones the first."""
        return self._best

    def facts(self) -> frozenset[str]:
        """Return the workflow's conditions that hold now."""
        if not self.attempts:
            return frozenset({"start"})
        assert self._lead is not None
        last = self._lead.verdict
        found = set[str]()
        if not last.verified:
            found |= {"failed", last.status}
        if self.repeated:
            found.add("repeated")
        if self.cut:
            found.add("cut")
        if self.failures >= int(self.config.get("stuck_after")):
            found.add("stuck")
        if self._best is not None:
            found.add("verified")
            gain = self._best.verdict.speedup
            if gain is None and self._by_figures(self._best.verdict):
                found |= {"faster", "goal"} if self._best.verdict.predicted_better else set()
            elif gain is None:
                found.add("unmeasured")
            else:
                found |= {"faster"} if gain >= float(self.config.get("min_gain")) else set()
                found |= {"goal"} if gain >= float(self.config.get("goal")) else set()
            if self.flat >= int(self.config.get("patience")):
                found.add("plateau")
        return frozenset(found)

    def _by_figures(self, verdict: LeafVerdict) -> bool:
        """Whether static figures stand for the clock that is missing: they are asked for, and there are some."""
        known = preferred(verdict.figures, verdict.baseline_figures) is not None
        return known and self.config.get("accept") == "predicted"

    def context(self) -> Context:
        """Return what the next prompt may show of the past."""
        return Context(
            earlier=tuple(one_line(a) for a in self.attempts if a is not self._lead),
            last=self._shown.get(self._lead.number) if self._lead else None,
            best=self.shown(self._best) if self._best else None,
            log=self.log,
            numbers={
                "failures": self.failures,
                "calls_left": self.calls_left,
            },
        )

    def shown(self, attempt: Attempt) -> Shown:
        """Return a verified or failed attempt for a prompt."""
        body = self.bodies.get(attempt.leaf.sha, "") if attempt.leaf else ""
        return Shown(body=body, text=quality(attempt.verdict), predicted=attempt.verdict.predicted)

    def lesson(self, best: Attempt, dsl: str) -> Lesson:
        """Return what this search taught: the verified body, and the last failure before it."""
        assert best.leaf is not None
        before = [a for a in self.attempts if a.number < best.number and not a.verdict.verified]
        last = before[-1] if before else None
        shown = self._shown.get(last.number) if last else None
        return Lesson(
            dsl=dsl,
            task=self.spec.task,
            features=features_of(self.spec),
            body=self.bodies.get(best.leaf.sha, ""),
            failed=shown.body if shown else "",
            status=shown.status if shown else "",
            why=shown.message if shown else "",
            speedup=best.verdict.speedup,
        )

    def helper(self, role: str) -> str:
        """Return the reply text of a role that advises; "" when it gave none."""
        messages = self.prompter.render(role, "user", self.context())
        replies = self._ask(role, [messages], f"{self._round}/{role}", None)
        return replies[0].text.strip() if isinstance(replies[0], Reply) else ""

    def code(
        self,
        templates: list[tuple[str, Context]],
        *,
        mode: str,
        temperature: float | None = None,
    ) -> list[Attempt]:
        """Ask the coder for one body per (template, context), judge each in order, return the attempts."""
        self._round += 1
        prompts = [self.prompter.render("coder", name, context) for name, context in templates]
        outcomes = self._ask("coder", prompts, f"{self._round}/coder", temperature)
        made: list[Attempt] = []
        enough = False
        for outcome in outcomes:
            attempt = self._judged(outcome, mode, judge=not enough)
            made.append(attempt)
            self._note(attempt, outcome)
            gain = attempt.verdict.speedup
            enough = enough or (gain is not None and gain >= float(self.config.get("goal")))
        self._lead = max(made, key=lambda a: (LEVELS.index(a.verdict.level), -a.number))
        told_last = self._lead.verdict
        self.log = "" if told_last.verified else told(told_last)
        self._heed(outcomes, made)
        return made

    def _heed(self, outcomes: list[Reply | Fault], made: list[Attempt]) -> None:
        """End the search when the model refuses, or says the same words without code, again and again."""
        for outcome, attempt in zip(outcomes, made, strict=True):
            if not isinstance(outcome, Reply):
                continue
            self._refusals = self._refusals + 1 if outcome.finish == "refused" else 0
            text = outcome.text.strip()
            said, times = self._said
            bare = attempt.leaf is None and not self.bodies
            self._said = (text, times + 1 if text == said else 1) if bare else ("", 0)
        said, times = self._said
        words = f": {_first_line(said)}" if said else ""
        if self._refusals >= _REFUSALS:
            raise Exhausted(
                f"the model refuses (content filter, refusal or empty reply), {self._refusals} replies in a row{words}"
            )
        if times >= _SAME:
            raise Exhausted(f"the model said the same without code {times} times in a row{words}")

    def _ask(
        self, role: str, prompts: list[tuple[Message, ...]], slot: str, temperature: float | None
    ) -> list[Reply | Fault]:
        settings = self.config.role(role)
        options = dict(settings.options)
        if temperature is not None:
            options["temperature"] = temperature
        left = self.budget.attempts - self.asked
        over = self.ledger.over(self.budget)
        if left <= 0:
            raise Exhausted(f"the budget of {self.budget.attempts} calls for a leaf is used")
        if over:
            raise Exhausted(over)
        requests: list[Request] = []
        reserved = 0
        for i, prompt in enumerate(prompts[:left]):
            need = messages_tokens(prompt)
            room = self.ledger.room(self.budget, reserved + need, settings.max_tokens)
            if room == 0:
                break
            reserved += need + room
            options["max_tokens"] = room
            if settings.seed is not None:
                options["seed"] = settings.seed + self.asked + i
            requests.append(
                Request(
                    model=self._model_of(role),
                    messages=prompt,
                    options=tuple(sorted(options.items())),
                    extra=settings.extra,
                    slot=f"{self.spec.key}/{slot}/{i}",
                )
            )
        if not requests:
            raise Exhausted("the rest of the token budget is too small for another call")
        self.asked += len(requests)
        outcomes = self._together(role, requests)
        for request, outcome in zip(requests, outcomes, strict=True):
            self._count(role, request, outcome)
        faults = [o for o in outcomes if isinstance(o, Fault) and o.kind != "context"]
        self.silent = faults[-1] if len(faults) == len(outcomes) else None
        self._silences = self._silences + 1 if self.silent is not None else 0
        if self.silent is not None and self._silences == _SILENCES:
            raise self.silent
        return outcomes

    def _together(self, role: str, requests: list[Request]) -> list[Reply | Fault]:
        chat = self._chat_of(role)

        def one(request: Request) -> Reply | Fault:
            try:
                return chat.ask(request)
            except Fault as fault:
                return fault

        if len(requests) == 1:
            return [one(requests[0])]
        workers = min(len(requests), int(self.config.get("client", "max_concurrency")))
        with ThreadPoolExecutor(max_workers=workers) as pool:
            return list(pool.map(one, requests))

    def _count(self, role: str, request: Request, outcome: Reply | Fault) -> None:
        if isinstance(outcome, Reply):
            self.ledger.add(outcome)
            self.record.event(
                "reply",
                role=role,
                slot=request.slot,
                call=request.key,
                finish=outcome.finish,
                prompt_tokens=outcome.prompt_tokens,
                completion_tokens=outcome.completion_tokens,
            )
            return
        self.ledger.failed()
        self.record.event(
            "fault", role=role, slot=request.slot, call=request.key, fault=outcome.kind
        )
        if outcome.kind == "setup":
            raise outcome

    def _judged(self, outcome: Reply | Fault, mode: str, *, judge: bool) -> Attempt:
        number = len(self.attempts) + 1
        if isinstance(outcome, Fault):
            verdict = LeafVerdict(
                level=Level.REJECTED, status="unusable", message=f"no reply: {outcome.message}"
            )
            return Attempt(number=number, mode=mode, model="", leaf=None, verdict=verdict)
        found = extract_body(outcome.text, self.prompter.frame, self.spec)
        problem = found.problem
        if outcome.finish == "refused":
            problem = f"the model refused to answer. {_first_line(outcome.text)}".strip()
        self.cut = outcome.finish in ("length", "cut")
        if problem or (self.cut and not found.body):
            if self.cut:
                problem = f"the reply was cut ({outcome.finish}); {problem}"
            verdict = LeafVerdict(level=Level.REJECTED, status="unusable", message=problem)
            self._shown[number] = Shown(
                body=found.refused.rstrip() or _excerpt(outcome.text),
                status="unusable",
                message=problem,
            )
            return Attempt(
                number=number, mode=mode, model=outcome.model, leaf=None, verdict=verdict
            )
        leaf = assemble(
            self.prompter.frame, found.body, self.spec, self._writer, outcome.model or "model"
        )
        self.repeated = leaf.sha in self.bodies
        self.bodies[leaf.sha] = found.body
        verdict = self._verdict(leaf, judge=judge)
        self._shown[number] = Shown(
            body=found.body.rstrip(), status=verdict.status, message=told(verdict)
        )
        return Attempt(number=number, mode=mode, model=outcome.model, leaf=leaf, verdict=verdict)

    def _verdict(self, leaf: Leaf, *, judge: bool) -> LeafVerdict:
        known = self.record.verdict(leaf)
        if known is not None:
            self.record.store_verdict(leaf, known)
            return known
        if not judge:
            return LeafVerdict(
                level=Level.EMITTED,
                status="unavailable",
                message="not judged: another candidate won",
            )
        verdict = self._judge.check(leaf)
        verdict = replace(verdict, message=self.record.redact(verdict.message))
        self.record.store_verdict(leaf, verdict)
        return verdict

    def _note(self, attempt: Attempt, outcome: Reply | Fault) -> None:
        earlier = max((LEVELS.index(a.verdict.level) for a in self.attempts), default=-1)
        self.attempts.append(attempt)
        verdict = attempt.verdict
        if isinstance(outcome, Fault) or attempt.leaf is None:
            self.repeated = False
        if verdict.verified:
            self.failures = 0
            before = self._best.verdict if self._best is not None else None
            better = (
                before is None
                or (verdict.speedup or 0) > (before.speedup or 0) * 1.005
                or (before.speedup is None and preferred(verdict.figures, before.figures) == 1)
            )
            self.flat = 0 if better else self.flat + 1
            if better:
                self._best = attempt
        else:
            rose = LEVELS.index(verdict.level) > max(earlier, 0)
            self.failures = 1 if rose else self.failures + 1
            self.flat += 1 if self._best is not None else 0
        self.record.event(
            "attempt",
            number=attempt.number,
            spec=self.spec.key,
            mode=attempt.mode,
            sha=attempt.leaf.sha if attempt.leaf else None,
            level=verdict.level,
            status=verdict.status,
            speedup=verdict.speedup,
            repeated=self.repeated,
        )


def quality(verdict: LeafVerdict) -> str:
    """Return one line on how good a leaf is."""
    if not verdict.verified:
        return f"{verdict.status}: {_first_line(verdict.message)}"
    parts = ["right"]
    if verdict.speedup is not None:
        parts.append(f"{verdict.speedup:.2f} x the library's speed")
    if verdict.figures:
        parts.append(told_figures(verdict.figures, verdict.baseline_figures))
    parts += [text for text in (verdict.bound, verdict.accesses) if text]
    if verdict.roofline is not None:
        parts.append(f"{100 * verdict.roofline:.0f} % of the machine's limit")
    return ", ".join(parts)


def told(verdict: LeafVerdict) -> str:
    """Return all of a verdict that a model may know."""
    parts = [quality(verdict) if verdict.verified else verdict.message, verdict.worst]
    return "\n".join(p for p in parts if p)


def one_line(attempt: Attempt) -> str:
    """Return the line that stands for an attempt when its code is no longer shown."""
    return f"attempt {attempt.number} ({attempt.mode}): {quality(attempt.verdict)}"


def _first_line(text: str) -> str:
    line = next((x.strip() for x in text.splitlines() if x.strip()), "")
    return line if len(line) <= 160 else line[:157] + "..."


def _excerpt(text: str) -> str:
    """Return the beginning of a reply that holds no leaf; fences would end the block that it is shown in."""
    return text.replace("```", "").strip()[:600]
