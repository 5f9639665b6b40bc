"""Checks the blocks of dsl_docs/triton_cuda: interpreter for numbers, offline compiler for targets."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

import pytest

from septran.agent.docs import Block
from septran.backends.triton.arches import ARCHES
from septran.backends.triton.prelude import PRELUDE
from septran.backends.triton.toolchain import HERE, found, write_emulator
from septran.leafgate import Refusal
from septran.machine import load_machine
from tests.dsl_docs.gate import admitted_module
from tests.dsl_docs.runner import Outcome

KINDS = ("run",)
_RUN = """
import os, sys
os.environ["TRITON_INTERPRET"] = "1"
sys.path.insert(0, os.getcwd())
import septran_triton_interp as interp
interp.install(interp.Watch())
import kernel
kernel.check()
"""
# one fork for each target: Python has imported Triton once
_COMPILE = """
import os, runpy, sys
import triton
script, *words = sys.argv[1:]
for at in range(0, len(words), 5):
    pid = os.fork()
    if not pid:
        sys.argv[:] = [script, *words[at : at + 5]]
        sys.path[0] = os.path.dirname(script)
        runpy.run_path(script, run_name="__main__")
        os._exit(0)
    if os.waitpid(pid, 0)[1]:
        sys.exit(1)
"""
OTHER_FAMILIES = ("sm_80", "gfx942")
"""Compiled for in the wider run only: each costs as much as the block's whole check."""
_PRELUDE = {name for name, _ in PRELUDE}


def _compile(folder: Path, arches: Sequence[str]) -> Outcome:
    words: list[str] = []
    for arch in arches:
        target = ARCHES[arch]
        warp = load_machine(f"triton_{target.runtime}.{arch}").limit("warp_size")
        words += [str(folder), target.runtime, target.name, str(warp), str(folder / arch)]
    env = {**os.environ, "TRITON_CACHE_DIR": str(folder / "cache"), "TRITON_DEFAULT_FP_FUSION": "1"}
    subprocess.run(
        [sys.executable, "-c", _COMPILE, str(HERE / "child" / "compile_child.py"), *words],
        cwd=folder,
        env=env,
        check=True,
        timeout=300,
        capture_output=True,
    )
    results = {arch: json.loads((folder / arch).read_text()) for arch in arches}
    failed = [f"{arch}: {found['log']}" for arch, found in results.items() if not found["ok"]]
    return Outcome(ok=not failed, log=failed[0] if failed else "")


def check(block: Block, folder: Path, arches: Sequence[str] = ("sm_90",)) -> Outcome:
    """Run the block's `check` in the interpreter, then compile its LAUNCHES for each of `arches`."""
    if not found():
        pytest.skip("triton is not installed")
    try:
        code = admitted_module(block.code, "triton")
    except Refusal as refused:
        return Outcome(ok=False, log=refused.sentence)
    (folder / "kernel.py").write_text(code, encoding="utf-8")
    write_emulator(folder)
    if block.test == "run":
        done = subprocess.run(
            [sys.executable, "-c", _RUN],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode:
            return Outcome(ok=False, log=done.stdout + done.stderr)
    return _compile(folder, arches)


def versions() -> Mapping[str, str]:
    """Return the installed Triton."""
    return {"triton": metadata.version("triton")} if found() else {}


def unknown_names(text: str) -> set[str]:
    """Return `tl.x` and `st_x` that neither Triton nor the prelude has."""
    named = set(re.findall(r"\btl\.([a-z_0-9]+)", text))
    helpers = set(re.findall(r"\b(st_[a-z]+)", text)) - _PRELUDE
    if importlib.util.find_spec("triton") is None:
        return helpers
    import triton.language as tl

    return {f"tl.{n}" for n in named if not hasattr(tl, n)} | helpers
