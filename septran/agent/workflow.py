"""The agent's workflow as data: a list of steps, the first one whose condition holds says what is done next.

workflow:
  - {when: goal, stop: verified and faster than the library leaf}
  - {when: start, ask: [coder], mode: first}
  - {when: [failed, not repeated], ask: [coder], mode: repair}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from septran.errors import ConfigError, Diagnostic, Span, closest
from septran.spanyaml import Document

CONDITIONS: dict[str, str] = {
    "start": "nothing was tried yet for this leaf",
    "failed": "the last reply is not a verified leaf",
    "unusable": "the last reply held no usable code",
    "cut": "the last reply ended at its length limit",
    "compile_error": "the last leaf does not compile",
    "rejected": "the last leaf does what a leaf may not do",
    "crash": "the last leaf crashed",
    "timeout": "the last leaf did not end in time",
    "wrong": "the last leaf's results are wrong",
    "unavailable": "the last leaf cannot be judged here",
    "repeated": "the last reply is one that was seen before",
    "stuck": "`stuck_after` failures in a row",
    "verified": "some leaf is verified",
    "unmeasured": "some leaf is verified and times cannot be measured here",
    "faster": "a verified leaf is faster than the library's by `min_gain`",
    "goal": "a verified leaf is faster than the library's by `goal`",
    "plateau": "`patience` rounds without gain since a leaf was verified",
}
MODES = ("first", "repair", "redesign", "optimise", "shorter")
_KEYS = ("when", "ask", "mode", "stop", "temperature")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One rule.

    when: conditions that must all hold ("not x" negates). ask: roles in order, the coder last.
    stop: ends the search with this reason. temperature: of the coder in this step.
    """

    when: tuple[str, ...]
    ask: tuple[str, ...] = ()
    mode: str = "first"
    stop: str = ""
    temperature: float | None = None


def choose(steps: Sequence[Step], facts: frozenset[str]) -> Step | None:
    """Return the first step whose conditions hold, None when there is none."""
    for step in steps:
        if all(
            (word[4:] not in facts) if word.startswith("not ") else (word in facts)
            for word in step.when
        ):
            return step
    return None


def read_workflow(value: Sequence[Any], document: Document | None) -> tuple[Step, ...]:
    """Return the steps of the `workflow` list; `document` gives the places.

    Raises:
        ConfigError: C042 for each mistake.
    """
    found: list[Diagnostic] = []
    steps: list[Step] = []

    def fail(message: str, *path: str | int) -> None:
        span: Span | None = None
        if document is not None and document.spans:
            span = document.key_span("workflow", *path)
        found.append(Diagnostic(code="C042", message=f"workflow: {message}", span=span))

    def words(i: int, key: str, given: Any) -> tuple[str, ...]:
        many = given if isinstance(given, list) else [given]
        if not all(isinstance(w, str) for w in many):
            fail(f"{key} holds words", i, key)
            return ()
        return tuple(many)

    for i, item in enumerate(value):
        if not isinstance(item, dict) or "when" not in item:
            fail("a step is {when: ..., ask: [...], mode: ...} or {when: ..., stop: ...}", i)
            continue
        for key in item:
            if key not in _KEYS:
                fail(f"unknown key {key!r}{closest(str(key), _KEYS)}", i, key)
        when = words(i, "when", item["when"])
        for word in when:
            bare = word.removeprefix("not ")
            if bare not in CONDITIONS:
                fail(f"unknown condition {bare!r}{closest(bare, CONDITIONS)}", i, "when")
        ask = words(i, "ask", item["ask"]) if "ask" in item else ()
        stop = item.get("stop", "")
        if bool(ask) == bool(stop):
            fail("a step has either ask or stop", i)
        if ask and ask[-1] != "coder":
            fail("ask ends with the coder, who writes the leaf", i, "ask")
        mode = item.get("mode", "repair")
        if mode not in MODES:
            fail(f"unknown mode {mode!r}{closest(str(mode), MODES)}", i, "mode")
        temperature = item.get("temperature")
        if temperature is not None and not isinstance(temperature, int | float):
            fail("temperature is a number", i, "temperature")
            temperature = None
        steps.append(
            Step(
                when=when,
                ask=ask,
                mode=str(mode),
                stop=str(stop),
                temperature=None if temperature is None else float(temperature),
            )
        )
    if value and not any("start" in s.when and s.ask for s in steps):
        fail("no step for `start`, so nothing would ever be asked")
    if found:
        raise ConfigError(found)
    return tuple(steps)
