"""The control experiment: does a kernel that is known to be good work here at all?

Asked when a kernel does not compile or crashes. A compiler without its assembler, a full disk or a damaged emulator
break every kernel; a bad kernel breaks only itself, because the control is built and run in processes and folders of
its own. So the answer cannot be brought about by the kernel that failed.
"""

from __future__ import annotations

import functools
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from septran.backends.base import Backend
from septran.errors import SeptranError
from septran.outcome import Status
from septran.verify.verify import Request, verify

_KEPT_S = 300
_BROKEN = (Status.COMPILE_ERROR, Status.RUNTIME_ERROR, Status.UNAVAILABLE)


def control_trouble(backend: Backend, arch: str, request: Request) -> str:
    """Return why a small relu from the leaf library fails here, "" when it works.

    request: how the kernel that failed was verified. The answer is kept for five minutes.
    """
    request = replace(request, seed=None, policy=None, admission=False)
    return _trouble(backend, arch, request, int(time.monotonic() // _KEPT_S))


@functools.lru_cache(maxsize=8)
def _trouble(backend: Backend, arch: str, request: Request, _period: int) -> str:
    # build asks this module, and this module needs what build is made of
    from septran.plan.floor import library_leaves
    from septran.plan.problem import problem_of
    from septran.plan.resolve import GenRequest, lower_plan, resolve

    asked = GenRequest(op="relu", backend=backend.name, arch=arch or None, dims={"N": 64})
    try:
        plan = resolve(asked)
        lowered = lower_plan(plan)
        leaves = library_leaves(backend, lowered.program, lowered.bound.mapping)
        kernel = backend.emit(lowered.program, leaves)
        problem = problem_of(plan, lowered.program, plan.dims)
    except SeptranError:
        return ""  # this target has no relu, or is not in the list of targets: there is no control
    try:
        with tempfile.TemporaryDirectory(prefix="septran-control-") as work:
            folder = Path(work) / "build"
            folder.mkdir()
            device = backend.device if request.where == "device" else None
            built = (device.build if device is not None else backend.build)(kernel, folder)
            verdict = verify(kernel, built, problem, run_dir=Path(work), request=request)
    except (OSError, SeptranError) as error:
        return str(error).partition("\n")[0]
    return verdict.message if verdict.status in _BROKEN else ""
