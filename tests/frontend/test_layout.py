"""Pointwise nodes move through layouts, and transposed convolutions are one kernel."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

from septran.frontend.layout import replay, undo
from septran.frontend.view import View
from tests.frontend.fused import FUSED
from tests.frontend.importing import computes_the_module, imported
from tests.frontend.modules import Module

SPEEDY = FUSED[::7]


def _elements(view: View) -> list[int]:
    steps = itertools.product(*(range(n) for n in view.shape))
    return [view.offset + sum(i * s for i, s in zip(at, view.strides, strict=True)) for at in steps]


def _walk(draw: random.Random, view: View, kinds: tuple[str, ...]) -> View:
    for _ in range(draw.randrange(1, 5)):
        kind = draw.choice(kinds)
        if kind == "permute":
            view = view.permute(draw.sample(range(view.rank), view.rank))
        elif kind == "slice":
            offset = [draw.randrange(n) for n in view.shape]
            shape = [draw.randrange(1, n - o + 1) for n, o in zip(view.shape, offset, strict=True)]
            view = view.slice(offset, shape)
        else:
            factors = [f for n in view.shape for f in _factors(n)]
            cuts = sorted(draw.sample(range(len(factors) + 1), draw.randrange(len(factors) + 1)))
            shape = [
                _product(factors[a:b]) for a, b in itertools.pairwise([0, *cuts, len(factors)])
            ]
            view = view.reshape(shape) or view
    return view


def _factors(n: int) -> list[int]:
    return next(([p, *_factors(n // p)] for p in range(2, n + 1) if n % p == 0), [])


def _product(values: list[int]) -> int:
    found = 1
    for n in values:
        found *= n
    return found


@pytest.mark.parametrize("seed", range(200))
def test_what_undoes_a_view_gives_its_source_back(seed: int) -> None:
    draw = random.Random(seed)
    shape = tuple(draw.choice((1, 2, 3, 4, 6)) for _ in range(draw.randrange(1, 5)))
    view = _walk(draw, View.of("x", shape), ("permute", "reshape"))
    back = undo(view, shape)
    assert back is not None
    found = back(view)
    assert found is not None and found.shape == shape
    assert _elements(found) == list(range(found.elements))


def test_a_view_that_repeats_or_leaves_elements_is_not_undone() -> None:
    x = View.of("x", (4, 6))
    assert undo(x.slice((0, 0), (4, 3)), (4, 6)) is None
    assert undo(View.of("x", (4, 1)).expand((4, 6)), (4, 1)) is None
    assert undo(View.of("x", (4, 6)).reshape((2, 12)), (4, 6)) is not None


@pytest.mark.parametrize("seed", range(200))
def test_a_replayed_view_reads_the_same_elements(seed: int) -> None:
    draw = random.Random(seed)
    shape = tuple(draw.choice((1, 2, 3, 4)) for _ in range(draw.randrange(1, 4)))
    base = _walk(draw, View.of("x", (2, *shape)), ("permute", "slice", "reshape"))
    view = _walk(draw, View.of("y", base.shape), ("permute", "slice", "reshape"))
    found = replay(view, base)
    if found is not None:
        places = _elements(base)
        assert _elements(found) == [places[at] for at in _elements(view)]


def test_what_follows_a_group_norm_is_in_its_kernel(tmp_path: Path) -> None:
    """The norm works on groups, what follows on channels: the same elements in another shape."""
    module = Module(
        name="behind_a_norm",
        init="self.n = nn.GroupNorm(4, 48)",
        body="F.leaky_relu(self.n(x)) * 2",
        inputs="torch.randn(5, 48)",
    )
    found = imported(module.write(tmp_path))
    assert found.written.kernels == 1
    computes_the_module(found, tmp_path)


def test_a_permuted_result_is_written_where_it_belongs(tmp_path: Path) -> None:
    module = Module(
        name="permuted_result",
        init="self.l = nn.Linear(8, 6)",
        body="torch.tanh(self.l(x).transpose(1, 2))",
        inputs="torch.randn(3, 5, 8)",
    )
    found = imported(module.write(tmp_path))
    assert found.written.kernels == 1
    computes_the_module(found, tmp_path)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("kernel", "stride", "pad", "walked"),
    [
        (4, 2, 1, 2),
        (6, 2, 2, 3),
        (4, 2, 0, 2),
        (5, 2, 2, 3),
        (3, 2, 1, 2),
        (8, 4, 2, 3),
        (3, 3, 1, 2),
    ],
)
def test_a_place_between_two_inputs_meets_its_own_taps(
    tmp_path: Path, kernel: int, stride: int, pad: int, walked: int
) -> None:
    """Where each place begins one later than the last, as with stride 2; else all places walk over the taps of any."""
    init = f"self.c = nn.ConvTranspose1d(3, 4, {kernel}, stride={stride}, padding={pad}, output_padding={1 if stride > 1 and kernel == 3 else 0})"
    module = Module(name="up", init=init, body="self.c(x)", inputs="torch.randn(2, 3, 9)")
    found = imported(module.write(tmp_path))
    assert f"task.sequential_range({walked})" in found.text
    computes_the_module(found, tmp_path)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("kernel", "stride", "pad", "more", "groups"),
    [(3, 2, 1, 1, 1), (3, 2, 0, 0, 1), (4, 2, 1, 0, 2), (2, 2, 0, 0, 1), (5, 3, 2, 1, 2), (1, 2, 0, 1, 1)],
)  # fmt: skip
def test_a_strided_transposed_convolution(
    tmp_path: Path, kernel: int, stride: int, pad: int, more: int, groups: int
) -> None:
    module = Module(
        name="up",
        init=f"self.c = nn.ConvTranspose2d(6, 8, {kernel}, stride={stride}, padding={pad}, "
        f"output_padding={more}, groups={groups})",
        body="torch.relu(self.c(x)) + 1",
        inputs="torch.randn(2, 6, 5, 4)",
    )
    found = imported(module.write(tmp_path))
    rows = found.graph.nodes[-1].meta.shape[2:]
    assert found.written.kernels == (1 if all(n % stride == 0 for n in rows) else 2)
    computes_the_module(found, tmp_path)


@pytest.mark.parametrize("d", [1, 3])
def test_transposed_convolutions_of_other_ranks(tmp_path: Path, d: int) -> None:
    stride = (2,) if d == 1 else (1, 2, 3)
    module = Module(
        name="up",
        init=f"self.c = nn.ConvTranspose{d}d(3, 4, 3, stride={stride}, padding=1)",
        body="self.c(x) * 2",
        inputs=f"torch.randn(2, 3, {', '.join('432'[:d])})",
    )
    computes_the_module(imported(module.write(tmp_path)), tmp_path)


@pytest.mark.few(1)
@pytest.mark.parametrize("module", SPEEDY, ids=lambda m: m.name)
def test_few_kernels(tmp_path: Path, module: Module) -> None:
    found = imported(module.write(tmp_path))
    assert found.written.kernels <= module.kernels
    computes_the_module(found, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("module", [m for m in FUSED if m not in SPEEDY], ids=lambda m: m.name)
def test_few_kernels_all(tmp_path: Path, module: Module) -> None:
    found = imported(module.write(tmp_path))
    assert found.written.kernels <= module.kernels
    computes_the_module(found, tmp_path)
