"""What host code of a CUDA file asks of the runtime: cards, streams, symbols, pitched memory; and what device code finds beside a product."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from septran.backends.base import Reading
from septran.backends.cuda.cards import NAMES, on_cards
from septran.backends.cuda.foreign import FOREIGN
from septran.backends.cuda.prepare import prepare
from septran.backends.cuda.toolchain import EMULATOR
from tests.judge.test_hostile import judged

FILE = """#include <cuda_runtime.h>
{before}
__global__ void twice(const float* x, float* y, int n, float by) {{
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = by * x[i];
}}
void scale(const float* x, float* y, int n) {{
  {body}
}}
"""
COPY = "__global__ void copy(const float* x, float* t, int n) { int i = blockIdx.x * 64 + threadIdx.x; if (i < n) t[i] = x[i]; }"
TWO = "cudaStream_t s[2]; for (auto& one : s) cudaStreamCreate(&one); float* t; cudaMalloc(&t, 4 * n); copy<<<(n + 63) / 64, 64, 0, s[0]>>>(x, t, n);"
REST = "twice<<<(n + 63) / 64, 64, 0, s[1]>>>(t, y, n, 2.0f); cudaStreamSynchronize(s[1]); cudaFree(t); for (auto& one : s) cudaStreamDestroy(one);"
EVENT = "cudaEvent_t e; cudaEventCreateWithFlags(&e, cudaEventDisableTiming); cudaEventRecord(e, s[0]); cudaStreamWaitEvent(s[1], e, 0); cudaEventDestroy(e);"
PROP = "cudaDeviceProp p; cudaGetDeviceProperties(&p, 0);"
HONEST = {
    "as many blocks as a card has processors": ("", f"{PROP} int sm; cudaDeviceGetAttribute(&sm, cudaDevAttrMultiProcessorCount, 0); twice<<<sm == p.multiProcessorCount ? sm : 1, p.warpSize>>>(x, y, n, 2.0f);"),
    "occupancy": ("", "int grid, block; cudaOccupancyMaxPotentialBlockSize(&grid, &block, twice, 0, 0); twice<<<grid, block>>>(x, y, n, 2.0f);"),
    "two streams in order": (COPY, f"{TWO} {EVENT} {REST}"),
    "constants that the host sets": ("__constant__ float by[2];\n__global__ void table(const float* x, float* y, int n) { int i = threadIdx.x + blockIdx.x * 64; if (i < n) y[i] = by[i & 1] * x[i]; }", "const float two[2] = {2, 2}; cudaMemcpyToSymbol(by, two, sizeof two); table<<<(n + 63) / 64, 64>>>(x, y, n);"),
    "rows at a pitch": ("", "float* t; size_t pitch; cudaMallocPitch(&t, &pitch, 200, 6); cudaMemcpy2D(t, pitch, x, 200, 200, 6, cudaMemcpyDeviceToDevice); cudaMemcpy2D(y, 200, t, pitch, 200, 6, cudaMemcpyDeviceToDevice); twice<<<5, 64>>>(y, y, n, 2.0f); cudaFree(t);"),
    "a launch behind a label": ("template <int N> __global__ void wide(const float* x, float* y, int n) { int i = (blockIdx.x * 64 + threadIdx.x) * N; for (int j = 0; j < N; j++) if (i + j < n) y[i + j] = 2 * x[i + j]; }", "switch (n % 4) { case 0: wide<4><<<2, 64>>>(x, y, n); break; default: wide<1><<<5, 64>>>(x, y, n); }"),
    "bits and votes": ("__global__ void bits(const float* x, float* y, int n) { int i = blockIdx.x * 64 + threadIdx.x; unsigned all = __reduce_or_sync(~0u, 1u << (threadIdx.x & 31)); bool right = __brev(1u) == 0x80000000u && __funnelshift_l(0u, 1u, 33) == 2u && __byte_perm(0x03020100u, 0u, 0x0123) == 0x00010203u && all == ~0u && __match_any_sync(~0u, 7) == ~0u && __dp4a(0x01010101, 0x02020202, 1) == 9 && __umulhi(1u << 31, 4u) == 2u; if (i < n) y[i] = right ? 2 * x[i] : 0; }", "bits<<<(n + 63) / 64, 64>>>(x, y, n);"),
    "the last block adds": ("__device__ unsigned count; __global__ void last(const float* x, float* y, int n) { __shared__ bool mine; int i = blockIdx.x * 64 + threadIdx.x; if (threadIdx.x == 0) mine = atomicInc(&count, gridDim.x - 1) == gridDim.x - 1; __syncthreads(); if (i < n) y[i] = mine ? x[i] + x[i] : 2 * x[i]; }", "last<<<(n + 63) / 64, 64>>>(x, y, n);"),
}  # fmt: skip
WRONG = {
    "nobody waits for its stream": ("", "static cudaStream_t s; if (!s) cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking); twice<<<5, 64, 0, s>>>(x, y, n, 2.0f);", "V209"),
    "two streams without an event": (COPY, f"{TWO} {REST}", "V202"),
    "wrong on an older card": ("", f"{PROP} twice<<<5, 64>>>(x, y, n, p.major < 9 ? 0.0f : 2.0f);", "V202"),
    "too few blocks on cards with fewer processors": ("__global__ void few(const float* x, float* y, int n) { int i = blockIdx.x * 2 + threadIdx.x; if (i < n) y[i] = 2 * x[i]; }", f"{PROP} few<<<p.multiProcessorCount + 20, 2>>>(x, y, n);", ("V202", "P")),
    "a shift by all bits": ("__global__ void shift(const float* x, float* y, int n) { int i = blockIdx.x * 64 + threadIdx.x; if (i < n) y[i] = (1u << blockDim.x - 32) ? 2 * x[i] : 0; }", "shift<<<(n + 63) / 64, 64>>>(x, y, n);", "V209"),
    "beyond a constant": ("__constant__ float by[2];", "const float two[4] = {2, 2, 2, 2}; cudaMemcpyToSymbol(by, two, sizeof two); twice<<<5, 64>>>(x, y, n, 2.0f);", "V209"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", HONEST)
def test_honest_files(name: str, tmp_path: Path) -> None:
    before, body = HONEST[name]
    found = judged(FILE.format(before=before, body=body), tmp_path, ".cu")
    assert found.code == 0, found.verdict.message
    if "Prop" in body or "Occupancy" in body:
        assert any("it runs on an RTX 5090" in line for line in found.verdict.not_checked)


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_files_with_a_mistake(name: str, tmp_path: Path) -> None:
    before, body, codes = WRONG[name]
    found = judged(FILE.format(before=before, body=body), tmp_path, ".cu")
    assert found.code == 1, found.verdict.not_checked
    assert found.verdict.code.startswith(codes), found.verdict.message


def test_a_file_that_asks_its_card_is_read_for_several() -> None:
    asks = "void f() { cudaDeviceProp p; }\n"
    assert [r.devices for r in FOREIGN.readings(asks)] == [
        "it runs on an H100",
        "it runs on a slice of an A100",
        "it runs on an RTX 5090",
    ]
    assert FOREIGN.readings("// cudaDeviceProp\n")[0].devices == ""
    archs = (Reading("__CUDA_ARCH__ is 900 or 800", asks), Reading("__CUDA_ARCH__ is 1200", asks))
    assert [r.flags[0] for r in on_cards(archs, asks)] == ["-DCUEMU_CARD=900", "-DCUEMU_CARD=1200"]


def test_a_card_answers_the_same_to_cuda_and_to_torch() -> None:
    rows = re.findall(r"^    \{(\d+), \"([^\"]+)\", (\d+), (\d+),", (EMULATOR / "devices.h").read_text(), re.MULTILINE)  # fmt: skip
    here = {
        int(arch) // 10: (name, int(count), int(threads)) for arch, name, count, threads in rows
    }
    assert {arch * 10 for arch in here} == set(NAMES)
    python = (EMULATOR.parents[1] / "judged" / "child" / "torch_card.py").read_text()
    there = re.findall(r"^    \"(\d+)\": Card\(\"([^\"]+)\", \(\d+, \d+\), (\d+), .*?\), (\d+), \(", python, re.MULTILINE)  # fmt: skip
    assert len(there) == 4
    for arch, name, count, threads in there:
        assert here[int(arch)] == (name, int(count), int(threads))


def test_a_launch_behind_a_label_keeps_the_label() -> None:
    text = prepare("switch (n) { case 0:k<4><<<1, 2>>>(x); default: ns::k<<<1, 2>>>(x); }")
    assert 'case 0:cuemu::launch("k",' in text
    assert 'default: cuemu::launch("ns::k",' in text
