"""hoist_copies: staging that does not depend on the loop leaves it; anything else stays."""

from __future__ import annotations

import pytest

from septran.passes.hoist_copies import hoist_copies
from tests.passes.writing import body_text, program, run, same, text

READ = """
for k in 3
  alloc A_s: SHARED float32[4]
  copy A_s[0:+4] <- A[0:+4]
  leaf f <auto>
  | rw Y = C[(k * 4):+4]
  | r X = A_s[0:+4]
  | means add
"""
ACCUMULATE = """
for k in 3
  alloc C_s: SHARED float32[4]
  copy C_s[0:+4] <- C[0:+4]
  leaf f <auto>
  | rw Y = C_s[0:+4]
  | r X = A[(k * 4):+4]
  | means add
  copy C[0:+4] <- C_s[0:+4]
"""


def test_an_invariant_load_leaves_the_loop():
    after = hoist_copies(program(READ))
    assert body_text(after) == text("""
        alloc A_s: SHARED float32[4]
        copy A_s[0:+4] <- A[0:+4]
        for k in 3
          leaf f <auto>
          | rw Y = C[(k * 4):+4]
          | r X = A_s[0:+4]
        """)
    assert same(run(after), run(program(READ)))


def test_an_accumulator_is_loaded_before_and_stored_after():
    after = hoist_copies(program(ACCUMULATE))
    assert body_text(after) == text("""
        alloc C_s: SHARED float32[4]
        copy C_s[0:+4] <- C[0:+4]
        for k in 3
          leaf f <auto>
          | rw Y = C_s[0:+4]
          | r X = A[(k * 4):+4]
        copy C[0:+4] <- C_s[0:+4]
        """)
    assert same(run(after), run(program(ACCUMULATE)))


def test_out_of_two_loops():
    nested = "for j in 2\n" + "".join(f"  {line}\n" for line in READ.strip().splitlines())
    after = hoist_copies(program(nested))
    assert body_text(after).startswith("alloc A_s")
    assert same(run(after), run(program(nested)))


STAYS = {
    "it moves with the loop": READ.replace("A[0:+4]", "A[(k * 4):+4]"),
    "its extent moves with the loop": READ.replace("A[0:+4]", "A[0:+min(4, (k + 2))<=4]")
    .replace("A_s[0:+4]", "A_s[0:+min(4, (k + 2))<=4]")
    .replace("C[(k * 4):+4]", "C[(k * 4):+min(4, (k + 2))<=4]"),
    "the loop is parallel": READ.replace("for k in 3", "for k in 3 parallel"),
    "the source is written in the loop": READ.replace("A[0:+4]", "C[0:+4]"),
    "the tile is written in the loop": READ
    + "  leaf g <auto>\n  | w Y = A_s[0:+4]\n  | means one\n",
    "C is read elsewhere in the loop": ACCUMULATE
    + "  leaf g <auto>\n  | w Y = C[4:+4]\n  | r X = C[0:+4]\n  | means copy\n",
    "it is stored elsewhere": ACCUMULATE.replace("copy C[0:+4] <-", "copy C[(k * 4):+4] <-"),
    "it is only stored": ACCUMULATE.replace("  copy C_s[0:+4] <- C[0:+4]\n", "").replace(
        "rw Y = C_s[0:+4]\n  | r X = A[(k * 4):+4]\n  | means add", "w Y = C_s[0:+4]\n  | means one"
    ),
}


@pytest.mark.parametrize("why", STAYS)
def test_what_stays_in_the_loop(why):
    before = program(STAYS[why])
    assert hoist_copies(before) == before
    run(before)


def test_a_too_early_hoist_shows():
    """A planted bug: moving what is written in the loop gives another result."""
    before = STAYS["the source is written in the loop"]
    moved = "alloc A_s: SHARED float32[4]\ncopy A_s[0:+4] <- C[0:+4]\n" + before.replace(
        "  alloc A_s: SHARED float32[4]\n  copy A_s[0:+4] <- C[0:+4]\n", ""
    )
    # iteration 0 changes C[0:4], iteration 1 must see that
    assert not same(run(program(moved)), run(program(before)))


def test_hoisting_a_moving_load_is_refused_by_the_spec():
    from septran.errors import InternalError

    moved = "alloc A_s: SHARED float32[4]\ncopy A_s[0:+4] <- A[(k * 4):+4]\n" + READ.replace(
        "  alloc A_s: SHARED float32[4]\n  copy A_s[0:+4] <- A[0:+4]\n", ""
    )
    with pytest.raises(InternalError, match=r"unbound variables \['k'\]"):
        run(program(moved))
