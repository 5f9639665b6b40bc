"""Checks the blocks of dsl_docs/pallas_tpu: JAX's simulation for numbers, lowering for a TPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from septran.agent.docs import Block
from septran.backends.pallas.prelude import PRELUDE
from septran.backends.pallas.toolchain import ENV
from septran.leafgate import Refusal
from tests.backends.pallas.installed import jax_folder, jax_version
from tests.dsl_docs.gate import admitted_module
from tests.dsl_docs.runner import Outcome

KINDS = ("run",)
_RUN = """
import sys
sys.path.append(sys.argv[1])
import jax, block
from jax import export
from jax.experimental.pallas import tpu as pltpu
block.check(pltpu.InterpretParams(uninitialized_memory="nan", out_of_bounds_reads="raise"))
shapes = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in block.ARGUMENTS]
export.export(jax.jit(block.entry), platforms=["tpu"])(*shapes)
"""
_OURS = {name for name, _ in PRELUDE}


def check(block: Block, folder: Path) -> Outcome:
    """Run the block's `check` in the simulation, then lower its `entry` for a TPU."""
    try:
        code = admitted_module(block.code, "pallas")
    except Refusal as refused:
        return Outcome(ok=False, log=refused.sentence)
    there = jax_folder()
    if there is None:
        pytest.skip("jax is not installed (septran doctor --install pallas_tpu)")
    (folder / "block.py").write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", _RUN, str(there)],
        cwd=folder,
        env={**os.environ, **dict(ENV)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return Outcome(ok=done.returncode == 0, log=done.stdout + done.stderr)


def versions() -> Mapping[str, str]:
    """Return the installed jax."""
    return {"jax": jax_version()} if jax_folder() is not None else {}


def unknown_names(text: str) -> set[str]:
    """Return functions of ours that the prelude does not have."""
    return set(re.findall(r"\b(st_[a-z]+)", text)) - _OURS
