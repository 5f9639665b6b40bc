"""A model asked for a mapping instead of a body: which of the open values to try next.

A choice costs a line of text, and a wrong one costs nothing: what the model may say is closed, and every proposal goes
the way of the sampler's (mapped, predicted, built, verified, measured).
Source: an LLM that proposes configurations needed a tenth of a Bayesian tuner's for the same result (Helion, pytorch.org blog, 2026).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from septran.agent.chat import Message
from septran.mapping.space import DIRECT

_SYSTEM = """You choose values of a tensor kernel's mapping: tile sizes, pipeline depths, orders, memories. The kernel is generated, built, verified and
measured for each choice. Answer with a JSON array of at most {most} objects, the most promising first, in a fenced block. A key is
a choice's name, a value one of those listed; a choice that an object leaves out keeps its default. Propose nothing that was tried."""
_MOST_TRIED = 40


@dataclass(frozen=True, slots=True)
class Tried:
    """A choice that was tried. told: its figure, or why it has none."""

    values: Mapping[str, Any]
    told: str


def prompt(
    subject: str,
    facts: Sequence[str],
    choices: Mapping[str, Sequence[Any]],
    default: Mapping[str, Any],
    tried: Sequence[Tried],
    *,
    most: int,
    policy: Mapping[str, Sequence[Any]],
) -> tuple[Message, ...]:
    """Return what the model is asked. subject: the kernel in a line; facts: what is known of machine and kernel.

    policy: choices that the target's policy made for every kernel of the kind.
    """
    lines = [subject, "", *facts, "", "Choices (default first, then all values):"]
    lines += [
        f"- {name}: {json.dumps(default[name])}; {json.dumps(list(values))}"
        for name, values in choices.items()
    ]
    if policy:
        lines += [
            "",
            "Choices of the target's policy, which may be wrong for this kernel (the same):",
        ]
        lines += [
            f"- {name}: {json.dumps(default[name])}; {json.dumps(list(values))}"
            for name, values in policy.items()
        ]
        lines += [f'A memory "{DIRECT}": no copy of the operand is asked for.']
    lines += ["", "Tried so far:"]
    lines += [f"- {json.dumps(dict(t.values))}: {t.told}" for t in tried[-_MOST_TRIED:]]
    system = _SYSTEM.format(most=most)
    return (Message("system", system), Message("user", "\n".join(lines) + "\n"))


def read(
    reply: str,
    choices: Mapping[str, Sequence[Any]],
    default: Mapping[str, Any],
    *,
    most: int,
) -> tuple[tuple[dict[str, Any], ...], tuple[str, ...]]:
    """Return the proposals of a reply, whole and each once, and why others are none."""
    found: list[dict[str, Any]] = []
    dropped: list[str] = []
    for one in _listed(reply):
        if not isinstance(one, dict):
            dropped.append(f"{json.dumps(one)[:80]} is no object")
            continue
        wrong = next((text for k, v in one.items() if (text := _wrong(k, v, choices))), "")
        if wrong:
            dropped.append(wrong)
            continue
        whole = {**default, **one}
        if whole not in found and whole != dict(default):
            found.append(whole)
    return tuple(found[:most]), tuple(dropped[:most])


def _listed(reply: str) -> list[Any]:
    """Return the last JSON array of a reply; [] when there is none."""
    blocks = re.findall(r"```(?:json)?\s*\n(.*?)```", reply, re.DOTALL)
    start, end = reply.find("["), reply.rfind("]")
    for text in (*reversed(blocks), reply[start : end + 1] if 0 <= start < end else ""):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, list):
            return value
        if isinstance(value, dict):
            return [value]
    return []


def _wrong(name: str, value: Any, choices: Mapping[str, Sequence[Any]]) -> str:
    """Return why a value is none, "" when it is one; 1 and True are different."""
    if name not in choices:
        return f"there is no choice {name[:40]!r}"
    if not any(
        value == v and isinstance(value, bool) == isinstance(v, bool) for v in choices[name]
    ):
        return f"{name} cannot be {json.dumps(value)[:40]}"
    return ""
