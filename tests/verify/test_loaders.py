"""A loader that says in_place means it: a kernel that writes its input is stopped, also in an emulator."""

from __future__ import annotations

import importlib.util
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from septran.backends.base import Built
from septran.backends.cuda import toolchain as cuda_build
from septran.backends.device.simulated import write_simulated
from septran.backends.triton import toolchain as triton_toolchain
from septran.kernel import Kernel, KernelParam
from septran.reference import Reference
from septran.verify.pipe import Pipe
from septran.verify.problem import Problem
from septran.verify.session import Sessions
from septran.verify.verdict import Verdict
from septran.verify.verify import Request, verify
from tests.verify.kernels import kernel_of

TILE = """
import tilelang.language as T


@T.prim_func
def entry(X: T.Tensor((32, 64), "{dtype}"), Y: T.Tensor((32, 64), "{dtype}")):
    with T.Kernel(1, threads=128) as bx:
        a = T.alloc_fragment((32, 64), "{dtype}")
        T.copy(X[bx * 32, 0], a)
        T.copy(a, {target}[bx * 32, 0])
"""
CUDA = """
#include <cuda_runtime.h>
__global__ void copy(float* x, float* y) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 2048) {{ y[i] = x[i]; {also} }}
}}
extern "C" __attribute__((visibility("default"))) void entry(void* const* args) {{
  copy<<<8, 256>>>((float*)args[0], (float*)args[1]);
  cudaDeviceSynchronize();
}}
"""
TRITON = """
import triton
import triton.language as tl


@triton.jit
def copy(X, Y):
    at = tl.program_id(0) * 256 + tl.arange(0, 256)
    tl.store({target} + at, tl.load(X + at))


def entry(X, Y):
    copy[(8,)](X, Y)
"""


def problem(dtype: str = "float32") -> Problem:
    shape = (32, 64)
    return Problem(
        name="same",
        params=(
            KernelParam(name="X", shape=shape, dtype=dtype, privilege="r"),
            KernelParam(name="Y", shape=shape, dtype=dtype, privilege="w"),
        ),
        reference=Reference(fn=lambda X: X.clone(), kind="exact"),
    )


def judged(kernel: Kernel, built: Built, task: Problem, folder: Path, loader: str) -> Verdict:
    assert built.ok, built.log
    sessions = Sessions(loader=loader, address_space=False, minimum_calls=2, budget_s=4.0)
    request = Request(where="emulated", language="", gate=False, sessions=sessions)
    return verify(kernel, built, task, run_dir=folder / "run", request=request)


def tilesim(task: Problem, folder: Path, *, target: str) -> Verdict:
    source = TILE.format(dtype=task.params[0].dtype, target=target)
    kernel = replace(
        kernel_of(task, source, main="kernel.py", backend="tilelang_cuda"), arch="sm_90"
    )
    build = folder / "build"
    build.mkdir()
    main = write_simulated(kernel, build)
    return judged(kernel, Built(ok=True, artifact=main), task, folder, "tilesim.py.j2")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_tilesim(dtype: str, tmp_path: Path) -> None:
    (tmp_path / "good").mkdir()
    (tmp_path / "bad").mkdir()
    good = tilesim(problem(dtype), tmp_path / "good", target="Y")
    assert good.passed, good.message
    assert "read-only inputs" in good.enforced
    widened = any("widens bfloat16" in item for item in good.not_checked)
    assert widened == (dtype == "bfloat16") == ("guard pages" not in good.enforced)
    bad = tilesim(problem(dtype), tmp_path / "bad", target="X")
    assert not bad.passed
    assert "which is an input" in bad.message, bad.message


@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
def test_cuda_emulation(tmp_path: Path) -> None:
    for name, also, right in (
        ("good", "", True),
        ("bad", "x[i] = 0;", False),
        ("far", "y[i] = x[i + 1024];", False),
    ):
        kernel = kernel_of(problem(), CUDA.format(also=also), main="kernel.cu", backend="cuda_c")
        built = cuda_build.compile_emulated(replace(kernel, arch="sm_90a"), tmp_path / name)
        built = replace(built, host=None)  # files that others wrote run in the child
        verdict = judged(kernel, built, problem(), tmp_path / name, "cuda_emu.py.j2")
        assert verdict.passed == right, (name, verdict.message)
        if not right:
            assert verdict.code in ("V205", "V209"), verdict.message


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")
@pytest.mark.slow
def test_triton_interpreter(tmp_path: Path) -> None:
    for target, right in (("Y", True), ("X", False)):
        kernel = kernel_of(problem(), TRITON.format(target=target), main="kernel.py")
        build = tmp_path / target
        build.mkdir()
        main = triton_toolchain.write(kernel, build)
        built = Built(ok=True, artifact=main)
        verdict = judged(kernel, built, problem(), tmp_path / f"run{target}", "triton_interp.py.j2")
        assert verdict.passed == right, verdict.message
        if not right:
            assert verdict.code == "V209", verdict.message


def test_what_a_child_says_may_nest_as_deep_as_it_likes() -> None:
    import os

    class Child:
        def cpu_seconds(self) -> float:
            return 0.0

    read, write = os.pipe()
    try:
        os.write(write, b"[" * 15_000 + b"]" * 900 + b"\n")
        assert Pipe(-1, read, Child()).receive(5.0) == "protocol"
    finally:
        os.close(read)
        os.close(write)
