"""Emitted kernels, run in the repaired interpreter, against float64 references."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from septran.ir.nodes import Program
from tests.backends.mutants import asked
from tests.backends.triton import programs as P
from tests.backends.triton import running as R

Inputs = Mapping[str, np.ndarray]
TOLERANCE = {"float32": 2e-5, "float16": 2e-3, "bfloat16": 1.6e-2, "float64": 1e-6}


def relu_gemm(v: Inputs) -> np.ndarray:
    return np.maximum(v["A"] @ v["B"] + v["b"], 0)


def softmax(v: Inputs) -> np.ndarray:
    e = np.exp(v["X"] - v["X"].max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def attention(*, causal: bool) -> Callable[[Inputs], np.ndarray]:
    def run(v: Inputs) -> np.ndarray:
        s = v["Q"] @ v["K"].T / math.sqrt(v["Q"].shape[1])
        s = np.where(np.tri(len(s)) > 0, s, -1e30) if causal else s
        e = np.exp(s - s.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True) @ v["V"]

    return run


def conv(stride: int) -> Callable[[Inputs], np.ndarray]:
    def run(v: Inputs) -> np.ndarray:
        x = np.pad(v["X"], ((0, 0), (1, 1), (1, 1), (0, 0)))
        h, w = v["X"].shape[1:3]
        p, q = (h - 1) // stride + 1, (w - 1) // stride + 1
        return sum(
            x[:, r : r + p * stride : stride, s : s + q * stride : stride][:, :p, :q] @ v["W"][r, s]
            for r in range(3)
            for s in range(3)
        )

    return run


CASES: dict[str, tuple[Program, Callable[[Inputs], np.ndarray]]] = {
    **{f"gemm {d}": (P.gemm(70, 50, 90, d, swizzle=4), relu_gemm) for d in TOLERANCE},
    "gemm even": (P.gemm(64, 64, 64, "float16"), relu_gemm),
    "gemm mixed": (P.gemm(40, 33, 50, "bfloat16", out="float32"), relu_gemm),
    "gemm tiny tiles": (P.gemm(9, 5, 6, tile=(4, 4, 4)), relu_gemm),
    "gemm k of one": (P.gemm(9, 5, 3, tile=(16, 16, 1)), relu_gemm),
    "gemm one row": (P.gemm(1, 50, 60, "float16", tile=(1, 32, 32)), relu_gemm),
    "gemm one column": (P.gemm(33, 1, 60, "float16", tile=(32, 1, 32)), relu_gemm),
    "gemm odd tile": (P.gemm(33, 31, 60, "float16", tile=(24, 20, 12)), relu_gemm),
    "softmax": (P.softmax(10, 37), softmax),
    "softmax bfloat16": (P.softmax(10, 37, "bfloat16"), softmax),
    "softmax one": (P.softmax(3, 1), softmax),
    "attention": (P.attention(70, 40), attention(causal=False)),
    "attention causal": (P.attention(70, 40, "float32", causal=True), attention(causal=True)),
    "attention bfloat16": (P.attention(65, 16, "bfloat16"), attention(causal=False)),
    "conv": (P.conv(2, 9, 10, 5, 7), conv(1)),
    "conv stride 2": (P.conv(2, 9, 10, 5, 7, stride=2), conv(2)),
    "conv unstaged": (P.conv(1, 9, 10, 5, 7, stage=False), conv(1)),
    "sum": (P.reduce_all(5, 100, "sum"), lambda v: v["X"].sum(1, keepdims=True)),
    "max": (P.reduce_all(5, 100, "max"), lambda v: v["X"].max(1, keepdims=True)),
    "min": (P.reduce_all(5, 100, "min"), lambda v: v["X"].min(1, keepdims=True)),
    "prod": (P.reduce_all(5, 30, "prod", tile=8), lambda v: v["X"].prod(1, keepdims=True)),
    "row operand": (
        P.pointwise((13, 29), "x * y", (4, 8), second=(29,)),
        lambda v: v["X"] * v["Y"],
    ),
    "column operand": (
        P.pointwise((13, 29), "x * y", (4, 8), second=(13, 1)),
        lambda v: v["X"] * v["Y"],
    ),
    "scalar": (
        P.pointwise((13, 29), "x * alpha + n", (4, 8), alpha=0.25, n=P.Const(3)),
        lambda v: v["X"] * 0.25 + 3,
    ),
}


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> dict[str, tuple[np.ndarray | str, np.ndarray, str]]:
    names = asked(request)
    cases = {name: case for name, case in CASES.items() if name in names}
    rng = np.random.default_rng(7)
    jobs, wanted = [], []
    for program, reference in cases.values():
        kernel = R.build_kernel(program)
        dtypes = {p.name: p.dtype for p in kernel.params}
        inputs = {
            p.name: R.stored(rng, p.shape, p.dtype) for p in kernel.params if p.privilege != "w"
        }
        jobs.append((kernel, inputs))
        exact = {n: R.values(x, dtypes[n]) for n, x in inputs.items()}
        wanted.append((reference(exact), kernel.params[0].dtype))
    found = {}
    for name, got, (want, dtype) in zip(cases, R.run_many(jobs), wanted, strict=True):
        value = got if isinstance(got, str) else next(iter(got.values()))
        found[name] = (value, want, dtype)
    return found


@pytest.mark.few(6)
@pytest.mark.parametrize("name", CASES)
def test_matches_float64(
    name: str, results: dict[str, tuple[np.ndarray | str, np.ndarray, str]]
) -> None:
    got, want, dtype = results[name]
    assert not isinstance(got, str), got
    scale = np.maximum(np.abs(want), np.abs(want).mean() + 1e-12)
    worst = (np.abs(got - want) / scale).max()
    assert worst < TOLERANCE[dtype], f"{name}: relative error {worst:.3g}"


@pytest.mark.wider
def test_nan_and_infinity_behave_like_torch() -> None:
    x = np.ones((4, 20), np.float32)
    x[0, 3], x[1, 4], x[2, 5] = np.nan, np.inf, -np.inf
    jobs = [
        (R.build_kernel(P.reduce_all(4, 20, op, tile=8)), {"X": x}) for op in ("max", "min", "sum")
    ]
    jobs.append((R.build_kernel(P.pointwise((4, 20), "max(x, 0)", (4, 8))), {"X": x}))
    top, low, total, relu = (next(iter(r.values())) for r in R.run_many(jobs))
    assert np.isnan(top[0, 0]) and top[1, 0] == np.inf and top[2, 0] == 1
    assert np.isnan(low[0, 0]) and low[1, 0] == 1 and low[2, 0] == -np.inf
    assert np.isnan(total[0, 0]) and total[1, 0] == np.inf and total[2, 0] == -np.inf
    assert np.isnan(relu[0, 3]) and relu[2, 5] == 0


def test_tf32_is_only_used_when_asked_and_then_rounds() -> None:
    a = np.full((16, 16), 1 + 2.0**-12, np.float32)
    ins = {"A": a, "B": a, "b": np.zeros(16, np.float32)}
    plain = R.build_kernel(P.gemm(16, 16, 16, tile=(16, 16, 16)))
    fast = R.build_kernel(P.gemm(16, 16, 16, tile=(16, 16, 16), math="tf32"))
    assert 'input_precision="ieee"' in plain.source
    exact, rounded = (r["C"][0, 0] for r in R.run_many([(plain, ins), (fast, ins)]))
    assert abs(exact - 16 * (1 + 2.0**-12) ** 2) < 1e-5
    assert rounded == 16.0
