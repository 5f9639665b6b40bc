"""Checks the blocks of dsl_docs/tilelang_cuda in the simulator, against the block's `reference`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from importlib import metadata, util
from pathlib import Path

import numpy as np

from septran.agent.docs import Block
from septran.backends.tilesim import SimError, dialect, load_file
from septran.backends.tilesim.machine import Machine
from septran.backends.tilesim.program import namespace
from septran.leafgate import Refusal
from tests.dsl_docs.gate import admitted_module
from tests.dsl_docs.runner import Outcome

KINDS = ("emulate", "lower")
ARCH = "sm_80"
KNOWN_ONLY_IN_TILELANG = {"call_extern", "dynamic"}


def check(block: Block, folder: Path) -> Outcome:
    """Run `main` on random inputs; the last parameter is the output `reference` describes."""
    path = folder / "kernel.py"
    try:
        path.write_text(admitted_module(block.code, "tilelang"), encoding="utf-8")
    except Refusal as refused:
        return Outcome(ok=False, log=refused.sentence)
    try:
        module, _ = load_file(path, dialect(ARCH))
        kinds = [p.annotation for p in inspect.signature(module.main.fn).parameters.values()]
        rng = np.random.default_rng(3)
        arrays = [rng.standard_normal(k.shape).astype(k.dtype) for k in kinds]
        if block.attrs.get("nan"):  # one element of the first operand
            arrays[0].flat[3] = np.nan
        arrays[-1][...] = np.nan
        module.main(*arrays)
    except SimError as e:
        return Outcome(ok=False, log=str(e))
    if not hasattr(module, "reference"):
        return Outcome(ok=False, log="the block has no reference")
    near = 1e-5 if block.attrs.get("tight") else 1e-2  # tight: tf32 or 16 bits would fail
    want = module.reference(*arrays[:-1])
    ok = np.allclose(arrays[-1], want, rtol=near, atol=near, equal_nan=bool(block.attrs.get("nan")))
    return Outcome(ok=bool(ok), log="" if ok else "wrong numbers")


def versions() -> Mapping[str, str]:
    """Installed tilelang, when there is one."""
    return {"tilelang": metadata.version("tilelang")} if util.find_spec("tilelang") else {}


def unknown_names(text: str) -> set[str]:
    """T.x names that the simulator's namespace does not have."""
    known = set(vars(namespace(Machine(dialect(ARCH))))) | KNOWN_ONLY_IN_TILELANG
    return {n for n in re.findall(r"\bT\.([A-Za-z_]\w*)", text) if n not in known}
