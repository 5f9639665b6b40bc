"""A plan's Program with some sizes left symbolic: the kernel's tiles, all sizes of the dims."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from septran.bind import ArgType, bind
from septran.errors import InputError, InternalError, MappingError, SeptranError, closest
from septran.ir.access import regions
from septran.ir.expr import Const, Expr, evaluate, free, substitute
from septran.ir.nodes import Dim, Program, allocated
from septran.ir.text import parse_expr
from septran.mapping.schema import ExplicitMapping
from septran.passes.run import PassRun, lower
from septran.plan.cores import cores
from septran.plan.planned import Plan, arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbolic:
    """What stays symbolic. sizes: dim -> the size that its tiles are cut from. shapes: parameter -> extents."""

    sizes: dict[str, int]
    shapes: dict[str, tuple[Expr, ...]]

    def least(self, name: str) -> int:
        """Return the smallest size of dim `name` at which no parameter is empty: a window fits its tensor."""
        found = [e for extents in self.shapes.values() for e in extents if free(e) == {name}]
        sizes = range(1, self.sizes[name] + 1)
        return next((n for n in sizes if all(evaluate(e, {name: n}) > 0 for e in found)), 1)


LARGEST = 1 << 24
"""the highest value of a symbolic size that a certificate speaks of"""


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
    wide = {**plan.dims, **what.sizes}
    given = {
        name: replace(value, extent=what.shapes[name], bound=plan.operator.shape(name, wide))
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


def widened(plan: Plan, mapping: ExplicitMapping, what: Symbolic) -> Symbolic:
    """Return `what` with the tiles of each dim cut from LARGEST where the mapping's tiles do not grow with it.

    A dim that a tile holds whole (the rows of a softmax), or whose tile fits no memory unless the size cuts it,
    stays at the size that the tile was made for.
    """
    for name in what.sizes:
        with contextlib.suppress(SeptranError):
            half, full = (
                replace(what, sizes={**what.sizes, name: n}) for n in (LARGEST // 2, LARGEST)
            )
            alike = _tiles(bind_symbolic(plan, mapping, half)) == _tiles(
                bind_symbolic(plan, mapping, full)
            )
            if alike and _fits(plan, mapping, full):
                what = full
    return what


def _fits(plan: Plan, mapping: ExplicitMapping, what: Symbolic) -> bool:
    try:
        last = lower_symbolic(plan, mapping, what)[-1].program
        plan.backend.finished(last, {}, check=False)
    except MappingError:
        return False
    except (KeyError, InternalError):  # a pass needs the number; memories were not what it missed
        return True
    return True


def _tiles(program: Program) -> list[tuple[int, ...]]:
    """Return the shapes of all that is held and the tiles of all that is touched; tensors between kernels are neither."""
    held = [b.shape for b in allocated(program.body) if not b.extent]
    return held + [r.tile for r, _ in regions(*program.body)]


def domain(what: Symbolic, program: Program) -> tuple[Dim, ...]:
    """Return the widest sizes for which regions fit their tiles.

    A dim that one tile holds whole (the rows of a softmax) ends at the size its tile was made for. Where open sizes are
    multiplied, sets cannot ask that, and dims end where `what` says.
    """
    from septran.prove.bounds import bounds
    from septran.prove.sets import NotAffine, model

    dims = [Dim(name, what.least(name), size) for name, size in what.sizes.items()]
    for at in range(len(dims)):
        wider = [*dims]
        wider[at] = replace(dims[at], high=LARGEST)
        with contextlib.suppress(NotAffine):
            if next(bounds(model(program, wider, what.shapes)), None) is None:
                dims = wider
    return tuple(dims)


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
