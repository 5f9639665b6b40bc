"""Lanes that run together: coalesced groups, their partitions, and __activemask where only some lanes are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.backends.cuda_c.raw import run_cuda

KERNEL = """\
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
__device__ int one_for_all(int* counter) {
  auto active = cg::coalesced_threads();
  int first = 0;
  if (active.thread_rank() == 0) first = atomicAdd(counter, active.size());
  return active.shfl(first, 0) + active.thread_rank();
}
__device__ int by_mask(int* counter) {
  const unsigned active = __activemask();
  const int leader = __ffs(active) - 1, lane = threadIdx.x % 32;
  int first = 0;
  if (lane == leader) first = atomicAdd(counter, __popc(active));
  return __shfl_sync(active, first, leader) + __popc(active & ((1u << lane) - 1));
}
__global__ void kernel(const int* x, int* places, int* counters, int* scans, int* sums) {
  const int t = threadIdx.x;
  places[t] = places[64 + t] = -1;
  if (x[t] > 0) places[t] = one_for_all(&counters[0]);
  if (x[t] % 3 == 0) {
    places[64 + t] = by_mask(&counters[1]);
  } else {
    auto others = cg::coalesced_threads();
    scans[t] = cg::inclusive_scan(others, x[t]);
    others.sync();
  }
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  auto alike = cg::labeled_partition(warp, x[t] & 3);
  sums[t] = cg::reduce(alike, x[t], cg::plus<int>());
  auto half = cg::binary_partition(warp, t % 2);
  sums[64 + t] = half.ballot(x[t] > 0) + 1000 * half.size();
  sums[128 + t] = cg::exclusive_scan(half, x[t], cg::greater<int>());
  sums[192 + t] = half.shfl_down(x[t], 3);
  sums[256 + t] = half.shfl_up(x[t], 2);
  sums[320 + t] = half.any(x[t] > 18) + 2 * half.all(x[t] > -20) + 4 * (half.match_any(x[t] > 0) >> half.thread_rank() & 1);
}
extern "C" __attribute__((visibility("default"))) void run(void* const* p) {
  cuemu::choose_order(ORDER);
  kernel<<<1, 64>>>((const int*)p[0], (int*)p[1], (int*)p[2], (int*)p[3], (int*)p[4]);
}
"""
X = np.random.default_rng(3).integers(-20, 20, 64, dtype=np.int32)


@pytest.fixture(scope="module", params=[0, 1, 2])
def ran(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[np.ndarray]:
    given = [X, np.zeros(128), np.zeros(2), np.zeros(64), np.zeros(384)]
    text = KERNEL.replace("ORDER", str(request.param))
    folder = tmp_path_factory.mktemp("together")
    done = run_cuda(text, [g.astype(np.int32) for g in given], folder)
    assert done.code == 0, done.stderr[-2000:]
    return list(done.outputs)


def test_each_lane_of_a_branch_gets_a_place_of_its_own(ran):
    _, places, counters, _, _ = ran
    for found, chosen, count in ((places[:64], X > 0, 0), (places[64:], X % 3 == 0, 1)):
        assert counters[count] == chosen.sum()
        assert sorted(found[chosen]) == list(range(chosen.sum()))
        assert (found[~chosen] == -1).all()
        for warp in (slice(0, 32), slice(32, 64)):  # all lanes of a warp's branch are one group
            mine = found[warp][chosen[warp]]
            assert (np.diff(mine) == 1).all()


def test_a_scan_is_of_the_lanes_that_came(ran):
    for first in (0, 32):
        came = X[first : first + 32] % 3 != 0
        found = ran[3][first : first + 32][came]
        assert found.tolist() == np.cumsum(X[first : first + 32][came]).tolist()


def test_partitions_have_those_with_the_same_label(ran):
    sums = ran[4].reshape(6, 2, 32)
    for warp in range(2):
        x = X.reshape(2, 32)[warp]
        assert sums[0, warp].tolist() == [int(x[(x & 3) == (one & 3)].sum()) for one in x]
        for odd in range(2):
            half = x[odd::2]
            ballot = sum(int(v > 0) << i for i, v in enumerate(half))
            assert (sums[1, warp][odd::2] == ballot + 16000).all()
            before = [0, *np.maximum.accumulate(half)[:-1].tolist()]
            assert sums[2, warp][odd::2].tolist() == before
            assert sums[3, warp][odd::2].tolist() == [*half[3:].tolist(), *half[13:].tolist()]
            assert sums[4, warp][odd::2].tolist() == [*half[:2].tolist(), *half[:-2].tolist()]
            told = int((half > 18).any()) + 2 * int((half > -20).all()) + 4
            assert (sums[5, warp][odd::2] == told).all()


def test_a_lane_that_is_not_in_the_mask_is_an_error(tmp_path: Path):
    text = KERNEL.replace("ORDER", "0").replace(
        "__shfl_sync(active, ", "__shfl_sync(active & ~1u, "
    )
    zeros = [np.zeros(n, np.int32) for n in (128, 2, 64, 384)]
    found = run_cuda(text, [np.zeros(64, np.int32), *zeros], tmp_path)
    assert found.kind == "divergence" and "not in its own mask" in found.message


ANY_GROUP = """\
#include <cooperative_groups.h>
using namespace cooperative_groups;
__device__ int reduce_sum(thread_group g, int* temp, int val) {
  const int lane = g.thread_rank();
  for (int i = g.size() / 2; i > 0; i /= 2) {
    temp[lane] = val;
    g.sync();
    if (lane < i) val += temp[lane + i];
    g.sync();
  }
  return val;
}
__global__ void kernel(const int* x, int* y) {
  __shared__ int temp[64];
  auto block = this_thread_block();
  const int all = reduce_sum(block, temp, x[threadIdx.x]);
  auto tile = tiled_partition(block, 16);
  const int part = reduce_sum(tile, temp + threadIdx.x / 16 * 16, x[threadIdx.x]);
  const int four = reduce_sum(tiled_partition(tile, 4), temp + threadIdx.x / 4 * 4, x[threadIdx.x]);
  const int half = reduce_sum(tiled_partition<32>(block), temp + threadIdx.x / 32 * 32, x[threadIdx.x]);
  if (threadIdx.x == 0) y[0] = all;
  if (tile.thread_rank() == 0) y[1 + threadIdx.x / 16] = part;
  if (threadIdx.x % 4 == 0) y[5 + threadIdx.x / 4] = four;
  if (threadIdx.x % 32 == 0) y[21 + threadIdx.x / 32] = half;
}
extern "C" __attribute__((visibility("default"))) void run(void* const* p) {
  cuemu::choose_order(ORDER);
  kernel<<<1, 64>>>((const int*)p[0], (int*)p[1]);
}
"""


@pytest.mark.parametrize("order", [1, pytest.param(2, marks=pytest.mark.wider)])
def test_a_function_takes_any_group(order: int, tmp_path: Path):
    ran = run_cuda(ANY_GROUP.replace("ORDER", str(order)), [X, np.zeros(23, np.int32)], tmp_path)
    assert ran.code == 0, ran.stderr[-2000:]
    parts = [X.sum(), *X.reshape(4, 16).sum(1), *X.reshape(16, 4).sum(1), *X.reshape(2, 32).sum(1)]
    assert ran.outputs[1].tolist() == [int(n) for n in parts]


def test_a_tile_that_is_no_power_of_two_is_an_error(tmp_path: Path):
    text = ANY_GROUP.replace("ORDER", "0").replace(
        "tiled_partition(block, 16)", "tiled_partition(block, 12)"
    )
    ran = run_cuda(text, [X, np.zeros(23, np.int32)], tmp_path)
    assert (ran.kind, ran.message) == ("launch", "a tile of 12 threads of a group of 64")
