"""Checks the blocks of dsl_docs/tilelang_npuir in the simulator of the dialect."""

from __future__ import annotations

import importlib.util
import inspect
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from septran.agent.docs import Block
from septran.backends.npuir.dialect import NAMES, dialect_errors
from septran.backends.tilesim import SimError, load_file
from septran.backends.tilesim.npu import npu_dialect
from septran.leafgate import Refusal
from tests.dsl_docs.gate import admitted_module
from tests.dsl_docs.runner import Outcome

KINDS = ("emulate",)
_DTYPES = {"float16": 1e-2, "float32": 1e-5}


def check(block: Block, folder: Path) -> Outcome:
    """Run `entry` on random tensors; the last one must equal `reference` in float64."""
    path = folder / "kernel.py"
    try:
        path.write_text(admitted_module(block.code, "npuir"), encoding="utf-8")
    except Refusal as refused:
        return Outcome(ok=False, log=refused.sentence)
    problems = dialect_errors(block.code)
    if problems:
        return Outcome(ok=False, log="\n".join(problems))
    rng = np.random.default_rng(5)
    try:
        module, _ = load_file(path, npu_dialect())
        kinds = [p.annotation for p in inspect.signature(module.entry.fn).parameters.values()]
        arrays = [(rng.random(k.shape) + 0.5).astype(k.dtype) for k in kinds]
        if block.attrs.get("nan"):  # one element of the first operand
            arrays[0].flat[3] = np.nan
        want = module.reference(*(a.astype(np.float64) for a in arrays))
        module.entry(*arrays)
    except SimError as e:
        return Outcome(ok=False, log=str(e))
    got = arrays[-1].astype(np.float64)
    if not np.array_equal(np.isnan(got), np.isnan(want)):
        return Outcome(ok=False, log="NaN where none is expected, or none where it is")
    error = np.nanmax(np.abs(got - want)) / np.nanmax(np.abs(want))
    return Outcome(ok=bool(error < _DTYPES[kinds[-1].dtype]), log=f"error {error}")


def versions() -> Mapping[str, str]:
    """The dialect has no installable version here."""
    return {"dialect": "tilelang-mlir-ascend"}


def unknown_names(text: str) -> set[str]:
    """Return `T.x` that the dialect does not have."""
    named = set(re.findall(r"\bT\.([a-zA-Z_0-9]+)", text))
    assert importlib.util.find_spec("septran") is not None
    return {f"T.{n}" for n in named if n not in NAMES}
