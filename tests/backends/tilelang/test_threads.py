"""Kernels that say what each thread does, in the simulator: shuffles, own memory, loops that some threads leave, reductions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from septran.backends.tilesim import SimError, dialect, load_file, run_file

X = np.random.default_rng(5).standard_normal(128).astype(np.float32)
TEXT = """
import tilelang.language as T

@T.prim_func
def main(X: T.Tensor((128,), "float32"), Y: T.Tensor((128,), "float32")):
    with T.Kernel(1, threads={threads}) as bx:
        tx = T.get_thread_binding(0)
        own = T.alloc_local((2,), "float32")
        shared = T.alloc_shared((128,), "float32")
{body}
"""


def run(tmp_path: Path, body: str, threads: object = 128) -> np.ndarray:
    path = tmp_path / "kernel.py"
    lines = "\n".join("        " + line for line in body.strip("\n").split("\n"))
    path.write_text(TEXT.format(body=lines, threads=threads), encoding="utf-8")
    out = np.full(128, np.nan, np.float32)
    run_file(path, "main", [X.copy(), out], dialect("sm_90a"))
    return out


LANE = np.arange(128) % 32
SHUFFLES = {
    "T.shfl_xor(X[tx], 5)": X[np.arange(128) ^ 5],
    "T.shfl_sync(X[tx], 3)": X[np.arange(128) // 32 * 32 + 3],
    "T.shfl_down(X[tx], 4)": X[np.where(LANE + 4 < 32, np.arange(128) + 4, np.arange(128))],
    "T.shfl_up(X[tx], 7)": X[np.where(LANE >= 7, np.arange(128) - 7, np.arange(128))],
    "T.shfl_xor(X[tx], 1, 8)": X[np.arange(128) ^ 1],
    "T.shfl_down(X[tx], 3, 4)": X[np.where(np.arange(128) % 4 == 0, np.arange(128) + 3, np.arange(128))],
    "T.tvm_warp_shuffle(0xFFFFFFFF, X[tx], (tx + 9) % 32, 32, 32)": X[
        np.arange(128) // 32 * 32 + (LANE + 9) % 32
    ],
    "T.warp_reduce_max(X[tx])": np.repeat(X.reshape(4, 32).max(1), 32),
    "T.warp_reduce_min(X[tx])": np.repeat(X.reshape(4, 32).min(1), 32),
    "T.get_lane_idx() + 100 * T.get_warp_idx()": (LANE + 100 * (np.arange(128) // 32)).astype(np.float32),
    "T.tvm_warp_shuffle_up(0xFFFFFFFF, X[tx], 3, 32, 32)": X[np.where(LANE >= 3, np.arange(128) - 3, np.arange(128))],
    "T.tvm_warp_shuffle_down(0xFFFFFFFF, X[tx], 3, 32, 32)": X[np.where(LANE + 3 < 32, np.arange(128) + 3, np.arange(128))],
    "T.Cast('float32', T.warp_reduce_bitor(tx) + 1000 * T.warp_reduce_bitand(tx))": np.arange(128) // 32 * 32.0 * 1001 + 31,
    "T.Cast('float32', T.warp_reduce_sum(tx))": np.repeat(np.arange(128).reshape(4, 32).sum(1), 32),
    "T.Cast('float32', T.get_warp_idx_sync() + 10 * T.get_warp_group_idx() + T.get_thread_extent(0))": np.arange(128) // 32 + 128,
    "T.Cast('float32', T.get_thread_bindings()[0] + T.get_thread_bindings()[1])": np.arange(128),
    "T.Cast('float32', T.shuffle_elect(64))": (np.arange(128) % 64 == 0).astype(np.float32),
}  # fmt: skip


@pytest.mark.parametrize("said", SHUFFLES)
def test_what_lanes_of_a_warp_exchange(said: str, tmp_path: Path) -> None:
    np.testing.assert_array_equal(run(tmp_path, f"Y[tx] = {said}"), SHUFFLES[said])


def test_every_thread_has_its_own_memory_and_variables(tmp_path: Path) -> None:
    body = """
steps = T.alloc_var("int32", init=0)
own[0] = X[tx]
own[1] = 0.0
while steps < tx % 5:
    own[1] += own[0]
    steps = steps + 1
