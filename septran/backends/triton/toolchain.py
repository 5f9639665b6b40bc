"""Triton's toolchain: write the kernel folder, compile it off-device in a child, probe what is here."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path

from septran.backends.base import Availability, Built, Capability
from septran.backends.device.gpu import device_state, load_file, on_tensors, require
from septran.backends.triton.arches import ARCHES, arches_of
from septran.gpu import Vendor
from septran.kernel import Kernel
from septran.machine import load_machine
from septran.preloaded import Preload
from septran.toolchain.built import built_since
from septran.toolchain.confined import Finished, child_result, run_confined

HERE = Path(__file__).resolve().parent
RUNTIME = HERE / "interpreter"
_SHARED = HERE.parent / "tilesim"
_COMPILE_SECONDS = 300.0
_PRELOADED = (
    "triton.language",
    "triton.backends",
    "triton.compiler.code_generator",
    "triton.runtime.cache:triton_key",
)
"""the last hashes all of the package, 0.5 s"""
_INSTALL = 'pip install "triton>=3.2"'
EMULATOR = ("interp", "float8", "lockstep", "reduce", "watch", "selftest", "told")
"""Files of interpreter/ that lie beside a kernel as septran_triton_<name>.py."""

_VENDORS: Mapping[str, Vendor] = {"cuda": "nvidia", "hip": "amd"}
DEVICE_SESSION: tuple[tuple[str, object], ...] = (("forks", True),)
"""Triton starts its assembler and a C compiler when a kernel is first called."""


def found() -> bool:
    """Return whether the triton package is installed (it is not imported)."""
    return importlib.util.find_spec("triton") is not None


def write(kernel: Kernel, folder: Path) -> Path:
    """Write the kernel and the emulator's runtime into `folder`; return the main file."""
    write_emulator(folder)
    return kernel.write(folder)


def write_emulator(folder: Path) -> None:
    """Write the emulator's modules into `folder`, from which its child imports them."""
    for name in EMULATOR:
        shutil.copyfile(RUNTIME / f"{name}.py", folder / f"septran_triton_{name}.py")
    for name in ("products", "shifts"):
        shutil.copyfile(_SHARED / f"{name}.py", folder / f"septran_triton_{name}.py")


def build(kernel: Kernel, folder: Path) -> Built:
    """Compile every launch of `kernel` for its arch in a child process, without a GPU."""
    started = time.monotonic()
    main = write(kernel, folder)
    if not found():
        reason = f"compile for {kernel.arch}: triton is not installed; {_INSTALL}"
        return Built(ok=True, artifact=main, not_checked=(reason,))
    arch = ARCHES[kernel.arch]
    machine = load_machine(f"{kernel.backend}.{kernel.arch}")
    shared_limit = machine.capacity("SHARED")
    # the kernel file runs while it is compiled: it may write here, not beside its own sources
    work = folder / "compile"
    work.mkdir(exist_ok=True)
    out = work / "compiled.json"
    script = [
        str(HERE / "child" / "compile_child.py"),
        str(folder),
        arch.runtime,
        arch.name,
        str(machine.limit("warp_size")),
        str(out),
    ]
    shown = f"triton.compile({kernel.main}, target={arch.runtime}:{arch.name})"
    done = in_triton(script, folder, work, _COMPILE_SECONDS)
    if done.code == 124:
        log = f"triton took longer than {_COMPILE_SECONDS:.0f} s"
        return Built(ok=False, artifact=None, log=log, command=shown)
    result = child_result(out)
    shutil.rmtree(work, ignore_errors=True)
    if result is None:
        log = scrub(done.output, folder) or f"exit status {done.code}"
        return built_since(None, {}, log, shown, started, ())
    shared = int(result["facts"].get("shared", 0))
    if shared > shared_limit:
        result["ok"] = False
        result["log"] = (
            f"the kernel needs {shared} bytes of shared memory, {kernel.arch} has {shared_limit}; "
            "make tiles smaller or reduce pipeline"
        )
    made = main if result["ok"] else None
    log = scrub(str(result["log"]), folder)
    return built_since(made, result["facts"], log, shown, started, done.not_enforced)


def in_triton(script: list[str], folder: Path, work: Path, seconds: float) -> Finished:
    """Run a script and its arguments in a confined Python that has imported Triton; it reads `folder` and writes `work`.

    Raises:
        EnvironmentProblem: as `run_confined`.
    """
    env = {k: v for k, v in os.environ.items() if k in ("LD_LIBRARY_PATH", "LANG")}
    env["TRITON_DEFAULT_FP_FUSION"] = "1"
    preload = Preload(_PRELOADED, tuple(sorted(env.items())))
    env["TRITON_CACHE_DIR"] = str(work / "cache")
    return run_confined(
        [sys.executable, *script], work, seconds, env=env, reads=(folder,), preload=preload
    )


def scrub(text: str, folder: Path) -> str:
    """Return compiler output without this machine's paths."""
    return text.replace(f"{folder}/", "").replace(str(folder), ".")[-8000:]


def available(device: str) -> Mapping[Capability, Availability]:
    """Probe what works here. `device`: "cuda" or "hip"."""
    emit = Availability(ok=True, detail="needs nothing")
    if not found():
        missing = Availability(ok=False, detail="triton is not installed", install=_INSTALL)
        return {"emit": emit, "compile": missing, "emulate": missing, "device": missing}
    version = metadata.version("triton")
    ready = Availability(ok=True, detail=f"triton {version}")
    torch = importlib.util.find_spec("torch") is not None
    emulate = (
        Availability(ok=True, detail=f"triton {version} interpreter, repaired and watched")
        if torch
        else Availability(ok=False, detail="torch is not installed", install="pip install torch")
    )
    runs = device_state(_VENDORS[device], arches_of(device), torch=True)
    return {"emit": emit, "compile": ready, "emulate": emulate, "device": runs}


def write_device(kernel: Kernel, folder: Path) -> Built:
    """Write the kernel for a child that holds a GPU; Triton compiles it there, at the first call."""
    return Built(ok=True, artifact=kernel.write(folder), command=f"triton.jit({kernel.main})")


def load(kernel: Kernel, folder: Path) -> Callable[..., None]:
    """Return the kernel as a callable on torch GPU tensors, on torch's current stream.

    Raises:
        EnvironmentProblem: V111, Triton, a GPU or a torch that sees it is missing.
    """
    vendor = _VENDORS[ARCHES[kernel.arch].runtime]
    ready = Availability(ok=found(), detail="triton is not installed", install=_INSTALL)
    require(kernel, device_state(vendor, (kernel.arch,), ready, torch=True))
    built = write_device(kernel, folder)
    assert built.artifact is not None
    return on_tensors(kernel, getattr(load_file(kernel, built.artifact), kernel.entry))
