"""Padded and strided windows as plain copies: every position once, none outside, zeros elsewhere."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from septran.backends.npuir.ascend import NoAscendForm, ascend_source
from septran.backends.npuir.hivm import hivm_text
from septran.backends.npuir.hivm_ops import NoHivmForm
from septran.backends.npuir.passes.cut_windows import cut_windows
from septran.backends.npuir.windows import Gather, gather, inside
from septran.ir.expr import Const, Expr, Var, evaluate
from septran.ir.nodes import Buffer, Copy, Region, walk
from septran.ir.text import parse_program, print_program
from septran.passes.interpret import Hazard
from septran.passes.load_parts import load_parts
from tests.backends.npuir import running as R
from tests.passes.writing import program, run, same

PARTS = """
alloc A_s: SHARED float32[12]
copy A_s[0:+12] <- A[0:+12]
for k in 3
  leaf f <auto>
  | rw Y = C[(k * 4):+4]
  | r X = A_s[(k * 2):+4::2]
  | means add
"""


def window(offset: tuple[Expr, ...], extent: tuple[int, ...], step: tuple[int, ...]) -> Region:
    shape = (7, 5)[: len(offset)]
    return Region(
        buffer=Buffer(name="X", shape=shape, dtype="float32", mem="GLOBAL"),
        offset=offset,
        extent=tuple(map(Const, extent)),
        tile=extent,
        step=step,
        grid=(0,) * len(shape),
        guard=True,
    )


def pieces(region: Region, ranges: dict[str, tuple[int, int]]) -> Gather:
    """Return the plain copies that load `region` into a tile."""
    tile = Buffer(name="t", shape=region.tile, dtype="float32", mem="UB")
    copy = Copy(dst=Region.whole(tile), src=region, inside=inside(region, ranges))
    names = iter(("at", "by"))
    return gather(copy, lambda: next(names))


def perform(found: Gather, x: np.ndarray, tile: tuple[int, ...], env: dict[str, int]) -> np.ndarray:
    """Run the copies on zeros; assert that none leaves the tensor or the tile or is empty."""
    out = np.zeros(tile)
    ranges = [(v, evaluate(a, env), evaluate(b, env)) for v, a, b in found.loops]
    for at in itertools.product(*(range(a, b) for _, a, b in ranges)):
        here = env | dict(zip((v for v, *_ in ranges), at, strict=True))
        src = [(evaluate(a, here), evaluate(b, here)) for a, b in found.src]
        dst = [(evaluate(a, here), evaluate(b, here)) for a, b in found.dst]
        for pairs, shape in ((src, x.shape), (dst, tile)):
            assert all(0 <= a < b <= n for (a, b), n in zip(pairs, shape, strict=True))
        out[tuple(slice(*p) for p in dst)] = x[tuple(slice(*p) for p in src)]
    return out


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("extent", [1, 2, 6])
def test_every_window_of_a_vector(step: int, extent: int) -> None:
    x = np.arange(1.0, 8.0)
    for low, high in itertools.combinations_with_replacement(range(-9, 10), 2):
        found = pieces(window((Var("k"),), (extent,), (step,)), {"k": (low, high)})
        for k in range(low, high + 1):
            want = [x[p] if 0 <= (p := k + i * step) < 7 else 0.0 for i in range(extent)]
            assert perform(found, x, (extent,), {"k": k}).tolist() == want, (k, low, high)


def test_two_dims_are_independent() -> None:
    x = np.arange(35.0).reshape(7, 5) + 1
    offsets = (Var("k") * 2 - 1, Var("k") - 2)
    found = pieces(window(offsets, (3, 4), (2, 1)), {"k": (0, 4)})
    padded = np.pad(x, 8)
    for k in range(5):
        want = padded[8 + 2 * k - 1 :: 2][:3, 8 + k - 2 :][:, :4]
        assert (perform(found, x, (3, 4), {"k": k}) == want).all()


def test_what_is_inside_needs_no_loop() -> None:
    found = pieces(window((Var("k"),), (4,), (1,)), {"k": (0, 3)})
    assert found.loops == () and found.src == ((Var("k"), Var("k") + 4),)
    clipped = pieces(window((Var("k"),), (4,), (1,)), {"k": (-3, 6)})
    assert clipped.loops == ()  # never empty, so one copy with limits


def test_parts_are_loaded_on_their_own() -> None:
    before = program(PARTS)
    after = load_parts(before)
    (copy,) = (s for s in walk(after.body) if isinstance(s, Copy))
    assert copy.src.buffer.name == "A" and copy.src.step == (2,) and copy.src.tile == (4,)
    assert same(run(after), run(before))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[(k * 2):+4::2]", "[0:+12]"),  # the whole tile
        ("copy A_s[0:+12] <- A[0:+12]", "copy A_s[0:+12] <- C[0:+12]"),  # C is written
    ],
)
def test_other_tiles_stay(old: str, new: str) -> None:
    body = PARTS.replace(old, new)
    if "[0:+12]" in new and "k" in old:
        body = body.replace("C[(k * 4):+4]", "C[0:+12]")
    before = program(body)
    assert load_parts(before) is before


MUTANTS = [
    ("window not zeroed", "                T.clear(X_s)\n", "", "uninitialised"),
    ("first row not guarded", "T.serial(T.max(0, 0 - (i1 - 1 + k0))", "T.serial(0", "bounds"),
    ("last row not guarded", "T.min(1, 13 - (i1 - 1 + k0))", "1", "bounds"),
    ("left border not guarded", "T.max(0, 0 - (-1 + k1))", "0", "bounds"),
    ("shifted by one", "0 - (-1 + k1))", "1 - (-1 + k1))", "wrong result"),
    ("tap of another row", "W[k0:k0 + 1", "W[0:1", "wrong result"),
    ("accumulator not cleared", "        T.clear(acc)\n", "", "uninitialised"),
    ("initC at every tap", "initC=first", "initC=True", "wrong result"),
    ("block decoded wrong", "cid // 13", "cid // 14", "race"),
]


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("old", "new", "message"), [m[1:] for m in MUTANTS], ids=[m[0] for m in MUTANTS]
)
def test_mutant_of_a_convolution(old: str, new: str, message: str) -> None:
    dims = dict(R.OPERATORS["conv2d"][0].odd_dims[0])
    kernel = R.kernel_of("conv2d", dims)
    inputs = R.inputs_of(kernel)
    (want,) = R.expected("conv2d", dims, kernel, inputs).values()
    assert R.verdict(kernel, inputs, want, 1e-3) == ""
    mutant = R.changed(kernel, old, new)
    assert message in R.verdict(mutant, inputs, want, 1e-3)


def test_several_launches_are_functions_and_a_host() -> None:
    text = R.emitted(
        """
        for i in 3 on BLOCK parallel
          alloc A_s: REGISTER float32[4]
          copy A_s[0:+4] <- A[(i * 4):+4]
          copy C[(i * 4):+4] <- A_s[0:+4]
        for j in 3 on BLOCK parallel
          alloc B_s: REGISTER float32[4]
          copy B_s[0:+4] <- B[(j * 4):+4]
          copy C[(j * 4):+4] <- B_s[0:+4]
        """
    ).source
    assert "kernels[0](A, C)" in text and "kernels[1](B, C)" in text
    assert "KERNELS = (kernel_1, kernel_2,)" in text
    # no compiler that is here takes them, and none is asked
    with pytest.raises(NoHivmForm, match="several kernels and a host function"):
        hivm_text(text)
    with pytest.raises(NoAscendForm, match="several kernels and a host function"):
        ascend_source(text)


CONVOLUTION = """
for i in 4 on BLOCK parallel
  alloc A_s: UB float32[5]
  copy A_s[0:+5] <- A[((i * 3) - 1):+5] guard inside max(0, (0 - ((i * 3) - 1))) to min(5, (12 - ((i * 3) - 1)))
  leaf f <auto>
  | w Y = C[(i * 3):+3]
  | r X = A_s[2:+3]
  | means copy
"""


def test_a_window_is_loaded_where_the_program_says_it_is_inside() -> None:
    cut = program(CONVOLUTION)
    whole = program(
        CONVOLUTION.partition(" inside")[0] + CONVOLUTION[CONVOLUTION.index("\n  leaf") :]
    )
    assert print_program(cut) == print_program(parse_program(print_program(cut)))
    assert cut_windows(whole) == cut and cut_windows(cut) == cut
    assert same(run(cut), run(whole))
    short = program(CONVOLUTION.replace("min(5, (12", "min(5, (11"))
    assert not same(run(short), run(whole))
    with pytest.raises(Hazard, match="outside A"):
        run(program(CONVOLUTION.replace("max(0, (0", "max(0, (-1")))
