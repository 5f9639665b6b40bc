"""Files with `load_inline` whose own Python runs: the extension's functions are a program of their own that it asks.

What torch computes beside them is known only when the Python runs, as for Triton files. In a Python process an extension could find
torch, the judge's pipes and the watch; in the program (`server/server.cpp`) there is nothing to find.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

from septran.backends.base import Built, HostCall
from septran.backends.cuda.foreign import emulated, emulation_flags, unset_in
from septran.backends.cuda.toolchain import emulation, headers
from septran.backends.judged.c_foreign import ENTRY
from septran.backends.judged.inline_text import Extension, python_of
from septran.backends.judged.python_file import (
    ATTRIBUTES,
    IMPORTS,
    NAMES,
    UNMODELLED,
    lay_torch_host,
)
from septran.backends.text.python_host import needed
from septran.backends.text.python_rules import Rules
from septran.host import object_gate
from septran.host.link import SILENCED, trusted_object
from septran.host.reached import reached
from septran.intact import intact
from septran.kernel import Kernel, KernelParam
from septran.toolchain.compilers import Compiler, cache_folder, cpp_compiler, fills_locals, keep
from septran.toolchain.confined import plain, run_confined, toolchain_folders
from septran.toolchain.hosted import UNLINKED, support_object

_SERVER = Path(__file__).resolve().parent / "server" / "server.cpp"
_SERVER_FLAGS = ("-std=c++20", "-O2", "-fno-pie", "-fno-exceptions", "-fno-rtti")
_PYTHON, _PROGRAM, _OBJECT = "judged_kernel.py", "kernel.server", "kernel.o"
_OF_THE_SYSTEM = re.compile(
    r"p?(read|write)v?\d*|_exit|_Exit|quick_exit|m(un)?map|mprotect|mremap|madvise|prctl|sig\w+|ptrace|v?fork|clone|exec\w+|dup\d?|pipe2?"
)
"""what only the program's own part calls: it holds the pipes"""
RULES = Rules(
    imports=IMPORTS,
    names=NAMES,
    attributes=ATTRIBUTES,
    kernel=lambda node: False,
    device_roots=frozenset(),
    unmodelled=UNMODELLED,
)
"""what the Python of such a file may say, once its calls of torch's builder are taken out (`python_of`)"""
_WRAPPED = ("run_grid", "device_memory", "free_device_memory")


def served_kernel(
    text: str, read: Extension, call: HostCall, params: tuple[KernelParam, ...], arch: str
) -> tuple[Kernel, tuple[str, ...]]:
    """Return the extension's text with a table of its functions, and the file's Python, as a Kernel; and what of it was left out."""
    kept, left = needed(python_of(text), call.host.name)
    names = sorted(read.offered)
    plan = {
        "entry": call.host.name,
        "args": [asdict(a) for a in call.args],
        "returns": call.returns,
        "made_with": [asdict(a) for a in call.made_with],
        "state": call.state,
        "allow_torch": call.allow_torch,
        "names": names,
        "parts": read.parts,
    }
    main = "judged_kernel.cu"
    found = Kernel(
        name=call.host.name,
        backend="cuda_c",
        arch=arch,
        entry=ENTRY,
        params=params,
        main=main,
        files=((main, f"{read.text}\n{_table(read, names)}"), (_PYTHON, kept)),
        leaves=(),
        options=(("call", json.dumps(plan)),),
    )
    return found, left


def _table(read: Extension, names: list[str]) -> str:
    rows = ", ".join(f'cuemu::served::offered("{n}", {read.offered[n]})' for n in names)
    return (
        f'#include "torch/served.h"\nextern "C" __attribute__((visibility("default"))) void {ENTRY}(const char* request, size_t) {{\n'
        f"    cuemu::served::serve({{{rows}}}, request);\n}}\n"
    )


def build(kernel: Kernel, folder: Path) -> Built:
    """Write the file's Python and what it needs beside it, and compile the extension into `folder/kernel.server`."""
    compiler = cpp_compiler("native")
    if compiler is None:
        return Built(ok=False, artifact=None, log="no g++ on PATH; apt-get install g++")
    return _compiled(emulated(kernel), folder, compiler, fills_locals(compiler))


