"""Build a CUDA or HIP kernel twice: with nvcc or clang for the device, and with g++ for the emulation on the CPU."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

from septran.backends.base import Built
from septran.backends.cuda.dialect import dialect
from septran.backends.cuda.noted import NOTED, NOTED_CALLS, NOTES, STARTS, believable, not_noted
from septran.backends.cuda.prepare import prepare
from septran.backends.device import code_object
from septran.backends.device.ptxas import resource_usage
from septran.backends.judged.torch_text import INCLUDE
from septran.host.link import Runtime
from septran.intact import intact, seal
from septran.kernel import Kernel
from septran.machine import load_machine
from septran.toolchain.compilers import Compiler, cache_folder, cpp_compiler, fills_locals
from septran.toolchain.compilers import nvcc as nvcc
from septran.toolchain.confined import plain, run
from septran.toolchain.hosted import compile_hosted, support_object
from septran.toolchain.sought import compile_sought

EMULATOR = Path(__file__).resolve().parent / "emulator"
"""The headers that stand for CUDA's when a kernel is built for the CPU, and the machine that they call."""
NVCC_INSTALL = (
    "pip install 'septran[cuda]' (nvidia-cuda-nvcc), or apt-get install nvidia-cuda-toolkit"
)
EMULATION_FLAGS = (
    "-std=c++20",
    "-O2",
    "-march=native",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-fno-gnu-unique",
    "-ftrivial-auto-var-init=pattern",
    "-shared",
    "-fPIC",
    "-fvisibility=hidden",
    "-w",
    "-DSEPTRAN_EMULATE",
)
_OF_KERNELS = ("-shared", "-w", "-DSEPTRAN_EMULATE", "-ftrivial-auto-var-init=pattern")
_MACHINE_FLAGS = (
    *(flag for flag in EMULATION_FLAGS if flag not in _OF_KERNELS),
    "-fno-exceptions",
    "-fno-rtti",
    "-I.",
)
ALIGNED = ("-fsanitize=alignment", "-fsanitize-undefined-trap-on-error")
"""An NVIDIA GPU faults where an address is no multiple of what is accessed there; AMD's take such addresses."""
CONVERTED = ("-fsanitize=float-cast-overflow", "-fsanitize-undefined-trap-on-error")
"""A float beyond an integer's range: `prepare` gives casts the device's value, and what is converted without one is told."""
SHIFTED = ("-fsanitize=shift-exponent", "-fsanitize-undefined-trap-on-error")
"""A shift by as many bits as there are, or more: C++ leaves it open, host and device answer differently."""
SANITIZERS = {"address": ("-g1", "-fsanitize=address"), "thread": ("-g1", "-fsanitize=thread")}
_FIRST = {
    "cuda": "#include <cuda_runtime.h>\n#include <cuda_bf16.h>\n#include <cuda_fp16.h>\n",
    "hip": "#include <hip/hip_runtime.h>\n#include <hip/hip_bfloat16.h>\n",
}
"""of the emulation, by the host's calls: what every kernel includes before all else"""
_CALL = re.compile(r"(?<!define )CUEMU_CALL\((\w+)\)")


def build(kernel: Kernel, folder: Path) -> Built:
    """Emulated `folder/kernel.so`, and the cubin gate of the real compiler where it is installed.

    `facts` carry registers, spills and shared bytes of each `__global__` function.
    """
    folder.mkdir(parents=True, exist_ok=True)
    hip = dialect(kernel.backend).api == "hip"
    device = compile_code_object(kernel, folder) if hip else compile_cubin(kernel, folder)
    if isinstance(device, Built) and not device.ok:
        return device
    built = compile_emulated(kernel, folder)
    if not isinstance(device, Built):
        lacking = device or f"nvcc is not installed ({NVCC_INSTALL})"
        missing = f"compile for {kernel.arch}: {lacking}"
        return replace(built, not_checked=(*built.not_checked, missing))
    return replace(
        built,
        log=f"{device.log}{built.log}",
        command=f"{device.command}\n{built.command}",
        seconds=device.seconds + built.seconds,
        facts=(*device.facts, *built.facts),
        not_checked=tuple(dict.fromkeys((*device.not_checked, *built.not_checked))),
    )


def compile_emulated(
    kernel: Kernel, folder: Path, *, sanitizer: str = "", level: tuple[str, ...] = ()
) -> Built:
    """Compile the same source with g++ against the emulation headers: `folder/kernel.so`, and the static host.

    sanitizer: "" | "address" | "thread"; such a library needs the sanitizer's runtime preloaded.
    level: how far g++ optimises, () for what keeps locals that nobody set; ("-O0",) is done in half the time and runs
    several times longer.
    """
    watched = SANITIZERS.get(sanitizer, ())
    return _emulated(kernel, folder, (*level, *watched), watched, hosted=not sanitizer)


