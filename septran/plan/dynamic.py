"""Kernels with open dims: compiled once, they read those sizes when they run.

Tiles are those of the plan's own sizes; loop bounds, extents and strides are expressions of the open ones. `septran.prove`
decides the Program for every size it is for, and a kernel of it is judged at several.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from septran.errors import InputError
from septran.ir.nodes import Dim, Program
from septran.plan.fit import Lowered
from septran.plan.floor import library_leaves
from septran.plan.planned import Plan, lower_sized
from septran.plan.problem import problem_of
from septran.plan.specialize import Specialized
from septran.plan.symbolic import domain, lower_symbolic, symbolic, widened

CODE = "C162"
EDGES = (1, 2, 37, 64, 127)
"""sizes at which a kernel with open dims is judged besides its plan's own: least ones, a tile's, primes"""

_NUMBER = re.compile(r"(?<![\w.])(\d{1,8})(?![\w.])")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|#[^\n]*", re.S)
_MOST_NAMED = 8


def lower_dynamic(plan: Plan) -> Lowered:
    """Return the Program of `plan` with its `dynamic` dims open, lowered with the tiles of its own sizes.

    `bound` is that of the plan's own sizes.

    Raises:
        TaskLangError, MappingError: as `lower_plan`. InputError: C162, a dim cannot stay open there.
    """
    _check(plan)
    fixed = lower_sized(replace(plan, dynamic=()))
    mapping = fixed.bound.mapping
    what = widened(plan, mapping, symbolic(plan, plan.dynamic))
    runs = lower_symbolic(plan, mapping, what)
    said = plan.operator.limits
    dims = tuple(
        _limited(d, *said.get(d.name, (d.low, d.high))) for d in domain(what, runs[-1].program)
    )
    passes = tuple(replace(r, program=replace(r.program, dims=dims)) for r in runs)
    return Lowered(bound=fixed.bound, program=passes[-1].program, passes=passes)


def _limited(dim: Dim, low: int, high: int) -> Dim:
    return replace(dim, low=max(dim.low, low), high=min(dim.high, high))


def _check(plan: Plan) -> None:
    if not plan.backend.dynamic:
        raise refused(plan, f"{plan.backend.name} kernels have their sizes in their text")
    for name, value in plan.operator.scalars.items():
        used = _names(value) if isinstance(value, str) else frozenset()
        if used & set(plan.dynamic):
            raise refused(plan, f"the scalar {name} = {value} is fixed when the kernel is compiled")


def _names(text: str) -> frozenset[str]:
    return frozenset(
        n.id for n in ast.walk(ast.parse(text, mode="eval")) if isinstance(n, ast.Name)
    )


def refused(plan: Plan, why: str) -> InputError:
    """Return the refusal of a kernel with open dims."""
    names = ", ".join(plan.dynamic)
    return InputError.of(
        CODE,
        f"{plan.operator.name}: {names} cannot stay open: {why}",
        help=f"give {'it a size' if len(plan.dynamic) == 1 else 'them sizes'}, "
        f"for example --dim {plan.dynamic[0]}={plan.dims[plan.dynamic[0]]}",
    )


def judged_sizes(plan: Plan, program: Program) -> tuple[dict[str, int], ...]:
    """Return the dims, besides the plan's own, at which a kernel with open dims is judged.

    Each open dim takes each of EDGES that is in its domain, the others being small; and all of them the same prime.
    """
    small = {d.name: _within(d, EDGES[2]) for d in program.dims}
    found = [{**plan.dims, **small}]
    for dim in program.dims:
        found += [{**plan.dims, **small, dim.name: _within(dim, n)} for n in EDGES]
    return tuple(f for at, f in enumerate(found) if f not in found[:at] and f != dict(plan.dims))


def named_sizes(program: Program, texts: Sequence[str], most: int) -> tuple[tuple[dict[str, int], ...], tuple[int, ...]]:  # fmt: skip
    """Return sizes of the open dims at which leaves may do something else because their texts name them, and the numbers that are too many or too large.

    A leaf that is right at every size but `n == 48` is found at 48 only: each number of a text is taken, the one before and the one behind.
    texts: of leaves that are not the library's. most: elements that an open dim may have here.
    """
    numbers = sorted({int(m) for text in texts for m in _NUMBER.findall(_COMMENT.sub(" ", text))})
    numbers = [n for n in numbers if n > 2]
    taken = [n for n in numbers if n < most][:_MOST_NAMED]
    found: list[dict[str, int]] = []
    for dim in program.dims:
        small = {d.name: _within(d, EDGES[2]) for d in program.dims}
        for n in taken:
            found += [{**small, dim.name: _within(dim, n + step)} for step in (-1, 0, 1)]
    left = tuple(n for n in numbers if n not in taken and any(n <= d.high for d in program.dims))
    return tuple(f for at, f in enumerate(found) if f not in found[:at]), left


def specialize_open(plan: Plan) -> Specialized:
    """Return the kernel of a plan with open dims, with library leaves.

    Raises:
        TaskLangError, MappingError, InputError: as `lower_dynamic`.
    """
    lowered = lower_dynamic(plan)
    program = lowered.program
    leaves = library_leaves(plan.backend, program, lowered.bound.mapping)
    return Specialized(
        bound=lowered.bound,
        program=program,
        kernel=plan.backend.emit(program, leaves),
        problem=problem_of(plan, program, plan.dims),
        others=tuple(problem_of(plan, program, dims) for dims in judged_sizes(plan, program)),
    )


def _within(dim: Dim, size: int) -> int:
    return max(dim.low, min(dim.high, size))


def beyond(dims: Sequence[Dim], sizes: Mapping[str, int]) -> str:
    """Return which of `sizes` a kernel with open `dims` is not for, "" when it is for all."""
    for d in dims:
        if not d.low <= sizes[d.name] <= d.high:
            return f"{d.name} = {sizes[d.name]} is not from {d.low} to {d.high}"
    return ""
