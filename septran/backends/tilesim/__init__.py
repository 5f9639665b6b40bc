"""Runs TileLang programs on numpy, without tilelang, a GPU or an NPU.

Two dialects: GPU TileLang (CUDA and HIP) and TileLang for Ascend NPU IR. What a device would punish
is an error with the generated line: scratch memory out of bounds, several T.Parallel iterations
writing one element, an iteration reading what another writes, two blocks writing one element,
shapes and memories TileLang refuses, capacity. Fresh memory holds NaN, and values are rounded to
their dtype after each operation. Not modelled: layouts, asynchronous copies, timing.
"""

from septran.backends.tilesim.errors import SimError
from septran.backends.tilesim.program import load_file, run_file

__all__ = ["SimError", "load_file", "run_file"]
