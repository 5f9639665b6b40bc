"""Vendor tables: the same Program in three call sets gives the same numbers; gaps are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from septran.backends import dsa_c, dsa_emit
from septran.backends.dsa_vendor import load_vendor, vendor_of
from septran.errors import ConfigError
from septran.ir.nodes import Prim
from septran.kernel import leaf_specs
from septran.passes.pipeline_loops import pipeline_loops
from tests.backends.dsa_c_tools import run_text
from tests.backends.dsa_programs import gemm, rows

WORDS = {
    "vendor_lib": "vendor_lib_mma(",
    "bdc_style": "bdc_mm(",
    "systolic_style": "sa_preload(",
}


def emit(program, vendor: str):
    leaves = {s.key: dsa_emit.library_leaf(s) for _, s in leaf_specs(program)}
    return dsa_emit.emit_for(program, leaves, load_vendor(vendor))


@pytest.mark.parametrize("vendor", WORDS)
@pytest.mark.parametrize("order", ["program", "compute"])
def test_gemm_in_each_vendor_s_words(vendor: str, order: str, tmp_path: Path) -> None:
    kernel = emit(pipeline_loops(gemm(70, 45, 50, pipeline=2)), vendor)
    assert WORDS[vendor] in kernel.source
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((70, 50), (50, 45)))
    found, report = run_text(kernel, tmp_path, [np.zeros((70, 45), np.float32), a, b], order)
    assert report["errors"] == []
    np.testing.assert_allclose(found[0], a @ b, rtol=1e-4, atol=1e-4)


EXP = (Prim(name="map", out="Y", named=(("x", "X"),), attrs=(("expr", "exp(x)"),)),)


def test_vector_operations_in_another_vendor_s_words(tmp_path: Path) -> None:
    kernel = emit(rows(EXP, {"X": ((5, 9), "float32")}, ((5, 9), "float32")), "bdc_style")
    assert "bdc_unary(VL_EXP" in kernel.source
    x = np.linspace(-1, 1, 45, dtype=np.float32).reshape(5, 9)
    found, _ = run_text(kernel, tmp_path, [np.zeros_like(x), x])
    np.testing.assert_allclose(found[0], np.exp(x), rtol=1e-6)


def test_a_missing_call_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"systolic_style has no call for dsa\.vec_exp"):
        emit(rows(EXP, {"X": ((5, 9), "float32")}, ((5, 9), "float32")), "systolic_style")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "must hold a mapping"),
        ({"calls": {"dsa.mmma": "x"}}, "unknown operation 'dsa.mmma'; did you mean 'dsa.mma'"),
        ({"calls": {}}, "no call for dsa.barrier, dsa.dma_copy"),
    ],
)
def test_broken_tables(data: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        vendor_of("mine", data)


def test_manifest_names_every_machine() -> None:
    assert dsa_c.DSA_C.arches[0] == "generic"
