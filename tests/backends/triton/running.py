"""Run a kernel in a child process the way the verifier does: loader template, numpy views."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from septran.backends.triton.backend import TRITON_CUDA, TRITON_HIP
from septran.backends.triton.toolchain import write
from septran.ir.nodes import Program
from septran.kernel import Kernel

ROOT = Path(__file__).resolve().parents[3]
LOADER = ROOT / "verify_templates" / "loaders" / "triton_interp.py.j2"
_CHILD = """
import json, os, sys
def diagnose(kind, message, **facts): pass
def kernel_begins(): pass
os.environ["TRITON_INTERPRET"] = "1"
import numpy as np, torch, triton, triton.runtime.interpreter
torch.set_num_threads(1)
jobs = json.load(open(sys.argv[1]))
for job in jobs:
    sys.stdout.flush()
    pid = os.fork()  # each job starts from a clean interpreter
    if pid:
        status = os.waitpid(pid, 0)[1]
        if status:
            print("failed", "status", status, flush=True)
        continue
    views = []
    for name, dtype, shape, writable in job["args"]:
        views.append(np.memmap(name, dtype=dtype, mode="r+" if writable else "r", shape=tuple(shape)))
    try:
        load(job["folder"] + "/kernel.py", {"entry": "entry", "where": "emulated"})(views)
        print("done", flush=True)
    except Exception as e:
        print("failed", str(e).replace(chr(10), " ")[:600], flush=True)
    os._exit(0)
"""


def aimed(program: Program, arch: str) -> Program:
    """The program for another architecture."""
    (backend,) = (b for b in (TRITON_CUDA, TRITON_HIP) if arch in b.arches)
    return replace(program, target=backend.name, arch=arch, machine=backend.machine(arch))


def build_kernel(program: Program) -> Kernel:
    """Emit with library leaves."""
    (backend,) = (b for b in (TRITON_CUDA, TRITON_HIP) if program.arch in b.arches)
    return backend.emit(program, {})


def changed(kernel: Kernel, old: str, new: str) -> Kernel:
    """The kernel with one piece of its text replaced; the piece must be there."""
    assert old in kernel.source, (old, kernel.source)
    return replace(kernel, files=((kernel.main, kernel.source.replace(old, new, 1)),))


def numpy_dtype(dtype: str) -> str:
    return "uint16" if dtype == "bfloat16" else dtype


def run_many(
    jobs: Sequence[tuple[Kernel, Mapping[str, np.ndarray]]],
) -> list[dict[str, np.ndarray] | str]:
    """Run kernels in ONE child (starting torch costs seconds); outputs, or the error text, each."""
    loader = LOADER.read_text(encoding="utf-8").split("#}", 1)[1]
    with tempfile.TemporaryDirectory() as tmp:
        root = Path(tmp)
        described = []
        outputs: list[dict[str, tuple[Path, str, tuple[int, ...]]]] = []
        for number, (kernel, inputs) in enumerate(jobs):
            folder = root / f"septran_job{number}"
            folder.mkdir()
            write(kernel, folder)
            args, outs = [], {}
            for p in kernel.params:
                dtype, path = numpy_dtype(p.dtype), folder / f"arg_{p.name}"
                if p.privilege == "w":
                    np.full(p.shape, 0x7FC1 if dtype == "uint16" else 85, dtype).tofile(path)
                    if dtype.startswith("float"):
                        np.full(p.shape, np.nan, dtype).tofile(path)
                else:
                    inputs[p.name].astype(dtype).tofile(path)
                if p.privilege != "r":
                    outs[p.name] = (path, p.dtype, p.shape)
                args.append((str(path), dtype, p.shape, p.privilege != "r"))
            outputs.append(outs)
            described.append({"folder": str(folder), "args": args})
        (root / "jobs.json").write_text(json.dumps(described))
        (root / "child.py").write_text(loader + _CHILD)
        env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, str(root / "child.py"), str(root / "jobs.json")],
            capture_output=True,
            text=True,
            env=env,
            check=False,
            timeout=600,
        )
        verdicts = done.stdout.splitlines()
        assert len(verdicts) == len(jobs), done.stdout + done.stderr[-3000:]
        results: list[dict[str, np.ndarray] | str] = []
        for verdict, outs in zip(verdicts, outputs, strict=True):
            if verdict != "done":
                results.append(verdict)
                continue
            results.append(
                {
                    n: values(np.fromfile(p, numpy_dtype(d)).reshape(s), d)
                    for n, (p, d, s) in outs.items()
                }
            )
        return results


def values(raw: np.ndarray, dtype: str) -> np.ndarray:
    """Stored numbers as float64."""
    if dtype == "bfloat16":
        return (raw.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return raw.astype(np.float64)


def stored(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Random input in its storage form (bfloat16 as uint16 patterns)."""
    x = rng.standard_normal(shape).astype(np.float32)
    if dtype == "bfloat16":
        return ((x.view(np.uint32) + 0x8000) >> 16).astype(np.uint16)
    return x.astype(dtype)
