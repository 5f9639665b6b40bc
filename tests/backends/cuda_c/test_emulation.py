"""The CPU emulation: right programs give right numbers, and what a GPU would punish is found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from septran.backends.cuda.prepare import prepare, unsupported
from tests.backends.cuda_c.raw import run_cuda

RUN = 'extern "C" __attribute__((visibility("default"))) void run(void* const* args) {'

PARTS = """
__constant__ float coefficient[2] = {1.f, 2.f};
template <typename T, int BLOCK> __global__ void __launch_bounds__(BLOCK)
mean_scale(const T* x, float* y, int cols) {
  extern __shared__ __align__(16) float row[];
  __shared__ float part[BLOCK / 32];
  float s = 0.f;
  for (int i = threadIdx.x; i < cols; i += BLOCK) { row[i] = (float)x[blockIdx.x * cols + i]; s += row[i]; }
  for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(0xffffffffu, s, o);
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = s;
  __syncthreads();
  s = 0.f;
  for (int w = 0; w < BLOCK / 32; w++) s += part[w];
  for (int i = threadIdx.x; i < cols; i += BLOCK) y[blockIdx.x * cols + i] = row[i] * coefficient[1] - s / cols;
}
__global__ void histogram(const int* x, int* out, int n) {
  __shared__ int bins[8];
  if (threadIdx.x < 8) bins[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&bins[x[i] & 7], 1);
  __syncthreads();
  if (threadIdx.x < 8) atomicAdd(out + threadIdx.x, bins[threadIdx.x]);
}
__global__ void votes(int* out) {
  int t = threadIdx.x;
  unsigned b = __ballot_sync(0xffffffffu, t % 3 == 0);
  int any = __any_sync(0xffffffffu, t == 5), all = __all_sync(0xffffffffu, t < 32);
  int down = __shfl_down_sync(0xffffffffu, t, 4, 16), up = __shfl_up_sync(0xffffffffu, t, 1);
  int count = __syncthreads_count(t % 2);
  out[t] = down * 1000 + up + any * 100000 + all * 200000 + count * 1000000;
  if (t == 0) out[32] = (int)b;
}
__global__ void halves(const __half2* a, const __nv_bfloat162* b, __half2* c, __nv_bfloat162* d, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { c[i] = __hfma2(a[i], a[i], __float2half2_rn(1.f)); d[i] = __hadd2(b[i], b[i]); }
}
"""


def test_the_parts_of_cuda(tmp_path: Path) -> None:
    source = (
        PARTS
        + RUN
        + """
  mean_scale<float, 64><<<3, 64, 100 * sizeof(float), 0>>>((const float*)args[0], (float*)args[1], 100);
  histogram<<<dim3(4), 128>>>((const int*)args[2], (int*)args[3], 1000);
  votes<<<1, 32>>>((int*)args[4]);
  halves<<<1, 32>>>((const __half2*)args[5], (const __nv_bfloat162*)args[6], (__half2*)args[7], (__nv_bfloat162*)args[8], 16);
}
"""
    )
    rng = np.random.default_rng(1)
    x = rng.standard_normal((3, 100)).astype(np.float32)
    ints = rng.integers(0, 1000, 1000).astype(np.int32)
    h = rng.standard_normal(32).astype(np.float16)
    b = (rng.standard_normal(32).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    args = [x, x * 0, ints, np.zeros(8, np.int32), np.zeros(33, np.int32), h, b, h * 0, b * 0]
    ran = run_cuda(source, args, tmp_path)
    assert ran.code == 0, ran.stderr
    np.testing.assert_allclose(ran.outputs[1], 2 * x - x.mean(1, keepdims=True), atol=1e-5)
    assert ran.outputs[3].tolist() == np.bincount(ints & 7, minlength=8).tolist()
    t = np.arange(32)
    down = np.where(t % 16 < 12, t + 4, t)
    want = down * 1000 + np.maximum(t - 1, 0) + 300000 + 16 * 1000000
    assert ran.outputs[4][:32].tolist() == want.tolist()
    assert ran.outputs[4][32] == np.uint32(sum(1 << i for i in range(0, 32, 3))).astype(np.int32)
    wide = h.astype(np.float64)
    np.testing.assert_array_equal(
        ran.outputs[7], (wide * wide + 1).astype(np.float32).astype(np.float16)
    )
    double = (b.astype(np.uint32) << 16).view(np.float32) * 2
    np.testing.assert_array_equal((ran.outputs[8].astype(np.uint32) << 16).view(np.float32), double)


CLASSICS = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__device__ float twice(float x) {
  static __shared__ float s[32];
  s[threadIdx.x] = x;
  __syncwarp();
  return s[threadIdx.x] * 2;
}
__global__ void affine(const float* x, float* y) {
  cg::thread_block_tile<32> tile = cg::tiled_partition<32>(cg::this_thread_block());
  int i = blockIdx.x * blockDim.x + tile.thread_rank();
  y[i] = twice(x[i]);
}
void host(const float* x, float* y) {
  dim3 blockDim(32);
  dim3 gridDim(64 / blockDim.x);
  affine<<<gridDim, blockDim>>>(x, y);
}
"""


