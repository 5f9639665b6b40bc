"""heavy_first: blocks that work longest start first; all of them run, each once."""

from __future__ import annotations

import heapq

import pytest

from septran.ir.expr import evaluate
from septran.ir.launch import every_launch, launches
from septran.ir.nodes import For, walk
from septran.passes.heavy_first import heavy_first
from septran.plan.resolve import GenRequest, lower_plan, resolve
from tests.passes.writing import body_text, program, run, same, text

GROWING = """
for z in 4 on BLOCK
  for i in 3 on BLOCK
    for k in (i + 1)
      copy C[((z * 3) + i):+1] <- A[((z * 3) + k):+1]
"""


def test_long_blocks_come_first_and_some_iterations_of_the_loop_around_together():
    before = program(GROWING)
    after = heavy_first(before)
    assert body_text(after) == text("""
        for z_o in 1 on BLOCK
          for i in 3 on BLOCK
            for z_i in 4 on BLOCK
              for k in ((2 - i) + 1)
                copy C[((((z_o * 4) + z_i) * 3) + (2 - i)):+1] <- A[((((z_o * 4) + z_i) * 3) + k):+1]
    """)
    assert same(run(after), run(before))
    assert _rounds(after) == [3] * 4 + [2] * 4 + [1] * 4


def test_shorter_and_shorter_ones_stay_in_their_order():
    before = program(GROWING.replace("(i + 1)", "(3 - i)").replace("z in 4", "z in 1"))
    assert heavy_first(before) == before


@pytest.mark.parametrize(
    "rounds", ["3", "(z + 1)", "((i * (2 - i)) + 1)"], ids=["alike", "by the loop around", "both"]
)
def test_blocks_without_an_order_of_their_own_are_left_alone(rounds):
    before = program(
        GROWING.replace("(i + 1)", rounds).replace("A[((z * 3) + k)", "A[((z * 0) + k)")
    )
    assert heavy_first(before) == before


def test_a_loop_around_that_cannot_be_shared_out_stays_around():
    before = program(GROWING.replace("z in 4", "z in 1").replace("i in 3", "i in 12"))
    after = heavy_first(before)
    assert _rounds(after) == list(range(12, 0, -1))
    assert same(run(after), run(before))


@pytest.mark.parametrize(
    "backend", ["cuda_c", "triton_cuda", "tilelang_cuda", "hip_c", "triton_hip"]
)
def test_causal_attention_leaves_no_long_block_for_the_end(backend):
    plan = resolve(
        GenRequest(
            op="attention_causal",
            backend=backend,
            dtype="float16",
            dims={"Z": 16, "S": 4096, "D": 128},
        )
    )
    rounds = _rounds(plan.backend.finished(lower_plan(plan).program, {}))
    fair = (sum(rounds) + len(rounds)) / 132
    assert _finished([n + 1 for n in rounds], 132) < 1.03 * fair
    in_turn = [n + 1 for n in sorted(set(rounds))] * 16
    assert sorted(in_turn) == sorted(n + 1 for n in rounds)  # each block once
    assert _finished(in_turn, 132) > 1.1 * fair  # numbered by their places


def _rounds(p):
    """Return the rounds of the longest loop of each block, by the block's number."""
    ((_, launch),) = every_launch(launches(p))
    envs = [{}]
    for loop, size in zip(launch.grid, launch.sizes, strict=True):
        envs = [{**env, loop.var: n} for env in envs for n in range(size)]
    loops = [s.extent for s in walk(launch.body) if isinstance(s, For)]
    return [max(evaluate(extent, env) for extent in loops) for env in envs]


def _finished(work, processors):
    """Return when the last block has ended, each begun where one has ended."""
    ends = [0.0] * processors
    for each in work:
        heapq.heappush(ends, heapq.heappop(ends) + each)
    return max(ends)
