"""merge_stages: one region staged twice shares a buffer, when nothing else touches it in between."""

from __future__ import annotations

import pytest

from septran.passes.merge_stages import merge_stages
from tests.passes.writing import body_text, program, run, same, text

BEFORE = """
alloc C_s: SHARED float32[12]
copy C_s[0:+12] <- C[0:+12]
leaf f <auto>
| rw Y = C_s[0:+12]
| r X = A[0:+12]
| means add
copy C[0:+12] <- C_s[0:+12]
alloc C_s_2: SHARED float32[12]
copy C_s_2[0:+12] <- C[0:+12]
leaf g <auto>
| rw Y = C_s_2[0:+12]
| r X = B[0:+12]
| means add
copy C[0:+12] <- C_s_2[0:+12]
"""
AFTER = """
alloc C_s: SHARED float32[12]
copy C_s[0:+12] <- C[0:+12]
leaf f <auto>
| rw Y = C_s[0:+12]
| r X = A[0:+12]
leaf g <auto>
| rw Y = C_s[0:+12]
| r X = B[0:+12]
copy C[0:+12] <- C_s[0:+12]
"""


def test_a_second_stage_of_one_region_goes():
    after = merge_stages(program(BEFORE))
    assert body_text(after) == text(AFTER)
    assert same(run(after), run(program(BEFORE)))


def test_two_readers_share_one_load():
    before = """
    alloc A_s: SHARED float32[12]
    copy A_s[0:+12] <- A[0:+12]
    leaf f <auto>
    | w Y = C[0:+12]
    | r X = A_s[0:+12]
    | means copy
    alloc A_s_2: SHARED float32[12]
    copy A_s_2[0:+12] <- A[0:+12]
    leaf g <auto>
    | rw Y = C[0:+12]
    | r X = A_s_2[0:+12]
    | means add
    """
    after = merge_stages(program(before))
    assert body_text(after).count("copy ") == 1
    assert "A_s_2" not in body_text(after)
    assert same(run(after), run(program(before)))


UNTOUCHED = {
    "another region": BEFORE.replace(
        "copy C_s_2[0:+12] <- C[0:+12]", "copy C_s_2[0:+8] <- C[0:+8]"
    ),
    "another memory": BEFORE.replace("C_s_2: SHARED", "C_s_2: REGISTER"),
    "another dtype": BEFORE.replace("C_s_2: SHARED float32", "C_s_2: SHARED float16"),
    "another layout": BEFORE.replace(
        "C_s_2: SHARED float32[12]", "C_s_2: SHARED float32[12] layout=q"
    ),
    "a write in between": BEFORE.replace(
        "alloc C_s_2", "leaf h <auto>\n| w Y = C[4:+4]\n| means one\nalloc C_s_2"
    ),
    "a write in a loop in between": BEFORE.replace(
        "alloc C_s_2", "for k in 2\n  leaf h <auto>\n  | w Y = C[k:+1]\n  | means one\nalloc C_s_2"
    ),
}


@pytest.mark.parametrize("why", UNTOUCHED)
def test_what_is_not_the_same_is_left(why):
    before = program(UNTOUCHED[why])
    assert "C_s_2" in body_text(merge_stages(before))
    if why.startswith("a write"):
        assert same(run(merge_stages(before)), run(before))


def test_a_store_someone_reads_stays():
    before = program(
        BEFORE.replace(
            "alloc C_s_2",
            "alloc t: SHARED float32[4]\ncopy t[0:+4] <- C[0:+4]\nalloc C_s_2",
        )
    )
    after = merge_stages(before)
    assert body_text(after).count("copy C[0:+12] <- C_s[0:+12]") == 2
    assert same(run(after), run(before))


def test_a_wrong_merge_shows():
    """A planted bug: sharing the stage although C changed in between gives another result."""
    before = UNTOUCHED["a write in between"]
    wrong = before.replace("copy C_s_2[0:+12] <- C[0:+12]\n", "").replace("C_s_2", "C_s")
    wrong = wrong.replace("alloc C_s: SHARED float32[12]\nleaf g", "leaf g")
    assert not same(run(program(wrong)), run(program(before)))
