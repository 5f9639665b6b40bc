"""Products of integers: exact whatever the processor multiplies with, and modulo two to the bits of the result."""

from dataclasses import replace

import numpy as np
import pytest

from septran.passes.drop_accumulators import drop_accumulators
from tests.backends.cpp.programs import NP, kernel_of, leaf_program, poisoned, prim, run_kernel

FLAGS = [(False, False), (True, False), (False, True), (True, True)]


def whole(shape, dtype="int8", seed=0):
    """Every value of the dtype, its ends often."""
    info = np.iinfo(dtype)
    rng = np.random.default_rng(seed)
    found = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    ends = rng.choice(np.array([info.min, info.max, -1 if info.min else 1], dtype), shape)
    return np.where(rng.random(shape) < 0.5, ends, found)


def wanted(a, b, dtype, start=0):
    """The product modulo two to the bits of `dtype`."""
    with np.errstate(over="ignore"):
        return (a.astype(np.int64) @ b.astype(np.int64) + start).astype(NP[dtype])


def run(prims, inputs, outputs, *, inout=(), arch="native"):
    """Run primitives on arrays as `run_leaf` does, for a processor."""
    names = {np.dtype(v): k for k, v in NP.items()}
    tensors = {n: (a.shape, names[a.dtype]) for n, a in inputs.items()} | dict(outputs)
    made = {n: poisoned(s, d) for n, (s, d) in outputs.items()}
    program = replace(leaf_program(prims, tensors, outputs, inout=inout), arch=arch)
    run_kernel(kernel_of(program), [inputs[n] if n in inputs else made[n] for n in tensors])
    return made


SIZES = [(1, 2, 1), (13, 33, 7), (200, 40, 1027), (25, 600, 34)]
CELLS = [
    pytest.param(
        size,
        arch,
        marks=() if size[0] == 13 and arch in ("native", "generic") else pytest.mark.slow,
    )
    for size in SIZES
    for arch in ("native", "x86_64_v4", "x86_64_v3", "generic")
]


@pytest.mark.parametrize(("size", "arch"), CELLS)
def test_sizes_that_leave_rests(size, arch):
    """Every transposition, into new and into kept sums."""
    m, n, k = size
    prims, inputs, outputs, want = [], {}, {}, {}
    for i, (ta, tb) in enumerate(FLAGS):
        flags = {key: True for key, value in (("trans_a", ta), ("trans_b", tb)) if value}
        a, b, s = (
            whole((m, k), seed=3 * i),
            whole((k, n), seed=3 * i + 1),
            whole((m, n), "int32", i),
        )
        inputs[f"A{i}"] = np.ascontiguousarray(a.T) if ta else a
        inputs[f"B{i}"] = np.ascontiguousarray(b.T) if tb else b
        inputs[f"S{i}"] = s.copy()
        outputs[f"C{i}"] = ((m, n), "int32")
        prims.append(prim("gemm", f"C{i}", f"A{i}", f"B{i}", **flags))
        prims.append(prim("gemm_acc", f"S{i}", f"A{i}", f"B{i}", **flags))
        want |= {f"C{i}": wanted(a, b, "int32"), f"S{i}": wanted(a, b, "int32", s.astype(np.int64))}
    kept = tuple(n for n in inputs if n.startswith("S"))
    found = run(prims, inputs, outputs, inout=kept, arch=arch) | {n: inputs[n] for n in kept}
    for name, values in want.items():
        assert np.array_equal(found[name], values), name


SIGNS = [("uint8", "int8", "int32"), ("int64", "int64", "int64")]
MORE = [
    ("int8", "uint8", "int32"),
    ("int32", "int32", "int32"),
    ("int8", "int8", "int64"),
    ("int8", "int8", "int8"),
    ("bool", "int8", "int32"),
]


@pytest.mark.parametrize("kinds", [SIGNS, pytest.param(MORE, marks=pytest.mark.slow)])
def test_leading_dims_are_rows_and_dtypes_may_differ(kinds):
    """A byte without a sign, wider integers, bool, and sums that C cuts off or holds whole."""
    prims, inputs, outputs, want = [], {}, {}, {}
    for i, (x, y, z) in enumerate(kinds):
        a = whole((3, 5, 34), "uint8" if x == "bool" else x, i)
        a = a % 2 == 1 if x == "bool" else a
        b = whole((34, 40), y, i + 50)
        inputs |= {f"A{i}": a, f"B{i}": b.reshape(1, 34, 40)}
        outputs[f"C{i}"] = ((3, 5, 40), z)
        prims.append(prim("gemm", f"C{i}", f"A{i}", f"B{i}"))
        want[f"C{i}"] = wanted(a, b, z)
    found = run(prims, inputs, outputs)
    for name, values in want.items():
        assert np.array_equal(found[name], values), (name, kinds[int(name[1:])])


def test_sums_wrap_around_and_never_saturate():
    k = 140_000  # 2**14 a product: more than 2**31 in all
    a, b = np.full((3, k), -128, np.int8), np.full((k, 33), -128, np.int8)
    b[:, 32] = 127
    found = run([prim("gemm", "C", "A", "B")], {"A": a, "B": b}, {"C": ((3, 33), "int32")})["C"]
    assert set(found[:, :32].flat) == {2**14 * k - 2**32}
    assert set(found[:, 32]) == {-128 * 127 * k + 2**32}


def test_the_instruction_is_used_where_the_processor_has_it():
    tensors = {"A": ((4, 8), "int8"), "B": ((8, 4), "int8"), "C": ((4, 4), "int32")}
    program = leaf_program([prim("gemm", "C", "A", "B")], tensors, ("C",))
    text = kernel_of(program).source
    assert "gemm_integers<false, false, false>(C, A, B);" in text
    assert "vpdpbusd" in text
    assert drop_accumulators(program) == program
    floats = {n: (s, "float32") for n, (s, _) in tensors.items()}
    other = kernel_of(leaf_program([prim("gemm", "C", "A", "B")], floats, ("C",))).source
    assert "quads" not in other
