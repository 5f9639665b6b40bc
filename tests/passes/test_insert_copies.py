"""insert_copies: operands wanted elsewhere are staged; the rest is left alone."""

from __future__ import annotations

import pytest

from septran.errors import MappingError
from septran.ir.nodes import Alloc, Copy
from septran.passes.insert_copies import insert_copies
from tests.passes.writing import body_text, program, run, same, text

BEFORE = """
for i0 in 3 on CORE parallel
  leaf f <auto>
  | rw Y = C[(i0 * 4):+4] -> SHARED
  | r X = A[(i0 * 4):+4] -> SHARED
  | means add
"""
AFTER = """
for i0 in 3 on CORE parallel
  alloc C_s: SHARED float32[4]
  copy C_s[0:+4] <- C[(i0 * 4):+4]
  alloc A_s: SHARED float32[4]
  copy A_s[0:+4] <- A[(i0 * 4):+4]
  leaf f <auto>
  | rw Y = C_s[0:+4]
  | r X = A_s[0:+4]
  copy C[(i0 * 4):+4] <- C_s[0:+4]
"""


def test_reads_are_copied_in_and_writes_copied_out():
    assert body_text(insert_copies(program(BEFORE))) == text(AFTER)


def test_a_written_operand_is_not_copied_in():
    before = BEFORE.replace("rw Y", "w Y").replace("means add", "means copy")
    after = insert_copies(program(before))
    assert "copy C_s" not in body_text(after)
    assert "copy C[(i0 * 4):+4] <- C_s[0:+4]" in body_text(after)


def test_operands_in_place_are_left_untouched():
    plain = program(BEFORE.replace(" -> SHARED", ""))
    assert insert_copies(plain) == plain
    held = program(BEFORE.replace(" -> SHARED", " -> GLOBAL"))
    assert insert_copies(held) == plain


def test_a_ragged_tile_is_staged_at_its_full_size():
    ragged = "(i0 * 5):+min(5, (12 - (i0 * 5)))<=5"
    after = insert_copies(program(BEFORE.replace("(i0 * 4):+4", ragged)))
    assert "alloc A_s: SHARED float32[5]" in body_text(after)
    assert "copy A_s[0:+min(5, (12 - (i0 * 5)))<=5] <- A[" in body_text(after)
    plain = program(BEFORE.replace("(i0 * 4):+4", ragged).replace(" -> SHARED", ""))
    assert same(run(after), run(plain))


def test_fresh_names_avoid_taken_ones():
    body = "alloc A_s: SHARED float32[4]\n" + BEFORE.strip()
    assert "alloc A_s_2: SHARED" in body_text(insert_copies(program(body)))


def test_half_accumulators_are_staged_in_float32():
    body = """
    leaf f <auto>
    | rw C = H[0:+4, 0:+4] -> REGISTER
    | r A = H[0:+4, 0:+4] -> SHARED
    | r B = H[0:+4, 0:+4] -> SHARED
    | prim {"name": "gemm_acc", "out": "C", "ins": ["A", "B"], "named": {}, "attrs": {}}
    """
    p = program("alloc H: GLOBAL float16[4, 4]\n" + text(body))
    kinds = {s.buffer.mem: s.buffer.dtype for s in insert_copies(p).body if isinstance(s, Alloc)}
    assert kinds == {"GLOBAL": "float16", "REGISTER": "float32", "SHARED": "float16"}


def test_a_layout_is_what_the_leaf_asks_for_and_only_on_reads():
    after = insert_copies(program(BEFORE), lambda call: {"X": "panel_m:2", "Y": "panel_n:2"})
    layouts = {s.buffer.name: s.buffer.layout for s in after.body[0].body if isinstance(s, Alloc)}
    assert layouts == {"C_s": "row", "A_s": "panel_m:2"}


def test_a_padded_window_needs_a_memory():
    body = "leaf f <auto>\n| r X = A[-1:+4] guard\n| w Y = C[0:+4]\n| means copy\n"
    with pytest.raises(MappingError, match="A is read through a padded window") as caught:
        insert_copies(program(body))
    assert caught.value.codes == ("M015",)
    staged = insert_copies(program(body.replace("guard", "guard -> GLOBAL")))
    assert run(staged)[:4].tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("dropped", ["copy A_s", "copy C_s", "copy C["])
def test_a_dropped_copy_shows(dropped):
    """A planted bug: each copy of the pass's output, left out, changes the result."""
    good = insert_copies(program(BEFORE))
    bad = program("\n".join(line for line in _lines(good) if not line.strip().startswith(dropped)))
    assert sum(isinstance(s, Copy) for s in bad.body[0].body) == 2
    assert same(run(good), run(program(BEFORE.replace(" -> SHARED", ""))))
    assert not same(run(bad), run(good))


def _lines(p):
    from septran.ir.text import print_program

    return [line[2:] for line in print_program(p).splitlines() if line.startswith("  ")]
