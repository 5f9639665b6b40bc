"""`septran predict`: the time a kernel would take and what limits it, from its Program and the machine's file alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from septran.errors import ConfigError
from septran.ir.access import touches
from septran.ir.nodes import Program
from septran.ir.visits import visits
from septran.plan.fit import Lowered
from septran.plan.predicted import prediction_of, threads_of
from septran.plan.resolve import GenRequest, Plan, arguments, lower_plan, resolve
from septran.predict.cost import moved
from septran.predict.prediction import Prediction
from septran.run.work import work_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """A plan's prediction. flops: of its products. traffic: memory -> bytes that all processors read from and write to it."""

    plan: Plan
    threads: int
    prediction: Prediction
    flops: int | None
    traffic: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """Return the septran.predict/1 object."""
        plan, speed = self.plan, self.plan.machine.speed
        return {
            "schema": "septran.predict/1",
            "op": plan.operator.name,
            "backend": plan.backend.name,
            "arch": plan.arch,
            "machine": plan.machine.name,
            "dims": dict(plan.dims),
            "dtype": plan.dtype,
            "threads": self.threads,
            **self.prediction.to_json(),
            "flops": self.flops,
            "traffic": dict(self.traffic),
            "facts_of": None if speed is None else speed.of,
            "sources": [] if speed is None else list(speed.sources),
        }


def predicted(request: GenRequest) -> Predicted:
    """Return the prediction of a request's kernel with library leaves.

    Raises:
        InputError: the user's mistakes; C162, a dim stays open.
    """
    plan = of_known_sizes(resolve(request))
    return predicted_of(plan, lower_plan(plan))


def of_known_sizes(plan: Plan) -> Plan:
    """Return `plan`; raises ConfigError C162 when a dim stays open, because a time is one of given sizes."""
    if plan.dynamic:
        names = ", ".join(plan.dynamic)
        raise ConfigError.of(
            "C162",
            f"{plan.operator.name}: a time needs all sizes, and {names} stays open",
            help=f"give it a size, for example --dim {plan.dynamic[0]}={plan.dims[plan.dynamic[0]]}",
        )
    return plan


def predicted_of(plan: Plan, lowered: Lowered) -> Predicted:
    """Return the prediction of a plan that has been lowered."""
    return Predicted(
        plan=plan,
        threads=threads_of(plan.machine),
        prediction=prediction_of(lowered, plan.backend, plan.machine, arguments(plan, plan.dims)),
        flops=work_of(lowered.bound.program),
        traffic=_traffic(lowered.program),
    )


def _traffic(program: Program) -> dict[str, int]:
    """Return memory -> bytes that statements read and write there."""
    found = Counter[str]()
    for stmt, env, times in visits(program.body):
        for region, _ in touches(stmt):
            found[region.buffer.mem] += times * moved(region, env)
    return dict(sorted(found.items()))
