"""Products with few columns, whose rows of A are read where they are."""

import numpy as np
import pytest

from tests.backends.cpp.programs import prim, run_leaf
from tests.backends.cpp.test_leaves import check, gemm_case, rand


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "size",
    [
        (29, 32, 70),
        *(pytest.param(s, marks=pytest.mark.wider) for s in ((40, 128, 515), (31, 64, 1))),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_whole_panels_of_columns(size, dtype):
    gemm_case(*size, dtype=dtype)
    gemm_case(*size, dtype=dtype, acc=True)


@pytest.mark.parametrize(
    "width", [7, *(pytest.param(w, marks=pytest.mark.wider) for w in (1, 3, 11, 13, 20))]
)
def test_rows_in_runs(width):
    """Pixels of a window: evenly spaced inside a line, with a gap between lines."""
    a, b = rand((3, width, 33)), rand((1, 33, 64), seed=1)
    out = {"C": ((3, width, 64), "float32")}
    check([prim("gemm", "C", "A", "B")], {"A": a, "B": b}, out, terms=33)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "columns", [8, *(pytest.param(c, marks=pytest.mark.wider) for c in (16, 48, 112))]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_whole_vectors_of_columns(columns, dtype):
    """A last panel that is not full is no product of its own: rows in runs, sums added to what is there."""
    a, b = rand((2, 7, 30)).astype(dtype), rand((1, 30, columns), seed=1).astype(dtype)
    out = {"C": ((2, 7, columns), dtype)}
    check([prim("gemm", "C", "A", "B")], {"A": a, "B": b}, out, terms=30)
    gemm_case(25, columns, 30, dtype=dtype, acc=True)


@pytest.mark.wider
@pytest.mark.parametrize("some", [(26, 37), pytest.param((25, 28, 63), marks=pytest.mark.wider)])
def test_a_row_does_not_depend_on_how_many_are_taken_together(some):
    a, b = rand((64, 130)), rand((130, 32), seed=1)

    def product(m):
        out = {"C": ((m, 32), "float32")}
        return run_leaf([prim("gemm", "C", "A", "B")], {"A": a[:m], "B": b}, out)["C"]

    whole = product(64)
    for m in some:
        assert np.array_equal(product(m), whole[:m]), m


@pytest.mark.few(1)
@pytest.mark.parametrize("shape", [(2, 5, 3, 1, 30), (2, 5, 1, 1, 9), (3, 1, 4, 1, 33)])
@pytest.mark.parametrize("columns", [8, 16, 40])
def test_rows_with_dims_of_one_position_between(shape, columns):
    a, b = rand(shape), rand((1, 1, shape[-1], columns), seed=1)
    out = {"C": ((*shape[:-1], columns), "float32")}
    check([prim("gemm", "C", "A", "B")], {"A": a, "B": b}, out, terms=shape[-1])
