"""What nvcc says of a CUDA file that SepTran did not write, where it is installed: no GPU is needed for that."""

from __future__ import annotations

import re
from pathlib import Path

from septran.backends.base import Compiled
from septran.backends.cuda.foreign_device import for_device
from septran.backends.cuda.toolchain import compile_cubin, nvcc
from septran.backends.judged.asked_compiler import figures
from septran.kernel import Kernel

_SECONDS = 120.0
_TEXT = 300
_PTXAS = re.compile(r"^ptxas (?:fatal|error) *: *(.*)$", re.M)


def compiled(kernel: Kernel, folder: Path) -> Compiled:
    """Return what nvcc makes of the file's device code for `kernel.arch`; its host code was compiled for the emulation.

    Says nothing where nvcc is not installed or fails for another reason than the file's own lines: a header that is not there, its time.
    """
    compiler = nvcc()
    if compiler is None:
        return Compiled()
    folder.mkdir(parents=True, exist_ok=True)
    built = compile_cubin(for_device(kernel), folder, _SECONDS)
    assert built is not None
    who = f"nvcc {compiler.version}"
    if built.ok:
        facts = {name: int(value) for name, value in built.facts if isinstance(value, int)}
        return Compiled(done=f"{who} compiles it for {kernel.arch}{figures(facts)}", settles=True)
    said = _refusal(built.log, kernel.main)
    if not said:
        return Compiled()
    return Compiled(refused=f"{who} does not compile it for {kernel.arch}: {said[:_TEXT]}")


def _refusal(log: str, main: str) -> str:
    """Return the first error that is of the file's own lines, "" for none."""
    own = re.search(rf"^(?:\S*/)?{re.escape(main)}[(:](\d+)\)?(?::\d+)?: error: (.*)$", log, re.M)
    if own is not None:
        return f"line {own[1]}: {own[2].strip()}"
    ptxas = _PTXAS.search(log)
    return ptxas[1].strip() if ptxas is not None else ""
