"""Sectors of global memory and wavefronts of shared memory that a noted build counts: kernels whose answers are known."""

from __future__ import annotations

import ctypes
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from septran.backends.cuda.noted import NOTED, NOTES, STARTS
from septran.backends.cuda.prepare import prepare
from septran.backends.cuda.toolchain import EMULATION_FLAGS, EMULATOR, emulation, headers
from septran.kernel import Kernel
from septran.toolchain.compilers import cpp_compiler
from septran.toolchain.hosted import compile_hosted

TRANSPOSE = """__shared__ float s[32][{width}]; const int c = t % 32, r = t / 32;
for (int i = r; i < 32; i += 2) s[i][c] = x[i * 32 + c];
__syncthreads();
for (int i = r; i < 32; i += 2) y[i * 32 + c] = s[c][i];"""
# of 64 threads: body -> (sectors taken, needed, wavefronts taken, needed)
BODIES: dict[str, tuple[str, tuple[int, int, int, int]]] = {
    "neighbours": ("y[t] = x[t];", (16, 16, 0, 0)),
    "every second": ("y[t] = x[2 * t];", (8 + 16, 16, 0, 0)),
    "one further": ("y[t] = x[t + 1];", (8 + 10, 16, 0, 0)),
    "backwards": ("y[t] = x[63 - t];", (16, 16, 0, 0)),
    "a line each": ("y[t] = x[t * 32];", (8 + 64, 16, 0, 0)),
    "one for all": ("y[t] = x[0];", (8 + 2, 8 + 2, 0, 0)),
    "one lane": ("if (!t) y[t] = x[t];", (2, 2, 0, 0)),
    "four each": ("((float4*)y)[t] = ((const float4*)x)[t];", (64, 64, 0, 0)),
    "four each, every second": ("((float4*)y)[t] = ((const float4*)x)[2 * t];", (96, 64, 0, 0)),
    "halves": ("((__half*)y)[t] = ((const __half*)x)[t];", (8, 8, 0, 0)),
    "a round a lane less": ("for (int i = t; i < 64; i++) y[i * 64 + t] = 0;", (2080, 288, 0, 0)),
    "a transposition": (TRANSPOSE.format(width=32), (256, 256, 32 + 1024, 64)),
    "a padded transposition": (TRANSPOSE.format(width=33), (256, 256, 64, 64)),
    "shared, one for all": ("__shared__ float s[64]; s[t] = x[t]; __syncthreads(); y[t] = s[5];", (16, 16, 4, 4)),
    "shared, every second": ("__shared__ float s[128]; s[2 * t] = x[t]; __syncthreads(); y[t] = s[2 * t];", (16, 16, 8, 4)),
    "shared, every third": ("__shared__ float s[192]; s[3 * t] = x[t]; __syncthreads(); y[t] = s[3 * t];", (16, 16, 4, 4)),
    "shared, two each": ("__shared__ float2 s[64]; s[t] = ((const float2*)x)[t]; ((float2*)y)[t] = s[t];", (32, 32, 8, 8)),
    "shared, four each": ("__shared__ float4 s[64]; s[t] = ((const float4*)x)[t]; ((float4*)y)[t] = s[t];", (64, 64, 16, 16)),
    "shared, four each in columns": ("__shared__ float4 s[512]; s[8 * t] = ((const float4*)x)[t]; ((float4*)y)[t] = s[8 * t];", (64, 64, 128, 16)),
    "shared bytes": ("__shared__ char s[64]; s[t] = (char)x[t]; __syncthreads(); ((char*)y)[t] = s[t];", (8 + 2, 8 + 2, 4, 4)),
    "dynamic shared": ("d[32 * t] = x[t]; __syncthreads(); y[t] = d[32 * t];", (16, 16, 128, 4)),
    "a copy that lands later": ("__pipeline_memcpy_async(d + 4 * t, x + 4 * t, 16); __pipeline_commit(); __pipeline_wait_prior(0);", (32, 32, 8, 8)),
    "its own array": ("float own[4]; for (int i = 0; i < 4; i++) own[i] = x[4 * i * 64 + t]; y[t] = own[(int)x[t] & 3];", (48, 48, 0, 0)),
    "a warp that meets": ("float v = 0; for (int i = 0; i < 3; i++) { v += x[i * 64 + t]; v = __shfl_xor_sync(~0u, v, 1); } y[t] = v;", (32, 32, 0, 0)),
}  # fmt: skip
SOURCE = "\n".join(
    f"__global__ void k{number}(const float* x, float* y) {{ extern __shared__ float d[]; const int t = threadIdx.x; {body} }}"
    for number, (body, _) in enumerate(BODIES.values())
)
CALLS = "\n".join(f"case {n}: k{n}<<<1, 64, 8192>>>(x, y); break;" for n in range(len(BODIES)))
RUN = f"""#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
{SOURCE}
static char said[16384];
static uint64_t variant;
extern "C" void st_say(const char* words) {{ snprintf(said, sizeof said, "%s", words); }}
extern "C" uint64_t st_variant() {{ return variant; }}
extern "C" __attribute__((visibility("default"))) const char* run(int which, int call, const float* x, float* y) {{
  variant = (uint64_t)call;
  cuemu::in_every_order({{}}, [&] {{ switch (which) {{ {CALLS} }} }});
  return said;
}}
"""
# of one wavefront of 64 lanes and sectors of 64 bytes; shared memory as above
WIDE = {
    "neighbours": (8, 8),
    "every second": (4 + 8, 8),
    "one further": (4 + 5, 8),
    "a line each": (4 + 64, 8),
    "one for all": (4 + 1, 4 + 1),
    "four each": (32, 32),
    "halves": (4, 4),
    "a round a lane less": (2080, 160),
    "shared bytes": (4 + 1, 4 + 1),
    "a transposition": (128, 128),
}
PLANTED = {
    "larger sectors": ("kWave == 32 ? 32 : 64", "64"),
    "sectors of lanes that share them count twice": ("if (k > seen) seen = k, taken++;", "taken++;"),
    "bytes of lanes that share them count twice": ("const uintptr_t begin = at[i] > end ? at[i] : end;", "const uintptr_t begin = at[i];"),
    "half the banks": ("kBanks = 32", "kBanks = 16"),
    "lanes that read one word wait for each other": ("words[bank][j] != w", "true"),
    "wide accesses go in one part": ("s.bytes > 8 ? 16 : 8", "4"),
    "all rounds of a loop are one access": ("mine = next;", "s->last[l] = kNone;"),
    "lanes are not told apart": ("const int l = lane();", "const int l = 0;"),
    "parameters are global memory": ("&& p - stack_low >= kStackAbove;", ";"),
    "threads' stacks and variables of the machine are global memory": ("p - image >= reinterpret_cast<uintptr_t>(_end) - image &&", ""),
}  # fmt: skip
Counted = dict[str, Any]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(32, tmp_path_factory.mktemp("counted"))