def unset(kernel: Kernel, folder: Path) -> Iterator[Built]:
    """Yield builds whose variables that nobody set hold something else than in `build`'s; none where none is read."""
    yield from unset_in(kernel, folder, _compiled)


def _compiled(kernel: Kernel, folder: Path, compiler: Compiler, more: tuple[str, ...]) -> Built:
    folder.mkdir(parents=True, exist_ok=True)
    cache = cache_folder() / "host"
    runtime = support_object(compiler, emulation(), cache)
    server = trusted_object(compiler.path, _SERVER, _SERVER_FLAGS, cache, extra=compiler.version)
    if runtime.path is None or server.path is None:
        return Built(ok=False, artifact=None, log=f"{runtime.missing}{server.missing}")
    kernel.write(folder)
    lay_torch_host(folder, "extension_host")
    flags = [f for f in (*emulation_flags(kernel), *more) if f != "-shared"]
    command = _command(compiler, kernel.main, flags)
    digest = hashlib.sha256()
    linked = (str(runtime.path), str(server.path))
    for part in (compiler.path, compiler.version, command, headers(), *linked, str(kernel.files)):
        digest.update(part.encode() + b"\0")
    kept = cache_folder() / "compiled" / digest.hexdigest()[:32]
    names = (_OBJECT, _PROGRAM)
    built = Built(
        ok=True,
        artifact=folder / _PYTHON,
        command=f"{Path(compiler.path).name} {shlex.join(flags)} {kernel.main}",
        kernel_object=folder / _OBJECT,
        foreign=True,
    )
    if all(intact(kept.with_suffix(f".{name}")) for name in names):
        for name in names:
            shutil.copy(kept.with_suffix(f".{name}"), folder / name)
        return built
    shutil.copyfile(runtime.path, folder / "runtime.o")
    shutil.copyfile(server.path, folder / "server.o")
    reads = toolchain_folders(compiler.path, {})
    done = run_confined(["/bin/sh", "-c", command], folder, 120.0, reads=reads)
    log = done.output.replace(str(folder) + os.sep, "")
    if done.code or not plain(folder / _OBJECT):
        return Built(ok=False, artifact=None, log=log, command=built.command, seconds=done.seconds)
    if not plain(folder / _PROGRAM):
        return replace(built, log=log, not_checked=(UNLINKED,))
    if wrong := _findings(folder / _OBJECT):
        return replace(built, log=log, refused="; ".join(wrong))
    for name in names:
        keep(folder / name, kept.with_suffix(f".{name}"))
    return replace(built, seconds=done.seconds, not_checked=done.not_enforced)


def _findings(path: Path) -> list[str]:
    """Return what an extension's object holds that could speak for the program, or run before it is confined."""
    found = object_gate.findings(path, ENTRY, lambda name: True, foreign=True)
    needed = reached(path.read_bytes(), ENTRY).needed
    return found + [f"it calls {name}" for name in sorted(needed) if _OF_THE_SYSTEM.fullmatch(name)]


def _command(compiler: Compiler, main: str, flags: list[str]) -> str:
    """Return the shell text that compiles the extension and links it; what it prints goes nowhere, its start-up code runs last."""
    tool = shlex.quote(compiler.path)
    silent = " ".join(f"--redefine-sym {name}=st_{name}" for name in SILENCED)
    own = f"--keep-global-symbol={ENTRY} {silent} --rename-section .init_array=st_init"
    wrapped = " ".join(f"-Wl,--wrap=cuemu_{name}" for name in _WRAPPED)
    static = "-static -no-pie -Wl,-z,noexecstack -Wl,-z,relro,-z,now -Wl,--defsym,st_foreign=1"
    return (
        f"{tool} {shlex.join(flags)} -c ./{shlex.quote(main)} -o {_OBJECT} && {{ objcopy {own} {_OBJECT} served.o && "
        f"{tool} {static} {wrapped} server.o served.o runtime.o -o {_PROGRAM} -lm 2>link.txt; true; }}"
    )
