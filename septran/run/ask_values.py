"""The model's part in a search over a mapping's values: asked once before the sampler and once with what was found."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from septran.agent import config as agent_config
from septran.agent.chat import Chat, Request
from septran.agent.client import OpenAIChat, read_key
from septran.agent.command import CommandChat
from septran.agent.faults import Fault
from septran.agent.proposals import Tried, prompt, read
from septran.atomic import write_atomic
from septran.errors import ConfigError
from septran.plan.resolve import Plan
from septran.run.trials import Trials
from septran.settings import Settings

ROUNDS = 2
_MOST = 8
"""proposals of a round"""


@dataclass(slots=True)
class Asked:
    """What a model proposed, kept in `path` so that a resumed search pays for no call twice.

    policy: what only the model may choose, the policy's own choices. rounds: of each, at how many trials it was asked, the reply, its proposals and what was dropped.
    """

    path: Path
    chat: Chat
    model: str
    options: tuple[tuple[str, object], ...]
    policy: Mapping[str, tuple[object, ...]]
    rounds: list[dict[str, Any]] = field(default_factory=list)

    def next(
        self, plan: Plan, trials: Trials, unit: str, facts: tuple[str, ...]
    ) -> dict[str, Any] | None:
        """Return the next proposal that was not tried, None when the model has none left.

        Raises:
            EnvironmentProblem: L5xx, the model cannot be used.
        """
        tried = [json.dumps(dict(t.values), sort_keys=True) for t in trials.done]
        while True:
            for one in self.rounds:
                for values in one["proposals"]:
                    if json.dumps(values, sort_keys=True) not in tried:
                        return dict(values)
            if len(self.rounds) >= ROUNDS:
                return None
            self._ask(plan, trials, unit, facts)

    def _ask(self, plan: Plan, trials: Trials, unit: str, facts: tuple[str, ...]) -> None:
        sizes = ", ".join(f"{name}={size}" for name, size in plan.dims.items())
        subject = f"Kernel: {plan.operator.name} ({sizes}, {plan.dtype}) on {plan.backend.title}"
        default = trials.done[0].values
        told = [
            Tried(t.values, f"{t.found:g} {unit}" if t.found is not None else f"{t.state}: {t.why}")
            for t in trials.done
        ]
        messages = prompt(
            subject, facts, trials.choices, default, told, most=_MOST, policy=self.policy
        )
        slot = f"values {len(self.rounds)}"
        request = Request(model=self.model, messages=messages, options=self.options, slot=slot)
        try:
            reply = self.chat.ask(request)
        except Fault as fault:
            raise fault.as_problem(self.chat.where) from None
        finally:
            self.chat.close()
        found, dropped = read(reply.text, {**trials.choices, **self.policy}, default, most=_MOST)
        self.rounds.append(
            {
                "trials": len(trials.done),
                "messages": [asdict(m) for m in messages],
                "reply": reply.text,
                "proposals": list(found),
                "dropped": list(dropped),
                "prompt_tokens": reply.prompt_tokens,
                "completion_tokens": reply.completion_tokens,
                "estimated": reply.estimated,
            }
        )
        write_atomic(self.path, json.dumps(self.rounds, indent=1) + "\n")

    def summary(self) -> Mapping[str, Any]:
        """Return calls, proposals and tokens, for the septran.tune/1 object."""
        return {
            "calls": len(self.rounds),
            "proposals": sum(len(r["proposals"]) for r in self.rounds),
            "dropped": [text for r in self.rounds for text in r["dropped"]],
            "tokens": sum(r["prompt_tokens"] + r["completion_tokens"] for r in self.rounds),
        }


def asked(
    proposer: str,
    plan: Plan,
    settings: Settings,
    path: Path,
    policy: Mapping[str, tuple[object, ...]],
) -> Asked | None:
    """Return the model that `proposer` names: "" none, "llm" the configured endpoint, "command:PROGRAM" a program.

    policy: choices of the plan's policy, which it may propose besides.

    Raises:
        ConfigError: C144, it is none of these; C0xx, the configuration. EnvironmentProblem: L501, no key.
    """
    if not proposer:
        return None
    kind, _, program = proposer.partition(":")
    if proposer != "llm" and (kind != "command" or not program.strip()):
        raise ConfigError.of(
            "C144",
            f"there is no proposer {proposer!r}",
            help="it is llm (the configured endpoint) or command:PROGRAM",
        )
    flags = {"base_url": settings.base_url, "model": settings.model}
    over = [agent_config.override("settings", flags)]
    config = agent_config.load(plan.backend.docs, over=over, among=settings.layers)
    role = config.role("optimizer")
    chat: Chat
    model = "command"
    if proposer == "llm":
        chat = OpenAIChat(role.base_url, read_key(role.api_key_env, role.base_url), config.limits)
        model = role.model
        if model == "auto":
            try:
                (model,) = chat.models()
            except Fault as fault:
                raise fault.as_problem(chat.where) from None
            except ValueError:
                raise Fault("setup", "the endpoint lists several models").as_problem(
                    chat.where
                ) from None
    else:
        chat = CommandChat(program, timeout=float(config.get("client", "deadline_s")))
    options: tuple[tuple[str, object], ...] = (
        ("temperature", 0.0),
        ("max_tokens", role.max_tokens),
    )
    rounds = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    return Asked(path=path, chat=chat, model=model, options=options, policy=policy, rounds=rounds)
