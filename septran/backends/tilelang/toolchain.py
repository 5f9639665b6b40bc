"""TileLang's toolchain: write the kernel folder, lower it for the arch, compile it to a cubin or a code object."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path

from septran.backends.base import Availability, Built, Capability
from septran.backends.device import code_object
from septran.backends.device.gpu import device_state, load_file, on_tensors, require
from septran.backends.device.ptxas import resource_usage
from septran.backends.device.simulated import write_simulated
from septran.gpu import Vendor
from septran.kernel import Kernel
from septran.preloaded import Preload
from septran.toolchain.built import built_since
from septran.toolchain.compilers import nvcc
from septran.toolchain.confined import Finished, plain, run_confined

HERE = Path(__file__).resolve().parent
LOWER_CHILD = HERE / "child" / "lower_child.py"
LOWER_SECONDS = 120.0
NVCC_SECONDS = 120.0
INSTALL_TILELANG = 'pip install "tilelang>=0.1.15,<0.2"'
INSTALL_NVCC = 'pip install "septran[cuda]"  (or install the CUDA toolkit 12.8 or newer)'

VENDORS: Mapping[str, Vendor] = {"cuda": "nvidia", "hip": "amd"}
ARCHES = {"cuda": ("sm_90a", "sm_80", "sm_100a", "sm_120a"), "hip": ("gfx942", "gfx950")}
"""What each runtime is asked for, its backend's default first."""
DEVICE_SESSION: tuple[tuple[str, object], ...] = (("forks", True),)
"""TileLang starts nvcc or hipcc when the child loads a kernel."""

FEATURES: Mapping[str, tuple[str, ...]] = {
    "tma": ("tma_load",),
    "wgmma": ("wgmma",),
    "cp_async": ("cp_async",),
    "mma": ("mma_sync", "mma."),
    "mfma": ("mfma",),
}
"""Fact -> texts in the lowered source that prove it."""


def found() -> bool:
    """Return whether the tilelang package is installed (it is not imported)."""
    return importlib.util.find_spec("tilelang") is not None


def build(kernel: Kernel, folder: Path) -> Built:
    """Lower `kernel` for its arch in a child process and compile the result: with nvcc, or clang for AMD.

    facts: tma, wgmma, cp_async, mma, mfma (whether the lowered source has them), registers, spills
    and shared bytes from ptxas or the code object. Missing tools are listed in not_checked.
    """
    started = time.monotonic()
    main = write_simulated(kernel, folder)
    shown = f"tilelang.lower({kernel.main}, target={kernel.arch})"
    if not found():
        reason = f"compile for {kernel.arch}: tilelang is not installed; {INSTALL_TILELANG}"
        return Built(ok=True, artifact=main, not_checked=(reason,), command=shown)
    # the kernel runs while it is lowered: it may write here, not beside its own sources
    work = folder / "compile"
    work.mkdir(exist_ok=True)
    lowered = work / "lowered.cu"
    done = _lower(kernel, folder, lowered)
    refused = done.not_enforced
    if done.code != 0 or not plain(lowered):
        text = scrub(done.output, folder)
        if done.code == 124:
            text = f"tilelang took longer than {LOWER_SECONDS:.0f} s\n{text}"
        log = text or f"exit status {done.code}"
        return built_since(None, {}, log, shown, started, ())
    facts: dict[str, object] = dict(features(lowered.read_text(encoding="utf-8")))
    facts["lower_seconds"] = round(done.seconds, 2)
    if kernel.arch.startswith("gfx"):
        last = code_object.HEADERS_UP_TO
        tools = code_object.tools(kernel.arch, last=last)
        if isinstance(tools, str):
            reason = f"compile for {kernel.arch}: lowered, but {tools}"
            fetch = code_object.install(kernel.arch, last=last)
            told = f"{reason}; {fetch}" if fetch else reason
            return built_since(main, facts, "", shown, started, (told, *refused))
        # debug.h prints from the device, which takes a runtime that a code object does not need
        result = code_object.assemble(
            tools,
            kernel.arch,
            lowered,
            includes=(HERE / "shim", wheel() / "src"),
            without="tl_templates/hip/debug.h",
        )
        shown += f"; clang --offload-arch={kernel.arch} -O3"
        log = scrub(result.output, folder)
        if result.code != 0 or not code_object.made(lowered):
            return built_since(None, {}, log, shown, started, ())
        facts |= dict(code_object.figures(result.output))
        return built_since(main, facts, log, shown, started, refused)
    compiler = nvcc()
    if compiler is None:
        reason = f"compile for {kernel.arch}: lowered, but there is no nvcc; {INSTALL_NVCC}"
        return built_since(main, facts, "", shown, started, (reason, *refused))
    command = nvcc_command(compiler.path, kernel.arch)
    result = run_confined(command, work, NVCC_SECONDS)
    shown += "; nvcc " + " ".join(word for word in command[1:] if not word.startswith("-I"))
    log = scrub(result.output, folder)
    if result.code != 0:
        return built_since(None, {}, log, shown, started, ())
    facts |= dict(resource_usage(result.output))
    return built_since(main, facts, log, shown, started, refused)


