"""Operators of public networks that had no form, or were judged by a result that depends on the order of a row: compiled, verified."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils._pytree import tree_leaves

import septran
from septran.aten.evaluate import run_graph
from septran.errors import ConfigError
from septran.frontend.table.build import NoForm
from septran.frontend.table.resample import _position, nearest_places
from septran.frontend.translate import translate
from tests.frontend.calls import Call, floats
from tests.frontend.importing import graph_of
from tests.frontend.modules import Module

pytestmark = pytest.mark.filterwarnings("ignore")


def _whole(*shape: int) -> torch.Tensor:
    return torch.randint(-9, 9, shape, generator=torch.Generator().manual_seed(1))


BORDERS = torch.tensor([-1.0, 0.0, 0.5, 0.5, 2.0])
SHARES = torch.tensor([1.0, 2.0, 0.5, 0.7, 3.0])
CASES: dict[str, tuple[Callable[..., Any], torch.Tensor]] = {
    "sum_of_integers": (lambda i: i.sum(1), _whole(5, 8)),
    "sum_of_int32_is_int64": (lambda i: i.sum() + i.sum((0, 2))[1], _whole(3, 4, 5).int()),
    "extremes_of_integers": (lambda i: (i.amax(0), i.amin((0, 2)), i.max(1)), _whole(5, 8, 3)),
    "ends_of_segments": (
        lambda i: torch.cumsum(torch.cat((torch.zeros(1, dtype=torch.int64), i.sum(1))), 0),
        _whole(5, 8),
    ),
    "nearest_up": (lambda x: F.interpolate(x, size=(7, 9)), floats(1, 2, 5, 4)),
    "nearest_down": (lambda x: F.interpolate(x, scale_factor=0.6), floats(1, 2, 7, 10)),
    "nearest_exact": (
        lambda x: F.interpolate(x, size=(7, 10), mode="nearest-exact"),
        floats(1, 2, 5, 4),
    ),
    "median": (lambda x: (x.median(1)[0], x.median(0, keepdim=True).values), floats(4, 9)),
    "halves_in_order": (
        lambda x: (torch.topk(x, 3)[0], torch.sort(x)[0], x.argmax(1)),
        floats(4, 9).half(),
    ),
    "median_of_all": (lambda x: x.median(), floats(3, 8)),
    "std_mean": (lambda x: torch.std_mean(x, 1), floats(3, 9)),
    "var_mean": (lambda x: torch.var_mean(x, (0, 2), keepdim=True), floats(3, 4, 5)),
    "histogram": (lambda i: torch.histc(i.float(), 9, 0, 8), _whole(48)),
    "histogram_between": (lambda x: torch.histc(x, 10, -2, 3), floats(90)),
    "roll_of_all": (lambda x: torch.roll(x, 2), floats(3, 4)),
    "repeat_of_all": (lambda x: torch.repeat_interleave(x, 2), floats(3, 4)),
    "norm_of_order_0": (lambda x: torch.linalg.vector_norm(x.relu(), 0, dim=1), floats(3, 9)),
    "cat_of_nothing": (
        lambda x: torch.cat((torch.zeros(0, 4), x, x[3:], torch.tensor([])), 0) * 2,
        floats(3, 4),
    ),
    "class_weights": (
        lambda x: F.cross_entropy(
            x,
            torch.tensor([1, 0, 4]),
            weight=torch.tensor([1.0, 2.0, 0.5, 0.7, 3.0]),
            ignore_index=0,
        ),
        floats(3, 5),
    ),
    "class_weights_smoothed": (
        lambda x: F.cross_entropy(
            x,
            torch.tensor([1, 0, 4]),
            weight=torch.tensor([1.0, 2.0, 0.5, 0.7, 3.0]),
            label_smoothing=0.1,
        ),
        floats(3, 5),
    ),
    "shares_of_classes": (
        lambda x: (
            F.cross_entropy(x, x.flip(0).softmax(1), label_smoothing=0.1),
            F.cross_entropy(x[0], x[1].softmax(0), weight=SHARES, label_smoothing=0.2),
            F.cross_entropy(x, x.flip(1).softmax(1), weight=SHARES, reduction="none"),
        ),
        floats(3, 5),
    ),
    "bicubic": (
        lambda x: (
            F.interpolate(x, scale_factor=(2, 0.7), mode="bicubic"),
            F.interpolate(x, size=(4, 9), mode="bicubic", align_corners=True),
        ),
        floats(1, 2, 5, 9),
    ),
    "distances_of_triplets": (
        lambda x: F.triplet_margin_loss(x, x.flip(0), x.roll(1, 1), reduction="none"),
        floats(6, 5),
    ),
    "weights_of_positives": (
        lambda x: F.binary_cross_entropy_with_logits(
            x, (x > 0.2).float(), pos_weight=torch.tensor([2.0, 3.0, 0.5])
        ),
        floats(5, 3),
    ),
    "take_along_counts_round": (
        lambda i: torch.take_along_dim(torch.arange(20.0).reshape(4, 5), i, 0),
        _whole(2, 5),
    ),
    "bucketize": (
        lambda x: (
            torch.bucketize(x, BORDERS),
            torch.bucketize(x, BORDERS, out_int32=True, right=True) * 2,
            torch.bucketize(0.5, BORDERS) + torch.bucketize(x.sum(), BORDERS),
        ),
        torch.tensor([[-3.0, -1.0, 0.0, 0.5], [0.5, 2.0, 2.5, torch.nan]]),
    ),
    "searchsorted": (
        lambda x: (
            torch.searchsorted(BORDERS, x, side="right"),
            torch.searchsorted(x.sort(1).values, x[:, :3] * 2.0),
            torch.searchsorted(
                x[0] * 0 + BORDERS[:4].flip(0), x, sorter=torch.tensor([3, 2, 1, 0])
            ),
        ),
        torch.tensor([[-3.0, -1.0, 0.0, 0.5], [0.5, 2.0, 2.5, 9.0]]),
    ),
    "searchsorted_of_integers": (
        lambda i: torch.searchsorted(torch.tensor([-7, -2, 0, 0, 0, 5]), i),
        _whole(5, 8),
    ),
    "log_gamma": (
        lambda x: (torch.lgamma(x * 3), torch.digamma(x * 4)),
        floats(9, 4),
    ),
    "log_gamma_at_borders": (
        lambda x: (torch.lgamma(x), torch.digamma(x.abs() + 0.25)),
        torch.tensor(
            [-3.0, -2.5, -1e30, 0.0, 0.5, 1.0, 1.5, 2.0, 7.5, 8.0, 1e-30, 3e37, torch.inf]
        ),
    ),
    "running_log_sum": (
        lambda x: (torch.logcumsumexp(x * 30, 1), torch.logcumsumexp(x[:, 0], 0)),
        floats(4, 37),
    ),
    "long_windows": (lambda x: x.unfold(-1, 100, 40).amax(-1), floats(3, 420)),
    "large_patches": (
        lambda x: F.unfold(x, 9, padding=4, stride=3, dilation=(1, 2)),
        floats(1, 2, 12, 21),
    ),
    "covariances": (
        lambda x: (torch.cov(x), torch.corrcoef(x), torch.cov(x[0], correction=0)),
        floats(5, 37),
    ),
    "spectrogram": (
        lambda x: torch.view_as_real(
            torch.stft(x, 100, 40, window=torch.hann_window(100), return_complex=True)
        ),
        floats(2, 400),
    ),
    "rrelu": (lambda x: F.rrelu(x, training=False), floats(9)),
    "signbit": (lambda x: torch.where(torch.signbit(x), x, 2 * x), floats(9)),
    "strided": (lambda x: torch.as_strided(x, (2, 2, 3), (5, 1, 2), 1), floats(3, 5)),
    "upper_triangle": (lambda x: x[tuple(torch.triu_indices(4, 4, 1))], floats(4, 4)),
}
QUICK = (
    "class_weights",
    "sum_of_int32_is_int64",
    "histogram",
    "bucketize",
    "log_gamma_at_borders",
    "running_log_sum",
)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.wider) for n in CASES]
)
def test_it_is_compiled_and_verified(name: str) -> None:
    fn, x = CASES[name]
    module = Call(fn)
    found, wanted = tree_leaves(septran.compile(module, (x,))(x)), tree_leaves(module(x))
    for one, right in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, right, rtol=1e-5, atol=1e-5)


@pytest.mark.few(1)
@pytest.mark.parametrize("weights", [[0.0, 0.0, 1.0], [2.0, -2.0, 1.0], [torch.inf, 1.0, 1.0]])
def test_smoothed_losses_of_classes_without_weight_are_what_torch_says(
    weights: list[float],
) -> None:
    """torch divides what the targets lose and what all classes lose each on its own."""
    x, targets = floats(2, 3), torch.tensor([0, 1])

    def loss(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(x, targets, weight=w, label_smoothing=0.1)

    ours = septran.compile(Call(loss), (x, torch.tensor([1.0, 2.0, 0.5])))
    w = torch.tensor(weights)
    torch.testing.assert_close(ours(x, w), loss(x, w), equal_nan=True)


@pytest.mark.wider
def test_what_meets_an_infinity_or_a_zero_is_what_torch_says() -> None:
    """A product of zero and infinity is NaN where torch has it, and nowhere else."""

    def all_of_them(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            F.kl_div(x, y, reduction="none"),
            F.binary_cross_entropy_with_logits(x, y, reduction="none"),
            torch.lerp(x, y, 0.9),
            torch.lerp(x, y, y),
        )

    ours = septran.compile(Call(all_of_them), (floats(7, 6), floats(7, 6).abs()))
    x = torch.tensor([0.0, 1.0, -1.0, torch.inf, -torch.inf, torch.nan, 0.5])
    y = torch.tensor([0.0, 0.5, 1.0, 2.0, -1.0, torch.inf])
    pairs = tuple(torch.meshgrid(x, y, indexing="ij"))
    for found, wanted in zip(ours(*pairs), all_of_them(*pairs), strict=True):
        torch.testing.assert_close(found, wanted, equal_nan=True)


@pytest.mark.few(1)
@pytest.mark.parametrize("n", [5, pytest.param(300, marks=pytest.mark.wider)])
@pytest.mark.parametrize("largest", [True, False])
def test_the_largest_of_a_row_of_infinities_are_found_once(n: int, *, largest: bool) -> None:
    """What has been taken is not taken again where the rest is infinite, as behind a mask."""
    ours = septran.compile(Call(lambda x: torch.topk(x, 3, 1, largest=largest)), (floats(2, n),))
    x = torch.full((2, n), -torch.inf if largest else torch.inf)
    x[:, 0] = 5.0
    x[1, 3] = torch.nan
    values, places = ours(x)
    torch.testing.assert_close(values, torch.topk(x, 3, 1, largest=largest)[0], equal_nan=True)
    torch.testing.assert_close(x.gather(1, places), values, equal_nan=True)
    assert all(len(set(row.tolist())) == 3 for row in places)


@pytest.mark.few(4)
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("factor", [None, 0.3, 1.7, 2.3, 1 / 3])
def test_nearest_positions_are_those_of_torch(factor: float | None, *, exact: bool) -> None:
    compared = 0
    for n in range(1, 40):
        for out in (1, 7, 24, 41) if factor is None else (max(int(n * factor), 1),):
            try:
                places = nearest_places(n, out, factor, exact=exact)
                text = _position("i", n, places, factor, exact)
            except NoForm:
                continue
            names = {"min": min, "select": lambda test, a, b: a if test else b}
            assert places == tuple(eval(text, names | {"i": i}) for i in range(out))
            compared += 1
    assert (
        compared >= 8
    )  # a factor such as 2.3 is refused where float32 and float64 read different positions


def test_the_mean_beside_a_variance_is_the_mean(tmp_path: Path) -> None:
    """torch's own operator for both gives NaN or infinity for such a row, as its elements happen to lie."""
    module = Module(name="with_mean", body="return torch.var_mean(x, 1)", inputs="torch.ones(2, 3)")
    graph = graph_of(module.write(tmp_path))
    x = torch.tensor([[-torch.inf, 1.0, 2.0], [1.0, 2.0, -torch.inf]])
    (name,) = (i.name for i in graph.inputs)
    spread, mean = run_graph(graph, {name: x.double()})
    assert spread.isnan().all() and (mean == -torch.inf).all()


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("torch.special.zeta(x, 2.0)", "special_zeta (special_zeta): no Task Lang form"),
        ("x[:0] + 1", "a tensor without elements"),
        ("x[:0]", "a tensor without elements"),
        ("torch.histc(x, 5)", "whose ends are the smallest and the largest element"),
    ],
)
def test_what_is_refused_is_named_as_the_module_says_it(
    tmp_path: Path, body: str, said: str
) -> None:
    """Not by the operators that torch's rules end in."""
    with pytest.raises(ConfigError) as e:
        translate(graph_of(Module(name="refused", body=body).write(tmp_path)))
    assert e.value.diagnostics[0].code == "C150" and said in str(e.value)
