"""Vendor tables: the same Program in three call sets gives the same numbers; gaps are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from septran.assets import find
from septran.backends.dsa import backend as dsa_c
from septran.backends.dsa import emit as dsa_emit
from septran.backends.dsa.machine import storage
from septran.backends.dsa.vendor import load_vendor, vendor_of
from septran.errors import ConfigError
from septran.ir.nodes import Prim
from septran.passes.pipeline_loops import pipeline_loops
from tests.backends.dsa_c_tools import run_text
from tests.backends.dsa_programs import gemm, rows

WORDS = {
    "vendor_lib": "vendor_lib_mma(",
    "bdc_style": "bdc_mm(",
    "systolic_style": "sa_preload(",
}


def emit(program, vendor: str):
    return dsa_emit.emit_for(dsa_c.DSA_C.finished(program, {}), {}, load_vendor(vendor))


@pytest.mark.few(2)
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
        ({"calls": []}, "no call for dsa.barrier, dsa.dma_copy"),
        ({"calls": [1]}, "calls must be a mapping"),
        ({"calls": {"dsa.mma": 7}}, "dsa.mma: neither a C statement nor template and ops"),
        (
            {"calls": {"dsa.mma": "f({d}, {bb});"}},
            r"dsa.mma: nothing is called \{bb\} here; there is \{a\} \{b\} \{d\} \{flags\}",
        ),
        ({"calls": {"dsa.sync": "f({d});"}}, r"dsa.sync: nothing is called \{d\} here; .* none"),
        ({"calls": {"dsa.fill": "f({d.adress});"}}, r"\{d.adress\}: a tile has address, bytes"),
        ({"calls": {"dsa.sync": "{ f(); }"}}, r"dsa.sync: .*|a brace of C is written twice"),
        ({"calls": {"dsa.vec_*": {"template": "f()"}}}, "neither a C statement nor template"),
        (
            {"calls": {"dsa.vec_*": {"template": "f({op}, {b})", "ops": {"exp": "E"}}}},
            r"dsa.vec_exp: nothing is called \{b\} here; there is \{a\} \{cols\} \{d\} \{rows\}",
        ),
    ],
)
def test_broken_tables(data: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        vendor_of("mine", data)


def changed(folder: Path, old: str, new: str) -> Path:
    text = find("configs/vendors/vendor_lib.yaml").path.read_text(encoding="utf-8")
    assert old in text
    path = folder / "mine.yaml"
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[vendor_lib.h]", "[vendor_lub.h]", "headers: 'vendor_lub.h' is neither in texts nor .*vendor_lib.h"),
        ("sim_cost.c]", "cost.c]", "sources: 'cost.c' is neither in texts nor shipped"),
        ("{pointer}, {bytes}u", "{pointer}, {size}u", r"bind: nothing is called \{size\} here"),
        ("{ld}, {dtype})", "{pich}, {dtype})", r"operand: nothing is called \{pich\} here"),
        ("VL_S({offset})", "VL_S({at})", r"SHARED: nothing is called \{at\} here; .* \{offset\}"),
        ("{d}, {a}, {b}, {flags}", "{d}, {a}, {x}, {flags}", r"dsa.mma: nothing is called \{x\}"),
        ("memory:", "memories:", "key 'memory' is missing"),
    ],
)  # fmt: skip
def test_a_broken_file_is_told_with_its_line(
    old: str, new: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asset = replace(find("configs/vendors/vendor_lib.yaml"), path=changed(tmp_path, old, new))
    monkeypatch.setattr("septran.assets.find", lambda _name: asset)
    with pytest.raises(ConfigError, match=message) as told:
        load_vendor("mine")
    span = told.value.diagnostics[0].span
    if "is missing" not in message:
        assert span is not None
        lines = asset.path.read_text(encoding="utf-8").splitlines()
        assert new.partition(":")[0].split("(")[0] in "\n".join(lines[span.line - 1 :])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("mma_pitch: 16", "mma_pich: 16", "unknown limit 'mma_pich'; did you mean 'mma_pitch'"),
        ("cores: 4", "cores: 0", "cores is a whole number from 1, not 0"),
        ("cores: 4", "cores: 999", "the simulator has at most 200"),
        ("events: 64", "events: many", "events is a whole number from 1, not 'many'"),
        ("mma: [16, 16, 1]", "mma: [16, 16]", "mma is .rows, columns, depth per cycle."),
        ("capacity: 131072, ", "", "memory REGISTER needs a capacity in bytes"),
    ],
)
def test_a_machine_that_cannot_be(
    old: str, new: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = find("configs/machines/dsa_c.yaml")
    text = known.path.read_text(encoding="utf-8")
    assert old in text
    asset = replace(known, path=tmp_path / "odd.yaml")
    asset.path.write_text(text.replace(old, new), encoding="utf-8")
    monkeypatch.setattr("septran.assets.find", lambda _name: asset)
    monkeypatch.setattr("septran.machine.find", lambda _name: asset)
    with pytest.raises(ConfigError, match=message) as told:
        storage("odd")
    span = told.value.diagnostics[0].span
    assert span is not None
    if new:
        assert new in asset.path.read_text(encoding="utf-8").splitlines()[span.line - 1]


def test_a_table_that_extends_itself_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asset = replace(find("configs/vendors/vendor_lib.yaml"), path=tmp_path / "loop.yaml")
    asset.path.write_text("extends: loop\n", encoding="utf-8")
    monkeypatch.setattr("septran.assets.find", lambda name: asset)
    with pytest.raises(ConfigError, match="vendor table loop: extends loop, which extends it"):
        load_vendor("loop")


def test_the_compiler_takes_no_warning(tmp_path: Path) -> None:
    kernel = emit(gemm(), "vendor_lib")
    sloppy = kernel.source.replace(
        "static void kernel(", "static void other(void) {}\nstatic void kernel("
    )
    files = tuple((n, sloppy if n == kernel.main else t) for n, t in kernel.files)
    built = dsa_c.build(replace(kernel, files=files), tmp_path)
    assert {"-Wall", "-Wextra", "-Werror"} <= set(dsa_c.FLAGS)
    assert not built.ok and "unused" in built.log


def test_manifest_names_every_machine() -> None:
    assert dsa_c.DSA_C.arches[0] == "generic"
