"""The delta pages of AMD use the checks of triton_cuda and compile for AMD's family."""

from __future__ import annotations

from pathlib import Path

from septran.agent.docs import Block
from tests.dsl_docs import runner_triton_cuda
from tests.dsl_docs.runner import Outcome
from tests.dsl_docs.runner_triton_cuda import KINDS, unknown_names, versions

__all__ = ["KINDS", "check", "unknown_names", "versions"]


def check(block: Block, folder: Path) -> Outcome:
    """Run the block's `check` in the interpreter, then compile its LAUNCHES for gfx942."""
    return runner_triton_cuda.check(block, folder, ("gfx942",))
