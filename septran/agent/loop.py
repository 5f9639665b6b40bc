"""The repair -> redesign -> optimise loop: the workflow's steps, driven by verdicts."""

from __future__ import annotations

from dataclasses import replace

from septran.agent.prompt import Context
from septran.agent.reply import extract_json
from septran.agent.session import Exhausted, Session
from septran.agent.workflow import Step, choose

_ACTIONS = ("repair", "redesign", "optimise", "stop")


def best_of(session: Session) -> str:
    """Run the workflow until a step stops it or a budget ends; return the reason.

    The round's candidates differ by seed. The first failure of the last round and the fastest right
    body so far go into the next prompt; older attempts become one line each.
    """
    steps = session.config.workflow
    try:
        while True:
            facts = session.facts()
            step = choose(steps, facts)
            if step is None:
                return f"the workflow has no step for: {', '.join(sorted(facts))}"
            if step.stop:
                return step.stop
            done = _run(session, step)
            if done:
                return done
    except Exhausted as end:
        return str(end)


def _run(session: Session, step: Step) -> str:
    """Ask the step's roles in order; return a reason when the conductor ends the work."""
    mode, context = step.mode, session.context()
    for role in step.ask[:-1]:
        if session.calls_left == 1:  # advice that nobody could follow
            break
        text = session.helper(role)
        if not text:
            continue
        decision = extract_json(text) if role == "conductor" else None
        if decision is not None:
            action = decision.get("action")
            if action == "stop":
                return "the conductor stopped the work"
            if action in _ACTIONS and not (action == "optimise" and session.best is None):
                mode = str(action)
            context = _joined(context, advice=str(decision.get("advice", ""))[:2000])
            if action == "redesign" and "designer" not in step.ask and _has(session, "designer"):
                context = _joined(context, plan=session.helper("designer")[:4000])
        elif role == "designer":
            context = _joined(context, plan=text[:4000])
        else:
            context = _joined(context, advice=text[:4000])
    if mode == "optimise" and session.best is None:
        mode = "repair"
    count = max(1, session.budget.candidates)
    session.code([(mode, context)] * count, mode=mode, temperature=step.temperature)
    return ""


def _has(session: Session, role: str) -> bool:
    """Return whether the user's workflow uses `role` at all."""
    return any(role in step.ask for step in session.config.workflow)


def _joined(context: Context, *, plan: str = "", advice: str = "") -> Context:
    parts = [p for p in (context.advice, advice) if p]
    return replace(context, plan=plan or context.plan, advice="\n".join(parts))
