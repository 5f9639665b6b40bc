"""Frames and prompts for every target that is there: honest bodies pass the gate, prompts stay short."""

from __future__ import annotations

import pytest

from septran import backends
from septran.agent.chat import messages_tokens
from septran.agent.config import load
from septran.agent.frame import body_problem, make_frame
from septran.agent.prompt import render_prompt
from septran.kernel import LeafSpec
from septran.leafgate import printed
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.trial.judge import distinct_specs


def spec_of(name: str, op: str) -> LeafSpec:
    return distinct_specs(lower_plan(resolve(GenRequest(op=op, backend=name))).program)[-1]


@pytest.mark.parametrize("name", backends.names())
def test_frame(name: str) -> None:
    backend = backends.get(name)
    frame = make_frame(spec_of(name, "relu"), backend, "body")
    body = ";" if frame.braces else "pass"
    assert body_problem(frame, body) == ""
    leaf = frame.leaf(body, writer="llm", name="x")
    assert leaf.source.startswith(backend.signature(spec_of(name, "relu")).rstrip())
    again = printed(leaf, signature=frame.signature, subset=frame.subset)
    assert again == leaf


@pytest.mark.parametrize("name", backends.names())
@pytest.mark.parametrize("op", ["relu", "attention"])
def test_prompt_is_short(name: str, op: str) -> None:
    backend = backends.get(name)
    config = load(backend.docs)
    found = render_prompt(spec_of(name, op), backend, config)
    assert messages_tokens(found) < 9000
    assert "YOUR CODE" in found[1].text
