"""The reference of a proof: the same logic and tiles, with every memory taken out of the mapping."""

from __future__ import annotations

from dataclasses import dataclass, replace

from septran.ir.access import map_statements
from septran.ir.nodes import LeafCall, Program, Stmt, leaf_calls
from septran.mapping.schema import ExplicitMapping
from septran.passes.drop_accumulators import drop_accumulators
from septran.passes.drop_copies import drop_copies
from septran.passes.merge_taps import merge_taps
from septran.plan.planned import Plan
from septran.plan.symbolic import Symbolic, bind_symbolic

STREAMED = (
    "a product or reduction over a whole axis equals the same one over its blocks in order "
    "(the law of streamed panels)"
)

WRITTEN = "a product added to zeros and copied out equals the product written there, rounded once"

MERGED = "products added to the same sums by the iterations of a loop equal one call that adds them in that order"


KEPT = "a leaf's last copy into a tensor of the same form equals what it copies, which its readers may read instead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A Program that says what the logic means; assumptions: laws used to get it."""

    program: Program
    assumptions: tuple[str, ...] = ()

    def like(self, program: Program) -> Reference:
        """Return the reference with products written where they go or merged, or copies left out, where `program` has fewer steps for that."""
        found = self._merged(program)
        kept = drop_copies(found.program)
        if _steps(found.program) > _steps(kept) == _steps(program):
            return Reference(program=kept, assumptions=(*found.assumptions, KEPT))
        return found

    def _merged(self, program: Program) -> Reference:
        wanted = len(leaf_calls(program))
        if wanted >= len(leaf_calls(self.program)):
            return self
        merged = merge_taps(self.program)
        ways = (
            (drop_accumulators(self.program), (WRITTEN,)),
            (merged, (MERGED,)),
            (drop_accumulators(merged), (WRITTEN, MERGED)),
        )
        for shorter, laws in ways:
            if len(leaf_calls(shorter)) == wanted:
                return Reference(program=shorter, assumptions=(*self.assumptions, *laws))
        return self


def _steps(program: Program) -> int:
    return sum(len(call.prims) for call in leaf_calls(program))


def unmapped(plan: Plan, mapping: ExplicitMapping, bound: Program, what: Symbolic) -> Reference:
    """Return the Program of `plan` in which leaves read and write where the logic has their operands.

    mapping: whose tiles and loops are kept, so that both Programs launch the same leaves. bound: what bind makes
    of it. Nothing is staged in the reference; where the mapping makes bind stream a panel, the reference
    streams it too, and says so.

    Raises:
        TaskLangError, MappingError: as `bind`.
    """
    bare = {
        name: replace(
            inst,
            mems={},
            leaf_task_bindings={
                key: replace(binding, mems={}) for key, binding in inst.leaf_task_bindings.items()
            },
        )
        for name, inst in mapping.instances.items()
    }
    logic = bind_symbolic(plan, replace(mapping, instances=bare), what)
    if len(leaf_calls(logic)) == len(leaf_calls(bound)):
        return Reference(program=_whole(logic))
    streamed = bind_symbolic(plan, mapping, what)
    return Reference(program=_whole(streamed), assumptions=(STREAMED,))


def _whole(program: Program) -> Program:
    return replace(program, body=map_statements(program.body, _in_place))


def _in_place(stmt: Stmt) -> tuple[Stmt]:
    if isinstance(stmt, LeafCall):
        return (replace(stmt, args=tuple(replace(a, mem="") for a in stmt.args)),)
    return (stmt,)
