"""The rules of a Program: each one broken on purpose is found, and named with the pass."""

from __future__ import annotations

import pytest

from septran.errors import InternalError
from septran.ir.spec import check_program
from septran.ir.text import parse_program

HEAD = """\
program p target=t arch=- machine=m
options {}
param w C: GLOBAL float32[100]
param r A: GLOBAL float32[100]
"""
GOOD = """\
  for i0 in 7 on CORE parallel
    alloc A_s: SHARED float32[16]
    copy A_s[0:+min(16, (100 - (i0 * 16)))<=16] <- A[(i0 * 16):+min(16, (100 - (i0 * 16)))<=16]
    sync CORE
    leaf f <auto>
    | w Y = C[(i0 * 16):+min(16, (100 - (i0 * 16)))<=16]
    | r X = A_s[0:+min(16, (100 - (i0 * 16)))<=16]
"""


def test_a_correct_program_passes():
    check_program(parse_program(HEAD + GOOD))


def test_a_guarded_read_may_reach_outside():
    check_program(parse_program(HEAD + "  copy C[0:+100] <- A[-1:+100] guard\n"))


def test_a_when_that_never_runs_there_may_hold_anything():
    text = "  for k in 8\n    when 0 <= (k - 1) < 7\n      leaf f <auto>\n      | r X = A[((k - 1) * 14):+14]\n"
    check_program(parse_program(HEAD + text))


def test_iterations_that_are_not_reached_may_hold_anything():
    leaf = "leaf f <auto>\n      | w Y = C[0:+(i - j)<=8]\n"
    check_program(parse_program(HEAD + f"  for i in 8\n    for j in i\n      {leaf}"))


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (GOOD.replace("(i0 * 16):+min", "((i0 * 16) + 1):+min", 1), "A dim 0 reaches"),
        (GOOD.replace("w Y = C[(i0 * 16):", "w Y = C[((i0 * 16) - 1):"), "C dim 0 reaches [-1, "),
        (
            GOOD.replace("A[(i0 * 16):", "A[(i0 * 20):"),
            "A dim 0 reaches [100, 115] outside [0, 100)",
        ),
        (GOOD.replace("sync CORE", "alloc A_s: SHARED float32[16]"), "A_s is allocated twice"),
        (GOOD + "  for i0 in 2\n    for i0 in 2\n      sync HOST\n", "i0"),
        (GOOD.replace("(i0 * 16):+min", "(i9 * 16):+min", 1), "unbound variables ['i9']"),
        (GOOD.replace("copy A_s[0:+min(16", "copy A_s[0:+min(15"), "extents differ"),
        (GOOD.replace("<=16]\n    | r", "<=8]\n    | r"), "over its tile 8"),
        ("  copy C[0:+100] guard <- A[0:+100]\n", "guarded region of C is written"),
        ("  leaf f <auto>\n  | rw Y = C[0:+100] guard\n", "guarded region of C is written"),
        (
            "  leaf f <auto>\n  | r X = A[0:+10::11]\n  | r Z = A[0:+11::10]\n",
            "A dim 0 reaches [0, 100]",
        ),
        ("  post e [k9] dma\n", "event e uses unbound ['k9']"),
        (
            "  for i in 3\n    leaf f <auto>\n    | w Y = C[0:+min(8, (16 - (i * 8)))<=8]\n",
            "C dim 0 is empty (extent 0) at {'i': 2}",
        ),
    ],
)
def test_planted_violations(body, told):
    with pytest.raises(InternalError) as caught:
        check_program(parse_program(HEAD + body), after="some_pass")
    assert "after some_pass: " in str(caught.value)
    assert told in str(caught.value)


def test_a_buffer_of_another_scope_is_not_allocated_here():
    text = GOOD + "  leaf g <auto>\n  | r X = A_s[0:+16]\n"
    with pytest.raises(InternalError, match="buffer A_s is not allocated here"):
        check_program(parse_program(HEAD + text))


def test_two_parameters_of_one_name():
    text = HEAD + "param r A: GLOBAL float32[100]\n  sync HOST\n"
    with pytest.raises(InternalError, match="two parameters share a name"):
        check_program(parse_program(text))