Y[tx] = own[1]
"""
    want = np.zeros(128, np.float32)
    for k in range(5):
        want = np.where(np.arange(128) % 5 > k, want + X, want)
    np.testing.assert_allclose(run(tmp_path, body), want, rtol=1e-6)


LOOPS = {
    "range of a thread": ("for k in range(tx % 7):\n    own[0] += 1.0", np.arange(128) % 7),
    "from a thread's number on": ("for k in T.serial(tx, 130, 3):\n    own[0] += 1.0", -(-(130 - np.arange(128)) // 3)),
    "break": ("for k in range(9):\n    if k == tx % 4:\n        break\n    own[0] += 1.0", np.arange(128) % 4),
    "continue": ("for k in range(9):\n    if k <= tx % 4:\n        continue\n    own[0] += 1.0", 8 - np.arange(128) % 4),
    "loop_break": ("for k in range(9):\n    if k == 6:\n        T.loop_break()\n    own[0] += 1.0", np.full(128, 6)),
    "of the inner loop": (
        "for k in range(3):\n    for m in range(5):\n        if m == tx % 3:\n            break\n        own[0] += 1.0\n    own[0] += 100.0",
        300 + 3 * (np.arange(128) % 3),
    ),
    "in a branch of a branch": (
        "for k in range(6):\n    if tx > 3:\n        if k > 1:\n            break\n        own[0] += 10.0\n    own[0] += 1.0",
        np.where(np.arange(128) > 3, 22, 6),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOPS)
def test_loops_that_threads_leave_by_themselves(name: str, tmp_path: Path) -> None:
    body, want = LOOPS[name]
    found = run(tmp_path, f"own[0] = 0.0\n{body}\nY[tx] = own[0]")
    np.testing.assert_array_equal(found, np.asarray(want, np.float32))


def test_a_reduction_over_an_axis_of_the_block(tmp_path: Path) -> None:
    body = """
ty = T.get_thread_binding(1)
own[0] = X[tx * 8 + ty]
with T.attr(T.comm_reducer(lambda a, b: a + b, [T.Cast("float32", 0)]), "reduce_scope", T.reinterpret(T.uint64(0), dtype="handle")):
    T.evaluate(T.tvm_thread_allreduce(T.uint32(1), own[0], True, own[1], ty, dtype="handle"))
Y[tx * 8 + ty] = own[1]
"""
    found = run(tmp_path, body, (16, 8))
    np.testing.assert_allclose(found, np.repeat(X.reshape(16, 8).sum(1), 8), rtol=1e-5)


@pytest.mark.parametrize("launches", [1, 2])
def test_what_an_atomic_found_there(launches: int, tmp_path: Path) -> None:
    """Threads get places of their own, in no order that a kernel could count on."""
    body = """
count = T.alloc_shared((1,), "int32")
place = T.alloc_var("int32")
if tx == 0:
    count[0] = 0
if X[tx] > 0:
    place = T.atomic_add(count[0], 1, return_prev=True)
    Y[place] = X[tx]
"""
    path = tmp_path / "kernel.py"
    lines = "\n".join("        " + line for line in body.strip("\n").split("\n"))
    path.write_text(TEXT.format(body=lines, threads=128), encoding="utf-8")
    module, _ = load_file(path, dialect("sm_90a"))
    for _ in range(launches):
        out = np.full(128, np.nan, np.float32)
        module.main(X.copy(), out)
    kept = X[X > 0]
    found = out[: kept.size]
    np.testing.assert_array_equal(found if launches == 2 else found[::-1], kept)
    assert np.isnan(out[kept.size :]).all()


def test_a_loop_bound_to_threads(tmp_path: Path) -> None:
    body = """
for x in T.thread_binding(0, 128, thread="threadIdx.x"):
    Y[x] = X[127 - x]
"""
    np.testing.assert_array_equal(run(tmp_path, body), X[::-1])


def test_tiles_and_threads_in_one_kernel(tmp_path: Path) -> None:
    """Tile operations are what all threads do together; copies from a thread's own place are its own."""
    body = """
T.copy(X, shared)
T.copy(shared[tx // 2 * 2], own)
T.clear(shared)
shared[tx] = own[0] + own[1]
for i in T.Parallel(128):
    Y[i] = shared[127 - i]
"""
    want = np.repeat(X.reshape(64, 2).sum(1), 2)[::-1]
    np.testing.assert_allclose(run(tmp_path, body), want, rtol=1e-6)


DEFECTS = {
    "different values": ("race", "shared[0] = X[tx]", "store different values to one element"),
    "shared": ("bounds", "shared[tx + 1] = X[tx]", "outside its bounds"),
    "own": ("bounds", "own[tx % 3] = X[tx]", "outside its bounds"),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_mistakes_of_threads_are_errors(name: str, tmp_path: Path) -> None:
    kind, body, message = DEFECTS[name]
    with pytest.raises(SimError, match=message) as e:
        run(tmp_path, body)
    assert e.value.kind == kind


LACKS = {
    "tiles of one thread": ("T.reduce_sum(own, shared)", "every thread has its own"),
    "a return": ("if tx > 3:\n    return", "a return that some threads take"),
    "in T.Parallel": (
        "for i in T.Parallel(128):\n    Y[i] = X[tx]",
        "differs from thread to thread",
    ),
    "a tile's place": ("T.cumsum(shared[tx], shared)", "differs per T.Parallel"),
}


@pytest.mark.parametrize("name", LACKS)
def test_what_the_simulator_lacks_accuses_nobody(name: str, tmp_path: Path) -> None:
    body, message = LACKS[name]
    with pytest.raises(NotImplementedError, match=message):
        run(tmp_path, body)
