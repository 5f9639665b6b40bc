"""Windows are brought in once for all taps, and panels that every tile packs are packed before them."""

from __future__ import annotations

import pytest
import torch

from septran.backends.cpp.windows import share_panels, stage_windows
from septran.ir.spec import check_program
from septran.ir.text import parse_program
from septran.passes.interpret import interpret
from septran.prove.dataflow import same_data
from septran.prove.sets import model
from tests.passes.writing import body_text, program, run, same, text

TAPS = """
for i in 2
  for k in {taps}
    alloc A_s: SHARED float32[4]
    copy A_s[0:+4] <- A[(i * {tile} + k * {apart}):+4]
    leaf f <auto>
    | rw Y = C[(i * 4):+4]
    | r X = A_s[0:+4]
    | means add
"""


def taps(taps: int, apart: int, tile: int = 4) -> str:
    return TAPS.format(taps=taps, apart=apart, tile=tile)


def test_overlapping_taps_become_one_window():
    one = program("for k in 5\n" + "".join(f"  {t}\n" for t in """\
alloc A_s: SHARED float32[4]
copy A_s[0:+4] <- A[(1 + k):+4]
leaf f <auto>
| rw Y = C[0:+4]
| r X = A_s[0:+4]
| means add""".splitlines()))  # fmt: skip
    after = stage_windows(one)
    assert body_text(after) == text("""
        alloc A_s_w: SHARED float32[8]
        copy A_s_w[0:+8] <- A[1:+8]
        for k in 5
          leaf f <auto>
          | rw Y = C[0:+4]
          | r X = A_s_w[k:+4]
        """)
    assert same(run(after), run(one))


def test_the_loop_that_only_moves_the_window_stays_around_it():
    before = program(taps(3, 1, 6).replace("for i in 2", "for i in 2 on CORE parallel"))
    after = stage_windows(before)
    assert "copy A_s_w[0:+6] <- A[(i * 6):+6]" in body_text(after)
    assert same(run(after), run(before))


@pytest.mark.parametrize(("many", "apart"), [(2, 4), (3, 4), (2, 3)])
def test_tiles_that_hardly_overlap_stay_apart(many, apart):
    before = program(taps(many, apart, 0).replace("for i in 2", "for i in 1"))
    assert stage_windows(before) == before


def test_a_tile_that_the_loop_changes_is_copied_each_time():
    text_ = taps(5, 1, 0).replace("for i in 2", "for i in 1").replace("<- A[", "<- C[")
    before = program(text_)
    assert stage_windows(before) == before


PANELS = """
program p target=t arch=- machine=m
options {}
param rw Y: GLOBAL float32[4,1,70]
param r W: GLOBAL float32[3,2,70]
  for i in 4 on CORE parallel
    for n in 3
      for r in 3
        alloc W_s: SHARED float32[1,2,%(cols)d] layout=panel_n:32
        copy W_s[0:+1, 0:+2, 0:+%(count)s] <- W[r:+1, 0:+2, (n * %(cols)d):+%(count)s]
        leaf f <auto>
        | rw C = Y[i:+1, 0:+1, (n * %(cols)d):+%(count)s]
        | r B = W_s[0:+1, 0:+2, 0:+%(count)s]
        | prim {"name": "reduce_acc", "out": "C", "ins": ["B"], "named": {}, "attrs": {"op": "sum", "axis": 1}}
"""


def panels(cols: int) -> str:
    count = f"min({cols}, 70 - n * {cols})"
    return PANELS.strip() % {"cols": cols, "count": f"{count}<={cols}"}


def summed(source: str, *, shared: bool) -> torch.Tensor:
    before = parse_program(source)
    after = share_panels(before) if shared else before
    check_program(after)
    y, w = torch.zeros(4, 1, 70), torch.arange(420.0).reshape(3, 2, 70)
    interpret(after, {"Y": y, "W": w})
    return y


def test_panels_that_every_tile_packs_are_packed_once():
    after = body_text(share_panels(parse_program(panels(32))))
    assert after.startswith("alloc W_s_all: SHARED float32[3, 2, 70] layout=panel_n:32\n")
    assert after.count("copy ") == 1 and after.index("copy ") < after.index("for i in 4")
    assert "| r B = W_s_all[r:+1, 0:+2, (n * 32):+" in after
    assert torch.equal(summed(panels(32), shared=True), summed(panels(32), shared=False))