def test_a_files_own_spellings(tmp_path: Path) -> None:
    """A static shared array, a tile of any group, launches called gridDim."""
    source = CLASSICS + RUN + "host((const float*)args[0], (float*)args[1]); }"
    x = np.arange(64, dtype=np.float32)
    ran = run_cuda(source, [x, x * 0], tmp_path)
    assert ran.code == 0, ran.stderr
    assert ran.outputs[1].tolist() == (2 * x).tolist()


REVERSE = (
    """
__global__ void reverse(const float* x, float* y, int n) {
  __shared__ float s[64];
  int t = threadIdx.x;
  if (t < n) s[t] = x[t];
  __syncthreads();
  if (t < n) y[t] = s[n - 1 - t];
}
"""
    + RUN
    + """
  cuemu::in_every_order({{args[1], 256}}, [&] { reverse<<<1, 64>>>((const float*)args[0], (float*)args[1], 64); });
}
"""
)

BUGS = {
    "missing barrier": ("  __syncthreads();\n", "", "race"),
    "barrier for half of the block": (
        "  __syncthreads();\n",
        "  if (t < 32) __syncthreads();\n",
        "divergence",
    ),
    "return before the barrier": (
        "  __syncthreads();\n",
        "  if (t > 60) return;\n  __syncthreads();\n",
        "divergence",
    ),
    "two different barriers": (
        "  __syncthreads();\n",
        "  if (t % 2) {\n    __syncthreads();\n  } else {\n    __syncthreads();\n  }\n",
        "divergence",
    ),
    "too many threads": ("<<<1, 64>>>", "<<<1, 2048>>>", "launch"),
    "too much shared memory": ("<<<1, 64>>>", "<<<1, 64, 50000>>>", "launch"),
    "empty grid": ("<<<1, 64>>>", "<<<0, 64>>>", "launch"),
    "a shuffle half of the lanes make": (
        "  __syncthreads();\n",
        "  if (t % 2) s[t] = __shfl_xor_sync(0xffffffffu, s[t], 2);\n  __syncthreads();\n",
        "deadlock",
    ),
}


def test_a_right_kernel_passes(tmp_path: Path) -> None:
    x = np.arange(64, dtype=np.float32)
    ran = run_cuda(REVERSE, [x, x * 0], tmp_path)
    assert ran.code == 0 and ran.outputs[1].tolist() == x[::-1].tolist()


@pytest.mark.parametrize("name", BUGS)
def test_planted_bugs(name: str, tmp_path: Path) -> None:
    old, new, kind = BUGS[name]
    assert old in REVERSE
    x = np.arange(64, dtype=np.float32)
    ran = run_cuda(REVERSE.replace(old, new), [x, x * 0], tmp_path)
    assert ran.code == 86 and ran.kind == kind, (ran.code, ran.kind, ran.message, ran.stderr)
    if kind in ("divergence", "deadlock"):
        assert "__syncthreads at kernel.cu:" in ran.message or "__shfl" in ran.message


