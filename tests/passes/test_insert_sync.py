"""insert_sync: a Sync where a statement needs a copy, also around loops and at the end; no others."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from septran.ir.text import print_program
from septran.passes.insert_sync import insert_sync
from septran.passes.interpret import Hazard
from tests.passes.writing import body_text, program, run, same, text

READ = """
for i0 in 3 on CORE parallel
  alloc A_s: SHARED float32[4]
  copy A_s[0:+4] <- A[(i0 * 4):+4]
  leaf f <auto>
  | rw Y = C[(i0 * 4):+4]
  | r X = A_s[0:+4]
  | means add
"""
STREAM = """
for i0 in 1 on CORE parallel
  alloc t: SHARED float32[4]
  for k in 3
    copy t[0:+4] <- A[(k * 4):+4]
    leaf f <auto>
    | rw Y = C[0:+4]
    | r X = t[0:+4]
    | means add
  copy C[8:+4] <- t[0:+4]
"""
STAGED = """
alloc A_s: SHARED float32[12]
for b in 1 on BLOCK parallel
  copy A_s[0:+12] <- A[0:+12]
  for w in 3 on WARP parallel
    leaf f <auto>
    | rw Y = C[(w * 4):+4]
    | r X = A_s[(w * 4):+4]
    | means add
"""


def both(p):
    late, early = run(p, "late"), run(p, "early")
    assert same(late, early), (late, early)
    return late


def test_read_after_copy():
    assert body_text(insert_sync(program(READ))) == text("""
        for i0 in 3 on CORE parallel
          alloc A_s: SHARED float32[4]
          copy A_s[0:+4] <- A[(i0 * 4):+4]
          sync CORE
          leaf f <auto>
          | rw Y = C[(i0 * 4):+4]
          | r X = A_s[0:+4]
        """)


def test_around_the_loop_and_at_the_end():
    after = insert_sync(program(STREAM))
    assert body_text(after) == text("""
        for i0 in 1 on CORE parallel
          alloc t: SHARED float32[4]
          for k in 3
            sync CORE
            copy t[0:+4] <- A[(k * 4):+4]
            sync CORE
            leaf f <auto>
            | rw Y = C[0:+4]
            | r X = t[0:+4]
          sync CORE
          copy C[8:+4] <- t[0:+4]
          sync CORE
        """)
    assert both(after)[8:].tolist() == [9, 10, 11, 12]


def test_a_processor_loop_inside_another_sees_the_copies_before_it():
    both(insert_sync(program(STAGED)))


def test_a_copy_after_a_processor_loop_waits_for_what_it_wrote():
    body = """
    for b in 1 on BLOCK parallel
      alloc s: SHARED float32[12]
      for w in 3 on WARP parallel
        leaf f <auto>
        | w Y = s[(w * 4):+4]
        | means one
      copy C[0:+12] <- s[0:+12]
    """
    lines = body_text(insert_sync(program(body))).splitlines()
    at = next(i for i, line in enumerate(lines) if line.strip().startswith("copy"))
    assert lines[at - 1].strip() == "sync BLOCK"


def test_programs_without_copies_are_left_untouched():
    plain = program(
        "for i0 in 3 on CORE parallel\n  leaf f <auto>\n  | rw Y = C[(i0 * 4):+4]\n"
        "  | r X = A[(i0 * 4):+4]\n  | means add\n"
    )
    assert insert_sync(plain) == plain


def test_private_tiles_need_no_sync_between_leaves():
    body = """
    for i0 in 1 on BLOCK parallel
      alloc r: REGISTER float32[12]
      leaf f <auto>
      | w Y = r[0:+12]
      | means one
      leaf g <auto>
      | rw Y = C[0:+12]
      | r X = r[0:+12]
      | means add
    """
    assert "sync" not in body_text(insert_sync(program(body)))
    assert "sync BLOCK" in body_text(insert_sync(program(body), private=()))


@pytest.mark.parametrize("body", [READ, STREAM])
def test_each_missing_sync_shows(body):
    """A planted bug: any Sync left out is stale data, NaN or a copy nobody waited for.

    The write-after-read Sync at the top of the streamed loop is the exception: the interpreter's
    leaves are not delayed, so only the text shows it (above).
    """
    good = insert_sync(program(body))
    wanted = both(good)
    lines = [line[2:] for line in print_program(good).splitlines() if line.startswith("  ")]
    at = [i for i, line in enumerate(lines) if line.strip().startswith("sync")]
    shown = 0
    for i in at:
        try:
            shown += not same(run(program("\n".join(lines[:i] + lines[i + 1 :])), "late"), wanted)
        except Hazard:
            shown += 1
    before_copy = [i for i in at if i + 1 < len(lines) and lines[i + 1].strip().startswith("copy")]
    assert shown >= len(at) - len(before_copy) > 0


SIMPLE = st.sampled_from(
    [
        "copy t[0:+4] <- A[0:+4]",
        "copy t[0:+4] <- C[0:+4]",
        "copy u[0:+4] <- t[0:+4]",
        "copy u[0:+4] <- B[4:+4]",
        "copy C[0:+4] <- u[0:+4]",
        "copy C[4:+4] <- t[0:+4]",
        "leaf f <auto>\n| rw Y = C[0:+4]\n| r X = t[0:+4]\n| means add",
        "leaf g <auto>\n| w Y = t[0:+4]\n| means one",
        "leaf h <auto>\n| w Y = u[0:+4]\n| r X = t[0:+4]\n| means twice",
    ]
)


def indent(items, by):
    return "\n".join(" " * by + line for item in items for line in item.splitlines())


@settings(max_examples=120, deadline=None, derandomize=True)
@given(
    st.lists(SIMPLE, max_size=3),
    st.lists(SIMPLE, min_size=1, max_size=4),
    st.lists(SIMPLE, max_size=3),
)
def test_late_and_early_copies_agree_on_random_programs(before, loop, after):
    body = "\n".join(
        [
            "for i0 in 1 on CORE parallel",
            "  alloc t: SHARED float32[4]",
            "  alloc u: SHARED float32[4]",
            "  leaf z <auto>\n  | w Y = t[0:+4]\n  | means one",
            "  leaf z <auto>\n  | w Y = u[0:+4]\n  | means one",
            *([indent(before, 2)] if before else []),
            "  for k in 3",
            indent(loop, 4),
            *([indent(after, 2)] if after else []),
        ]
    )
    both(insert_sync(program(body)))


def test_random_programs_do_need_their_syncs():
    """Without the pass, the same statements in some order differ: the test above can fail."""
    copies = [
        "copy t[0:+4] <- A[0:+4]",
        "leaf f <auto>\n| rw Y = C[0:+4]\n| r X = t[0:+4]\n| means add",
    ]
    different = 0
    for order in itertools.permutations(copies):
        body = (
            "for i0 in 1 on CORE parallel\n  alloc t: SHARED float32[4]\n"
            "  leaf z <auto>\n  | w Y = t[0:+4]\n  | means one\n"
            + indent(order, 2)
            + "\n  sync CORE"
        )
        different += not same(run(program(body), "late"), run(program(body), "early"))
    assert different == 1
