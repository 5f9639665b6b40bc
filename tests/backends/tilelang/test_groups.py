"""Warp groups that meet at barriers, in the simulator: what each order of them shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from septran.backends.tilesim import SimError, dialect, load_file

TEXT = """
import tilelang.language as T

@T.prim_func
def main(X: T.Tensor((8, 64), "float32"), Y: T.Tensor((8, 64), "float32")):
    with T.Kernel(1, threads=256) as bx:
        held = T.alloc_shared((64,), "float32")
        mine = T.alloc_fragment((64,), "float32")
        full = T.alloc_barrier(128)
        free = T.alloc_barrier([128])
{body}
"""
HONEST = """
for k in T.serial(8):
    with T.ws(0):
        T.barrier_wait(free[0], (k + 1) % 2)
        T.tma_copy(X[k, 0], held, barrier=full)
        T.barrier_arrive(full)
    with T.ws(1):
        T.barrier_wait(full, k % 2)
        T.copy(held, mine)
        T.barrier_arrive(free[0])
        T.copy(mine, Y[k, 0])
"""


def run(tmp_path: Path, body: str, launches: int = 1) -> np.ndarray:
    path = tmp_path / "kernel.py"
    lines = "\n".join("        " + line for line in body.strip("\n").split("\n"))
    path.write_text(TEXT.format(body=lines), encoding="utf-8")
    module, _ = load_file(path, dialect("sm_90a"))
    x = np.arange(512, dtype=np.float32).reshape(8, 64)
    for _ in range(launches):
        y = np.full((8, 64), np.nan, np.float32)
        module.main(x, y)
    return y


@pytest.mark.parametrize("launches", [1, 2])
def test_groups_hand_tiles_over_in_either_order(launches: int, tmp_path: Path) -> None:
    found = run(tmp_path, HONEST, launches)
    np.testing.assert_array_equal(found, np.arange(512).reshape(8, 64))


MISTAKES = {
    "no wait for the tile": ("        T.barrier_wait(full, k % 2)\n", "", "async|uninitialised|race|deadlock"),
    "wrong parity": ("T.barrier_wait(full, k % 2)", "T.barrier_wait(full, (k + 1) % 2)", "async|deadlock|race"),
    "nobody frees": ("        T.barrier_arrive(free[0])\n", "", "deadlock"),
    "nobody says full": ("        T.barrier_arrive(full)\n", "", "deadlock"),
    "arrives twice": ("        T.barrier_arrive(full)\n", "        T.barrier_arrive(full)\n        T.barrier_arrive(full)\n", "deadlock|race|async"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_at_a_barrier_shows_in_one_order_or_the_other(name: str, tmp_path: Path) -> None:
    old, new, kinds = MISTAKES[name]
    assert HONEST.count(old) == 1
    wrong = False
    for launches in (1, 2):
        try:
            found = run(tmp_path, HONEST.replace(old, new), launches)
        except SimError as e:
            assert e.kind in kinds.split("|"), e
            wrong = True
        else:
            wrong = wrong or not np.array_equal(found, np.arange(512).reshape(8, 64))
    assert wrong


def test_more_threads_than_a_phase_waits_for_are_a_mistake(tmp_path: Path) -> None:
    body = HONEST.replace(
        "T.barrier_wait(free", "T.barrier_wait(full, 1)\n        T.barrier_wait(free"
    )
    text = body.replace("T.barrier_arrive(full)", "T.barrier_arrive(few)")
    with pytest.raises(
        SimError, match="128 threads arrive at a barrier whose phase 64 more complete"
    ):
        run(tmp_path, "few = T.alloc_barrier(64)\n" + text.strip("\n"))


def test_a_named_barrier_lets_groups_meet(tmp_path: Path) -> None:
    body = """
with T.ws(1):
    T.copy(X[0, 0], held)
    T.sync_threads(3, 256)
with T.ws(0):
    T.sync_threads(3, 256)
    T.copy(held, Y[0, 0])
T.fill(mine, 7.0)
T.copy(mine, Y[1, 0])
"""
    found = run(tmp_path, body)
    np.testing.assert_array_equal(found[0], np.arange(64))
    np.testing.assert_array_equal(found[1], np.full(64, 7))


def test_a_product_is_not_there_before_it_was_waited_for(tmp_path: Path) -> None:
    text = """
a = T.alloc_shared((64, 64), "float16")
c = T.alloc_fragment((64, 64), "float32")
with T.ws(0):
    T.clear(a)
    T.clear(c)
    T.wgmma_gemm(a, a, c)
    T.wgmma_gemm(a, a, c)
    T.wait_wgmma({left})
    T.copy(c[0, :], Y[0, :])
"""
    np.testing.assert_array_equal(run(tmp_path, text.format(left=0))[0], np.zeros(64))
    with pytest.raises(SimError, match="before the asynchronous"):
        run(tmp_path, text.format(left=1))


def test_work_of_all_threads_between_waits_accuses_nobody(tmp_path: Path) -> None:
    body = """
with T.ws(0):
    T.barrier_wait(full, 0)
T.copy(X[0, 0], mine)
with T.ws(1):
    T.barrier_arrive(full)
"""
    with pytest.raises(NotImplementedError, match="work of all threads between waits"):
        run(tmp_path, body)
