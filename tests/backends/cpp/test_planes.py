"""Tiles of a convolution lie as its tensors do where these have channels first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from septran.backends.cpp.planes import lie_in_planes, line_of
from septran.backends.cpp.reading import read
from septran.ir.access import map_buffers
from septran.ir.nodes import Alloc, Copy, allocated
from septran.ir.spec import check_program
from septran.kernel import leaf_specs
from septran.passes.interpret import interpret
from septran.prove.sets import model
from septran.prove.text_arrays import Arrays
from septran.toolchain import compilers
from tests.backends.cpp.programs import (
    NP,
    arg,
    buf,
    call,
    kernel_of,
    poisoned,
    prim,
    program,
    region,
    run_kernel,
)
from tests.backends.cpp.test_leaves import rand

RELU = prim("map", "Y", named={"c": "C", "b": "bias"}, expr="max(c + b, 0)")


def tensors(high, wide, inside, outside, dtype="float32"):
    """Return X and Y with channels last, as views of tensors with channels first."""
    x = buf("X", (1, high, wide, inside), dtype)
    y = buf("Y", (1, high, wide, outside), dtype)
    return tuple(
        replace(b, strides=(high * wide * b.shape[-1], wide, 1, high * wide)) for b in (x, y)
    )


def conv(high, wide, inside, outside, dtype="float32", finish=RELU, pad=1):
    """Return a program of one tile: 3 taps along a line, padded, and what becomes of their sum."""
    x, y = tensors(high, wide, inside, outside, dtype)
    stored = [replace(b, shape=(1, b.shape[-1], high, wide), strides=()) for b in (x, y)]
    w = buf("W", (1, 3, inside, outside), dtype)
    bias = buf("bias", (1, 1, 1, outside), dtype)
    x_s = buf("X_s", (1, high, wide + 2, inside), dtype, mem="SHARED")
    acc = buf("acc", y.shape, dtype, mem="REGISTER")
    window = region(x, offset=(0, 0, -pad, 0), extent=x_s.shape, guard=True)
    args, prims = [arg("C", region(acc), "w")], []
    for t in range(3):
        args += [arg(f"A_{t}", region(x_s, offset=(0, 0, t, 0), extent=x.shape))]
        args += [arg(f"B_{t}", region(w, offset=(0, t, 0, 0), extent=(1, 1, inside, outside)))]
        prims.append(prim("gemm_acc" if t else "gemm", "C", f"A_{t}", f"B_{t}"))
    ends = [arg("Y", region(y), "w"), arg("C", region(acc)), arg("bias", region(bias))]
    body = [
        Alloc(buffer=x_s),
        Copy(dst=region(x_s), src=window),
        Alloc(buffer=acc),
        call("mma", args, prims),
        call("finish", ends, [finish]),
    ]
    params = [(stored[1], "rw"), (w, "r"), (bias, "r"), (stored[0], "r")]
    return program("conv", params, body)


def arrays(p):
    """Return what a program is run on: the result poisoned, the rest random."""
    made = [poisoned(p.params[0].buffer.shape, p.params[0].buffer.dtype)]
    for seed, param in enumerate(p.params[1:], 1):
        b = param.buffer
        made.append(rand(b.shape, seed=seed).astype(NP[b.dtype]))
    return made


def meant(made):
    """Return what numpy makes of the inputs, in float64."""
    _, w, bias, x = (torch.from_numpy(a).double() for a in made)
    x = torch.nn.functional.pad(x, (1, 1))
    wide = x.shape[-1] - 2
    taps = [torch.einsum("nchw,ck->nkhw", x[..., t : t + wide], w[0, t]) for t in range(3)]
    return torch.relu(sum(taps) + bias.reshape(1, -1, 1, 1)).numpy()


def ran(p):
    made = arrays(p)
    run_kernel(kernel_of(p), made)
    return made


def test_tiles_get_the_strides_of_their_tensors_and_mean_the_same():
    before = conv(3, 20, 4, 8)
    after = lie_in_planes(before)
    check_program(after)
    steps = {b.name: b.strides for b in allocated(after.body)}
    assert steps == {"X_s": (66, 22, 1, 66), "acc": (60, 20, 1, 60)}
    found = []
    for p in (before, after):
        made = [torch.from_numpy(a.copy()) for a in arrays(p)]
        interpret(p, {param.buffer.name: t for param, t in zip(p.params, made, strict=True)})
        found.append(made[0])
    assert torch.equal(*found)
    _, finish = (spec for _, spec in leaf_specs(after))
    assert line_of(finish) == 2


@pytest.mark.parametrize(("wide", "moves"), [(24, False), (32, True)])
def test_tiles_stay_where_lines_fill_vectors_badly_and_there_is_much_to_multiply(wide, moves):
    before = conv(2, wide, 160, 160)
    assert (lie_in_planes(before) != before) is moves


@pytest.mark.parametrize(
    ("sizes", "finish"),
    [
        ((3, 15, 4, 8), RELU),  # a vector would not be full
        ((3, 20, 1, 8), RELU),  # a channel is no plane among others
        ((3, 20, 4, 8), prim("map", "Y", named={"c": "C", "b": "bias"}, expr="c + b + index(2)")),
        ((3, 20, 4, 8), prim("reduce", "Y", "C", op="max", axis=2)),
    ],
)
def test_what_has_short_lines_or_is_no_plain_map_stays(sizes, finish):
    before = conv(*sizes, finish=finish)
    assert lie_in_planes(before) == before


def test_tensors_with_channels_last_stay():
    before = conv(3, 20, 4, 8)
    plain = {n: buf(n, (1, 3, 20, c)) for n, c in (("X", 4), ("Y", 8))}
    last = replace(before, body=map_buffers(before.body, lambda b: plain.get(b.name, b)))
    assert lie_in_planes(last) == last


@pytest.mark.wider
@pytest.mark.parametrize(
    "sizes",
    [
        (2, 37, 5, 15),
        pytest.param((3, 16, 3, 8), marks=pytest.mark.slow),
        pytest.param((1, 49, 2, 19), marks=pytest.mark.slow),
        pytest.param((5, 64, 16, 32), marks=pytest.mark.slow),
        pytest.param((2, 30, 700, 9), marks=pytest.mark.slow),  # chains are cut at taps
    ],
)
def test_sums_are_those_of_channels_last_to_the_bit(sizes):
    before = conv(*sizes)
    after = lie_in_planes(before)
    kernel = kernel_of(after)
    text = dict(kernel.files)[kernel.main]
    assert "gemm_planes<float" in text and "st::copy_planes(" in text and "turned<" in text
    turned, last = ran(after), ran(before)
    assert np.array_equal(turned[0], last[0])
    np.testing.assert_allclose(turned[0], meant(turned), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_multiply_adds_are_one_rounding_whatever_the_processor(monkeypatch):
    """g++ tuned for Zen takes some chains apart into products and sums, here the tail of 19 channels, unless told not to."""
    flags = {**compilers.ARCH_FLAGS, "x86_64_v3": ("-march=x86-64-v3", "-mtune=znver3")}
    monkeypatch.setattr(compilers, "ARCH_FLAGS", flags)
    before = replace(conv(1, 49, 2, 19), arch="x86_64_v3")
    assert np.array_equal(ran(lie_in_planes(before))[0], ran(before)[0])


@pytest.mark.slow
def test_float64():
    made = ran(lie_in_planes(conv(2, 21, 3, 7, "float64")))
    np.testing.assert_allclose(made[0], meant(made), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    ("strides", "shared"),
    [
        ((60, 20, 1, 60), False),
        ((60, 19, 1, 60), True),
        ((60, 20, 1, 59), True),
        ((60, 20, 1, 61), True),
    ],
    ids=["planes", "lines meet", "planes meet", "the last plane ends outside"],
)
def test_a_tile_whose_elements_share_a_place_is_refused(strides, shared):
    """The text prints the strides that the Program has, so nothing but the tile's own places can tell."""
    good = lie_in_planes(conv(3, 20, 4, 8))
    assert {b.name: b.strides for b in allocated(good.body)}["acc"] == (60, 20, 1, 60)
    body = map_buffers(good.body, lambda b: replace(b, strides=strides) if b.name == "acc" else b)
    core = replace(good, body=body)
    told = Arrays(model=model(core), printed=read(kernel_of(core), core)).findings()
    says = "two elements of acc share a position, or one has none"
    assert [f.text for f in told] == ([says] if shared else [])