def compile_noted(kernel: Kernel, folder: Path) -> Built:
    """Compile as `compile_emulated`, for an emulation that knows which threads stored and loaded each byte of shared memory.

    A kernel of which that cannot be told is not built; the log says why.
    """
    if why := not_noted(kernel):
        return Built(ok=False, artifact=None, log=why)
    return believable(_emulated(kernel, folder, NOTED, (NOTES,), hosted=True), kernel)


def compile_sought_emulated(kernel: Kernel, folder: Path) -> Built:
    """Compile for the emulation into a program that seeks inputs on which the kernel's comparisons come out otherwise."""
    compiler = cpp_compiler("native")
    if compiler is None:
        return Built(ok=False, artifact=None, log="no g++ on PATH; apt-get install g++")
    main, flags = _for_emulation(kernel, compiler, ())
    return compile_sought(
        main, folder, compiler=compiler, flags=flags, support=machine(compiler, *_machine(kernel))
    )


def machine(compiler: Compiler, *flags: str) -> tuple[Path, ...]:
    """Return the emulation's machine as an object; none where it does not compile."""
    found = support_object(compiler, emulation(*flags), cache_folder() / "host")
    return (found.path,) if found.path else ()


def _emulated(
    kernel: Kernel, folder: Path, more: tuple[str, ...], machine: tuple[str, ...], *, hosted: bool
) -> Built:
    """Compile as `compile_emulated`. more: flags of the kernel, of which the last counts; machine: of the emulation."""
    compiler = cpp_compiler("native")
    if compiler is None:
        return Built(ok=False, artifact=None, log="no g++ on PATH; apt-get install g++")
    main, flags = _for_emulation(kernel, compiler, more)
    built = compile_hosted(
        main,
        folder,
        compiler=compiler,
        flags=flags,
        support=emulation(*machine, *_machine(kernel)),
        extra=headers(),
        first=_FIRST[dialect(kernel.backend).api],
        hosted=hosted,
        without=STARTS if NOTES in machine else (),
    )
    hidden = str(EMULATOR)
    return replace(
        built,
        log=built.log.replace(hidden, "emulation"),
        command=built.command.replace(hidden, "emulation"),
    )


def _for_emulation(
    kernel: Kernel, compiler: Compiler, more: tuple[str, ...]
) -> tuple[Kernel, tuple[str, ...]]:
    """Return the kernel as a host compiler takes it, and the flags that it is compiled with."""
    main = f"{Path(kernel.main).stem}.emulated.cpp"
    text = f'#line 1 "{kernel.main}"\n{prepare(kernel.source)}'
    files = (*((n, t) for n, t in kernel.files if n != kernel.main), (main, text))
    limit = load_machine(f"{kernel.backend}.{kernel.arch}").capacity("SHARED")
    flags = (
        *EMULATION_FLAGS,
        *fills_locals(compiler),
        *more,
        *CONVERTED,
        *SHIFTED,
        *(ALIGNED if dialect(kernel.backend).api == "cuda" else ()),
        f"-DSEPTRAN_SHARED_LIMIT={limit}",
        f"-I{EMULATOR}",
        *_machine(kernel),
    )
    return replace(kernel, main=main, files=files), flags


def _machine(kernel: Kernel) -> tuple[str, ...]:
    """Return how the emulation's machine differs from an NVIDIA GPU."""
    wave = dialect(kernel.backend).wave
    return () if wave == 32 else (f"-DCUEMU_WAVE={wave}",)


def emulation(*flags: str) -> Runtime:
    """Return the machine that emulated kernels call; flags: besides its own."""
    texts = {p.name: p.read_text(encoding="utf-8") for p in _sources()}
    return Runtime(
        files=tuple(texts.items()),
        units=tuple(name for name in texts if name.endswith(".cpp")),
        calls=frozenset(f"cuemu_{name}" for name in _CALL.findall(texts["api.h"]))
        | (NOTED_CALLS if NOTES in flags else frozenset()),
        hooks=frozenset({"st_after_call", "st_at_trap"}),
        flags=(*_MACHINE_FLAGS, *flags),
    )


def _sources() -> list[Path]:
    return sorted(p for p in EMULATOR.iterdir() if p.suffix in (".h", ".cpp"))


def headers() -> str:
    """Return what an emulated kernel includes of SepTran's, as one text: what its build depends on."""
    found = (*sorted(EMULATOR.rglob("*")), *sorted(INCLUDE.rglob("*.h")))
    kinds = (".h", ".cuh", "")
    return "".join(
        p.read_text(encoding="utf-8") for p in found if p.suffix in kinds and p.is_file()
    )


