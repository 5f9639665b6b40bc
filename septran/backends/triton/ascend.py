"""Triton for Ascend NPUs: the compile gate, in an environment of its own, up to the step that only CANN has."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from septran.backends.base import Availability, Built, Capability
from septran.backends.triton.arches import ARCHES
from septran.backends.triton.toolchain import HERE, available, scrub, write
from septran.kernel import Kernel
from septran.machine import load_machine
from septran.toolchain import environment
from septran.toolchain.built import built_since
from septran.toolchain.confined import child_result, run_confined

NAME = "triton_npu"
PACKAGES = ("triton-ascend==3.2.0", "ascendnpu-ir==1.2.0", "pybind11")
"""A triton of its own (770 MB), which would hide the one that other targets use."""
PYTHONS = ("3.10", "3.11")
_SECONDS = 240.0
_GRID = re.compile(r"\[\((\d+),\)\]\(")
_LAST = "hivmc, BiShengIR's last step, is part of CANN"


def build(kernel: Kernel, folder: Path) -> Built:
    """Lower every launch of `kernel` to linalg and take it through BiShengIR for the chip, in a child without an NPU.

    facts: launches by the units they use (aiv: vector, aic: cube, mix: both). A refusal carries the compiler's words.
    """
    started = time.monotonic()
    main = write(kernel, folder)
    large = max((int(n) for n in _GRID.findall(kernel.source)), default=0)
    shown = f"triton-ascend {kernel.main}, bishengir-compile --target={ARCHES[kernel.arch].name}"
    most = load_machine(f"{kernel.backend}.{kernel.arch}").limit("programs")
    if large > most:
        log = f"a launch of {large} programs; an NPU runs at most {most}: make tiles larger"
        return Built(ok=False, artifact=None, log=log, command=shown)
    last = f"compile for {kernel.arch}: {_LAST}"
    if not _version():
        lacking = f"triton-ascend is not installed; {environment.command(NAME)}"
        return Built(ok=True, artifact=main, not_checked=(f"compile for {kernel.arch}: {lacking}",))
    work, there = folder / "compile", environment.folder(NAME)
    work.mkdir(exist_ok=True)
    out = work / "compiled.json"
    child = str(HERE / "child" / "ascend_child.py")
    words = (sys.executable, child, str(main), ARCHES[kernel.arch].name, str(out))
    env = {k: v for k, v in os.environ.items() if k in ("LD_LIBRARY_PATH", "LANG", "PATH")}
    env |= {environment.VARIABLE: str(there), "TRITON_CACHE_DIR": str(work / "cache")}
    done = run_confined(words, work, _SECONDS, env=env, reads=(folder, there))
    result = child_result(out)
    if result is None:
        late = f"BiShengIR took longer than {_SECONDS:.0f} s" if done.code == 124 else ""
        log = late or scrub(done.output, folder) or f"exit status {done.code}"
        return built_since(None, {}, log, shown, started, ())
    made = main if result["ok"] else None
    log = scrub(str(result["log"]), folder)
    return built_since(made, result["facts"], log, shown, started, (last, *done.not_enforced))


def _version() -> str:
    return environment.version(NAME, "triton_ascend")


def available_npu() -> Mapping[Capability, Availability]:
    """Return what works here: the emulation is the one of the other Triton targets."""
    version = _version()
    compiles = (
        Availability(ok=True, detail=f"triton-ascend {version}, up to hivmc")
        if version
        else Availability(
            ok=False, detail="triton-ascend is not installed", install=environment.command(NAME)
        )
    )
    device = Availability(ok=False, detail="no runner for an NPU yet (it needs CANN and torch_npu)")
    return {**available("cuda"), "compile": compiles, "device": device}
