"""Products of bfloat16: pairs of elements where the CPU multiplies them, and the same numbers where it does not."""

import numpy as np
import pytest

from tests.backends.cpp.programs import NP, prim, run_leaf
from tests.backends.cpp.test_leaves import check, rand

FLAGS = [(False, False), (True, False), (False, True), (True, True)]


def product(a, b, out="float32", **flags):
    """Run C = A B as a leaf; a and b as they are given to it."""
    m = a.shape[1] if flags.get("trans_a") else a.shape[0]
    n = b.shape[0] if flags.get("trans_b") else b.shape[1]
    prims = [prim("gemm", "C", "A", "B", **flags)]
    return run_leaf(prims, {"A": a, "B": b}, {"C": ((m, n), out)})["C"]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "size",
    [
        *((13, 33, 7), (200, 40, 1025)),
        *(pytest.param(s, marks=pytest.mark.wider) for s in ((1, 2, 1), (25, 65, 31))),
    ],
)
def test_sizes_that_leave_rests(size):
    """Every transposition, into new and into kept results."""
    m, n, k = size
    prims, inputs, outputs, kept = [], {}, {}, []
    for i, (ta, tb) in enumerate(FLAGS):
        flags = {key: True for key, value in (("trans_a", ta), ("trans_b", tb)) if value}
        inputs[f"A{i}"] = rand((k, m) if ta else (m, k), "bfloat16", 2 * i)
        inputs[f"B{i}"] = rand((n, k) if tb else (k, n), "bfloat16", 2 * i + 1)
        inputs[f"S{i}"] = rand((m, n), seed=i)
        kept.append(f"S{i}")
        outputs |= {f"C{i}": ((m, n), "float32"), f"H{i}": ((m, n), "bfloat16")}
        ins = (f"A{i}", f"B{i}")
        prims += [prim("gemm", out, *ins, **flags) for out in (f"C{i}", f"H{i}")]
        prims.append(prim("gemm_acc", f"S{i}", *ins, **flags))
    check(prims, inputs, outputs, inout=tuple(kept), terms=k, ulps=4)


@pytest.mark.wider
def test_leading_dims_are_rows():
    a, b = rand((3, 5, 34), "bfloat16"), rand((1, 1, 34, 40), "bfloat16", 1)
    prims = [prim("gemm", "C", "A", "B")]
    got = run_leaf(prims, {"A": a, "B": b}, {"C": ((3, 5, 40), "float32")})["C"]
    flat = product(a.reshape(15, 34), b.reshape(34, 40))
    assert np.array_equal(got.reshape(15, 40), flat)


@pytest.mark.few(1)
@pytest.mark.parametrize("in_b", [False, True])
@pytest.mark.parametrize("out", ["float32", "bfloat16"])
def test_subnormal_factors_count(in_b, out):
    """The instruction takes them for zero; 2^-130 times 2^120 is 2^-10 all the same."""
    tiny, large = np.zeros((14, 6)), np.zeros((6, 34))
    tiny[3, 5] = 2.0**-130
    tiny[3, 2] = 1.0
    large[5, :] = 2.0**120
    large[2, 33] = 3.0
    a, b = (large.T, tiny.T) if in_b else (tiny, large)
    a, b = (np.ascontiguousarray(x).astype(NP["bfloat16"]) for x in (a, b))
    want = a.astype(np.float64) @ b.astype(np.float64)
    assert np.array_equal(product(a, b, out).astype(np.float64), want.astype(NP[out]))


def test_subnormal_times_infinity_is_infinite():
    a, b = np.zeros((2, 4)), np.zeros((4, 33))
    a[0, 1], b[1, 7] = 2.0**-130, np.inf
    a[1, :] = 1.0
    got = product(a.astype(NP["bfloat16"]), b.astype(NP["bfloat16"]))
    assert got[0, 7] == np.inf
    assert np.array_equal(got, a @ b, equal_nan=True)


@pytest.mark.few(1)
@pytest.mark.parametrize("depth", [61, 70])
def test_what_cannot_be_mended_in_the_last_block_spoils_none_before(depth):
    """Blocks are looked at while they are packed: those of columns from 1024 on, those of rows after others were stored.

    From 64 positions on matrix tiles multiply them where the processor has some.
    """
    rows, columns = 250, 1061
    a, b = np.zeros((rows, depth)), np.zeros((depth, columns))
    a[:, 5], b[5, :] = 1.5, 2.0
    prims, inputs, outputs, wanted = [], {}, {}, {}
    for place in (1, 2):
        x, y = a.copy(), b.copy()
        x[rows - 1, 60] = 2.0**-130
        y[60, columns - 1] = np.inf if place == 1 else 2.0**120
        for out in ("float32", "bfloat16"):
            name = f"C{place}{out}"
            prims.append(prim("gemm", name, f"A{place}", f"B{place}"))
            outputs[name] = ((rows, columns), out)
            wanted[name] = (x @ y).astype(NP[out])
        inputs |= {f"A{place}": x.astype(NP["bfloat16"]), f"B{place}": y.astype(NP["bfloat16"])}
    found = run_leaf(prims, inputs, outputs)
    for name, want in wanted.items():
        assert np.array_equal(found[name], want, equal_nan=True), name


def test_nan_stays_in_its_row_and_column():
    a, b = rand((14, 20), "bfloat16"), rand((20, 40), "bfloat16", 1)
    clean = product(a, b)
    a[5, 3] = np.nan
    got = product(a, b)
    assert np.isnan(got[5]).all()
    assert np.array_equal(np.delete(got, 5, 0), np.delete(clean, 5, 0))


@pytest.mark.wider
@pytest.mark.parametrize("some", [(2, 13), pytest.param((1, 5, 37), marks=pytest.mark.wider)])
def test_a_row_does_not_depend_on_the_rows_beside_it(some):
    a, b = rand((64, 130), "bfloat16"), rand((130, 48), "bfloat16", 1)
    a[40, 7] = 2.0**-131  # another row's subnormal number
    whole = product(a, b)
    for m in some:
        assert np.array_equal(product(a[:m], b), whole[:m]), m
