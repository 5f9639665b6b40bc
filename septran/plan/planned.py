"""A request with everything looked up, and the Program that it gives at given sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from septran.backends.base import Backend
from septran.bind import ArgType
from septran.errors import MappingError
from septran.machine import Machine
from septran.mapping.schema import ExplicitMapping, Policy
from septran.mapping.space import with_values
from septran.plan.batch_invariant import lower_rows
from septran.plan.fit import Lowered, lower_to_fit
from septran.plan.predicted import prediction_of
from septran.plan.tuned import Tuned, size_class
from septran.tasklang.load import Logic
from septran.tasklang.operator import Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A request with everything looked up.

    dims: all of the operator's dims. tuned: results that fit, of all sizes. dynamic: dims that stay open; their tiles are
    for the size in `dims`.
    """

    operator: Operator
    logic: Logic
    backend: Backend
    arch: str
    machine: Machine
    mapping: ExplicitMapping | Policy
    dims: Mapping[str, int]
    dtype: str
    tuned: tuple[Tuned, ...] = ()
    dynamic: tuple[str, ...] = ()


def arguments(plan: Plan, dims: Mapping[str, int]) -> dict[str, ArgType | int | float]:
    """Return each parameter's type, or value for compile-time scalars."""
    found: dict[str, ArgType | int | float] = {}
    types = plan.operator.types()
    for param in plan.operator.entry.params:
        if param in types:
            dtype = plan.dtype if types[param].dtype == "T" else types[param].dtype
            found[param] = ArgType(shape=plan.operator.shape(param, dims), dtype=dtype)
    found.update(plan.operator.scalar_values(dims))
    return found


def lower_sized(plan: Plan, dims: Mapping[str, int] | None = None) -> Lowered:
    """Return the Program of a plan without open dims at `dims` (default: the plan's) after the backend's passes.

    Raises:
        TaskLangError, MappingError: the user's mistakes.
    """
    sizes = plan.dims if dims is None else dims

    def lower(
        mapping: ExplicitMapping | Policy,
        given: Mapping[str, ArgType | int | float],
        workers: int = 0,
    ) -> Lowered:
        return lower_to_fit(
            plan.operator.entry,
            mapping,
            given,
            logic=plan.logic,
            backend=plan.backend,
            arch=plan.arch,
            machine=plan.machine,
            workers=workers,
        )

    if isinstance(plan.mapping, Policy) and plan.mapping.deterministic:
        return lower_rows(plan.operator, plan.mapping, sizes, partial(arguments, plan), lower)
    default = lower(plan.mapping, arguments(plan, sizes))
    result = next((e for e in plan.tuned if size_class(e.dims) == size_class(sizes)), None)
    if result is None:
        return default
    if not result.values:
        return replace(default, tuned=result)
    try:
        mapping = with_values(default.bound.mapping, result.values)
        found = replace(lower(mapping, arguments(plan, sizes)), tuned=result)
    except (KeyError, MappingError):  # found at other sizes of the class, where it fits
        return default
    if dict(result.dims) == dict(sizes):
        return found
    # sizes that nobody measured: only where it is predicted to take no longer than the default
    mine, other = (predicted_ticks(plan, one, sizes) for one in (found, default))
    return found if mine and other and mine <= other else default


def predicted_ticks(
    plan: Plan, lowered: Lowered, dims: Mapping[str, int] | None = None
) -> float | None:
    """Return the ticks that a lowered plan is predicted to take, None where the machine's file lacks a figure."""
    given = arguments(plan, plan.dims if dims is None else dims)
    return prediction_of(lowered, plan.backend, plan.machine, given).ticks
