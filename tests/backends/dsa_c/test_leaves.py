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