def test_what_comes_from_a_lane_outside_of_the_mask_is_undefined_and_no_end(tmp_path: Path) -> None:
    """The second step of a block's sum: four lanes, of which the first needs none that is not there."""
    source = (
        """
__global__ void sums(const float* x, float* y, int* z) {
  const int t = threadIdx.x;
  const unsigned mask = __ballot_sync(0xffffffffu, t < 4);
  if (t >= 4) return;
  float v = x[t];
  for (int d = 2; d > 0; d >>= 1) v += __shfl_down_sync(mask, v, d);
  float far = x[t] + __shfl_down_sync(mask, v, 8);
  z[t] = __shfl_down_sync(mask, t, 8);
  if (t == 0) y[0] = v, y[1] = far;
}
"""
        + RUN
        + " sums<<<1, 32>>>((const float*)args[0], (float*)args[1], (int*)args[2]); }\n"
    )
    x = np.arange(32, dtype=np.float32)
    ran = run_cuda(source, [x, np.zeros(2, np.float32), np.zeros(4, np.int32)], tmp_path)
    assert ran.code == 0, ran.message
    assert ran.outputs[1][0] == 6.0 and np.isnan(ran.outputs[1][1])
    assert ran.outputs[2].tolist() == [0x7F7F7F7F, -1] * 2, (
        "no number that a sum or a maximum passes over"
    )


def test_shared_memory_starts_as_nan_in_every_block(tmp_path: Path) -> None:
    source = (
        """
__global__ void leak(float* y) {
  __shared__ float s[32];
  if (blockIdx.x == 0) s[threadIdx.x] = 7.f;
  y[blockIdx.x * 32 + threadIdx.x] = s[threadIdx.x];
}
"""
        + RUN
        + " leak<<<2, 32>>>((float*)args[0]); }\n"
    )
    ran = run_cuda(source, [np.zeros(64, np.float32)], tmp_path)
    assert ran.outputs[0][:32].tolist() == [7.0] * 32
    assert np.isnan(ran.outputs[0][32:]).all()


ASYNC = (
    """
#include "st_device.cuh"
__global__ void stage(const float* x, float* y) {
  __shared__ alignas(16) float s[128];
  st::cp_async<16>(s + threadIdx.x * 4, x + threadIdx.x * 4, 16);
  st::cp_commit();
  st::cp_wait<0>();
  __syncthreads();
  for (int k = 0; k < 4; k++) y[threadIdx.x * 4 + k] = s[127 - threadIdx.x * 4 - k];
}
"""
    + RUN
    + " stage<<<1, 32>>>((const float*)args[0], (float*)args[1]); }\n"
)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("  st::cp_wait<0>();\n", ""),
        ("st::cp_wait<0>", "st::cp_wait<1>"),
        ("  st::cp_commit();\n", ""),
    ],
)
def test_async_copies_land_when_waited_for(old: str, new: str, tmp_path: Path) -> None:
    x = np.arange(128, dtype=np.float32)
    ran = run_cuda(ASYNC.replace(old, new) if old else ASYNC, [x, x * 0], tmp_path)
    assert (ran.outputs[1].tolist() == x[::-1].tolist()) == (not old)
    assert np.isnan(ran.outputs[1]).any() == bool(old)