def _nvcc_flags(kernel: Kernel, product: str, more: str) -> tuple[str, ...]:
    arch = kernel.arch.removeprefix("sm_")
    code = f"-gencode=arch=compute_{arch},code=sm_{arch}"
    return (product, "-O3", "-std=c++17", more, code, "--resource-usage", "--diag-suppress=177")


def compile_cubin(kernel: Kernel, folder: Path, timeout_s: float = 300.0) -> Built | None:
    """Compile for the real arch with nvcc into `folder/kernel.cubin`; None when there is no nvcc."""
    compiler = nvcc()
    if compiler is None:
        return None
    flags = _nvcc_flags(kernel, "-cubin", "-lineinfo")
    digest = hashlib.sha256("\0".join((compiler.version, *flags, str(kernel.files))).encode())
    kept = cache_folder() / "cuda" / digest.hexdigest()[:32]
    cubin, notes = folder / "kernel.cubin", kept.with_suffix(".txt")
    shown = " ".join(["nvcc", *flags, kernel.main, "-o", cubin.name])
    refused: tuple[str, ...]
    if notes.is_file() and intact(kept.with_suffix(".cubin")):
        shutil.copyfile(kept.with_suffix(".cubin"), cubin)
        log, seconds, refused = notes.read_text(encoding="utf-8"), 0.0, ()
    else:
        kernel.write(folder)
        done = run([compiler.path, *flags, kernel.main, "-o", cubin.name], folder, timeout_s)
        log, seconds = done.output.replace(str(folder) + os.sep, ""), done.seconds
        refused = done.not_enforced
        if done.code != 0 or not plain(cubin):
            return Built(ok=False, artifact=None, log=log, command=shown, seconds=seconds)
        _keep(kept, cubin, log)
    shared = ("shared_bytes", dict(kernel.options).get("shared_bytes", 0))
    facts = (("compiler", f"nvcc {compiler.version}"), *resource_usage(log), shared)
    return Built(
        ok=True,
        artifact=cubin,
        log="",
        command=shown,
        seconds=seconds,
        facts=facts,
        not_checked=refused,
    )


def compile_code_object(kernel: Kernel, folder: Path) -> Built | str:
    """Compile for the real arch with clang into `folder/compile/kernel.co`; in words what is missing where it cannot be.

    facts: registers, accumulation registers, spills and shared bytes of the kernels, the worst of each.
    """
    tools = code_object.tools(kernel.arch)
    if isinstance(tools, str):
        return f"{tools} ({code_object.install(kernel.arch)})"
    work = folder / "compile"
    main = kernel.write(work)
    done = code_object.assemble(tools, kernel.arch, main)
    ok = done.code == 0 and code_object.made(main)
    log = done.output.replace(str(work) + os.sep, "")
    shared = ("shared_bytes", dict(kernel.options).get("shared_bytes", 0))
    facts = (("compiler", tools.name), *code_object.figures(done.output), shared)
    return Built(
        ok=ok,
        artifact=work / "kernel.co" if ok else None,
        log="" if ok else log[-8000:],
        command=f"clang -x hip --cuda-device-only --offload-arch={kernel.arch} -O3 {kernel.main} -o kernel.co",
        seconds=done.seconds,
        facts=facts if ok else (),
        not_checked=done.not_enforced,
    )


def compile_device(kernel: Kernel, folder: Path, *, timeout_s: float = 600.0) -> Built:
    """Compile a shared library for a machine with a GPU: `<entry>_on(device pointers, stream)`."""
    compiler = nvcc()
    if compiler is None:
        return Built(ok=False, artifact=None, log=f"nvcc is not installed; {NVCC_INSTALL}")
    kernel.write(folder)
    flags = _nvcc_flags(kernel, "-shared", "-Xcompiler=-fPIC")
    library = folder / "device.so"
    done = run([compiler.path, *flags, kernel.main, "-o", library.name], folder, timeout_s)
    ok = done.code == 0 and plain(library)
    return Built(
        ok=ok,
        artifact=library if ok else None,
        log="" if ok else done.output,
        command=" ".join(["nvcc", *flags, kernel.main, "-o", library.name]),
        seconds=done.seconds,
        facts=resource_usage(done.output),
        not_checked=done.not_enforced,
    )


def _keep(kept: Path, cubin: Path, log: str) -> None:
    with contextlib.suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(cubin, kept.with_suffix(".cubin"))
        kept.with_suffix(".txt").write_text(log, encoding="utf-8")
        seal(kept.with_suffix(".cubin"))
