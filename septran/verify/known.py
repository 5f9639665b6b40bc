"""What the outputs of a call should be, asked for as exactly as the outputs need it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import replace

from septran.accuracy import Policy
from septran.ir.dtypes import nbytes
from septran.kernel import KernelParam
from septran.reference import Reference
from septran.verify import budget, judge
from septran.verify.budget import Expected
from septran.verify.cases import Case, draw
from septran.verify.problem import Problem
from septran.verify.session import Ran
from septran.verify.settle import read_stored, settle


class _Rounds:
    """A case's outputs with one budget after another, each computed once."""

    def __init__(self, problem: Problem, case: Case, policy: Policy) -> None:
        self.problem, self.policy = problem, policy  # kept alive: what names them is their address
        self._growing = _growing(problem, case, policy)
        self._found: list[tuple[Expected, ...]] = []

    def at(self, number: int) -> tuple[Expected, ...] | None:
        """Return the budgets of a round, None where there are no more."""
        if number == len(self._found):
            larger = next(self._growing, None)
            if larger is None:
                return None
            self._found.append(larger)
        return self._found[number]

    @property
    def nbytes(self) -> int:
        """What the first round holds, with the inputs that later ones need; those share its values."""
        found: int = sum(
            2 * one.values.nbytes + (1 + len(self._found)) * one.budget.nbytes
            for one in self._found[0]
        )
        return _OBJECTS + found + sum(_bytes_of(param) for param in self.problem.inputs)


_OBJECTS = 16 << 10
"""bytes of the objects around the numbers of a case"""


def _bytes_of(param: KernelParam) -> int:
    return math.prod(param.shape) * nbytes(param.dtype)


class Known:
    """What a case's outputs should be, with budgets that grow while a kernel is not within them."""

    def __init__(self, problem: Problem, case: Case, policy: Policy) -> None:
        """Compute the reference and its least budgets."""
        self._rounds = _rounds(problem, case, policy)
        self._number = 0
        now = self._rounds.at(0)
        assert now is not None, "a reference has results"
        self.now = now

    def grow(self) -> bool:
        """Take the next larger budgets; False where these are all."""
        larger = self._rounds.at(self._number + 1)
        if larger is not None:
            self._number += 1
            self.now = larger
        return larger is not None


class _Memory:
    """References of the last cases, up to a number of bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: dict[object, tuple[_Rounds, int]] = {}
        self._bytes = 0  # of all that are held, each as large as when it was asked for last

    def rounds(self, problem: Problem, case: Case, policy: Policy) -> _Rounds:
        key = _key(problem, case, policy)
        found, counted = (
            self._held.pop(key) if key in self._held else (_Rounds(problem, case, policy), 0)
        )
        found.at(0)
        size = found.nbytes
        self._held[key] = found, size  # the newest is the last
        self._bytes += size - counted
        while len(self._held) > 1 and self._bytes > self._most:
            self._bytes -= self._held.pop(next(iter(self._held)))[1]
        return found


_memory: _Memory | None = None


@contextlib.contextmanager
def remembering(most: int) -> Iterator[None]:
    """Keep references in this process: the same problem on the same inputs is computed once. most: bytes.

    Each kernel still begins with the least budgets, so that what was judged before changes no figure.
    """
    global _memory
    before, _memory = _memory, _Memory(most)
    try:
        yield
    finally:
        _memory = before


def _rounds(problem: Problem, case: Case, policy: Policy) -> _Rounds:
    if _memory is None or problem.within is not None or problem.made is not None:
        return _Rounds(problem, case, policy)
    return _memory.rounds(problem, case, policy)


def _key(problem: Problem, case: Case, policy: Policy) -> object:
    """Return what decides inputs and reference: all of the problem but what is left unjudged.

    A reference is a function and known by its address, which whoever is remembered keeps.
    """
    plain = replace(
        problem,
        unused=frozenset(),
        points=problem.points if "points" in case.family else (),
        reference=_ANY,
        samples={},
    )
    return repr((plain, policy)), id(problem.reference), tuple(problem.samples.items()), case


_ANY = Reference(fn=len)


def compared(
    problem: Problem, ran: Ran, policy: Policy, cache: dict[Case, Known]
) -> tuple[tuple[Expected, ...], tuple[str, ...], list[tuple[str, Expected, judge.Comparison]]]:
    """Return what was expected of a call, which decisions were its own, and how each output compares.

    cache: what is known of a case, and grows.
    """
    case = ran.call.case
    if case not in cache:
        cache.clear()  # repeats are rare; the reference of one case may be large
        cache[case] = Known(problem, case, policy)
    known, decided = settle(
        problem, draw(problem, case) if problem.reference.choices else {}, cache[case].now,
        ran.outputs, zero_mean=case.zero_mean, policy=policy, seed=case.seed,
    )  # fmt: skip
    while True:
        found = _compared(problem, ran, known)
        if decided or not any(c.wrong for _, _, c in found) or not cache[case].grow():
            break
        known = cache[case].now
    if any(c.wrong for _, _, c in found) and any(c.stored for c in problem.reference.choices):
        known = read_stored(
            problem, draw(problem, case), known, ran.outputs,
            zero_mean=case.zero_mean, policy=policy, seed=case.seed,
        )  # fmt: skip
        found = _compared(problem, ran, known)
    return known, decided, found


def _compared(
    problem: Problem, ran: Ran, known: tuple[Expected, ...]
) -> list[tuple[str, Expected, judge.Comparison]]:
    return [
        (param.name, wanted, judge.compare(param, wanted, ran.outputs[param.name]))
        for param, wanted in zip(problem.outputs, known, strict=True)
        if param.name not in problem.unused
    ]


def expected_of(problem: Problem, case: Case, policy: Policy) -> tuple[Expected, ...]:
    """Return what each output of a case should be, and how far from it is allowed."""
    *_, found = _growing(problem, case, policy)
    return found


def _growing(problem: Problem, case: Case, policy: Policy) -> Iterator[tuple[Expected, ...]]:
    """Yield the same with smaller budgets, and it last (`budget.growing`)."""
    for found in budget.growing(
        problem, draw(problem, case), zero_mean=case.zero_mean, policy=policy, seed=case.seed
    ):
        if case.family == "integers":
            yield tuple(_exact_if_representable(problem, one) for one in found)
        else:
            yield found


def _exact_if_representable(problem: Problem, one: Expected) -> Expected:
    """Return `one` with bits that must match, when every sum of small integers is exact.

    It is when the operator does not say otherwise, no intermediate can exceed the integers that the
    accumulate dtype holds, and each result is itself such a number; then any order of additions gives
    the same sum, and the one rounding to the output dtype is the correct one.
    """
    reference = problem.reference
    allowed = reference.integer_exact
    if allowed is None:
        allowed = reference.kind in ("gemm", "reduction")
    limit = 2.0**24 if problem.accumulate == "float32" else 2.0**53
    terms = reference.reduction(problem.dims) if reference.reduction else 1
    if not allowed or 9 * terms > limit:
        return one
    if one.values.is_floating_point() and not bool((one.values == one.values.round()).all()):
        return one
    return replace(one, exact=True)
