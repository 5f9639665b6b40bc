"""Library leaves against numpy float64: every primitive, ragged sizes, dtypes, special values."""

import numpy as np
import pytest

from tests.backends.cpp.programs import NP, SOFTMAX, prim, run_leaf
from tests.backends.cpp.reference import run_prims, wide

EPS = {"float32": 2.0**-23, "float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def check(prims, inputs, outputs, *, scalars=(), inout=(), ulps=8.0, terms=1, as_dtype=None):
    """Run a leaf and compare every output with float64; as_dtype: coarser rounding on the way."""
    before = {n: wide(a).copy() for n, a in inputs.items()}
    got = run_leaf(prims, inputs, outputs, scalars=scalars, inout=inout)
    want = run_prims(
        prims, before | {n: np.zeros(s, np.float64) for n, (s, _) in outputs.items()}, scalars
    )
    for name in (*outputs, *inout):
        array = got[name] if name in got else inputs[name]
        dtype = outputs[name][1] if name in outputs else array.dtype.name
        expected = want[name]
        if dtype not in EPS:
            assert np.array_equal(array, expected), name
            continue
        value, expected = array.astype(np.float64), expected.astype(np.float64)
        size = np.abs(expected) + 0.25 * np.sqrt(terms)
        bound = ulps * np.sqrt(terms) * EPS[as_dtype or dtype] * size
        special = ~np.isfinite(expected)
        assert np.array_equal(value[special], expected[special], equal_nan=True), name
        error = np.abs(value[~special] - expected[~special])
        assert (error <= bound[~special]).all(), (name, error.max())


def rand(shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(NP[dtype])


SHAPES = [(1, 1), (3, 5), (7, 16), (5, 33), (2, 64), (9, 130)]


@pytest.mark.each_value
@pytest.mark.parametrize("shape", [(3, 33), (2, 3, 70), (5,), (2, 1, 3, 17)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_map_and_broadcasting(shape, dtype):
    x = rand(shape, dtype)
    row, col = rand(shape[-1:], dtype, 1), rand((*shape[:-1], 1), dtype, 2)
    prims = [prim("map", "Y", named={"x": "X", "r": "R", "c": "C"}, expr="max(x * r + c, 0.5) - 2")]
    check(prims, {"X": x, "R": row, "C": col}, {"Y": (shape, dtype)})


@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((5, 77), 1), ((77, 40), 0), ((3, 9, 21), 1), ((50,), 0)]
)
def test_reductions(shape, axis, dtype):
    """All operations in one kernel, because a compiler takes a second for each."""
    half = rand(shape, dtype) * NP[dtype](0.5)
    inputs = {"X": half, "P": half + NP[dtype](1)}
    out = tuple(1 if d == axis else n for d, n in enumerate(shape))
    prims, results, added = [], {}, {}
    for op in ("sum", "max", "min", "prod"):
        source = "P" if op == "prod" else "X"
        results[f"z_{op}"], added[f"y_{op}"] = (out, dtype), rand(out, dtype, 3)
        prims.append(prim("reduce", f"z_{op}", source, op=op, axis=axis))
        prims.append(prim("reduce_acc", f"y_{op}", source, op=op, axis=axis - len(shape)))
    check(prims, inputs | added, results, inout=tuple(added), terms=shape[axis])


@pytest.mark.each_value
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("op", ["max", "min", "sum"])
@pytest.mark.parametrize("at", [0, 15, 16, 63, 64, 68, 69])
def test_nan_and_infinity_survive_reductions(axis, op, at):
    x = rand((70, 70))
    index = (3, at) if axis == 1 else (at, 3)
    x[index] = np.nan
    x[(5, 7)] = np.inf if op != "min" else -np.inf
    out = (70, 1) if axis == 1 else (1, 70)
    check([prim("reduce", "Y", "X", op=op, axis=axis)], {"X": x}, {"Y": (out, "float32")}, terms=70)


def test_max_of_only_negative_infinity():
    x = np.full((2, 19), -np.inf, np.float32)
    check([prim("reduce", "Y", "X", op="max", axis=1)], {"X": x}, {"Y": ((2, 1), "float32")})


def test_integer_copies_are_exact():
    x = np.array([[2**24 + 1, -(2**31), 5]], np.int32)
    check([prim("copy", "Y", "X")], {"X": x}, {"Y": ((1, 3), "int64")})
    check([prim("copy", "Y", "X")], {"X": x}, {"Y": ((1, 3), "float64")})


def test_scalars_reach_expressions():
    x = rand((3, 20))
    prims = [prim("map", "Y", named={"x": "X", "n": "n"}, expr="x / n + eps")]
    check(prims, {"X": x}, {"Y": (x.shape, "float32")}, scalars=(("n", 20.0), ("eps", 0.25)))


@pytest.mark.few(2)
@pytest.mark.parametrize("perm", [(1, 0), (0, 1)])
@pytest.mark.parametrize("shape", [(5, 3), (40, 70)])
def test_transpose(shape, perm):
    x = rand(shape)
    out = tuple(shape[p] for p in perm)
    check([prim("transpose", "Y", "X", perm=perm)], {"X": x}, {"Y": (out, "float32")}, ulps=0)


def test_transpose_of_three_dims():
    x = rand((3, 20, 5), "bfloat16")
    check(
        [prim("transpose", "Y", "X", perm=(2, 0, 1))],
        {"X": x},
        {"Y": ((5, 3, 20), "bfloat16")},
        ulps=0,
    )


@pytest.mark.few(2)
@pytest.mark.parametrize("shape", SHAPES)
def test_online_softmax_step(shape):
    """Primitives of a flash attention step: row values and rows mixed, some in place."""
    rows, cols = shape
    inputs = {
        "S": rand(shape),
        "m": rand((rows, 1), seed=1),
        "l": np.abs(rand((rows, 1), seed=2)),
        "acc": rand((rows, 24), seed=3),
    }
    outputs = {"mn": ((rows, 1), "float32"), "c": ((rows, 1), "float32")}
    prims = [
        prim("copy", "mn", "m"),
        prim("map", "S", named={"s": "S"}, expr="s * 0.125"),
        prim("reduce_acc", "mn", "S", op="max", axis=1),
        prim("map", "c", named={"m": "m", "mn": "mn"}, expr="exp(m - mn)"),
        prim("map", "S", named={"s": "S", "mn": "mn"}, expr="exp(s - mn)"),
        prim("map", "l", named={"l": "l", "c": "c"}, expr="l * c"),
        prim("reduce_acc", "l", "S", op="sum", axis=1),
        prim("map", "acc", named={"a": "acc", "c": "c"}, expr="a * c"),
        prim("copy", "m", "mn"),
    ]
    check(prims, inputs, outputs, inout=("S", "m", "l", "acc"), terms=cols)


def test_a_whole_column_result_is_complete_before_rows_read_it():
    x = rand((40, 20))
    prims = [
        prim("reduce", "s", "X", op="sum", axis=0),
        prim("map", "Y", named={"x": "X", "s": "s"}, expr="x - s"),
        prim("reduce", "t", "Y", op="max", axis=0),
        prim("map", "Z", named={"y": "Y", "t": "t"}, expr="y + t"),
    ]
    outputs = {
        "s": ((1, 20), "float32"),
        "Y": (x.shape, "float32"),
        "t": ((1, 20), "float32"),
        "Z": (x.shape, "float32"),
    }
    check(prims, {"X": x}, outputs, terms=40)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_softmax_in_half_storage(dtype):
    x = rand((9, 50), dtype)
    outputs = {"Y": (x.shape, dtype), "m": ((9, 1), "float32"), "s": ((9, 1), "float32")}
    check(SOFTMAX, {"X": x}, outputs, ulps=3, terms=4, as_dtype=dtype)


def gemm_case(m, n, k, *, dtype, tb=False, acc=False, out=None):
    a = rand((m, k), dtype, 1)
    b = rand((n, k) if tb else (k, n), dtype, 2)
    out = out or dtype
    flags = {"trans_b": True} if tb else {}
    if acc:
        c = rand((m, n), out, 3)
        prims = [prim("gemm_acc", "C", "A", "B", **flags)]
        check(prims, {"C": c, "A": a, "B": b}, {}, inout=("C",), terms=k, ulps=4)
    else:
        prims = [prim("gemm", "C", "A", "B", **flags)]
        check(prims, {"A": a, "B": b}, {"C": ((m, n), out)}, terms=k, ulps=4)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "size",
    [
        *((1, 70, 90), (13, 1, 50), (50, 65, 600)),
        *(pytest.param(s, marks=pytest.mark.wider) for s in ((1, 1, 1), (2, 33, 65), (30, 40, 1))),
    ],
)
def test_gemm_on_plain_views(size):
    """All transpositions in one kernel."""
    m, n, k = size
    inputs = {
        "A": rand((m, k), seed=1),
        "TA": rand((k, m), seed=1),
        "B": rand((k, n), seed=2),
        "TB": rand((n, k), seed=2),
    }
    prims, results, added = [], {}, {}
    for a in ("A", "TA"):
        for b in ("B", "TB"):
            flags = {w: True for w, s in (("trans_a", a), ("trans_b", b)) if s.startswith("T")}
            results[f"Y{a}{b}"], added[f"Z{a}{b}"] = ((m, n), "float32"), rand((m, n), seed=3)
            prims.append(prim("gemm", f"Y{a}{b}", a, b, **flags))
            prims.append(prim("gemm_acc", f"Z{a}{b}", a, b, **flags))
    check(prims, inputs | added, results, inout=tuple(added), terms=k, ulps=4)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "dtype",
    ["float16", *(pytest.param(d, marks=pytest.mark.wider) for d in ("float64", "bfloat16"))],
)
def test_gemm_dtypes_on_plain_views(dtype):
    gemm_case(20, 70, 520, dtype=dtype)
    gemm_case(20, 70, 520, dtype=dtype, tb=True)
    if dtype != "float64":
        gemm_case(20, 70, 520, dtype=dtype, out="float32", acc=True)


def test_gemm_with_leading_dims():
    a, b = rand((1, 5, 7, 30)), rand((1, 1, 30, 17), seed=1)
    check(
        [prim("gemm", "C", "A", "B")], {"A": a, "B": b}, {"C": ((1, 5, 7, 17), "float32")}, terms=30
    )
