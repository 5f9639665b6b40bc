"""One operator, or a module of which torch keeps parts, on one target: verified, timed and written to a run directory."""

from __future__ import annotations

from pathlib import Path

from septran.plan.resolve import GenRequest, resolve
from septran.run.one import Progress, line
from septran.run.partitioned import gen_partitioned
from septran.run.result import Result
from septran.settings import Settings

__all__ = ["GenRequest", "Result", "gen"]


def gen(
    request: GenRequest,
    *,
    settings: Settings,
    progress: Progress,
    into: Path | None = None,
    timed: bool = True,
) -> Result:
    """Generate, verify and time one kernel; everything is written to a run directory as it happens.

    into: folder of the run directory instead of the stored runs. timed: whether to measure speed.

    Raises:
        InputError: the user's mistake; C067, another process has the run to resume. EnvironmentProblem:
            V110, L5xx. KeyboardInterrupt: after saying how to go on.
    """
    if (request.fallback or request.prepare) and request.task_file is not None:
        found = gen_partitioned(request, settings=settings, progress=progress, into=into)
        if found is not None:
            return found
    plan = resolve(request)
    return line(request, plan, settings=settings, progress=progress, into=into, timed=timed)[0]
