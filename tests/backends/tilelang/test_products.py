"""The simulators' matrix products: a row's bits do not depend on how many rows there are."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from septran.backends.tilesim.products import product

RNG = np.random.default_rng(7)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("k", "n"), [(37, 1), (64, 29), (129, 64), (300, 3)])
def test_a_row_is_the_same_in_every_company(dtype, k, n):
    x, y = (RNG.standard_normal(s).astype(dtype) for s in ((130, k), (k, n)))
    whole = product(x, y)
    np.testing.assert_allclose(whole, x @ y, rtol=1e-4, atol=1e-4)
    for m in (1, 2, 7, 31, 33, 64):
        assert np.array_equal(product(x[:m], y), whole[:m]), m
        assert np.array_equal(product(np.asfortranarray(x[-m:]), y), whole[-m:]), m
    places = RNG.permutation(len(x))
    assert np.array_equal(product(x[places], y), whole[places])


def test_shapes_and_special_values():
    x = np.array([[np.inf, 1], [np.nan, 0], [1, 2]], np.float32)
    y = np.array([[1, np.inf], [0, 3]], np.float32)
    with np.errstate(all="ignore"):
        assert np.array_equal(product(x, y), x @ y, equal_nan=True)
    stacked = RNG.standard_normal((4, 5, 6)).astype("f"), RNG.standard_normal((4, 6, 3)).astype("f")
    assert product(*stacked).shape == (4, 5, 3)
    np.testing.assert_allclose(product(*stacked), np.matmul(*stacked), rtol=1e-5, atol=1e-6)
    assert product(np.zeros((0, 4), "f"), np.zeros((4, 2), "f")).shape == (0, 2)
    numbers = RNG.integers(-9, 9, (3, 4)), RNG.integers(-9, 9, (4, 2))
    assert np.array_equal(product(*numbers), numbers[0] @ numbers[1])


def test_the_library_may_choose_its_kernels():
    """OpenBLAS's kernels for AVX2 sum the last rows of a block in another order."""
    code = (
        "import numpy as np; from septran.backends.tilesim.products import product; r = np.random.default_rng(1)\n"
        "x, y = r.standard_normal((33, 129)).astype('f'), r.standard_normal((129, 64)).astype('f')\n"
        "assert np.array_equal(product(x[20:], y), product(x, y)[20:])\n"
    )
    for cores in ("Haswell", "Prescott"):
        subprocess.run(
            [sys.executable, "-c", code], check=True, env={**os.environ, "OPENBLAS_CORETYPE": cores}
        )
