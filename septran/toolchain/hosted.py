"""Compile a C kernel once and link it twice: as the library users load, and with the static host that judges it."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from septran.host.link import (
    NAME,
    HostObject,
    Runtime,
    host_object,
    link_commands,
    null_program,
    trusted_library,
    trusted_object,
)
from septran.intact import intact
from septran.kernel import Kernel
from septran.toolchain.built import Built
from septran.toolchain.compilers import (
    Compiler,
    cache_folder,
    compiler_of_hosts,
    cpp_compiler,
    host_features,
    keep,
)
from septran.toolchain.confined import plain, run_confined, toolchain_folders
from septran.toolchain.first_headers import first_headers
from septran.toolchain.processors import Processor

_SUPPORT_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden")
UNLINKED = "static host: the kernel cannot be linked without shared libraries"
_OBJECT, _LIBRARY, _HOST = "kernel.o", "kernel.so", "kernel.host"


def compile_hosted(
    kernel: Kernel,
    folder: Path,
    *,
    compiler: Compiler,
    flags: Sequence[str],
    support: Path | Runtime,
    processor: Processor | None = None,
    hosted: bool = True,
    foreign: bool = False,
    without: Sequence[str] = (),
    extra: str = "",
    first: str = "",
    timeout_s: float = 120.0,
) -> Built:
    """Compile `kernel` in `folder`: kernel.o, the library from it, and the static host from it.

    support: our source that is linked into the library, where the host has its own for the same calls; or a runtime
    that is linked into both.
    processor: what the object is for, when it is not this machine's; its host runs emulated. hosted: False for a library
    alone. foreign: SepTran did not write it. without: sections that are taken out of the object. extra: what else the result depends on (headers outside the kernel's files). first: `#include` lines that every such kernel
    begins with (toolchain/first_headers.py). All steps are confined.
    """
    folder.mkdir(parents=True, exist_ok=True)
    cache = cache_folder() / "host"
    library = support_object(compiler, support, cache, flags if processor else ())
    if library.path is None:
        return Built(ok=False, artifact=None, log=f"the runtime: {library.missing}")
    runtime = support if isinstance(support, Runtime) else None
    host = _host(kernel, compiler, processor) if hosted else HostObject(path=None)
    kernel.write(folder)
    outputs = _outputs(host)
    command = _command(
        kernel, compiler, flags, host, processor, linked=runtime is not None, foreign=foreign,
        without=without,
    )  # fmt: skip
    native = host_features() if "-march=native" in flags else ""
    linked = [str(path) for path in (library.path, host.path)]
    digest = hashlib.sha256()
    for part in (
        compiler.path,
        compiler.version,
        command,
        native,
        extra,
        *linked,
        *map(str, kernel.files),
    ):
        digest.update(part.encode() + b"\0")
    kept = [cache_folder() / "compiled" / f"{digest.hexdigest()[:32]}.{name}" for name in outputs]
    shown = " ".join([Path(compiler.path).name, *flags, kernel.main, "-o", outputs[1]])
    missing = (f"static host: {host.missing}",) if host.missing else ()
    if all(intact(path) for path in kept):
        for name, path in zip(outputs, kept, strict=True):
            (folder / name).unlink(missing_ok=True)
            shutil.copy(path, folder / name)
        return replace(
            _built(folder, outputs, shown, runtime, cached=True, not_checked=missing),
            foreign=foreign,
        )
    shutil.copyfile(library.path, folder / "support.o")
    if host.path is not None:
        shutil.copyfile(host.path, folder / "host.o")
    reads = toolchain_folders(compiler.path, {})
    asked = not foreign and processor is None and first
    begun = (
        first_headers(compiler, _compiles(flags, foreign), first, extra=extra) if asked else None
    )
    if begun is not None:
        reads = (*reads, begun.parent)
        command = command.replace(" -c ./", f" -include {shlex.quote(str(begun))} -c ./", 1)
    done = run_confined(["/bin/sh", "-c", command], folder, timeout_s, reads=reads)
    log = done.output.replace(str(folder) + os.sep, "")
    for name in ("support.o", "host.o"):
        (folder / name).unlink(missing_ok=True)
    if done.code != 0 or not all(plain(folder / name) for name in outputs[:2]):
        return Built(ok=False, artifact=None, log=log, command=shown, seconds=done.seconds)
    if _HOST in outputs and not plain(folder / _HOST):
        missing = (UNLINKED,)
        outputs = outputs[:2]
    for name, path in zip(outputs, kept, strict=False):
        keep(folder / name, path)
    built = _built(
        folder, outputs, shown, runtime, cached=False, log=log, seconds=done.seconds,
        not_checked=(*done.not_enforced, *missing),
    )  # fmt: skip
    return replace(built, foreign=foreign)


def null_host() -> Path | None:
    """Return a host whose kernel does nothing: what a slot costs without its calls; None where there is no host."""
    compiler = cpp_compiler("native")
    if compiler is None:
        return None
    cache = cache_folder() / "host"
    host = host_object(compiler.path, cache, compiler.version + host_features())
    return null_program(compiler.path, host, cache)


def support_object(
    compiler: Compiler, support: Path | Runtime, cache: Path, machine: Sequence[str] = ()
) -> HostObject:
    """Return `support` compiled, from `cache` where it is there. machine: the flags of a kernel for another processor."""
    if isinstance(support, Runtime):
        native = host_features() if "-march=native" in support.flags else ""
        return trusted_library(compiler.path, support, cache, extra=compiler.version + native)
    headers = "".join(p.read_text(encoding="utf-8") for p in sorted(support.parent.glob("*.h")))
    extra = compiler.version + headers
    chosen = [f for f in machine if f.startswith(("-march", "--target"))]
    return trusted_object(compiler.path, support, (*_SUPPORT_FLAGS, *chosen), cache, extra=extra)


def _host(kernel: Kernel, compiler: Compiler, processor: Processor | None) -> HostObject:
    if not NAME.fullmatch(kernel.entry):
        return HostObject(path=None, missing=f"{kernel.entry!r} is no name of C")
    cache = cache_folder() / "host"
    if processor is not None:
        with_threads = compiler_of_hosts(processor)
        if with_threads is None:
            return HostObject(path=None, missing=f"no {processor.host_compiler} here")
        path, version = with_threads.path, with_threads.version
        return host_object(path, cache, version, objcopy=processor.tool("objcopy"), emulated=True)
    return host_object(compiler.path, cache, compiler.version + host_features())


def _outputs(host: HostObject) -> tuple[str, ...]:
    return (_OBJECT, _LIBRARY, *([_HOST] if host.path is not None else []))


def _compiles(flags: Sequence[str], foreign: bool) -> list[str]:
    """Return the flags of the step that compiles the kernel."""
    own = [] if foreign else ["-fno-exceptions"]
    return [*(f for f in flags if f != "-shared"), *own, "-DSEPTRAN_HOSTED"]


def _command(
    kernel: Kernel,
    compiler: Compiler,
    flags: Sequence[str],
    host: HostObject,
    processor: Processor | None,
    *,
    linked: bool,
    foreign: bool,
    without: Sequence[str],
) -> str:
    tool = shlex.quote(compiler.path)
    openmp = "-fopenmp " if "-fopenmp" in flags else ""
    target = "".join(f"{f} " for f in flags if f.startswith("--target"))
    steps = [
        f"{tool} {shlex.join(_compiles(flags, foreign))} -c ./{shlex.quote(kernel.main)} -o {_OBJECT}"
    ]
    if without:
        steps.append(f"objcopy {' '.join(f'-R {name}' for name in without)} {_OBJECT}")
    steps.append(f"{tool} -shared {target}{openmp}{_OBJECT} support.o -o {_LIBRARY} -lm")
    text = " && ".join(steps)
    if host.path is not None:
        # a kernel that cannot be linked statically is no mistake: it is judged in a Python process
        runtime = "support.o" if linked else ""
        by = None if processor is None else compiler_of_hosts(processor)
        link = link_commands(
            by.path if by else compiler.path, _OBJECT, kernel.entry, Path("host.o"), _HOST, runtime,
            objcopy="objcopy" if processor is None else processor.tool("objcopy"),
            foreign=foreign,
        )  # fmt: skip
        text += f" && {{ {link}; true; }}"
    return text


def _built(
    folder: Path,
    outputs: Sequence[str],
    shown: str,
    runtime: Runtime | None,
    *,
    cached: bool,
    log: str = "",
    seconds: float = 0.0,
    not_checked: tuple[str, ...] = (),
) -> Built:
    return Built(
        ok=True,
        artifact=folder / outputs[1],
        log=log,
        command=shown,
        seconds=seconds,
        facts=(("cached", cached),),
        not_checked=not_checked,
        kernel_object=folder / _OBJECT,
        host=folder / _HOST if _HOST in outputs else None,
        runtime_calls=None if runtime is None else runtime.calls,
    )
