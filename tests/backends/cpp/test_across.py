"""Rows that lie across memory are turned in blocks: every size, type and edge, in copies and in leaves."""

from __future__ import annotations

import ctypes

import ml_dtypes
import numpy as np
import pytest

from septran.backends.cpp.emit import runtime_folder
from septran.backends.cpp.leaves import library_leaf
from septran.ir.nodes import Buffer, Copy
from septran.kernel import Kernel, leaf_specs
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
)  # fmt: skip
from tests.support.shared import compile_shared

TURN = """
extern "C" __attribute__((visibility("default")))
void run(T* d, long ld, long sd, const T* s, long ls, long ss, long m, long n) { st::across(d, ld, sd, s, ls, ss, m, n); }
"""
NAMES = {np.dtype(v): k for k, v in NP.items()}


@pytest.mark.parametrize(
    ("kind", "dtype"), [("float", np.float32), ("st::bf16", ml_dtypes.bfloat16)]
)
def test_a_block_of_every_size_is_turned_and_nothing_beside_it(tmp_path, kind, dtype):
    text = "".join((runtime_folder() / f"{n}.h").read_text() for n in ("view", "vec", "copy"))
    built = compile_shared(text + TURN.replace("T*", f"{kind}*"), tmp_path)
    assert built.ok, built.log
    run = ctypes.CDLL(str(built.artifact)).run
    for sd, ss in ((1, 1), (2, 1), (1, 3)):
        for m in range(1, 20):
            for n in range(1, 20):
                s = np.arange(n * (m * ss + 2), dtype=np.float32).astype(dtype).reshape(n, -1)
                d = np.full((m, n * sd + 3), -1, dtype)
                steps = [ctypes.c_long(v) for v in (d.shape[1], sd, s.shape[1], ss, m, n)]
                run(
                    ctypes.c_void_p(d.ctypes.data),
                    *steps[:2],
                    ctypes.c_void_p(s.ctypes.data),
                    *steps[2:],
                )
                want = np.full_like(d, -1)
                want[:, : n * sd : sd] = s[:, : m * ss : ss].T
                assert np.array_equal(d, want), (sd, ss, m, n)


def run_views(kernel: Kernel, arrays: list[np.ndarray]) -> None:
    """Run a kernel on arrays in the order of their memory, whatever the shape in which it sees them."""
    run_kernel(kernel, [a.reshape(p.shape) for a, p in zip(arrays, kernel.params, strict=True)])


def channels_last(name: str, shape: tuple[int, int, int], dtype: str = "float32") -> Buffer:
    """Return [c, h, w] as [h, w, c]."""
    c, h, w = shape
    return Buffer(name=name, shape=(h, w, c), dtype=dtype, mem="GLOBAL", strides=(w, 1, h * w))


@pytest.mark.few(2)
@pytest.mark.parametrize("guard", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_window_of_channels_is_brought_in_channels_last(guard, dtype):
    x = np.random.default_rng(0).standard_normal((7, 5, 21)).astype(np.float32)
    source, offset, extent = channels_last("X", x.shape), (1, 2, 1), (3, 18, 6)
    if guard:
        offset, extent = (-1, -2, 0), (8, 27, 9)
    target = buf("Y", extent, dtype)
    copy = Copy(dst=region(target), src=region(source, offset, extent, extent, guard=guard))
    y = poisoned(extent, dtype)
    kernel = kernel_of(program("move", [(target, "w"), (source, "r")], [copy]))
    run_views(kernel, [y, x])
    wide = np.zeros((20, 40, 20), np.float32)
    wide[5:10, 5:26, 5:12] = x.transpose(1, 2, 0)
    at = tuple(slice(5 + o, 5 + o + e) for o, e in zip(offset, extent, strict=True))
    assert np.array_equal(y, wide[at].astype(NP[dtype]))


@pytest.mark.each_value
@pytest.mark.parametrize("w", [1, 15, 16, 37])
@pytest.mark.parametrize("c", [3, 32, 45])
def test_a_leaf_turns_what_it_reads_and_writes_across(w, c):
    rng = np.random.default_rng(0)
    acc, bias = rng.standard_normal((3, w, c), np.float32), rng.standard_normal((c,), np.float32)
    skip = rng.standard_normal((c, 3, w), np.float32)
    out, other = channels_last("out", (c, 3, w)), channels_last("skip", (c, 3, w))
    tensors = [out, buf("acc", acc.shape), buf("bias", (1, 1, c)), other]
    args = [arg(b.name, region(b), "r" if at else "w") for at, b in enumerate(tensors)]
    add = prim(
        "map",
        "out",
        named={n: n for n in ("acc", "bias", "skip")},
        expr="max(acc + bias, 0) + skip",
    )
    prog = program(
        "leaf",
        [(b, "r" if at else "w") for at, b in enumerate(tensors)],
        [call("leaf", args, [add])],
    )
    ((_, spec),) = leaf_specs(prog)
    assert "scatter" not in library_leaf(spec).source and "gather" not in library_leaf(spec).source
    y = poisoned((c, 3, w))
    run_views(kernel_of(prog), [y, acc, bias.reshape(1, 1, c), skip])
    assert np.array_equal(y, np.maximum(acc + bias, 0).transpose(2, 0, 1) + skip)
