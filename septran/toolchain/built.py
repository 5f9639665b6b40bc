"""What a compile step left behind, and whether a tool is here."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_FAILED = re.compile(r"error\W+failed to (run|apply)\b", re.IGNORECASE)
"""What a compiler of many passes says of its pipeline, beside what says why: `error: Failed to run ... pipeline`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """Whether a capability works here; if not, why, and the command that brings it."""

    ok: bool
    detail: str
    install: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What the compile step left behind.

    ok: the compiler accepted the kernel. artifact: what the child loads (a .so, a .py, ...).
    log: compiler output, paths scrubbed. facts: static figures (registers, spills, shared bytes).
    not_checked: compile gates that could not run here, with the reason.
    kernel_object, host: the kernel's object and the static host that was linked with it (septran/host/), None
        where kernels are judged in a Python process; why not stands in `not_checked` of the verdict.
    foreign: SepTran did not write it, so it may hold variables and global objects.
    refused: why its program may not run here, "" when it may.
    runtime_calls: what a kernel may call of the simulator that is linked with it; None: it runs by itself.
    """

    ok: bool
    artifact: Path | None
    log: str = ""
    command: str = ""
    seconds: float = 0.0
    facts: tuple[tuple[str, object], ...] = ()
    not_checked: tuple[str, ...] = ()
    kernel_object: Path | None = None
    host: Path | None = None
    runtime_calls: frozenset[str] | None = None
    foreign: bool = False
    refused: str = ""

    @property
    def cause(self) -> str:
        """The line of the log that says why the compiler refused: the first error that is not only that a pass failed."""
        lines = [line for line in self.log.splitlines() if line.strip()]
        errors = [line for line in lines if "error" in line.lower()]
        causes = [line for line in errors if not _FAILED.search(line)]
        return next(iter(causes or errors or lines), "no output")[:300]


def built_since(
    artifact: Path | None,
    facts: Mapping[str, object],
    log: str,
    command: str,
    started: float,
    not_checked: tuple[str, ...],
) -> Built:
    """Return a build that began at the monotonic clock's `started`; without an artifact it failed."""
    return Built(
        ok=artifact is not None,
        artifact=artifact,
        log=log,
        command=command,
        seconds=time.monotonic() - started,
        facts=tuple(sorted(facts.items())),
        not_checked=not_checked,
    )
