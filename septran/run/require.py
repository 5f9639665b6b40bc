"""What a user asks of a verdict (`--require`), and the exit code that follows."""

from __future__ import annotations

from dataclasses import replace

from septran.backends import get as get_backend
from septran.gpu import Gpu
from septran.outcome import Status
from septran.run.result import Result
from septran.trial.judge import Judged
from septran.trial.place import device_for
from septran.verify.verdict import Verdict


def exit_code(verdict: Verdict, require: tuple[str, ...]) -> int:
    """Return 0 verified, 1 not correct, 3 not verifiable here or a requirement that is not met."""
    if verdict.status is Status.UNAVAILABLE:
        return 3
    if not verdict.passed:
        return 1
    if "device" in require and verdict.where == "emulated":
        return 3
    if "compile" in require and _not_compiled(verdict):
        return 3
    return 0


def with_exit_code(result: Result, judged: Judged, require: tuple[str, ...]) -> Result:
    """Return the result with its exit code, and with what is missing where a right kernel was only emulated."""
    verdict, code = judged.verdict, exit_code(judged.verdict, require)
    result = replace(result, exit_code=code)
    if code != 3 or not verdict.passed or verdict.where != "emulated":
        return result
    found = device_for(get_backend(judged.kernel.backend), judged.kernel.arch)
    if isinstance(found, Gpu):  # asked to emulate beside a GPU that fits
        return replace(result, reason=f"[V113] a device is required, and {found} was not used")
    return replace(
        result, reason=f"[V113] a device is required: {found.detail}", hint=found.install
    )


def _not_compiled(verdict: Verdict) -> bool:
    """Whether the target's compiler did not run (a sandbox part missing around it is another matter)."""
    notes = [item for item in verdict.not_checked if not item.startswith("compile sandbox")]
    return any("compile" in item for item in notes)
