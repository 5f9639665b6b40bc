"""Compile plain CUDA C++ text for the emulation and call `run(args)` in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from septran.backends.cuda.emit import runtime_folder
from septran.backends.cuda.prepare import asked_of_emulation, prepare
from septran.backends.cuda.toolchain import (
    EMULATION_FLAGS,
    EMULATOR,
    SANITIZERS,
    emulation,
    headers,
)
from septran.kernel import Kernel
from septran.toolchain.compilers import cpp_compiler
from septran.toolchain.hosted import compile_hosted

CHILD = """
import ctypes, json, os, sys
os.environ["SEPTRAN_EMU_REPORT"] = "diagnostics.json"
library = ctypes.CDLL(sys.argv[1])
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
sizes = json.loads(sys.argv[2])
pointers = []
for i, size in enumerate(sizes):
    p = libc.malloc(ctypes.c_size_t(size))
    data = open(f"arg{i}.in", "rb").read()
    ctypes.memmove(p, data, size)
    pointers.append(p)
library.run((ctypes.c_void_p * len(pointers))(*pointers))
for i, (p, size) in enumerate(zip(pointers, sizes)):
    open(f"arg{i}.out", "wb").write(ctypes.string_at(p, size))
os._exit(0)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    code: int
    outputs: tuple[np.ndarray, ...]
    kind: str
    message: str
    stderr: str


def run_cuda(
    source: str, args: list[np.ndarray], folder: Path, *, sanitizer: str = "", outputs: str = ""
) -> Ran:
    """Run `extern "C" void run(void* const* args)`; `outputs` lists in_every_order outputs."""
    compiler = cpp_compiler("native")
    assert compiler is not None
    runtime = runtime_folder()
    watched = SANITIZERS.get(sanitizer, ())
    flags = (
        *EMULATION_FLAGS,
        "-O0",  # such kernels run for less time than a compiler needs to improve them
        *watched,
        f"-I{EMULATOR}",
        f"-I{runtime}",
        *asked_of_emulation(source),
    )
    text = '#include <cuda_runtime.h>\n#include <cuda_bf16.h>\n#line 1 "kernel.cu"\n' + prepare(
        source
    )
    kernel = Kernel(
        name="raw",
        backend="cuda_c",
        arch="sm_80",
        entry="run",
        params=(),
        main="kernel.cpp",
        files=(("kernel.cpp", text),),
        leaves=(),
    )
    included = "".join(p.read_text(encoding="utf-8") for p in sorted(runtime.glob("*.cuh")))
    built = compile_hosted(
        kernel,
        folder,
        compiler=compiler,
        flags=flags,
        support=emulation(*watched),
        extra=headers() + included,
        hosted=False,
    )
    assert built.ok, built.log[-3000:]
    for i, a in enumerate(args):
        (folder / f"arg{i}.in").write_bytes(np.ascontiguousarray(a).tobytes())
    (folder / "diagnostics.json").unlink(missing_ok=True)
    env = {"PATH": "/usr/bin:/bin"}
    command = [
        sys.executable,
        "-c",
        CHILD,
        str(built.artifact),
        json.dumps([a.nbytes for a in args]),
    ]
    if sanitizer:
        library = {"address": "libasan.so", "thread": "libtsan.so"}[sanitizer]
        found = subprocess.run(
            [compiler.path, f"-print-file-name={library}"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        env |= {
            "LD_PRELOAD": found,
            "ASAN_OPTIONS": "detect_leaks=0",
            "TSAN_OPTIONS": "exitcode=66",
        }
        command = ["setarch", "-R", *command]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=120, check=False, env=env
    )
    notes = folder / "diagnostics.json"
    found_ = json.loads(notes.read_text())[0] if notes.is_file() else {}
    outs: tuple[np.ndarray, ...] = ()
    if done.returncode == 0:
        outs = tuple(
            np.frombuffer((folder / f"arg{i}.out").read_bytes(), dtype=a.dtype).reshape(a.shape)
            for i, a in enumerate(args)
        )
    return Ran(
        code=done.returncode,
        outputs=outs,
        kind=found_.get("kind", ""),
        message=found_.get("message", ""),
        stderr=done.stderr,
    )
