"""A plan's Program with some sizes left symbolic: the kernel's tiles, all sizes of the dims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from septran.bind import ArgType, bind
from septran.errors import InputError, InternalError, closest
from septran.ir.expr import Const, Expr, substitute
from septran.ir.nodes import Program
from septran.ir.text import parse_expr
from septran.mapping.schema import ExplicitMapping
from septran.passes.run import PassRun, lower
from septran.plan.cores import cores
from septran.plan.resolve import Plan, arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbolic:
    """What stays symbolic. sizes: dim -> the size its tiles were chosen for. shapes: parameter -> extents."""

    sizes: dict[str, int]
    shapes: dict[str, tuple[Expr, ...]]


def symbolic(plan: Plan, names: Sequence[str]) -> Symbolic:
    """Return the parameters' extents with dims `names` left as variables; () leaves none.

    Raises:
        InputError: C110, the operator has no such dim.
    """
    for name in names:
        if name not in plan.dims:
            raise InputError.of(
                "C110",
                f"operator {plan.operator.name} has no dim {name!r}; it has "
                f"{', '.join(plan.dims)}{closest(name, plan.dims)}",
            )
    known = {d: Const(n) for d, n in plan.dims.items() if d not in names}
    shapes: dict[str, tuple[Expr, ...]] = {}
    if names:
        for param, kind in plan.operator.types().items():
            shapes[param] = tuple(substitute(parse_expr(d), known) for d in kind.dims)
    return Symbolic(sizes={n: plan.dims[n] for n in names}, shapes=shapes)


def bind_symbolic(plan: Plan, mapping: ExplicitMapping, what: Symbolic) -> Program:
    """Return the Program of `plan` under `mapping` with the sizes of `what` symbolic.

    Raises:
        TaskLangError, MappingError: as `bind`.
    """
    given = {
        name: replace(value, extent=what.shapes[name])
        if isinstance(value, ArgType) and name in what.shapes
        else value
        for name, value in arguments(plan, plan.dims).items()
    }
    return bind(
        plan.operator.entry,
        mapping,
        plan.machine,
        given,
        tasks=plan.logic.tasks,
        target=plan.backend.name,
        arch=plan.arch,
        cores=cores(),
        symbolic=what.sizes,
    ).program


def lower_symbolic(plan: Plan, mapping: ExplicitMapping, what: Symbolic) -> tuple[PassRun, ...]:
    """Return bind's Program and that after each pass, with the sizes of `what` symbolic.

    Raises:
        InternalError: a pass needs a size that is not known.
    """
    bound = bind_symbolic(plan, mapping, what)
    outcomes = [PassRun(name="bind", program=bound, changed=True, ms=0.0)]
    try:
        lower(bound, plan.backend.passes, after=outcomes.append, check=False)
    except KeyError as e:
        raise InternalError(f"after {outcomes[-1].name}: a pass needs the value of {e}") from e
    return tuple(outcomes)
