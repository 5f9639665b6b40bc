"""mark_unread: a result that nothing reads behind its leaf is said to be; any other is not."""

from __future__ import annotations

import pytest
import torch

from septran.passes.mark_unread import mark_unread
from tests.passes.writing import body_text, program, run, same, text


def test_a_temporary_of_one_leaf_is_unread():
    after = mark_unread(
        program("""
            alloc t: REGISTER float32[4]
            leaf f <auto>
            | w Y = t[0:+4]
            | r X = A[0:+4]
            | means copy
            """)
    )
    assert body_text(after) == text("""
        alloc t: REGISTER float32[4]
        leaf f <auto>
        | w Y = t[0:+4] unread
        | r X = A[0:+4]
        """)


LATER = """
alloc t: REGISTER float32[4]
leaf f <auto>
| w Y = t[0:+4]
| r X = A[0:+4]
| means copy
leaf g <auto>
| w Y = C[0:+4]
| r X = t[0:+4]
| means copy
"""
ROUND = """
alloc t: REGISTER float32[4]
leaf f <auto>
| w Y = t[0:+4]
| r X = A[0:+4]
| means copy
for k in 3
  leaf f <auto>
  | rw Y = t[0:+4]
  | r X = A[0:+4]
  | means add
copy C[0:+4] <- t[0:+4]
"""


@pytest.mark.parametrize("body", [LATER, ROUND])
def test_what_is_read_later_or_in_the_next_round_is_not(body):
    assert mark_unread(program(body)) == program(body)


def test_the_last_use_in_a_round_is_unread_when_each_round_has_its_own():
    body = """
        for k in 3
          alloc t: REGISTER float32[4]
          leaf f <auto>
          | w Y = t[0:+4]
          | r X = A[(k * 4):+4]
          | means copy
          copy C[(k * 4):+4] <- t[0:+4]
          leaf g <auto>
          | rw Y = t[0:+4]
          | r X = A[0:+4]
          | means add
        """
    after = mark_unread(program(body))
    assert body_text(after).count("unread") == 1
    assert "| rw Y = t[0:+4] unread" in body_text(after)
    assert same(run(after), run(program(body)))


def test_the_interpreter_takes_unread_results_away():
    lie = program(LATER.replace("| w Y = t[0:+4]", "| w Y = t[0:+4] unread"))
    assert torch.isnan(run(lie)[:4]).all()
