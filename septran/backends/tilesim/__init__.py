"""Runs TileLang programs on numpy, without tilelang, a GPU or an NPU.

Two dialects: GPU TileLang (CUDA and HIP) and TileLang for Ascend NPU IR. What a device would punish
is an error with the generated line: scratch memory out of bounds, several T.Parallel iterations
writing one element, an iteration reading what another writes, two blocks writing one element,
shapes and memories TileLang refuses, capacity. Fresh memory holds NaN, and values are rounded to
their dtype after each operation. Not modelled: layouts, asynchronous copies, timing.
"""

from .errors import SimError
from .machine import Dialect
from .program import load_file, run_file

__all__ = ["SimError", "dialect", "load_file", "run_file"]


def dialect(arch: str) -> Dialect:
    """Return the facts of an arch: "sm_90a", "sm_80", "gfx942", or an Ascend name ("ascend910b", "910b")."""
    if arch.startswith(("ascend", "910")):
        from .npu import npu_dialect

        return npu_dialect("ascend" + arch.removeprefix("ascend"))
    from .gpu import gpu_dialect

    return gpu_dialect(arch)
