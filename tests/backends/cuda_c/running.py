"""Emit, build and run a Program in the emulation, each run in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from septran.backends.cuda.backend import CUDA_C
from septran.backends.cuda.toolchain import compile_emulated
from septran.ir.nodes import Program
from septran.kernel import Kernel

CHILD = """
import ctypes, json, os, sys
import numpy as np
plan = json.loads(sys.argv[1])
os.environ["SEPTRAN_EMU_REPORT"] = "diagnostics.json"
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]


def guarded(data):
    # the array ends (to 16 bytes) where a page begins that nobody may touch
    pages = (data.size + 15 + 4095) // 4096 * 4096
    base = libc.mmap(None, pages + 8192, 0, 0x22, -1, 0)
    libc.mmap(base + 4096, pages, 3, 0x32, -1, 0)
    raw = (ctypes.c_uint8 * data.size).from_address(base + 4096 + pages - (data.size + 15) // 16 * 16)
    array = np.frombuffer(raw, dtype=np.uint8)
    array[:] = data
    return array


arrays = [guarded(np.fromfile(p["name"] + ".in", dtype=np.uint8)) for p in plan["params"]]
entry = getattr(ctypes.CDLL(plan["artifact"]), plan["entry"])
for _ in range(plan["calls"]):
    entry((ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays]))
for p, a in zip(plan["params"], arrays):
    a.tofile(p["name"] + ".out")
os._exit(0)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a run ended: outputs by parameter when it did, else what the emulator said."""

    code: int
    outputs: Mapping[str, np.ndarray]
    found: tuple[dict[str, object], ...]
    stderr: str


def kernel_of(program: Program) -> Kernel:
    return CUDA_C.emit(program, {})


def to_bytes(x: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "bfloat16":
        bits = x.astype(np.float32).view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return x.astype(dtype)


def from_bytes(raw: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "bfloat16":
        return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    x = raw.view(dtype)
    return x.astype(np.float64) if x.dtype.kind == "f" else x


def rounded(x: np.ndarray, dtype: str) -> np.ndarray:
    """The values of `x` that `dtype` can hold, as float64 (integers stay)."""
    return from_bytes(np.ascontiguousarray(to_bytes(x, dtype)).reshape(-1), dtype).reshape(x.shape)


def run_kernel(
    kernel: Kernel, inputs: Mapping[str, np.ndarray], folder: Path, *, calls: int = 1
) -> Ran:
    """Build and run `kernel`; missing parameters start as NaN."""
    built = compile_emulated(kernel, folder)
    assert built.ok, built.log[-4000:]
    for p in kernel.params:
        data = to_bytes(inputs[p.name], p.dtype) if p.name in inputs else None
        path = folder / f"{p.name}.in"
        if data is None:
            size = int(np.prod(p.shape)) * to_bytes(np.zeros(1), p.dtype).itemsize
            np.full(size, 0xFF, np.uint8).tofile(path)
        else:
            np.ascontiguousarray(data).tofile(path)
    (folder / "diagnostics.json").unlink(missing_ok=True)
    plan = {
        "artifact": str(built.artifact),
        "entry": kernel.entry,
        "params": [{"name": p.name} for p in kernel.params],
        "calls": calls,
    }
    done = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps(plan)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    notes = folder / "diagnostics.json"
    found = tuple(json.loads(notes.read_text())) if notes.is_file() else ()
    outputs = {}
    if done.returncode == 0:
        for p in kernel.params:
            raw = np.fromfile(folder / f"{p.name}.out", dtype=np.uint8)
            outputs[p.name] = from_bytes(raw, p.dtype).reshape(p.shape)
    return Ran(code=done.returncode, outputs=outputs, found=found, stderr=done.stderr)
