"""Is this task able to tell a right kernel from a trivial one?

Before a kernel counts as verified, answers that nobody should accept are judged on the same secret inputs: zeros,
a constant, another input's output, an input passed through, one input ignored, arithmetic in tf32 or bfloat16.
A task on which one of them passes proves less than it seems, and the report says so. (robust-kbench's
admission filters, arXiv 2509.14279, with mutants of the arithmetic added.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from septran.accuracy import Policy, load_policy
from septran.errors import TaskLangError
from septran.ir.dtypes import is_float
from septran.verify import budget, judge
from septran.verify.budget import Expected
from septran.verify.cases import Case, draw, gives_value, has_value, numpy_dtype, plan
from septran.verify.problem import Problem
from septran.verify.settle import settle

if TYPE_CHECKING:
    import torch

    from septran.verify.cases import Array

    Outputs = tuple[torch.Tensor, ...]
    Mutant = Callable[[Problem, Case, Mapping[str, Array], Outputs], Outputs | None]

LARGE = 1 << 24
"""elements of all tensors together"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """accepted: trivial answers that passed on every case (none = the task is a good judge).

    tried: all answers tried. A precision mutant is tried only where it differs from the contract.
    skipped: why nothing was tried, "" when something was.
    """

    tried: tuple[str, ...]
    accepted: tuple[str, ...]
    skipped: str = ""

    @property
    def admitted(self) -> bool:
        """Whether every trivial answer failed."""
        return not self.accepted

    @property
    def warnings(self) -> tuple[str, ...]:
        """Lines for a verdict's `not_checked`; () for a task that is a good judge."""
        if self.skipped:
            return (f"task: trivial answers were not tried: {self.skipped}",)
        if self.accepted:
            return (f"task: it accepts trivial answers too: {', '.join(self.accepted)}",)
        return ()


def report(
    problem: Problem, *, seed: int, policy: Policy | None = None, largest: int = LARGE
) -> Admission:
    """Return `admit`, or why nothing was tried. largest: elements of all tensors above which nothing is."""
    elements = sum(math.prod(p.shape) for p in problem.params)
    if elements > largest:
        return Admission(
            tried=(), accepted=(), skipped=f"the tensors are large ({elements} elements)"
        )
    try:
        return admit(problem, seed=seed, policy=policy)
    except (RuntimeError, TaskLangError) as error:
        # the reference cannot be evaluated on an answer's inputs
        return Admission(tried=(), accepted=(), skipped=str(error)[:200])


def admit(problem: Problem, *, seed: int | None = None, policy: Policy | None = None) -> Admission:
    """Return which trivial answers the problem's own inputs and budgets would accept."""
    import torch

    policy = policy or load_policy()
    cases = plan(problem, seed)
    mutants = dict(_mutants(problem))
    passing = set(mutants)
    applicable: set[str] = set()
    with budget.threads(1), torch.no_grad():
        for case in cases:
            arrays = draw(problem, case)
            known = budget.expected(
                problem, arrays, zero_mean=case.zero_mean, policy=policy, seed=case.seed
            )
            right = tuple(one.values for one in known)
            for name in tuple(passing):
                found = mutants[name](problem, case, arrays, right)
                if found is None:
                    continue
                applicable.add(name)
                if not _accepted(problem, case, arrays, known, found, policy):
                    passing.discard(name)
            if not passing:
                break
    tried = [name for name in mutants if name in applicable]
    alive = [name for name in tried if name in passing]
    return Admission(tried=tuple(tried), accepted=tuple(alive))


def _accepted(
    problem: Problem,
    case: Case,
    arrays: Mapping[str, Array],
    known: tuple[Expected, ...],
    found: Outputs,
    policy: Policy,
) -> bool:
    import torch

    raw = {}
    for param, values in zip(problem.outputs, found, strict=True):
        if tuple(values.shape) != tuple(param.shape):
            return False
        stored = values.to(judge.torch_dtype(param.dtype)).contiguous()
        raw[param.name] = stored.reshape(-1).view(torch.uint8).numpy().tobytes()
    known, _ = settle(
        problem, arrays, known, raw, zero_mean=case.zero_mean, policy=policy, seed=case.seed
    )
    pairs = zip(problem.outputs, known, strict=True)
    read = [(p, wanted) for p, wanted in pairs if p.name not in problem.unused]
    return not any(judge.compare(p, wanted, raw[p.name]).wrong for p, wanted in read)


def _mutants(problem: Problem) -> Iterator[tuple[str, Mutant]]:
    yield "zeros", lambda p, c, a, right: tuple(t.clone().zero_() for t in right)
    yield "constant", _constant
    yield "other input's output", _other
    for param in problem.meant:
        if any(param.shape == out.shape for out in problem.outputs):
            yield f"identity of {param.name}", _identity(param.name)
        yield f"{param.name} ignored", _ignored(param.name)
    for bits, name in ((10, "tf32"), (7, "bfloat16")):
        if problem.accumulate == "float32" and all(
            p.dtype in ("float32", "int64", "int32", "bool") for p in problem.params
        ):
            yield f"{name} inputs", _rounded(bits)


def _constant(p: Problem, c: Case, a: Mapping[str, Array], right: Outputs) -> Outputs:
    import torch

    found = []
    for t in right:
        finite = t.double().nan_to_num(0.0, 0.0, 0.0)
        found.append(torch.full_like(t, finite.mean().to(t.dtype).item()))
    return tuple(found)


def _other(p: Problem, c: Case, a: Mapping[str, Array], right: Outputs) -> Outputs | None:
    from dataclasses import replace

    # the same family, other values: what a kernel that remembers one answer gives
    other = replace(c, seed=c.seed ^ 0x5DEECE66D, touched=None)
    return budget.evaluate(p, budget.tensors(draw(p, other))) if has_value(p, other) else None


def _identity(name: str) -> Mutant:
    def mutant(p: Problem, c: Case, a: Mapping[str, Array], right: Outputs) -> Outputs:
        given = budget.tensors(a)[name]
        return tuple(given if given.shape == t.shape else t for t in right)

    return mutant


def _ignored(name: str) -> Mutant:
    def mutant(p: Problem, c: Case, a: Mapping[str, Array], right: Outputs) -> Outputs | None:
        from dataclasses import replace

        other = draw(p, replace(c, seed=c.seed ^ 0x9E3779B97F4A7C, touched=None))
        if (other[name] == a[name]).all():
            return None
        given = budget.tensors({**a, name: other[name]})
        return budget.evaluate(p, given) if gives_value(p, given) else None

    return mutant


def _rounded(bits: int) -> Mutant:
    def mutant(p: Problem, c: Case, a: Mapping[str, Array], right: Outputs) -> Outputs | None:
        if p.reference.kind == "exact":
            return None
        inputs = {}
        for param in p.inputs:
            array = a[param.name]
            inputs[param.name] = _chop(array, bits) if is_float(param.dtype) else array
        given = budget.tensors(inputs)
        return budget.evaluate(p, given) if gives_value(p, given) else None

    return mutant


def _chop(array: Array, bits: int) -> Array:
    """Return float32 values with `bits` fraction bits, rounded to nearest."""
    import numpy as np

    words = array.astype(numpy_dtype("float32")).view(np.uint32)
    drop = 23 - bits
    rounded = (words + np.uint32(1 << (drop - 1))) & np.uint32(~((1 << drop) - 1) & 0xFFFFFFFF)
    found = np.where((words & 0x7F800000) == 0x7F800000, words, rounded)
    return found.astype(np.uint32).view(np.float32)