def _lower(kernel: Kernel, folder: Path, out: Path) -> Finished:
    main = str(folder / kernel.main)
    return in_tilelang(
        [str(LOWER_CHILD), main, kernel.entry, kernel.arch, str(out)], folder, out.parent
    )


def in_tilelang(script: list[str], folder: Path, work: Path) -> Finished:
    """Run a script and its arguments in a confined Python that has imported TileLang; it reads `folder` and writes `work`.

    Raises:
        EnvironmentProblem: as `run_confined`.
    """
    env = {k: v for k, v in os.environ.items() if k in ("LD_LIBRARY_PATH", "LANG")}
    preload = Preload(("tilelang",), tuple(sorted(env.items())))
    env["TILELANG_CACHE_DIR"] = str(work / "cache")
    return run_confined(
        [sys.executable, *script], work, LOWER_SECONDS, env=env, reads=(folder,), preload=preload
    )


def nvcc_command(compiler: str, arch: str) -> list[str]:
    """Return the nvcc call that turns lowered.cu into a cubin with the wheel's own headers."""
    templates = wheel()
    return [
        compiler,
        "-cubin",
        "-O3",
        "-std=c++20",
        f"-arch={arch}",
        f"-I{templates / 'src'}",
        f"-I{templates / '3rdparty' / 'cutlass' / 'include'}",
        "--expt-relaxed-constexpr",
        "-DENABLE_BF16",
        "--resource-usage",
        "-o",
        "kernel.cubin",
        "lowered.cu",
    ]


def wheel() -> Path:
    """Return the folder of the installed tilelang."""
    spec = importlib.util.find_spec("tilelang")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def features(source: str) -> dict[str, bool]:
    """Return which hardware paths the lowered source takes."""
    return {name: any(t in source for t in texts) for name, texts in FEATURES.items()}


def scrub(text: str, folder: Path) -> str:
    """Return tool output without this machine's paths, its end only."""
    spec = importlib.util.find_spec("tilelang")
    if spec is not None and spec.origin is not None:
        text = text.replace(str(Path(spec.origin).parent.parent), "site-packages")
    return text.replace(f"{folder}/", "").replace(str(folder), ".")[-8000:]


def available(device: str) -> Mapping[Capability, Availability]:
    """Probe what works here. `device`: "cuda" or "hip"."""
    always = Availability(ok=True, detail="needs nothing")
    emulate = Availability(ok=True, detail="SepTran's TileLang simulator (numpy)")
    compile_ = _compiler(device)
    return {
        "emit": always,
        "compile": compile_,
        "emulate": emulate,
        "device": device_state(VENDORS[device], ARCHES[device], compile_, torch=True),
    }


def _compiler(device: str) -> Availability:
    if not found():
        return Availability(ok=False, detail="tilelang is not installed", install=INSTALL_TILELANG)
    version = f"tilelang {metadata.version('tilelang')}"
    if device == "hip":
        tools = code_object.tools(last=code_object.HEADERS_UP_TO)
        if isinstance(tools, str):
            detail = f"{version} lowers to HIP source, which is not compiled: {tools}"
            return Availability(ok=True, detail=detail, install=code_object.INSTALL)
        return Availability(ok=True, detail=f"{version} and {Path(tools.clang).name}")
    if nvcc() is None:
        return Availability(
            ok=False, detail=f"{version} lowers, nvcc is not installed", install=INSTALL_NVCC
        )
    return Availability(ok=True, detail=f"{version} and nvcc")


def target_of(arch: str) -> dict[str, str]:
    """Return what tilelang calls the target of an arch."""
    return (
        {"kind": "hip", "mcpu": arch} if arch.startswith("gfx") else {"kind": "cuda", "arch": arch}
    )


def write_device(kernel: Kernel, folder: Path) -> Built:
    """Write the kernel for a child that holds a GPU; tilelang compiles it there, when it is loaded."""
    shown = f"tilelang.compile({kernel.main}, target={kernel.arch})"
    return Built(ok=True, artifact=kernel.write(folder), command=shown)


def load(kernel: Kernel, folder: Path) -> Callable[..., None]:
    """Return the kernel, compiled by tilelang, as a callable on torch GPU tensors.

    Raises:
        EnvironmentProblem: V111, tilelang, its compiler, a GPU or a torch that sees it is missing.
    """
    device = "hip" if kernel.arch.startswith("gfx") else "cuda"
    require(kernel, device_state(VENDORS[device], (kernel.arch,), _compiler(device), torch=True))
    import tilelang

    built = write_device(kernel, folder)
    assert built.artifact is not None
    function = getattr(load_file(kernel, built.artifact), kernel.entry)
    return on_tensors(kernel, tilelang.compile(function, target=target_of(kernel.arch)))
