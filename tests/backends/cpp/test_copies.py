"""Copies: strides, casts, padding outside the tensor, panels, and an implicit-gemm convolution."""

import numpy as np
import pytest

from septran.ir.expr import Var
from septran.ir.nodes import Alloc, Copy
from tests.backends.cpp.programs import (
    NP,
    For,
    arg,
    buf,
    call,
    const,
    kernel_of,
    poisoned,
    prim,
    program,
    region,
    run_kernel,
)


def run_copy(x, offset, extent, *, step=None, guard=False, dtype="float32"):
    source = buf("X", x.shape, {np.dtype(v): k for k, v in NP.items()}[x.dtype])
    target = buf("Y", extent, dtype)
    copy = Copy(dst=region(target), src=region(source, offset, extent, extent, step, guard=guard))
    y = poisoned(extent, dtype)
    run_kernel(kernel_of(program("move", [(target, "w"), (source, "r")], [copy])), [y, x])
    return y


@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_strided_part_with_cast(dtype):
    x = np.random.default_rng(0).standard_normal((9, 40)).astype(np.float32)
    got = run_copy(x, (1, 2), (4, 19), step=(2, 2), dtype=dtype)
    assert np.array_equal(got, x[1:9:2, 2:40:2].astype(NP[dtype]))


@pytest.mark.parametrize("step", [(1, 1), (2, 1), (2, 3)])
def test_padding_reads_as_zero_on_every_side(step):
    x = np.random.default_rng(0).standard_normal((5, 21)).astype(np.float32)
    extent = (9, 30)
    got = run_copy(x, (-2, -3), extent, step=step, guard=True)
    want = np.zeros(extent, np.float32)
    for i in range(extent[0]):
        for j in range(extent[1]):
            r, c = step[0] * i - 2, step[1] * j - 3
            if 0 <= r < 5 and 0 <= c < 21:
                want[i, j] = x[r, c]
    assert np.array_equal(got, want)


def test_a_negative_offset_is_divided_towards_minus_infinity():
    x = np.arange(8, dtype=np.float32).reshape(8, 1)
    source, target = buf("X", (8, 1)), buf("Y", (4, 1))
    at = (Var("i") - 3) // 2 + 2
    loop = For(
        var="i",
        extent=const(4),
        body=(
            Copy(dst=region(target, (Var("i"), 0), (1, 1)), src=region(source, (at, 0), (1, 1))),
        ),
    )
    y = poisoned((4, 1))
    run_kernel(kernel_of(program("shift", [(target, "w"), (source, "r")], [loop])), [y, x])
    assert y[:, 0].tolist() == [float((i - 3) // 2 + 2) for i in range(4)]


def convolution(h, w, cin, cout, *, packed):
    """Y[h, w, cout] = sum over 3x3 taps of X W, zero padding 1: one gemm per tap on a halo tile."""
    x, wt, y = (
        buf("X", (1, h, w, cin)),
        buf("W", (3, 3, cin, cout)),
        buf("Y", (1, h, w, cout)),
    )
    halo = buf("X_s", (1, h + 2, w + 2, cin), mem="SHARED")
    tap = buf("T", (1, h, w, cin), mem="SHARED", layout="panel_m:12")
    acc = buf("acc", (1, h, w, cout), mem="REGISTER")
    r, s = Var("r"), Var("s")
    shifted = region(halo, (0, r, s, 0), (1, h, w, cin), (1, h, w, cin))
    weight = region(wt, (r, s, 0, 0), (1, 1, cin, cout), (1, 1, cin, cout))
    operand = region(tap) if packed else shifted
    step = call(
        "mma",
        [arg("C", region(acc), "rw"), arg("A", operand), arg("B", weight)],
        [prim("gemm_acc", "C", "A", "B")],
    )
    taps = (Alloc(buffer=tap), Copy(dst=operand, src=shifted), step) if packed else (step,)
    around = (1, h + 2, w + 2, cin)
    body = [
        Alloc(buffer=halo),
        Alloc(buffer=acc),
        Copy(dst=region(halo), src=region(x, (0, -1, -1, 0), around, around, guard=True)),
        call("zero", [arg("C", region(acc), "w")], [prim("fill", "C", value=0.0)]),
        For(var="r", extent=const(3), body=(For(var="s", extent=const(3), body=taps),)),
        Copy(dst=region(y), src=region(acc)),
    ]
    return program("conv", [(y, "w"), (x, "r"), (wt, "r")], body)


@pytest.mark.each_value
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("shape", [(5, 7, 6, 40), (8, 8, 16, 3)])
def test_convolution_through_shifted_views(shape, packed):
    h, w, cin, cout = shape
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, h, w, cin)).astype(np.float32)
    k = rng.standard_normal((3, 3, cin, cout)).astype(np.float32)
    y = poisoned((1, h, w, cout))
    run_kernel(kernel_of(convolution(*shape, packed=packed)), [y, x, k])
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    want = sum(padded[:, r : r + h, s : s + w] @ k[r, s] for r in range(3) for s in range(3))
    assert np.abs(y - want).max() < 2e-5
