"""Run a backend's passes in order, with checks, dumps and timing done here and not in the passes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from septran.ir.nodes import Program
from septran.ir.spec import check_program

Pass = Callable[[Program], Program]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRun:
    """One pass's outcome: its name, the Program after it, whether it changed anything, milliseconds."""

    name: str
    program: Program
    changed: bool
    ms: float


def lower(
    program: Program,
    passes: tuple[tuple[str, Pass], ...],
    *,
    after: Callable[[PassRun], None] | None = None,
    check: bool = True,
) -> Program:
    """Return the Program after all passes; each result is spec-checked when `check`.

    A Program with open dims is not: the check tries sizes, and `septran.prove` decides such a Program for all of them.
    after: called with each outcome (dumps, the interpreter in tests).

    Raises:
        InternalError: a pass produced a Program that breaks the rules of septran.ir.spec.
        MappingError: a pass found the mapping impossible (capacity, padding, ...).
    """
    for name, fn in passes:
        start = time.perf_counter()
        result = fn(program)
        ms = (time.perf_counter() - start) * 1e3
        if check and not result.dims:
            check_program(result, after=name)
        if after is not None:
            after(PassRun(name=name, program=result, changed=result != program, ms=ms))
        program = result
    return program
