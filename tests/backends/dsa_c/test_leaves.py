"""The leaf library of dsa_c: every primitive against numpy, any rank, in every order of engines."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from septran.backends.dsa.passes.expand_leaves import expand_leaves
from septran.ir.nodes import Prim, Program
from septran.passes.interpret import interpret
from tests.backends.dsa_c_tools import kernel_of, run_text
from tests.backends.dsa_programs import gemm, rows

F32 = "float32"


def prim(name: str, ins: tuple[str, ...] = (), named: Any = None, **attrs: object) -> Prim:
    return Prim(
        name=name,
        out="Y",
        ins=ins,
        named=tuple((named or {}).items()),
        attrs=tuple(sorted(attrs.items())),
    )


def mapped(expr: str, **named: str) -> Prim:
    return prim("map", named=named, expr=expr)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


erf = np.vectorize(math.erf)
X, V, B = (6, 11), (6, 1), (11,)
CASES: dict[str, tuple[Prim, dict[str, tuple[int, ...]], tuple[int, ...], Any]] = {
    "fill": (prim("fill", value=2.5), {}, X, lambda: np.full(X, 2.5)),
    "copy": (prim("copy", ("X",)), {"X": X}, X, lambda x: x),
    "transpose": (prim("transpose", ("X",), perm=(1, 0)), {"X": X}, (11, 6), lambda x: x.T),
    "transpose 3d": (
        prim("transpose", ("X",), perm=(2, 0, 1)),
        {"X": (3, 4, 5)},
        (5, 3, 4),
        lambda x: x.transpose(2, 0, 1),
    ),
    "transpose keeps last": (
        prim("transpose", ("X",), perm=(1, 0, 2)),
        {"X": (3, 4, 5)},
        (4, 3, 5),
        lambda x: x.transpose(1, 0, 2),
    ),
    "rows": (mapped("exp(x - m)", x="X", m="M"), {"X": X, "M": V}, X, lambda x, m: np.exp(x - m)),
    "bias": (
        mapped("max(x + b, 0)", x="X", b="B"),
        {"X": X, "B": B},
        X,
        lambda x, b: np.maximum(x + b, 0),
    ),
    "broadcast result": (
        mapped("exp(m)", m="M"),
        {"M": V},
        X,
        lambda m: np.broadcast_to(np.exp(m), X),
    ),
    "constant": (mapped("1 + 2"), {}, X, lambda: np.full(X, 3.0)),
    "gelu": (
        mapped("0.5 * x * (1 + erf(x / 1.4142135623730951))", x="X"),
        {"X": X},
        X,
        lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))),
    ),
    "silu": (mapped("x * sigmoid(x)", x="X"), {"X": X}, X, lambda x: x * sigmoid(x)),
    "square": (mapped("(x - 1) ** 2", x="X"), {"X": X}, X, lambda x: (x - 1) ** 2),
    "power": (mapped("2 ** x + abs(x) ** 1.5", x="X"), {"X": X}, X, lambda x: 2**x + abs(x) ** 1.5),
    "reversed": (mapped("1 / (2 - x * x)", x="X"), {"X": X}, X, lambda x: 1 / (2 - x * x)),
    "unary": (
        mapped("-tanh(x) + sqrt(abs(x)) + rsqrt(x * x + 1) + log(x * x + 1) + exp2(x)", x="X"),
        {"X": X},
        X,
        lambda x: -np.tanh(x) + np.sqrt(abs(x)) + 1 / np.sqrt(x * x + 1) + np.log(x * x + 1) + 2**x,
    ),
    "mask": (
        mapped("select(index(0) >= index(1), x, -1)", x="X"),
        {"X": X},
        X,
        lambda x: np.where(np.arange(6)[:, None] >= np.arange(11), x, -1),
    ),
    "index of a leading axis": (
        mapped("x + 10 * index(0)", x="X"),
        {"X": (3, 4, 5)},
        (3, 4, 5),
        lambda x: x + 10 * np.arange(3)[:, None, None],
    ),
    "compare": (
        mapped("(x < 0) + (0 < y) * 2", x="X", y="Z"),
        {"X": X, "Z": X},
        X,
        lambda x, y: (x < 0) + 2.0 * (y > 0),
    ),
    "min": (mapped("min(max(x, -0.5), 0.5)", x="X"), {"X": X}, X, lambda x: np.clip(x, -0.5, 0.5)),
    "4d with gaps": (
        mapped("x * b", x="X", b="B"),
        {"X": (2, 3, 4, 5), "B": (3, 1, 5)},
        (2, 3, 4, 5),
        lambda x, b: x * b,
    ),
    "sum rows": (
        prim("reduce", ("X",), op="sum", axis=1),
        {"X": X},
        V,
        lambda x: x.sum(1, keepdims=True),
    ),
    "max columns": (
        prim("reduce", ("X",), op="max", axis=0),
        {"X": X},
        (1, 11),
        lambda x: x.max(0, keepdims=True),
    ),
    "min of 3d": (
        prim("reduce", ("X",), op="min", axis=1),
        {"X": (3, 4, 5)},
        (3, 1, 5),
        lambda x: x.min(1, keepdims=True),
    ),
    "prod first of 3d": (
        prim("reduce", ("X",), op="prod", axis=0),
        {"X": (3, 4, 5)},
        (1, 4, 5),
        lambda x: x.prod(0, keepdims=True),
    ),
    "vector sum": (
        prim("reduce", ("X",), op="sum", axis=0),
        {"X": (13,)},
        (1,),
        lambda x: x.sum(keepdims=True),
    ),
    "gemm": (prim("gemm", ("A", "B")), {"A": (6, 9), "B": (9, 5)}, (6, 5), lambda a, b: a @ b),
    "gemm a^T": (
        prim("gemm", ("A", "B"), trans_a=True),
        {"A": (9, 6), "B": (9, 5)},
        (6, 5),
        lambda a, b: a.T @ b,
    ),
    "gemm b^T": (
        prim("gemm", ("A", "B"), trans_b=True),
        {"A": (6, 9), "B": (5, 9)},
        (6, 5),
        lambda a, b: a @ b.T,
    ),
    "gemm 4d": (
        prim("gemm", ("A", "B")),
        {"A": (1, 3, 4, 9), "B": (1, 1, 9, 5)},
        (1, 3, 4, 5),
        lambda a, b: a @ b[0, 0],
    ),
}


def setup(name: str, staged: bool) -> tuple[Program, list[np.ndarray], np.ndarray]:
    p, inputs, out, want = CASES[name]
    rng = np.random.default_rng(11)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in inputs.values()]
    program = rows((p,), {n: (s, F32) for n, s in inputs.items()}, (out, F32), staged=staged)
    return program, arrays, want(*[a.astype(np.float64) for a in arrays])


@pytest.mark.parametrize("name", CASES)
def test_expansion_means_the_primitive(name: str) -> None:
    for staged in (True, False):
        program, arrays, want = setup(name, staged)
        args = {
            q.buffer.name: torch.from_numpy(a.copy())
            for q, a in zip(program.params[1:], arrays, strict=True)
        }
        args["Y"] = torch.zeros(program.params[0].buffer.shape)
        interpret(expand_leaves(program), args)
        np.testing.assert_allclose(args["Y"].numpy(), want, rtol=2e-5, atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_in_the_simulator(name: str, tmp_path: Path) -> None:
    for staged in (True, False):
        program, arrays, want = setup(name, staged)
        kernel = kernel_of(program)
        for order in ("program", "dma", "compute"):
            y = np.full(program.params[0].buffer.shape, np.nan, np.float32)
            found, report = run_text(kernel, tmp_path / str(staged), [y, *arrays], order)
            assert report["errors"] == []
            np.testing.assert_allclose(found[0], want, rtol=2e-5, atol=2e-5)


def test_nan_goes_through_max_and_reductions(tmp_path: Path) -> None:
    p = (prim("reduce", ("X",), op="max", axis=1),)
    x = np.array([[1, np.nan, 3], [4, 5, 6]], np.float32)
    kernel = kernel_of(rows(p, {"X": (x.shape, F32)}, ((2, 1), F32)))
    found, _ = run_text(kernel, tmp_path, [np.zeros((2, 1), np.float32), x])
    assert np.isnan(found[0][0, 0]) and found[0][1, 0] == 6


def test_exact_labels(tmp_path: Path) -> None:
    """index == int64 label must be exact beyond float32's integers."""
    p = (mapped("select(l == 16777217, 1, 0)", l="L"),)
    labels = np.array([[16777216], [16777217]], np.int64)
    kernel = kernel_of(rows(p, {"L": ((2, 1), "int64")}, ((2, 1), F32)))
    found, _ = run_text(kernel, tmp_path, [np.zeros((2, 1), np.float32), labels])
    assert found[0].tolist() == [[0.0], [1.0]]


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