MMA = (
    """
#include "st_device.cuh"
__global__ void product(const __half* a, const __half* b, float* d) {
  __shared__ alignas(16) __half A[256], B[128];
  int l = threadIdx.x;
  for (int i = l; i < 256; i += 32) A[i] = a[i];
  for (int i = l; i < 128; i += 32) B[i] = b[i];
  __syncthreads();
  unsigned ra[4], rb[4], pair[2];
  st::ldmatrix4<false>(ra, A + (l & 15) * 16 + (l >> 4) * 8);
  st::ldmatrix4<true>(rb, B + (l & 15) * 8);
  pair[0] = rb[0]; pair[1] = rb[1];
  float c[4] = {0, 0, 0, 0};
  st::mma<__half>(c, ra, pair);
  for (int r = 0; r < 4; r++) d[(l / 4 + (r >> 1) * 8) * 8 + l % 4 * 2 + (r & 1)] = c[r];
}
"""
    + RUN
    + " product<<<1, 32>>>((const __half*)args[0], (const __half*)args[1], (float*)args[2]); }\n"
)


def test_tensor_core_fragments(tmp_path: Path) -> None:
    """a, b as the PTX ISA lays them out: with other lanes the product would come out permuted."""
    rng = np.random.default_rng(2)
    a = rng.standard_normal((16, 16)).astype(np.float16)
    b = rng.standard_normal((16, 8)).astype(np.float16)
    ran = run_cuda(MMA, [a, b, np.zeros((16, 8), np.float32)], tmp_path)
    np.testing.assert_allclose(ran.outputs[2], a.astype(float) @ b.astype(float), atol=1e-3)
    wrong = MMA.replace("ldmatrix4<true>", "ldmatrix4<false>")
    ran = run_cuda(wrong, [a, b, np.zeros((16, 8), np.float32)], tmp_path / "wrong")
    assert np.abs(ran.outputs[2] - a.astype(float) @ b.astype(float)).max() > 0.1


def test_wmma(tmp_path: Path) -> None:
    source = (
        """
#include <mma.h>
using namespace nvcuda;
__global__ void product(const half* A, const half* B, float* C) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
  wmma::fill_fragment(c, 0.f);
  for (int k = 0; k < 32; k += 16) {
    wmma::load_matrix_sync(a, A + k, 32);
    wmma::load_matrix_sync(b, B + k, 32);
    wmma::mma_sync(c, a, b, c);
  }
  wmma::store_matrix_sync(C, c, 16, wmma::mem_row_major);
}
"""
        + RUN
        + " product<<<1, 32>>>((const half*)args[0], (const half*)args[1], (float*)args[2]); }\n"
    )
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((16, 32)).astype(np.float16) for _ in range(2))
    ran = run_cuda(source, [a, b, np.zeros((16, 16), np.float32)], tmp_path)
    np.testing.assert_allclose(ran.outputs[2], a.astype(float) @ b.astype(float).T, atol=1e-3)


@pytest.mark.slow
def test_sanitizers(tmp_path: Path) -> None:
    x = np.arange(64, dtype=np.float32)
    single = REVERSE.replace("cuemu::in_every_order({{args[1], 256}}, [&] {", "{").replace(
        "; });", "; }"
    )
    store = single.replace("y[t] = s", "y[t + 1] = s")
    ran = run_cuda(store, [x, x * 0], tmp_path / "a", sanitizer="address")
    assert ran.code != 0 and "heap-buffer-overflow" in ran.stderr and "kernel.cu:7" in ran.stderr
    race = single.replace("  __syncthreads();\n", "")
    ran = run_cuda(race, [x, x * 0], tmp_path / "t", sanitizer="thread")
    assert ran.code != 0 and "data race" in ran.stderr
    for name in ("address", "thread"):
        ran = run_cuda(single, [x, x * 0], tmp_path / f"ok_{name}", sanitizer=name)
        assert ran.code == 0, ran.stderr[-3000:]


def test_prepare_keeps_lines_and_names_what_it_cannot_do() -> None:
    source = PARTS + "void f() { k<float, 2><<<g(1, 2), 64>>>(a, b); }\n"
    text = prepare(source)
    assert text.count("\n") == source.count("\n")
    assert "<<<" not in text and "k<float, 2>(a_...)" in text
    assert unsupported("#include <cute/tensor.hpp>\n") == ("a CUDA C++ library",)
    assert unsupported(PARTS) == ()
