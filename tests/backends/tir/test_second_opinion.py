"""CodeGenDSA against an independent reading of the same TensorIR, for every operator.

The printed TVMScript is parsed again by TVM and executed by numpy (`numpy_tir`), the C is compiled and
executed by the simulator. What both derive from is the PrimFunc; everything after it is checked here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from septran.backends.dsa import codegen as dsa_codegen
from septran.backends.dsa import tir
from septran.backends.dsa.backend import DSA_C
from septran.backends.dsa.machine import storage
from septran.ir.nodes import Program
from septran.plan import catalog
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.tasklang.load import execute_logic
from tests.backends.dsa_c_tools import kernel_of, run_text
from tests.backends.tir import numpy_tir

tilelang = pytest.importorskip("tilelang")

NAMES = {
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": np.uint16,
    "int64": np.int64,
    "int32": np.int32,
}
LAST_PLACE = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def operators() -> list[tuple[str, dict[str, int]]]:
    found = []
    for path in catalog.op_files():
        for op in execute_logic(path).operators.values():
            sizes = [dict(d) for d in op.odd_dims] or [{}]
            found.append((op.name, max(sizes, key=lambda d: math.prod(d.values()))))
    return sorted(found)


def stored(values: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """Return float64 `values` as the kernel's memory holds them."""
    if dtype == "bfloat16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(NAMES[dtype])


def loaded(memory: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    if dtype == "bfloat16":
        return (memory.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return memory.astype(np.float64)


def both(program: Program, folder: Path) -> list[tuple[Any, Any, str]]:
    """Return numpy's result, the simulator's and the type, for each output."""
    rules = storage(program.machine)
    func = tir.to_prim_func(DSA_C.finished(program, {}), rules.stored, expand=False)
    rng = np.random.default_rng(5)
    values: dict[str, np.ndarray[Any, Any]] = {}
    for p in program.params:
        b = p.buffer
        if b.dtype.startswith("int"):
            values[b.name] = rng.integers(0, 3, b.shape).astype(np.float64)
        else:
            values[b.name] = numpy_tir.rounded(rng.standard_normal(b.shape), b.dtype)
        if p.privilege == "w":
            values[b.name][...] = np.nan
    memory = [stored(values[p.buffer.name], p.buffer.dtype) for p in program.params]
    numpy_tir.run(tir.parse(func.script()), values, rules.limit("cores"))
    after, report = run_text(kernel_of(program), folder, memory)
    assert report["errors"] == []
    return [
        (values[p.buffer.name], loaded(m, p.buffer.dtype), p.buffer.dtype)
        for p, m in zip(program.params, after, strict=True)
        if "w" in p.privilege
    ]


def agree(program: Program, folder: Path) -> None:
    for mine, theirs, dtype in both(program, folder):
        assert not np.isnan(mine).all()
        # sums of float32 temporaries may differ in the order of the last place
        size = np.nanmax(np.abs(mine), initial=1.0)
        np.testing.assert_allclose(
            theirs, mine, rtol=4 * LAST_PLACE[dtype], atol=1e-6 * size, equal_nan=True
        )


def lowered(op: str, dims: dict[str, int], dtype: str) -> Program:
    return lower_plan(resolve(GenRequest(op=op, backend="dsa_c", dims=dims, dtype=dtype))).program


FEW = ("softmax", "conv2d_stride2", "gemm_bias_relu")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("op", "dims"), [pytest.param(*o, id=o[0]) for o in operators() if o[0] in FEW]
)
def test_some_operators(op: str, dims: dict[str, int], tmp_path: Path) -> None:
    agree(lowered(op, dims, "float32"), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(("op", "dims"), [pytest.param(*o, id=o[0]) for o in operators()])
def test_every_operator(op: str, dims: dict[str, int], dtype: str, tmp_path: Path) -> None:
    agree(lowered(op, dims, dtype), tmp_path)


def test_all_operators_are_there() -> None:
    assert len(operators()) >= 32
    assert set(FEW) <= {name for name, _ in operators()}


def _index_without_versions(self: Any, load: Any) -> str:
    text = ADDRESS(self, load)
    return text.replace("dsa_mod(", "0 * dsa_mod(")


def _turned(self: Any, pointer: Any, ld: Any, rows: str, cols: str) -> Any:
    return TILE(self, pointer, ld, rows, str(cols).replace("64", "32"))


def _ceiling(self: Any, node: Any) -> str:
    return EXPR(self, node).replace("dsa_min(", "dsa_max(")


def _late(self: Any, node: Any) -> None:
    start = len(self.lines)
    FOR(self, node)
    self.lines[start] = self.lines[start].replace("= 0;", "= 1;", 1)


ADDRESS = dsa_codegen.CodeGenDSA.address
TILE = dsa_codegen.CodeGenDSA.tile
EXPR = dsa_codegen.CodeGenDSA.expr
FOR = dsa_codegen.CodeGenDSA.stmt_For
PLANTED: dict[str, tuple[str, Callable[..., Any]]] = {
    "a buffer's version is left out": ("address", _index_without_versions),
    "a tile is narrower": ("tile", _turned),
    "min is max": ("expr", _ceiling),
    "loops start late": ("stmt_For", _late),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", PLANTED)
def test_a_mistake_in_codegen_is_seen(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, what = PLANTED[name]
    monkeypatch.setattr(dsa_codegen.CodeGenDSA, where, what)
    program = lowered("gemm", {"M": 130, "N": 150, "K": 140}, "float32")
    with pytest.raises(AssertionError) as seen:
        agree(program, tmp_path)
    assert "error:" not in str(seen.value)  # the compiler was content
