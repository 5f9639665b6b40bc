"""From logic and mapping to a program that fits the machine's memories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from septran.backends.base import Backend
from septran.bind import ArgType, BoundKernel, bind, check_layouts, check_primitives
from septran.errors import MappingError
from septran.ir.nodes import Program
from septran.kernel import leaf_specs
from septran.machine import Machine
from septran.mapping.schema import ExplicitMapping, Policy
from septran.mapping.smaller import smaller
from septran.passes.run import PassRun, lower
from septran.plan.cores import cores
from septran.plan.tuned import Tuned
from septran.tasklang.load import Logic
from septran.tasklang.tree import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """A bound and lowered program, with every pass's outcome; `passes[0]` is bind's. tuned: whose values it has."""

    bound: BoundKernel
    program: Program
    passes: tuple[PassRun, ...]
    tuned: Tuned | None = None


def lower_to_fit(
    entry: Task,
    mapping: ExplicitMapping | Policy,
    given: Mapping[str, ArgType | int | float],
    *,
    logic: Logic,
    backend: Backend,
    arch: str,
    machine: Machine,
    workers: int | None = None,
) -> Lowered:
    """Return the program under `mapping`, or under the first of the policy's smaller sizes that fits.

    A policy with `smaller:` is emitted once with library leaves here, because some targets know only
    then how much shared memory a block needs. workers: cores that size expressions see, default the machine's. The first refusal is told when nothing fits.

    Raises:
        TaskLangError, MappingError: the user's mistakes; M011, a memory is too small.
    """
    if isinstance(mapping, Policy) and mapping.deterministic:
        raise MappingError.of(
            "M092",
            f"{mapping.file}: deterministic: {mapping.deterministic} needs to know which dim counts rows",
            help="name an operator: `septran gen --op OP`, --task or --logic; from Python a plain policy",
        )

    def attempt(mapping: ExplicitMapping | Policy, *, probe: bool) -> Lowered:
        bound = bind(
            entry,
            mapping,
            machine,
            given,
            tasks=logic.tasks,
            target=backend.name,
            arch=arch,
            cores=workers or cores(),
        )
        check_layouts(bound.program, backend.name, views=backend.views, fills=backend.fills)
        check_primitives(
            bound.program,
            backend.name,
            movement=backend.movement,
            opaque=backend.opaque,
            functions=backend.functions,
            whole=backend.whole_sums,
        )
        outcomes = [PassRun(name="bind", program=bound.program, changed=True, ms=0.0)]
        program = lower(bound.program, backend.passes, after=outcomes.append)
        _finish_once(backend, program, emit=probe)
        return Lowered(bound=bound, program=program, passes=tuple(outcomes))

    alternatives = list(smaller(mapping)) if isinstance(mapping, Policy) else []
    try:
        return attempt(mapping, probe=bool(alternatives))
    except MappingError as refusal:
        if not _too_large(refusal):
            raise
        for other in alternatives:
            try:
                return attempt(other, probe=True)
            except MappingError as again:
                if not _too_large(again):
                    raise
        raise


def _too_large(error: MappingError) -> bool:
    return any(d.code == "M011" for d in error.diagnostics)


def _finish_once(backend: Backend, program: Program, *, emit: bool) -> None:
    """Run the rest of the lowering with library leaves, so that a memory too small is told before leaves cost."""
    if all(backend.floor(spec) is not None for _, spec in leaf_specs(program)):
        if emit:
            backend.emit(program, {})
        else:
            backend.finished(program, {})
