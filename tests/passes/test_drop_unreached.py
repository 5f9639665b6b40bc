"""drop_unreached: a loop that runs once has no next round to wait for."""

from __future__ import annotations

import pytest

from septran.passes.drop_unreached import drop_unreached
from tests.passes.writing import body_text, program, run, same, text

BODY = """
for k in ROUNDS
  when 1 <= k < 99
    await next [0] LOAD
  copy C[0:+12] <- A[0:+12] on LOAD
  when 2 <= (ROUNDS - k) < 99
    post next [0] LOAD
sync CORE
"""


def test_one_round_waits_for_nothing():
    after = drop_unreached(program(BODY.replace("ROUNDS", "1")))
    assert body_text(after) == text("""
        for k in 1
          copy C[0:+12] <- A[0:+12] on LOAD
        sync CORE
    """)


@pytest.mark.parametrize("rounds", ["2", "9"])
def test_more_rounds_keep_their_waits(rounds):
    before = program(BODY.replace("ROUNDS", rounds))
    assert drop_unreached(before) == before


def test_the_number_of_cores_is_not_known():
    before = program("""
        for b in (((3 - core_id) + (core_num - 1)) // core_num)
          when 1 <= b < 99
            copy C[0:+6] <- A[0:+6]
        when 0 <= core_id < 1
          copy C[0:+12] <- B[0:+12]
    """)
    assert drop_unreached(before) == before


def test_what_is_empty_goes_with_its_loop():
    before = program("""
        for k in 2
          when 1 <= k < 99
            when 2 <= k < 99
              copy C[0:+12] <- A[0:+12]
          for j in (k - 1)
            copy C[0:+12] <- B[0:+12]
        copy C[0:+12] <- A[0:+12]
    """)
    after = drop_unreached(before)
    assert body_text(after) == text("""
        for k in 2
        copy C[0:+12] <- A[0:+12]
    """)
    assert same(run(after), run(before))