def test_panels_that_begin_inside_others_are_not_shared():
    before = parse_program(panels(24))
    assert share_panels(before) == before


def test_what_the_tiles_write_is_not_packed_before_them():
    before = parse_program(panels(32).replace("<- W[", "<- Y3[").replace(
        "param r W: GLOBAL float32[3,2,70]", "param rw Y3: GLOBAL float32[3,2,70]"
    ) + "\n    leaf g <auto>\n    | w Z = Y3[0:+1, 0:+1, 0:+1]\n"
        '    | prim {"name": "fill", "out": "Z", "ins": [], "named": {}, "attrs": {"value": 1.0}}\n')  # fmt: skip
    assert share_panels(before) == before


ROWS = """
program p target=t arch=- machine=m
options {}
param rw Y: GLOBAL float32[10,%(rows)d,1]
param r K: GLOBAL float32[2,%(rows)d,3]
param r V: GLOBAL float32[2,%(rows)d,3]
  for z in 2 on CORE parallel
    for i in 5 on CORE parallel
      for k in min(3, i + 1)
        alloc K_s: SHARED float32[1,%(tile)d,3] layout=panel_n_t:32
        copy K_s[0:+1, 0:+%(count)s, 0:+3] <- K[z:+1, (k * %(tile)d):+%(count)s, 0:+3]
        alloc V_s: SHARED float32[1,%(tile)d,3] layout=panel_n:32
        copy V_s[0:+1, 0:+%(count)s, 0:+3] <- V[z:+1, (k * %(tile)d):+%(count)s, 0:+3]
        leaf f <auto>
        | rw C = Y[(i * 2 + z):+1, (k * %(tile)d):+%(count)s, 0:+1]
        | r A = K_s[0:+1, 0:+%(count)s, 0:+3]
        | r B = V_s[0:+1, 0:+%(count)s, 0:+3]
        | prim {"name": "reduce_acc", "out": "C", "ins": ["A"], "named": {}, "attrs": {"op": "sum", "axis": 2}}
        | prim {"name": "reduce_acc", "out": "C", "ins": ["B"], "named": {}, "attrs": {"op": "sum", "axis": 2}}
"""


def rows_of(rows: int, tile: int) -> str:
    count = f"min({tile}, {rows} - k * {tile})<={tile}"
    return ROWS.strip() % {"rows": rows, "tile": tile, "count": count}


def summed_rows(source: str, *, shared: bool) -> torch.Tensor:
    before = parse_program(source)
    after = share_panels(before) if shared else before
    check_program(after)
    y = torch.zeros(before.params[0].buffer.shape)
    tensors = {n: torch.rand(2, y.shape[1], 3, generator=torch.manual_seed(0)) for n in ("K", "V")}
    interpret(after, {"Y": y, **tensors})
    return y


@pytest.mark.parametrize("rows", [96, 77])
def test_panels_of_rows_are_packed_once_under_a_loop_whose_extent_is_not_known(rows):
    source = rows_of(rows, 32)
    after = body_text(share_panels(parse_program(source)))
    assert "alloc K_s_all: SHARED float32[2, 96, 3] layout=panel_n_t:32\n" in after
    assert f"alloc V_s_all: SHARED float32[2, {rows}, 3] layout=panel_n:32\n" in after
    assert after.count("copy ") == 2 and after.rindex("copy ") < after.index("for z in 2")
    assert "| r A = K_s_all[z:+1, (k * 32):+" in after
    assert torch.equal(summed_rows(source, shared=True), summed_rows(source, shared=False))


def test_rows_that_begin_inside_panels_are_not_shared():
    after = body_text(share_panels(parse_program(rows_of(96, 40))))
    assert "K_s_all" not in after and "V_s_all" in after


def test_proofs_follow_panels_that_are_packed_before():
    # positions are p_0, p_1 .. in them; a loop of that name would be taken for one
    before, after = (parse_program(rows_of(96, 32)) for _ in range(2))
    found = same_data(model(share_panels(after)), model(before))
    assert not list(found)
