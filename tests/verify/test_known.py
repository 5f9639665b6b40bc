"""References that stay in the process: the same figures as without, whatever was judged before."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from septran.accuracy import load_policy
from septran.environment.step import Submission, step
from septran.environment.tasks import Asked, leaf_tasks
from septran.settings import load
from septran.verify import known
from septran.verify.budget import Expected
from septran.verify.cases import Case, plan
from septran.verify.known import Known, remembering
from septran.verify.problem import Problem
from tests.verify import kernels

MANY = 1 << 30


def case_of(problem: Problem, seed: int = 1) -> Case:
    return next(c for c in plan(problem, seed) if c.name == "normal")


def same(one: tuple[Expected, ...], other: tuple[Expected, ...]) -> bool:
    pairs = zip(one, other, strict=True)
    return all(
        bool((a.values == b.values).all() and (a.budget == b.budget).all()) for a, b in pairs
    )


def test_a_kernel_that_needed_larger_budgets_does_not_widen_the_next_ones() -> None:
    problem, policy = kernels.layernorm(), load_policy()
    case = case_of(problem)
    fresh = Known(problem, case, policy)
    first = fresh.now
    while fresh.grow():
        pass
    assert not same(first, fresh.now), "the budgets of this reference grow"
    with remembering(MANY):
        greedy = Known(problem, case, policy)
        while greedy.grow():
            pass
        after = Known(problem, case, policy)
        assert after.now is not greedy.now and same(after.now, first)
        while after.grow():
            pass
        assert same(after.now, fresh.now)


def test_what_is_remembered_is_computed_once_and_only_for_the_same_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Case] = []
    real = known._growing
    monkeypatch.setattr(known, "_growing", lambda p, c, y: asked.append(c) or real(p, c, y))
    problem, policy = kernels.gemm(), load_policy()
    case = case_of(problem)
    others = (
        (replace(problem, dims={**problem.dims, "Z": 1}), case),
        (replace(problem, flushes=True), case),
        (problem, case_of(problem, 2)),
        (kernels.gemm(), case),
    )
    with remembering(MANY):
        for _ in range(3):
            Known(replace(problem, points=(1.0,), unused=frozenset({"A"})), case, policy)
        assert len(asked) == 1
        for other, number in others:
            Known(other, number, policy)
        assert len(asked) == 5
    Known(problem, case, policy)
    assert len(asked) == 6, "nothing stays behind"
    with remembering(1):
        for number in (1, 2, 1):
            Known(problem, case_of(problem, number), policy)
    assert len(asked) == 9, "the oldest goes when there is no room"


def test_what_is_held_is_not_counted_again_for_each_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server's worker holds tens of thousands."""
    counted: list[object] = []
    real = known._Rounds.nbytes.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(known._Rounds, "nbytes", property(lambda r: counted.append(r) or real(r)))
    problem, policy = kernels.gemm(), load_policy()
    inputs = 4 * sum(math.prod(p.shape) for p in problem.inputs)
    with remembering(40 * (inputs + known._OBJECTS)):
        for seed in range(60):
            Known(problem, case_of(problem, seed), policy)
        assert len(counted) == 60
        assert known._memory is not None and 1 < len(known._memory._held) < 40


@pytest.mark.slow
def test_a_reward_has_the_same_bits_with_and_without(tmp_path: Path) -> None:
    asked = Asked(op="softmax", backend="cpp", dims={"M": 5, "N": 33})
    task = leaf_tasks(asked)[0]
    right = task.solution()
    assert right is not None
    sent = [
        Submission(asked=asked, leaf=task.spec.task, reply=f"```cpp\n{body}\n```", seed=3)
        for body in (right, right.replace("exp", "abs"), "long i = 0;", right)
    ]
    alone = [step(one, settings=load()).to_json() for one in sent]
    with remembering(MANY):
        assert [step(one, settings=load()).to_json() for one in (*sent, *sent)] == alone * 2
