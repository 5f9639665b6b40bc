"""Decisions that rounding makes: which of two values is the larger where they are closer than their budgets.

A kernel may decide such a tie otherwise than the reference. That is accepted only where an output shows the decision
(the places of a top-k, a count) and the values in float64 with their budgets allow it; everything else the kernel
computed is then judged with that decision, and the verdict says how many calls it was so. A decision that no output
shows is the reference's, and a kernel that makes another is wrong.

A result in 16 bits that the module reads again may be read as torch does, as it is stored, or more exactly, before that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from septran.accuracy import Policy
from septran.kernel import KernelParam
from septran.reference import Choice, Reference
from septran.verify import budget, judge
from septran.verify.budget import Expected
from septran.verify.problem import Problem

if TYPE_CHECKING:
    import torch

    from septran.verify.cases import Array


def settle(
    problem: Problem,
    arrays: Mapping[str, Array],
    known: tuple[Expected, ...],
    outputs: Mapping[str, bytes],
    *,
    zero_mean: bool,
    policy: Policy,
    seed: int,
) -> tuple[tuple[Expected, ...], tuple[str, ...]]:
    """Return what is expected where the kernel decided ties otherwise than the reference, and which decisions.

    `known` and () where it decided none, or one that its values do not allow.
    """
    reference = problem.reference
    if not reference.choices or reference.chosen is None:
        return known, ()
    expected = {one.name: one.values for one in known}
    made: dict[str, torch.Tensor] = {}
    told = []
    for choice in reference.choices:
        if choice.stored:
            continue
        param = next(p for p in problem.outputs if p.name == choice.output)
        shown = _stored(param, outputs[choice.output])
        if bool((shown == expected[choice.output].to(shown.dtype)).all()):
            continue
        got = _allowed(problem, choice, arrays, outputs, zero_mean, policy, seed)
        if got is None:
            return known, ()
        made[choice.output] = got
        told.append(choice.about)
    if not made:
        return known, ()
    again = replace(problem, reference=reference.chosen(made))
    return (
        budget.expected(again, arrays, zero_mean=zero_mean, policy=policy, seed=seed),
        tuple(told),
    )


def read_stored(
    problem: Problem,
    arrays: Mapping[str, Array],
    known: tuple[Expected, ...],
    outputs: Mapping[str, bytes],
    *,
    zero_mean: bool,
    policy: Policy,
    seed: int,
) -> tuple[Expected, ...]:
    """Return what is expected where results in 16 bits are read as they are stored, before that, or once so and once so.

    known: of before that. A whole number is one of the two; a float lies between them, with the larger budget at each end.
    A result that is itself wrong is read as it should be.
    """
    reference = problem.reference
    if not any(c.stored for c in reference.choices) or reference.chosen is None:
        return known
    made = {
        choice.output: got
        for choice in reference.choices
        if choice.stored
        for got in [_allowed(problem, choice, arrays, outputs, zero_mean, policy, seed)]
        if got is not None
    }
    again = replace(problem, reference=reference.chosen(made))
    stored = budget.expected(again, arrays, zero_mean=zero_mean, policy=policy, seed=seed)
    # what is decided behind them has to be allowed by the values as they were read
    stored, _ = settle(
        again, arrays, stored, outputs, zero_mean=zero_mean, policy=policy, seed=seed
    )
    return tuple(
        _between(a, b, _stored(param, outputs[param.name]))
        for param, a, b in zip(problem.outputs, known, stored, strict=True)
    )


def _allowed(
    problem: Problem,
    choice: Choice,
    arrays: Mapping[str, Array],
    outputs: Mapping[str, bytes],
    zero_mean: bool,
    policy: Policy,
    seed: int,
) -> torch.Tensor | None:
    """Return the output that shows a decision, None where the values within their budgets do not allow it."""
    param = next(p for p in problem.outputs if p.name == choice.output)
    inputs = budget.tensors(arrays)
    (values,) = budget.expected(
        _values(problem, choice.values, inputs),
        arrays, zero_mean=zero_mean, policy=policy, seed=seed,
    )  # fmt: skip
    got = _stored(param, outputs[choice.output])
    given = {**inputs, **problem.scalars}
    return got if choice.allows(given, values.values, values.budget, got) else None


def _between(a: Expected, b: Expected, got: torch.Tensor) -> Expected:
    import torch

    if a.exact:
        return replace(a, values=torch.where(got == b.values.to(got.dtype), b.values, a.values))
    both = torch.isfinite(a.values) & torch.isfinite(b.values)
    middle = torch.where(both, (a.values + b.values) / 2, a.values)
    apart = torch.where(both, (a.values - b.values).abs() / 2, 0.0)
    return replace(a, values=middle, budget=a.budget.maximum(b.budget) + apart)


def _values(
    problem: Problem, fn: Callable[..., Any], inputs: Mapping[str, torch.Tensor]
) -> Problem:
    """Return the problem of computing what is decided between."""
    reference = Reference(fn=fn, kind="choice", reduction=problem.reference.reduction)
    with_values = replace(problem, reference=reference)
    (found,) = budget.evaluate(with_values, inputs)
    param = KernelParam(
        name="values", shape=tuple(found.shape), dtype=problem.accumulate, privilege="w"
    )
    return replace(with_values, params=(*problem.inputs, param))


def _stored(param: KernelParam, raw: bytes) -> torch.Tensor:
    import torch

    return torch.frombuffer(bytearray(raw), dtype=judge.torch_dtype(param.dtype)).reshape(
        param.shape
    )
