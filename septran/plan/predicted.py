"""The predicted time of a lowered program with library leaves."""

from __future__ import annotations

import math
from collections.abc import Mapping

from septran.backends.base import Backend
from septran.bind import ArgType
from septran.ir.dtypes import nbytes
from septran.machine import Machine
from septran.plan.cores import cores
from septran.plan.fit import Lowered
from septran.plan.floor import library_leaves
from septran.predict.predict import predict
from septran.predict.prediction import Prediction

_WINDOW = 1 << 20
"""Bytes by which the tensors of two timed calls lie apart (septran/verify/slots.py)."""


def threads_of(machine: Machine) -> int:
    """Return how many processors work at once: those the machine has, where its file says so, else this process's."""
    speed = machine.speed
    fixed = speed is not None and (speed.units > 1 or speed.windows is not None)
    return speed.units if speed is not None and fixed else cores()


def prediction_of(
    lowered: Lowered,
    backend: Backend,
    machine: Machine,
    given: Mapping[str, ArgType | int | float],
    *,
    registers: int = 0,
) -> Prediction:
    """Return the prediction for a call with arguments `given`, made as `septran bench` calls kernels.

    registers: of a thread, as a device's compiler says; 0: it was not asked.
    """
    leaves = library_leaves(backend, lowered.program, lowered.bound.mapping)
    finished = backend.finished(lowered.program, leaves, check=False)
    between = sum(
        math.prod(value.shape) * nbytes(value.dtype) + _WINDOW
        for value in given.values()
        if isinstance(value, ArgType)
    )
    threads = threads_of(machine)
    return predict(finished, machine, threads=threads, between=between, registers=registers)
