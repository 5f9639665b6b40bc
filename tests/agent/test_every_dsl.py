"""Frames and prompts for every target that is there: honest bodies pass the gate, prompts stay short."""

from __future__ import annotations

import re

import pytest

from septran import backends
from septran.agent.chat import messages_tokens
from septran.agent.config import load
from septran.agent.docs import always
from septran.agent.frame import body_problem, make_frame
from septran.agent.prompt import Context, Prompter, Shown, render_prompt
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


@pytest.mark.few(8)
@pytest.mark.parametrize("name", backends.names())
@pytest.mark.parametrize("op", ["relu", "attention"])
def test_prompt_is_short(name: str, op: str) -> None:
    backend = backends.get(name)
    config = load(backend.docs)
    found = render_prompt(spec_of(name, op), backend, config)
    assert messages_tokens(found) < 9000
    assert "YOUR CODE" in found[1].text


# what tells a reader how to answer: only a role's own template may, the documentation and the contract go to every role
FORM = re.compile(
    r"\byou(r)? (write|return|answer|reply)|\byour (body|reply|answer|last)\b"
    r"|\b(write|return|answer with|reply with) (one\b|the (whole )?(body|function)|(a|the) code)",
    re.IGNORECASE,
)


@pytest.mark.parametrize("name", backends.names())
def test_the_form_of_a_reply_is_said_by_the_role_alone(name: str) -> None:
    backend = backends.get(name)
    prompter = Prompter.of(spec_of(name, "relu"), backend, load(backend.docs))
    assert FORM.search("You write its body.") and FORM.search("Write ONE function with the name")
    assert not FORM.search(always(prompter.docs))
    body = Shown(body="BODY", text="right", status="wrong", message="m")
    for role in ("designer", "conductor", "optimizer"):
        told = prompter.render(role, "user", Context(best=body, last=body))
        found = [
            m.text[hit.start() : hit.end() + 30] for m in told for hit in FORM.finditer(m.text)
        ]
        assert all(f.startswith("Answer with") for f in found), found
    system, user = (m.text for m in prompter.render("coder", "first", Context()))
    assert len(re.findall("Answer with one fenced", system)) == 1
    assert ("pointer" in system.partition("documentation below")[0]) is prompter.frame.braces
    assert [hit[0] for hit in FORM.finditer(user)] == ["your answer", "Write the body"], user
