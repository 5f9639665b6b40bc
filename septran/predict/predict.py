"""Which model a machine's figures ask for."""

from __future__ import annotations

from septran.ir.nodes import Program
from septran.machine import Machine
from septran.predict.blocks import launched
from septran.predict.caches import cached
from septran.predict.cost import Unknown
from septran.predict.prediction import Prediction, unknown
from septran.predict.queues import queued
from septran.predict.windows import windowed
from septran.speed import PROCESSOR


def predict(
    program: Program, machine: Machine, *, threads: int, between: int, registers: int = 0
) -> Prediction:
    """Return the time of a finished Program on `machine`, "unknown" where its file lacks a figure.

    threads: processors that run at once, where the machine does not fix them. between: bytes touched from one call to the
    next, which decides where tensors are found. registers: of a GPU's thread, as its compiler says; 0: as many as the tiles need.
    """
    speed = machine.speed
    if speed is None:
        return unknown(f"configs/machines/{machine.name}.yaml has no `speed:`")
    try:
        if speed.windows is not None:
            return windowed(program, speed, speed.windows)
        if speed.resident:
            return launched(program, speed, registers)
        if set(speed.engines) - {PROCESSOR}:
            return queued(program, speed)
        return cached(program, speed, threads=threads, between=between)
    except Unknown as missing:
        return unknown(f"{missing} (configs/machines/{machine.name}.yaml)", speed.clock)