def built(wave: int, folder: Path, change: tuple[str, str] = ("", "")) -> Path:
    """Return a library of all bodies; change: of the counter's text."""
    compiler = cpp_compiler("native")
    assert compiler is not None
    kernel = Kernel(
        name="counted",
        backend="cuda_c",
        arch="sm_80",
        entry="run",
        params=(),
        main="kernel.cpp",
        files=(("kernel.cpp", prepare(RUN)),),
        leaves=(),
    )
    wide = () if wave == 32 else (f"-DCUEMU_WAVE={wave}",)
    machine = emulation(NOTES, *wide)
    if change[0]:
        files = tuple((name, text.replace(*change)) for name, text in machine.files)
        assert files != machine.files, change[0]
        machine = replace(machine, files=files)
    made = compile_hosted(
        kernel,
        folder,
        compiler=compiler,
        flags=(*EMULATION_FLAGS, *NOTED, f"-I{EMULATOR}", *wide),
        support=machine,
        extra=headers(),
        hosted=False,
        without=STARTS,
    )
    assert made.ok and made.artifact is not None, made.log[-3000:]
    return made.artifact


def counted(library: Path, name: str, call: int = 0) -> Counted:
    """Return what a call says of its accesses, {} for nothing. Its tensors lie at multiples of 64 bytes."""
    run = ctypes.CDLL(str(library)).run
    run.restype = ctypes.c_char_p
    rooms = [(ctypes.c_char * (4 * 8192 + 64))() for _ in range(2)]
    x, y = (ctypes.addressof(room) + -ctypes.addressof(room) % 64 for room in rooms)
    said = run(list(BODIES).index(name), call, ctypes.c_void_p(x), ctypes.c_void_p(y))
    return json.loads(said).get("accesses") or {}


def totals(found: Counted) -> tuple[int, ...]:
    return tuple(
        found[memory][one] for memory in ("global", "shared") for one in ("taken", "needed")
    )


@pytest.mark.parametrize("name", list(BODIES))
def test_what_warps_take(name: str, library: Path) -> None:
    found = counted(library, name)
    assert totals(found) == BODIES[name][1]
    assert found["left_out"] == 0


def test_the_worst_access_is_named(library: Path) -> None:
    shared = counted(library, "a transposition")["shared"]["sites"]
    (first, worst), (_, other) = shared.items()
    assert first.endswith(" load") and (worst["worst"], worst["taken"], worst["needed"]) == (
        32,
        1024,
        32,
    )
    assert (other["worst"], other["taken"]) == (1, 32)
    lines = counted(library, "a line each")["global"]["sites"]
    assert [(name.split()[1], s["worst"]) for name, s in lines.items()] == [
        ("load", 32),
        ("store", 4),
    ]


def test_later_calls_count_nothing(library: Path) -> None:
    assert counted(library, "neighbours", call=1) == {}


@pytest.mark.wider
def test_wavefronts_of_64_lanes(tmp_path: Path) -> None:
    library = built(64, tmp_path)
    found = {name: totals(counted(library, name)) for name in WIDE}
    assert found == {name: (*WIDE[name], *BODIES[name][1][2:]) for name in WIDE}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", list(PLANTED))
def test_a_planted_mistake_of_the_counter_shows(mistake: str, tmp_path: Path) -> None:
    library = built(32, tmp_path, PLANTED[mistake])
    assert any(totals(counted(library, name)) != wanted for name, (_, wanted) in BODIES.items())
