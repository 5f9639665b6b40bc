"""libcu++ in judged files: barriers of a block with the copies that are bound to them, atomic variables and references."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from septran.backends.cuda.prepare import unsupported
from tests.backends.cuda_c.raw import run_cuda

RUN = 'extern "C" __attribute__((visibility("default"))) void run(void* const* p) {\n  cuemu::choose_order(ORDER);\n  '
BARRIER = (
    """\
#include <cooperative_groups.h>
#include <cuda/barrier>
using barrier = cuda::barrier<cuda::thread_scope_block>;
// half of the threads bring tiles, the other half uses them
__global__ void handed(const int* x, int* y, int tiles) {
  __shared__ int tile[2][32];
  __shared__ barrier ready[2], used[2];
  const int t = threadIdx.x;
  if (t == 0)
    for (int i = 0; i < 2; i++) init(&ready[i], blockDim.x), init(&used[i], blockDim.x);
  __syncthreads();
  if (t < 32) {
    for (int i = 0; i < tiles; i++) {
      if (i > 1) used[i % 2].arrive_and_wait();
      cuda::memcpy_async(&tile[i % 2][t], &x[i * 32 + t], sizeof(int), ready[i % 2]);
      barrier::arrival_token token = ready[i % 2].arrive();
      (void)token;
    }
  } else {
    for (int i = 0; i < tiles; i++) {
      AWAIT;
      y[i * 32 + t - 32] = tile[i % 2][63 - t];
      if (i + 2 < tiles) { barrier::arrival_token token = used[i % 2].arrive(); (void)token; }
    }
  }
}
__global__ void groups(const int* x, int* y) {
  namespace cg = cooperative_groups;
  __shared__ alignas(16) int tile[64];
  __shared__ barrier bar;
  auto block = cg::this_thread_block();
  if (block.thread_rank() == 0) init(&bar, block.size());
  block.sync();
  cuda::memcpy_async(block, tile, x, cuda::aligned_size_t<16>(sizeof(tile)), bar);
  auto token = bar.arrive();
  bar.wait(std::move(token));
  y[threadIdx.x] += tile[63 - threadIdx.x];
  (void)bar.arrive();
  bar.wait_parity(true);
}
"""
    + RUN
    + """handed<<<1, 64>>>((const int*)p[0], (int*)p[1], 5);
  groups<<<1, 64>>>((const int*)p[0], (int*)p[1] + 160);
}
"""
)
ATOMICS = (
    """\
#include <cuda/atomic>
__device__ cuda::atomic<int, cuda::thread_scope_device> seen{0};
__global__ void counts(const int* x, int* y) {
  __shared__ cuda::atomic<int, cuda::thread_scope_block> evens;
  const int t = threadIdx.x;
  if (t == 0) evens.store(0);
  __syncthreads();
  if (x[t] % 2 == 0) evens.fetch_add(1, cuda::memory_order_relaxed);
  cuda::atomic_ref<int, cuda::thread_scope_device> most(y[1]);
  most.fetch_max(x[t]);
  cuda::atomic_ref<int> all(y[2]);
  all += x[t];
  int expected = 0;
  if (cuda::atomic_ref<int>(y[3]).compare_exchange_strong(expected, 7)) y[4] = expected;
  seen++;
  cuda::atomic_ref<int> least(y[6]), less(y[7]), both(y[8]), either(y[9]), odd(y[10]), last(y[11]);
  least.fetch_min(x[t]);
  less -= x[t];
  both.fetch_and(x[t]);
  either.fetch_or(x[t]);
  odd.fetch_xor(x[t]);
  last.exchange(5);
  int had = 5;
  while (!cuda::atomic_ref<int>(y[12]).compare_exchange_weak(had, had + 2)) {}
  --cuda::atomic_ref<int>(y[13]);
  cuda::atomic_ref<int>(y[13])--;
  __syncthreads();
  if (t == 0) y[0] = evens, y[5] = seen.load(cuda::std::memory_order_acquire);
}
"""
    + RUN
    + "counts<<<1, 64>>>((const int*)p[0], (int*)p[1]);\n}\n"
)


@pytest.mark.parametrize("order", [0, 2])
def test_copies_bound_to_a_barrier_are_there_for_who_waits(order: int, tmp_path: Path):
    x = np.arange(1, 161, dtype=np.int32)
    y = np.zeros(160 + 64, np.int32)
    text = BARRIER.replace("ORDER", str(order)).replace("AWAIT", "ready[i % 2].arrive_and_wait()")
    ran = run_cuda(text, [x, y], tmp_path)
    assert ran.code == 0, ran.stderr[-2000:]
    assert (ran.outputs[1][:160].reshape(5, 32) == x.reshape(5, 32)[:, ::-1]).all()
    assert (ran.outputs[1][160:] == x[63::-1]).all()


def test_who_does_not_wait_reads_what_is_not_there(tmp_path: Path):
    x = np.arange(1, 161, dtype=np.int32)
    text = BARRIER.replace("ORDER", "0").replace("bar.wait(std::move(token));", "(void)token;")
    text = text.replace("AWAIT", "ready[i % 2].arrive_and_wait()")
    ran = run_cuda(text, [x, np.zeros(160 + 64, np.int32)], tmp_path)
    assert ran.code == 0 and (ran.outputs[1][160:] != x[63::-1]).any()


def test_atomics_do_what_their_names_say(tmp_path: Path):
    x = np.random.default_rng(2).integers(0, 99, 64, dtype=np.int32)
    y = np.zeros(14, np.int32)
    ran = run_cuda(ATOMICS.replace("ORDER", "2"), [x, y], tmp_path)
    assert ran.code == 0, ran.stderr[-2000:]
    assert ran.outputs[1].tolist() == [
        *((x % 2 == 0).sum(), x.max(), x.sum(), 7, 0, 64, min(0, x.min()), -x.sum(), 0),
        *(np.bitwise_or.reduce(x), np.bitwise_xor.reduce(x), 5, 128, -128),
    ]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("cuda::barrier<cuda::thread_scope_block> b; cuda::std::plus<> p;", ()),
        ("at::cuda::getCurrentCUDAStream(); c10::cuda::CUDAGuard guard(x.device());", ()),
        ("namespace mine::cuda { int helper(); }\nint a = cuda::helper();", ()),
        ("using namespace at; auto s = cuda::getCurrentCUDAStream();", ()),
        ("::cuda::latch<::cuda::thread_scope_block> l;", ("cuda::latch",)),
        ("cuda::device::experimental::fence_proxy_async_shared_cta();", ()),
        ("cuda::counting_semaphore<cuda::thread_scope_block> s;", ("cuda::counting_semaphore",)),
        ("#include <cuda/latch>\n", ("a CUDA C++ library",)),
    ],
)
def test_what_there_is_no_model_of_is_named(text: str, names: tuple[str, ...]):
    assert unsupported(text) == names
