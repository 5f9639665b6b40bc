"""Runs TileLang programs on numpy, without tilelang, a GPU or an NPU.

Two dialects: GPU TileLang (CUDA and HIP) and TileLang for Ascend NPU IR. What a device would punish
is an error with the generated line: scratch memory out of bounds, several T.Parallel iterations
writing one element, an iteration reading what another writes, two blocks writing one element,
shapes and memories TileLang refuses, capacity, what is read before an asynchronous copy or product
was waited for, a wait that never ends. Fresh memory holds NaN, and values are rounded to their
dtype after each operation. Not modelled: layouts, the barriers TileLang's compiler places, timing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import SimError

if TYPE_CHECKING:
    from .machine import Dialect
    from .program import load_file, run_file

__all__ = ["SimError", "dialect", "load_file", "run_file"]


def __getattr__(name: str) -> Any:
    """Import the simulator itself, which needs numpy, when it is asked for: what reads text only does not."""
    if name in ("load_file", "run_file"):
        from . import program

        return getattr(program, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def dialect(arch: str) -> Dialect:
    """Return the facts of an arch: "sm_90a", "sm_80", "gfx942", or an Ascend name ("ascend910b", "910b")."""
    if arch.startswith(("ascend", "910")):
        from .npu import npu_dialect

        return npu_dialect("ascend" + arch.removeprefix("ascend"))
    from .gpu import gpu_dialect

    return gpu_dialect(arch)
