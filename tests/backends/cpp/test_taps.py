"""Products of a window's taps become one call, whose sums stay in registers."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from septran.ir.nodes import leaf_calls
from septran.passes.merge_taps import merge_taps
from septran.plan.resolve import GenRequest
from septran.plan.unmapped import MERGED as TAPS_LAW
from septran.run.prove import prove_request
from tests.backends.cpp.programs import prim, run_leaf
from tests.backends.cpp.test_leaves import rand
from tests.passes.writing import body_text, program

ZERO = """
leaf zero <auto>
| w C = {out}
| prim {{"name": "fill", "out": "C", "ins": [], "named": {{}}, "attrs": {{"value": {value}}}}}
"""
TAPS = """
for r in {r}
  for s in {s}
    leaf mma <auto>
    | rw C = C[0:+4]
    | r A = A[(r * 3 + s):+4]
    | r B = B[(r + s):+4]
    | prim {{"name": "gemm_acc", "out": "C", "ins": ["A", "B"], "named": {{}}, "attrs": {{}}}}
"""


def merged(r: int, s: int, zero: str = "") -> tuple[str, list[list[str]]]:
    """Return the text behind the pass and the primitives of each call."""
    after = merge_taps(program(zero + TAPS.format(r=r, s=s)))
    return body_text(after), [[p.name for p in call.prims] for call in leaf_calls(after)]


def test_a_nest_of_taps_is_one_call_that_starts_the_sums():
    after, prims = merged(2, 3, ZERO.format(out="C[0:+4]", value=0.0))
    assert "for " not in after and prims == [["gemm"] + ["gemm_acc"] * 5]
    assert "| w C = C[0:+4]" in after
    assert "| r A_6 = A[5:+4]" in after and "| r B_6 = B[3:+4]" in after


@pytest.mark.parametrize(("out", "value"), [("C[0:+4]", 1.0), ("C[4:+4]", 0.0)])
def test_sums_that_begin_with_more_than_zero_are_added_to(out, value):
    _, prims = merged(2, 3, ZERO.format(out=out, value=value))
    assert prims == [["fill"], ["gemm_acc"] * 6]


def test_more_taps_than_one_call_takes_stay_in_a_loop():
    after, prims = merged(7, 5)
    assert "for r in 7" in after and "for s" not in after and prims == [["gemm_acc"] * 5]


def conv(taps, rows, inside, columns, dtype="float32", *, acc=False):
    """Return C of `taps` shifted views of one strip and their weights, and what numpy makes of it."""
    lines, width = rows
    strip = rand((lines, width + taps - 1, inside)).astype(dtype)
    weights = [rand((1, inside, columns), seed=t + 1).astype(dtype) for t in range(taps)]
    ins, prims = {}, []
    for t in range(taps):
        ins[f"A{t}"], ins[f"B{t}"] = strip[:, t : t + width].copy(), weights[t]
        name = "gemm" if t == 0 and not acc else "gemm_acc"
        prims.append(prim(name, "C", f"A{t}", f"B{t}"))
    found = run_leaf(prims, ins, {"C": ((lines, width, columns), dtype)})["C"]
    wide = [ins[f"A{t}"].astype("float64") @ weights[t][0].astype("float64") for t in range(taps)]
    return found, sum(wide)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "rows",
    [(2, 13), *(pytest.param(r, marks=pytest.mark.wider) for r in ((3, 3), (2, 30), (5, 8)))],
)
@pytest.mark.parametrize(("inside", "columns"), [(3, 16), (5, 10), (33, 48)])
def test_sums_over_taps(rows, inside, columns):
    found, wanted = conv(3, rows, inside, columns)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.wider
@pytest.mark.parametrize("inside", [600, pytest.param(1200, marks=pytest.mark.wider)])
def test_long_chains_are_cut_at_taps(inside):
    found, wanted = conv(3, (2, 7), inside, 24)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.wider
def test_float64():
    found, wanted = conv(4, (3, 9), 7, 24, "float64")
    np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-13)


@functools.cache
def _whole_line():
    return conv(3, (1, 29), 65, 48)[0]


@pytest.mark.wider
@pytest.mark.parametrize(
    "width",
    [5, *(pytest.param(w, marks=pytest.mark.wider) for w in (1, 2, 3, 4, 7, 12, 13, 28))],
)
def test_a_row_does_not_depend_on_how_many_are_taken_together(width):
    part, _ = conv(3, (1, width), 65, 48)
    assert np.array_equal(part, _whole_line()[:, :width])


@pytest.mark.parametrize("op", ["conv2d", "conv2d_stride2"])
def test_the_merged_call_is_proven_to_be_the_logic_s(op):
    certificate = prove_request(GenRequest(op=op, backend="cpp")).certificate
    states = {rule.rule: rule.state for rule in certificate.rules}
    assert states["data"] == states["sums"] == states["text"] == "proved"
    assert TAPS_LAW in certificate.assumptions
