"""Who stores and loads each byte of shared memory: missing barriers that no order of threads need show, and honest twins."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from septran.backends.cuda.noted import NOTED, NOTES, STARTS
from septran.backends.cuda.prepare import prepare
from septran.backends.cuda.toolchain import EMULATION_FLAGS, EMULATOR, emulation, headers
from septran.kernel import Kernel
from septran.toolchain.compilers import cpp_compiler
from septran.toolchain.hosted import compile_hosted

# 64 threads of two warps; `d` is dynamic shared memory. Compilers keep what is volatile.
BODIES = {
    "reads its own store back": "__shared__ volatile int s[64]; s[0] = t; if (s[0] == t) y[t] = 1;",
    "a barrier between": "__shared__ int s[64]; s[t] = t; __syncthreads(); if (s[63 - t] == 63 - t) y[t] = 1;",
    "no barrier between": "__shared__ int s[64]; s[t] = t; if (s[63 - t] == 63 - t) y[t] = 1;",
    "its own place only": "__shared__ int s[64]; s[t] = t; s[t] += 1; y[t] = s[t];",
    "all store one value": "__shared__ int s[64]; s[0] = 7; y[t] = s[0];",
    "one stores, all load": "__shared__ int s[64]; if (!t) s[0] = 7; if (t > 64) y[t] = s[0]; y[t] += s[0] == 7;",
    "one stores, all wait and load": "__shared__ int s[64]; if (!t) s[0] = 7; __syncthreads(); y[t] = s[0];",
    "adds to what others load": "__shared__ int s[64]; s[t] = t; __syncthreads(); if (t != 7) y[t] = s[7]; else s[7] += 2;",
    "overwrites what others load": "__shared__ int s[64]; s[t] = t; __syncthreads(); y[t] = s[t ^ 1]; s[t] = 9;",
    "waits before it overwrites": "__shared__ int s[64]; s[t] = t; __syncthreads(); y[t] = s[t ^ 1]; __syncthreads(); s[t] = 9;",
    "overwrites what two warps load": "__shared__ int s[64]; s[t] = t; __syncthreads(); y[t] = s[0]; if (t == 63) s[0] = 9;",
    "stores again what others load": "__shared__ int s[64]; s[t] = t; __syncthreads(); y[t] = s[t ^ 1]; s[t] = t;",
    "lanes without a meeting": "__shared__ int s[64]; s[t] = t; y[t] = s[t ^ 1];",
    "lanes that meet": "__shared__ int s[64]; s[t] = t; __syncwarp(); y[t] = s[t ^ 1];",
    "lanes that meet in a shuffle": "__shared__ int s[64]; s[t] = t; int v = __shfl_xor_sync(~0u, t, 1); y[t] = s[t ^ 1] + v;",
    "lanes of different warps meet their own": "__shared__ int s[64]; s[t] = t; __syncwarp(); y[t] = s[t ^ 32];",
    "a warp's flag, then one lane's": "__shared__ int s[64]; s[t / 32] = 1; __syncwarp(); if (t % 32 == 5) s[t / 32] = 2;",
    "both warps' flag, then one lane's": "__shared__ int s[64]; s[0] = 1; __syncwarp(); if (t == 5) s[0] = 2;",
    "dynamic memory without a barrier": "d[t] = t; y[t] = d[63 - t];",
    "dynamic memory with a barrier": "d[t] = t; __syncthreads(); y[t] = d[63 - t];",
    "rounds without a barrier at their end": "__shared__ int s[64]; for (int i = 0; i < 3; i++) { s[t] = t + i; __syncthreads(); y[t] += s[63 - t]; }",
    "rounds with one": "__shared__ int s[64]; for (int i = 0; i < 3; i++) { s[t] = t + i; __syncthreads(); y[t] += s[63 - t]; __syncthreads(); }",
    "halves of a vector": "__shared__ float4 s[64]; ((float2*)s)[t] = make_float2(t, t); y[t] = (int)s[t / 2].x;",
    "halves of its own vector": "__shared__ float4 s[64]; s[t] = make_float4(t, t, t, t); y[t] = (int)((float2*)s)[2 * t].x;",
    "counts in shared memory": "__shared__ int s[64]; s[t] = 0; __syncthreads(); atomicAdd(s + t / 2, 1); __syncthreads(); y[t] = s[t / 2];",
    "takes turns by a lock": "__shared__ int s[64]; if (!t) s[0] = s[1] = 0; __syncthreads(); while (atomicCAS(s, 0, 1)); s[1] += t; atomicExch(s, 0);",
    "a vote is a barrier": "__shared__ int s[64]; s[t] = t; if (__syncthreads_or(t == 3)) y[t] = s[63 - t];",
    "a copy nobody waited for together": "__shared__ alignas(16) int s[64]; __pipeline_memcpy_async(s + t, x + t, 4); __pipeline_commit(); __pipeline_wait_prior(0); y[t] = s[t] + (t == 1 ? s[0] : 0);",
    "a copy, a wait and a barrier": "__shared__ alignas(16) int s[64]; __pipeline_memcpy_async(s + t, x + t, 4); __pipeline_commit(); __pipeline_wait_prior(0); __syncthreads(); y[t] = s[63 - t];",
}
RACES = {
    "reads its own store back": r"thread \d+ changes byte 0 of the __shared__ array s, which thread \d+ (stores|loads)",
    "no barrier between": r"byte \d+ of the __shared__ array s, which thread \d+ (stores|loads)",
    "one stores, all load": r"byte 0 of the __shared__ array s, which thread \d+ (stores|loads)",
    "adds to what others load": r"byte 28 of the __shared__ array s, which thread \d+ (stores|loads)",
    "overwrites what others load": r"byte \d+ of the __shared__ array s, which thread \d+ (stores|loads)",
    "stores again what others load": r"thread \d+ loads byte \d+ of the __shared__ array s, which thread \d+ stores",
    "overwrites what two warps load": r"byte 0 of the __shared__ array s, which thread \d+ (stores|loads)",
    "lanes without a meeting": r"byte \d+ of the __shared__ array s",
    "lanes of different warps meet their own": r"byte \d+ of the __shared__ array s",
    "both warps' flag, then one lane's": r"byte 0 of the __shared__ array s",
    "dynamic memory without a barrier": r"byte \d+ of the block's dynamic shared memory, which thread \d+",
    "rounds without a barrier at their end": r"byte \d+ of the __shared__ array s, which thread \d+ (stores|loads)",
    "halves of a vector": r"byte \d+ of the __shared__ array s",
    "a copy nobody waited for together": r"byte \d+ of the __shared__ array s",
}
SOURCE = "\n".join(
    f"__global__ void k{number}(const int* x, int* y) {{ extern __shared__ int d[]; const int t = threadIdx.x; {body} }}"
    for number, body in enumerate(BODIES.values())
)
CALLS = "\n".join(f"case {n}: k{n}<<<3, 64, 256>>>(x, y); break;" for n in range(len(BODIES)))
RUN = f"""#include <cuda_runtime.h>
#include <cuda_pipeline.h>
{SOURCE}
extern "C" __attribute__((visibility("default"))) void run(void* const* args) {{
  const int* which = (const int*)args[0];
  const int* x = (const int*)args[1];
  int* y = (int*)args[2];
  cuemu::choose_order(which[1]);
  switch (which[0]) {{ {CALLS} }}
}}
"""


# one process a body and order: the emulation ends it where it finds something
CHILD = """
import ctypes, os, sys
run = ctypes.CDLL(sys.argv[1]).run
for body in range(int(sys.argv[2])):
    for order in range(3):
        if not os.fork():
            os.environ["SEPTRAN_EMU_REPORT"] = f"found.{body}.{order}"
            made = [(ctypes.c_int * 64)(*v) for v in ((body, order), range(64), ())]
            run((ctypes.c_void_p * 3)(*map(ctypes.addressof, made)))
            os._exit(0)
        os.wait()
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], str]:
    """What was said of each body in each order, "" for nothing; all in one library."""
    folder = tmp_path_factory.mktemp("noted")
    compiler = cpp_compiler("native")
    assert compiler is not None
    kernel = Kernel(
        name="noted",
        backend="cuda_c",
        arch="sm_80",
        entry="run",
        params=(),
        main="kernel.cpp",
        files=(("kernel.cpp", prepare(RUN)),),
        leaves=(),
    )
    built = compile_hosted(
        kernel,
        folder,
        compiler=compiler,
        flags=(*EMULATION_FLAGS, *NOTED, f"-I{EMULATOR}"),
        support=emulation(NOTES),
        extra=headers(),
        hosted=False,
        without=STARTS,
    )
    assert built.ok, built.log[-3000:]
    subprocess.run(
        [sys.executable, "-c", CHILD, str(built.artifact), str(len(BODIES))],
        cwd=folder,
        capture_output=True,
        timeout=120,
        check=True,
    )
    said: dict[tuple[str, int], str] = {}
    for number, name in enumerate(BODIES):
        for order in range(3):
            report = folder / f"found.{number}.{order}"
            first = json.loads(report.read_text())[0] if report.is_file() else {}
            said[name, order] = f"{first['kind']}: {first['message']}" if first else ""
    return said


@pytest.mark.parametrize("order", [0, 1, 2], ids=["forward", "reverse", "shuffled"])
@pytest.mark.parametrize("name", list(BODIES))
def test_a_race_is_told_and_its_twin_is_not(
    name: str, order: int, found: dict[tuple[str, int], str]
) -> None:
    said = found[name, order]
    if name not in RACES:
        assert said == ""
        return
    assert re.match(f"race: .*{RACES[name]}", said), said
    one, two = re.findall(r"thread (\d+)", said)
    assert one != two, said
