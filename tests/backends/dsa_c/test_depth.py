"""`pipeline: n` on gemm 512^3 under the shipped policy: deeper pays, then nothing; docs/backends.md says so."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from septran.plan.resolve import GenRequest, lower_plan, resolve
from tests.backends.dsa_c_tools import kernel_of, run_text

ROOT = Path(__file__).resolve().parents[3]


def tables() -> ModuleType:
    """Return benchmarks/dsa_cycles.py, which makes the tables."""
    spec = importlib.util.spec_from_file_location("dsa_cycles", ROOT / "benchmarks/dsa_cycles.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def report(request: GenRequest, folder: Path) -> dict[str, Any]:
    program = lower_plan(resolve(request)).program
    kernel = kernel_of(program)
    arrays = [np.ones(p.shape, p.dtype) for p in kernel.params]
    found = run_text(kernel, folder, arrays)[1]
    assert found["errors"] == []
    return {**found, "text": kernel.source}


def shown(mark: str) -> dict[str, list[str]]:
    """Return a table of the page: first cell -> the others."""
    page = (ROOT / "docs" / "backends.md").read_text(encoding="utf-8")
    part = re.search(rf"<!-- dsa_cycles {mark} -->\n(.*?)<!-- end -->", page, re.DOTALL)
    assert part is not None
    rows = [re.split(r" *\| *", row.strip("| ")) for row in part.group(1).splitlines()]
    return {row[0]: row[1:] for row in rows}


def depths(tile: tuple[int, int, int], folder: Path, count: int) -> list[int]:
    """Return the cycles at the first depths of the table; they are those of the page."""
    made = tables()
    wanted = shown("depth")[" x ".join(map(str, tile))]
    found = []
    for depth, cell in zip(made.DEPTHS[:count], wanted, strict=False):
        facts = report(made.pipelined(tile, depth, folder), folder / str(depth))
        assert cell == f"{facts['cycles']} ({facts['overlap']:.2f})"
        if depth > 1:
            assert "vendor_lib_wait(VL_Q_LOAD, VL_Q_MMA" in facts["text"]
            assert f"A_s = 0 }}; /* SHARED float32 {depth} x {tile[0]} x {tile[2]}" in facts["text"]
        found.append(int(facts["cycles"]))
    return found


@pytest.mark.wider
def test_four_stages_pay_until_an_engine_is_busy(tmp_path: Path) -> None:
    one, two, three, four, six = depths((64, 64, 32), tmp_path, 5)
    assert one > 1.2 * two > two > three > four  # each stage pays
    assert six == four  # and then the matrix engine is busy all the time


@pytest.mark.slow
@pytest.mark.parametrize("tile", [(128, 128, 64), (32, 32, 32), (16, 16, 64)])
def test_deeper_is_never_slower(tile: tuple[int, int, int], tmp_path: Path) -> None:
    cycles = depths(tile, tmp_path, 5)
    assert cycles == sorted(cycles, reverse=True)
    assert cycles[1] < 0.9 * cycles[0]


@pytest.mark.slow
@pytest.mark.parametrize("op", ["gemm", "conv2d", "attention", "softmax", "layernorm", "add"])
def test_the_operators_of_the_page(op: str, tmp_path: Path) -> None:
    facts = report(GenRequest(op=op, backend="dsa_c"), tmp_path)
    used = [f"{100 * q['utilisation']:.0f} %" for q in facts["queues"].values()]
    assert shown("operators")[op][:6] == [str(facts["cycles"]), *used, f"{facts['overlap']:.2f}"]
