"""Hand-written device kernels, honest and not, against the fake driver."""

from __future__ import annotations

import subprocess
from pathlib import Path

from septran import gpu
from septran.backends.base import Built
from septran.kernel import Kernel
from septran.trial.place import place_of
from septran.verify.problem import Problem
from septran.verify.session import Sessions
from septran.verify.verdict import Verdict
from septran.verify.verify import Request, verify
from tests.verify.kernels import kernel_of

RELU = "for (long i = 0; i < 19 * 67; i++) y[i] = x[i] > 0 || x[i] != x[i] ? x[i] : 0;"
PRELUDE = """
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>
extern "C" void fake_begin(void);
extern "C" void fake_end(void);
"""


def source_of(body: str) -> str:
    """A file whose device entry has `body`: y is the output, x the input."""
    return (
        f"{PRELUDE}\n"
        'extern "C" const char* entry_on(void* const* args, void* stream) {\n'
        "  float* y = (float*)args[0]; float* x = (float*)args[1];\n"
        f"  {body}\n  return nullptr;\n}}\n"
    )


def built_of(source: str, folder: Path, driver: Path) -> Built:
    """Compile for the fake device."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kernel.cpp").write_text(source)
    out = folder / "device.so"
    command = ["g++", "-std=c++20", "-O1", "-shared", "-fPIC", "-pthread", "-o", str(out)]
    command += [str(folder / "kernel.cpp"), str(driver), f"-Wl,-rpath,{driver.parent}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Built(ok=True, artifact=out)


def sessions_of(found: gpu.Gpu) -> Sessions:
    """How cuda_c's kernels are run on a device, with a test's patience."""
    from dataclasses import replace

    from septran.backends import get

    sessions = place_of(get("cuda_c"), "sm_90a", "device", 2).sessions
    assert sessions.gpu is found
    return replace(sessions, call_timeout_s=5.0, load_timeout_s=30.0)


def check(body: str, problem: Problem, folder: Path, found: gpu.Gpu) -> Verdict:
    """Build and verify a kernel on the fake device; the dynamic checks must catch, so no gate."""
    source = source_of(body)
    built = built_of(source, folder / "build", Path(found.library))
    request = Request(where="device", gate=False, sessions=sessions_of(found))
    kernel: Kernel = kernel_of(problem, source, backend="cuda_c")
    return verify(kernel, built, problem, run_dir=folder / "run", request=request)
