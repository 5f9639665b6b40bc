"""The predicted time of a lowered plan with library leaves."""

from __future__ import annotations

import math

from septran.bind import ArgType
from septran.ir.dtypes import nbytes
from septran.plan.cores import cores
from septran.plan.fit import Lowered
from septran.plan.floor import library_leaves
from septran.plan.resolve import Plan, arguments
from septran.predict.predict import predict
from septran.predict.prediction import Prediction

_WINDOW = 1 << 20
"""Bytes by which the tensors of two timed calls lie apart (septran/verify/slots.py)."""


def threads_of(plan: Plan) -> int:
    """Return how many processors work at once: those the machine has, where its file says so, else this process's."""
    speed = plan.machine.speed
    return speed.units if speed is not None and speed.units > 1 else cores()


def prediction_of(plan: Plan, lowered: Lowered) -> Prediction:
    """Return the prediction of a plan that has been lowered, called as `septran bench` calls kernels."""
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    finished = plan.backend.finished(lowered.program, leaves, check=False)
    between = sum(
        math.prod(value.shape) * nbytes(value.dtype) + _WINDOW
        for value in arguments(plan, plan.dims).values()
        if isinstance(value, ArgType)
    )
    return predict(finished, plan.machine, threads=threads_of(plan), between=between)
