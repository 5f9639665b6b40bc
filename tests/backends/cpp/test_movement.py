"""The cpp leaves of scan, argreduce, gather and scatter_acc against plain numpy."""

import numpy as np
import pytest

from tests.backends.cpp.programs import NP, prim
from tests.backends.cpp.test_leaves import check, rand


@pytest.mark.parametrize(
    ("shape", "axis", "reverse"), [((5, 77), 1, False), ((77, 9), 0, True), ((3, 9, 21), 1, True)]
)
def test_scans(shape, axis, reverse):
    more = {"reverse": True} if reverse else {}
    prims = [
        prim("scan", f"Y_{op}", "X", op=op, axis=axis, **more)
        for op in ("sum", "prod", "max", "min")
    ]
    x = rand(shape) * np.float32(0.1) + np.float32(1)
    outputs = {p.out: (shape, "float32") for p in prims}
    check(prims, {"X": x}, outputs, terms=shape[axis])


def test_a_scan_keeps_nan_and_counts_integers_exactly():
    x = rand((2, 40))
    x[0, 7] = np.nan
    large = np.full((1, 9), 2**53 - 1, np.int64)
    large[0, 0] = 2
    prims = [prim("scan", "Y", "X", op="max", axis=1), prim("scan", "Z", "L", op="sum", axis=1)]
    outputs = {"Y": ((2, 40), "float32"), "Z": ((1, 9), "int64")}
    check(prims, {"X": x, "L": large}, outputs)


@pytest.mark.parametrize(
    ("shape", "axis", "dtype"),
    [((5, 33), 1, "float32"), ((9, 4), 0, "float16"), ((3, 8, 5), 1, "float32")],
)
def test_positions_of_extremes(shape, axis, dtype):
    x = np.round(rand(shape, dtype) * NP[dtype](2))  # ties: the first one counts
    x.flat[3] = np.nan
    out = tuple(1 if d == axis else n for d, n in enumerate(shape))
    prims = [prim("argreduce", f"I_{op}", "X", op=op, axis=axis) for op in ("max", "min")]
    check(prims, {"X": x}, {p.out: (out, "int64") for p in prims})


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("x", "i", "y", "axis"),
    [
        ((9, 6), (4, 1), (4, 6), 0),  # rows of a table
        ((5, 33), (5, 7), (5, 7), 1),
        ((3, 7, 5), (1, 4, 1), (3, 4, 5), 1),
        ((11,), (6,), (6,), 0),
    ],
)
def test_gathers(x, i, y, axis):
    index = np.random.default_rng(1).integers(-2, x[axis] + 2, i)  # what is outside reads as 0
    check(
        [prim("gather", "Y", "X", "I", axis=axis)],
        {"X": rand(x), "I": index},
        {"Y": (y, "float32")},
    )


@pytest.mark.parametrize(
    ("x", "i", "y", "axis"),
    [((5, 14), (5, 14), (5, 9), 1), ((14, 5), (14, 1), (9, 5), 0)],
)
def test_scatters_keep_their_order(x, i, y, axis):
    index = np.random.default_rng(1).integers(-1, y[axis] + 1, i)
    ops = ("sum", "prod", "max", "min", "last")
    given = {f"Y_{op}": rand(y, seed=2) for op in ops}
    check(
        [prim("scatter_acc", f"Y_{op}", "X", "I", op=op, axis=axis) for op in ops],
        {"X": rand(x), "I": index, **given},
        {},
        inout=tuple(given),
        terms=x[axis],
    )
