"""Leaves written in C, in the simulator. What the library's leaves do is in tests/conformance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.backends.dsa_c_tools import kernel_of, run_text
from tests.backends.dsa_programs import gemm

MMA_LEAF = """  const vl_tile c = {C.space, C.addr, C.n[0], C.n[1], C.s[0], C.dtype};
  const vl_tile a = {A.space, A.addr, A.n[0], A.n[1], A.s[0], A.dtype};
  const vl_tile b = {B.space, B.addr, B.n[0], B.n[1], B.s[0], B.dtype};
  (void)scratch;
  vendor_lib_mma(c, a, b, 0);"""


@pytest.mark.parametrize("depth", [0, 2])
def test_a_leaf_written_in_c(depth: int, tmp_path: Path) -> None:
    from septran.passes.pipeline_loops import pipeline_loops

    program = pipeline_loops(gemm(50, 37, 45, pipeline=depth))
    kernel = kernel_of(program, own={"mma": MMA_LEAF})
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((50, 45), (45, 37)))
    found, report = run_text(kernel, tmp_path, [np.zeros((50, 37), np.float32), a, b], "compute")
    assert report["errors"] == []
    np.testing.assert_allclose(found[0], a @ b, rtol=1e-4, atol=1e-4)


def test_a_wrong_c_leaf_is_reported(tmp_path: Path) -> None:
    leaf = MMA_LEAF.replace("a, b, 0", "b, a, 0")
    kernel = kernel_of(gemm(48, 32, 32), own={"mma": leaf})
    arrays = [np.zeros(s, np.float32) for s in ((48, 32), (48, 32), (32, 32))]
    errors = run_text(kernel, tmp_path, arrays)[1]["errors"]
    assert errors == [] or "vendor_lib_mma" in errors[0]


MOVED = {
    "another address": ("vendor_lib_fill((vl_tile){VL_SPAD, 400000, 1, 16, 16, VL_F32}, 0);", "dst", "write"),
    "a row too many": ("vl_tile r = c; r.rows += 1; vendor_lib_fill(r, 0);", "dst", "write"),
    "the space between its rows": ("vl_tile r = c; r.rows = 1; r.cols = 512; vendor_lib_fill(r, 0);", "dst", "write"),
    "an operand by its own address": ("vl_tile r = c; r.space = A.space; r.addr = A.addr; r.rows = 1; r.cols = 1; vendor_lib_fill(r, 0);", "dst", "write"),
    "beyond an operand": ("vl_tile r = a; r.addr += 400000; vendor_lib_vec_unary(VL_COPY, vl_temp(scratch, 0, 1, 1), vl_part(r, 0, 0, 1, 1));", "src", "read"),
}  # fmt: skip
"""After the product: nothing that shows in the result, so each is spoilt memory that another leaf may hold."""


def test_a_leaf_reaches_what_it_was_given(tmp_path: Path) -> None:
    arrays = [np.zeros(s, np.float32) for s in ((50, 37), (50, 45), (45, 37))]
    moves = "\n".join(f"{{ {moved} }}" for moved, _, _ in MOVED.values())
    leaf = f"{MMA_LEAF}\nvendor_lib_sync();\n{moves}"
    kernel = kernel_of(gemm(50, 37, 45), own={"mma": leaf})
    errors = run_text(kernel, tmp_path, arrays)[1]["errors"]
    # by line: what lies between rows is a leaf's own where its tile is full
    for told, (moved, name, verb) in zip(sorted(set(errors)), MOVED.values(), strict=True):
        assert f"{name}: " in told and f"outside what the leaf was given to {verb}" in told, moved


def test_parts_of_what_it_was_given_are_its_own(tmp_path: Path) -> None:
    """Rows and columns of a view, all of a view without gaps as one row, and the scratch by another type."""
    leaf = (
        MMA_LEAF
        + """
  vendor_lib_sync();
  vl_tile t = vl_temp(scratch, 65536 - 64, 1, 16);
  vl_tile h = {scratch.space, scratch.addr, 4, 40, 64, VL_F16};
  vendor_lib_fill(t, 1);
  vendor_lib_fill(h, 1);
  vendor_lib_vec_unary(VL_COPY, vl_part(c, 1, 0, 1, 2), vl_part(c, 1, 0, 1, 2));"""
    )
    kernel = kernel_of(gemm(50, 37, 45), own={"mma": leaf})
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((50, 45), (45, 37)))
    found, report = run_text(kernel, tmp_path, [np.zeros((50, 37), np.float32), a, b])
    assert report["errors"] == []
    np.testing.assert_allclose(found[0], a @ b, rtol=1e-4, atol=1e-4)


def test_products_of_one_call_are_added_up_apart(tmp_path: Path) -> None:
    """64 terms of half a unit in C's last place: one by one each would be rounded away."""
    kernel = kernel_of(gemm(16, 16, 128, tile=(16, 16, 64)))
    a = np.full((16, 128), 2.0**-6, np.float32)
    a[:, 64:] = 2.0**-25
    found, report = run_text(
        kernel, tmp_path, [np.zeros((16, 16), np.float32), a, np.ones((128, 16), np.float32)]
    )
    assert report["errors"] == []
    assert (found[0] == 1 + 2.0**-19).all()
