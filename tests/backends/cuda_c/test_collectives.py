"""CUB's collectives in judged files: what the threads of a block and a warp get is what its documentation says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from septran.backends.cuda.prepare import prepare, unsupported
from tests.backends.cuda_c.raw import run_cuda

THREADS = 96
COMMON = f"""\
#include <cub/cub.cuh>
constexpr int T = {THREADS};
struct Running {{ int total; __device__ int operator()(int tile) {{ int b = total; total += tile; return b; }} }};
struct Last {{ __device__ int operator()(int a, int b) const {{ return b; }} }};
"""
# in: the numbers, of which x is the thread's; out and rest: what the thread gets
KERNEL = """\
__global__ void NAME(const int* in, int* out, int* rest) {
    const int t = threadIdx.x + blockDim.x * threadIdx.y, x = in[t];
    out[t] = rest[t] = -1;
    BODY
}
"""
SCAN = "using S = cub::BlockScan<int, T / 3, cub::BLOCK_SCAN_RAKING, 3>; __shared__ S::TempStorage room; int items[2] = {x, 1}, all = 0;"
NUMBERS = np.random.default_rng(1).integers(-50, 50, 4 * THREADS, dtype=np.int32)
X = NUMBERS[:THREADS]
PAIRS = np.stack([X, np.ones_like(X)], 1).ravel()
SUMS, ALL = np.cumsum(PAIRS), int(PAIRS.sum())
WARPS = X.reshape(3, 32)
# body -> (what each thread has in `out`, in `rest`); None: left open
COLLECTIVES: dict[str, tuple[str, list[int | None], list[int | None]]] = {
    "block sum": (
        "using R = cub::BlockReduce<int, T / 3, cub::BLOCK_REDUCE_WARP_REDUCTIONS, 3>; __shared__ R::TempStorage room;"
        "out[t] = R(room).Sum(x); __syncthreads(); rest[t] = R(room).Reduce(x, cub::Max());",
        [int(X.sum()), *[None] * 95],
        [int(X.max()), *[None] * 95],
    ),
    "of some threads": (
        "using R = cub::BlockReduce<int, T>; __shared__ typename R::TempStorage a, b;"
        "out[t] = R(a).Reduce(x, cub::Min(), 40); rest[t] = R(b).Sum(x, 3);",
        [int(X[:40].min()), *[None] * 95],
        [int(X[:3].sum()), *[None] * 95],
    ),
    "of several items": (
        "using R = cub::BlockReduce<int, T>; int items[2] = {x, 2}; out[t] = R().Sum(items);"
        "__syncthreads(); rest[t] = R().Reduce(items, Last());",
        [int(X.sum()) + 2 * THREADS, *[None] * 95],
        [2, *[None] * 95],
    ),
    "place of the largest": (
        "using P = cub::KeyValuePair<int, int>; using R = cub::BlockReduce<P, T>; __shared__ R::TempStorage room;"
        "P best = R(room).Reduce(P(t, x), cub::ArgMax()); out[t] = best.key; rest[t] = best.value;",
        [int(X.argmax()), *[None] * 95],
        [int(X.max()), *[None] * 95],
    ),
    "warp sums": (
        "using R = cub::WarpReduce<int>; __shared__ R::TempStorage room[3];"
        "out[t] = R(room[t / 32]).Sum(x); rest[t] = R(room[t / 32]).Reduce(x, cub::Max(), 5);",
        [None if t % 32 else int(WARPS[t // 32].sum()) for t in range(THREADS)],
        [None if t % 32 else int(WARPS[t // 32][:5].max()) for t in range(THREADS)],
    ),
    "warps of eight": (
        "using R = cub::WarpReduce<int, 8>; __shared__ R::TempStorage room; out[t] = R(room).Sum(x);",
        [None if t % 8 else int(X[t : t + 8].sum()) for t in range(THREADS)],
        [-1] * THREADS,
    ),
    "warp scans": (
        "using S = cub::WarpScan<int>; __shared__ S::TempStorage room[3]; int all;"
        "S(room[t / 32]).InclusiveSum(x, out[t]); S(room[t / 32]).ExclusiveScan(x, rest[t], 7, cub::Sum(), all); if (t % 32 == 0) rest[t] = all;",
        [int(n) for n in np.cumsum(WARPS, 1).ravel()],
        [
            int(WARPS[t // 32].sum() if t % 32 == 0 else WARPS[t // 32][: t % 32].sum() + 7)
            for t in range(THREADS)
        ],
    ),
    "inclusive": (
        f"{SCAN} S(room).InclusiveSum(x, out[t], all); rest[t] = all;",
        [int(n) for n in np.cumsum(X)],
        [int(X.sum())] * THREADS,
    ),
    "exclusive": (
        f"{SCAN} S(room).ExclusiveSum(x, out[t]); __syncthreads(); S(room).ExclusiveScan(x, rest[t], 9, cub::Max());",
        [int(n) for n in np.cumsum(X) - X],
        [9, *(int(n) for n in np.maximum.accumulate(np.maximum(X, 9))[:-1])],
    ),
    "without a first value": (
        f"{SCAN} S(room).ExclusiveScan(x, out[t], cub::Max(), all); rest[t] = all;",
        [None, *(int(n) for n in np.maximum.accumulate(X)[:-1])],
        [int(X.max())] * THREADS,
    ),
    "items in a row": (
        f"{SCAN} S(room).InclusiveSum(items, items, all); out[t] = items[0]; rest[t] = items[1] - all;",
        [int(n) for n in SUMS[0::2]],
        [int(n) - ALL for n in SUMS[1::2]],
    ),
    "items before": (
        f"{SCAN} S(room).ExclusiveSum(items, items); out[t] = items[0]; rest[t] = items[1];",
        [int(n) for n in (SUMS - PAIRS)[0::2]],
        [int(n) for n in (SUMS - PAIRS)[1::2]],
    ),
    "after a prefix": (
        f"{SCAN} Running before{{100}}; S(room).ExclusiveSum(items, items, before); out[t] = items[0]; __syncthreads();"
        "S(room).InclusiveScan(x, rest[t], cub::Sum(), before);",
        [int(n) + 100 for n in (SUMS - PAIRS)[0::2]],
        [int(n) + 100 + ALL for n in np.cumsum(X)],
    ),
    "an operator that is a variable": (
        f"{SCAN} cub::Sum op; S(room).ExclusiveScan(items, items, 3, op); out[t] = items[1]; __syncthreads();"
        "S(room).InclusiveScan(x, rest[t], 5, op);",
        [int(n) + 3 for n in (SUMS - PAIRS)[1::2]],
        [int(n) + 5 for n in np.cumsum(X)],
    ),
    "a first value and the total": (
        f"{SCAN} cub::Max op; S(room).ExclusiveScan(items, items, 60, op, all); out[t] = items[0]; rest[t] = all;",
        [60] * THREADS,
        [int(PAIRS.max())] * THREADS,
    ),
    "place of the smallest": (
        "using P = cub::KeyValuePair<int, int>; using R = cub::BlockReduce<P, T>; __shared__ R::TempStorage room;"
        "P best = R(room).Reduce(P(t, x), cub::ArgMin()); out[t] = best.key; rest[t] = best.value;",
        [int(X.argmin()), *[None] * 95],
        [int(X.min()), *[None] * 95],
    ),
    "exchanged the other way": (
        "using E = cub::BlockExchange<int, T, 2>; __shared__ E::TempStorage room; int items[2] = {2 * t, 2 * t + 1};"
        "E(room).BlockedToStriped(items); out[t] = items[1]; __syncthreads();"
        "int to[2] = {2 * T - 1 - t, t}; int moved[2] = {t, -t}; E(room).ScatterToBlocked(moved, to); rest[t] = moved[0];",
        [t + THREADS for t in range(THREADS)],
        [-2 * t if 2 * t < THREADS else 2 * THREADS - 1 - 2 * t for t in range(THREADS)],
    ),
    "stored transposed": (
        "using L = cub::BlockLoad<int, T, 1, cub::BLOCK_LOAD_VECTORIZE>; using W = cub::BlockStore<int, T, 1, cub::BLOCK_STORE_TRANSPOSE>;"
        "__shared__ L::TempStorage load; __shared__ W::TempStorage room; int one[1]; L(load).Load(in, one);"
        "W(room).Store(rest, one, T - 1); out[t] = one[0];",
        [int(n) for n in X],
        [*(int(n) for n in X[:-1]), -1],
    ),
    "sorted with values in stripes": (
        "using S = cub::BlockRadixSort<int, T, 1, int>; __shared__ S::TempStorage room; int key[1] = {x}, from[1] = {t};"
        "S(room).SortDescendingBlockedToStriped(key, from); out[t] = key[0]; rest[t] = from[0];",
        [int(n) for n in -np.sort(-X.astype(int))],
        [int(n) for n in np.argsort(-X.astype(int), kind="stable")],
    ),
    "sorted by some bits": (
        "using S = cub::BlockRadixSort<unsigned, T, 1>; __shared__ S::TempStorage room; unsigned key[1] = {unsigned(x + 50)};"
        "S(room).Sort(key, 0, 2); out[t] = key[0] & 3; rest[t] = key[0];",
        [int(n) for n in np.sort((X + 50) & 3)],
        [int(n) for n in (X + 50)[np.argsort((X + 50) & 3, kind="stable")]],
    ),
    "one thread alone": (
        "cub::ThreadStore<cub::STORE_CS>(&out[t], cub::ThreadLoad<cub::LOAD_LDG>(&in[t]));"
        "rest[t] = cub::Difference()(x, 7) + 100 * cub::Division()(x, 10) + cub::Inequality()(x, 3);",
        [int(n) for n in X],
        [int(n) - 7 + 100 * int(n / 10) + (n != 3) for n in X],
    ),
    "loads and stores": (
        "using L = cub::BlockLoad<int, T, 2, cub::BLOCK_LOAD_TRANSPOSE>; using W = cub::BlockStore<int, T, 2, cub::BLOCK_STORE_STRIPED>;"
        "__shared__ union { L::TempStorage load; W::TempStorage store; } room; int items[2];"
        "L(room.load).Load(in, items, 2 * T - 1, 77); out[t] = items[1]; __syncthreads();"
        "int ends[2] = {items[0], 5}; W(room.store).Store(rest, ends, T);",
        [*(int(n) for n in NUMBERS[1 : 2 * THREADS - 1 : 2]), 77],
        [int(n) for n in NUMBERS[0 : 2 * THREADS : 2]],
    ),
    "exchanged": (
        "using E = cub::BlockExchange<int, T, 2>; __shared__ E::TempStorage room; int items[2] = {t, t + T};"
        "E(room).StripedToBlocked(items); out[t] = items[1]; __syncthreads();"
        "int to[2] = {2 * T - 1 - t, t}; int moved[2] = {t, -t}; E(room).ScatterToStriped(moved, to); rest[t] = moved[0];",
        [2 * t + 1 for t in range(THREADS)],
        [-t for t in range(THREADS)],
    ),
    "sorted": (
        "using S = cub::BlockRadixSort<int, T, 1, int>; __shared__ S::TempStorage room; int key[1] = {x / 10}, from[1] = {t};"
        "S(room).SortDescending(key, from); out[t] = key[0]; rest[t] = from[0];",
        [int(n) for n in -np.sort(-np.trunc(X / 10).astype(int))],
        [int(n) for n in np.argsort(-np.trunc(X / 10).astype(int), kind="stable")],
    ),
    "floats sorted": (
        "using S = cub::BlockRadixSort<float, T, 2>; __shared__ S::TempStorage room; float key[2] = {x * 0.5f, -1e9f};"
        "S(room).SortBlockedToStriped(key); out[t] = key[0] < -1e8f; rest[t] = int(key[1] * 2);",
        [1] * THREADS,
        [int(n) for n in np.sort(X)],
    ),
}  # fmt: skip


def source(bodies: Sequence[str], block: str = "dim3(T / 3, 3)") -> str:
    """Return a file with a kernel for each body; kernel i has row i of the results."""
    kernels = [
        KERNEL.replace("NAME", f"kernel_{i}").replace("BODY", b) for i, b in enumerate(bodies)
    ]
    calls = [
        f"    kernel_{i}<<<1, {block}>>>((const int*)args[0], (int*)args[1] + {i} * T, (int*)args[2] + {i} * T);\n"
        for i in range(len(bodies))
    ]
    return f'{COMMON}{"".join(kernels)}extern "C" __attribute__((visibility("default"))) void run(void* const* args) {{\n{"".join(calls)}}}\n'


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """What every collective gives, built as one file."""
    empty = np.zeros((len(COLLECTIVES), THREADS), np.int32)
    text = source([body for body, _, _ in COLLECTIVES.values()])
    ran = run_cuda(text, [NUMBERS, empty, empty.copy()], tmp_path_factory.mktemp("cub"))
    assert ran.code == 0, ran.stderr[-2000:]
    return {n: (ran.outputs[1][i], ran.outputs[2][i]) for i, n in enumerate(COLLECTIVES)}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_collective_gives_what_its_documentation_says(results, name):
    for found, wanted in zip(results[name], COLLECTIVES[name][1:], strict=True):
        said = [int(f) for f, w in zip(found, wanted, strict=True) if w is not None]
        assert said == [w for w in wanted if w is not None]


def test_more_threads_than_a_collective_has_memory_for_are_an_error(tmp_path: Path):
    body = "using R = cub::BlockReduce<int, 64>; __shared__ R::TempStorage room; out[t] = R(room).Sum(x);"
    empty = np.zeros(THREADS, np.int32)
    ran = run_cuda(source([body]), [NUMBERS, empty, empty.copy()], tmp_path)
    assert ran.kind == "launch"
    assert "cub::BlockReduce is made for 64 threads, and thread 64" in ran.message


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("#include <cub/cub.cuh>\ncub::DeviceReduce::Sum(t, b, in, out, n);", ("cub::DeviceReduce",)),
        ("cub::BlockHistogram<int, 64, 1, 9> h; cub::Sum s;", ("cub::BlockHistogram",)),
        ("#include <cub/cub.cuh>\ncub::BlockReduce<float, 64, cub::BLOCK_REDUCE_RAKING> r;", ()),
        ("#include <cuda/std/limits>\n#include <cuda/functional>\n", ()),
        ("#include <cuda/latch>\n", ("a CUDA C++ library",)),
    ],
)  # fmt: skip
def test_what_there_is_no_model_of_is_named(text, names):
    assert unsupported(text) == names


@pytest.mark.parametrize(
    ("declared", "kept"),
    [
        ("__shared__ union { int a; float b; } room;", "union room_kind { int a; float b; };"),
        ("__shared__ union alignas(16) U { A::S a; B::S b; } room;", "union alignas(16) U {"),
        ("__shared__ struct { float sum; } one, two;", "struct one_kind { float sum; };"),
        ("__shared__ cub::BlockReduce<float, 2 * N>::TempStorage room;", "{ cub::BlockReduce<float, 2 * N>::TempStorage room; }"),
    ],
)  # fmt: skip
def test_shared_variables_of_any_type_are_the_blocks(declared, kept):
    text = prepare(declared)
    assert kept in text and text.count("cuemu::shared_array(") == (
        2 if "one, two" in declared else 1
    )
