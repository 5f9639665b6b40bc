"""Whole numbers: divided by tensors of them, kept exact between maps, and those that stand in a module's own text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.utils._pytree import tree_leaves

import septran
from septran.errors import ConfigError
from septran.frontend.domains import domains_of
from septran.kernel import KernelParam
from septran.reference import Reference
from septran.verify.cases import draw
from septran.verify.cases import plan as planned
from septran.verify.problem import Problem
from tests.frontend.calls import Call, floats
from tests.frontend.importing import computes_the_module, imported
from tests.frontend.modules import Module

pytestmark = pytest.mark.filterwarnings("ignore")

DIVIDED = (
    "return x // y, x % y, torch.fmod(x, y), torch.div(x, y, rounding_mode='trunc'), 9 // y, 9 % y"
)
RANGES = {"int8": (-128, 127), "uint8": (0, 255), "int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}  # fmt: skip


def _edges(dtype: str) -> str:
    """Return two inputs: each of some numbers over each but zero; the least over -1 has no value in its dtype."""
    low, high = RANGES[dtype]
    some = sorted({low, low + 1, low // 3, -9, -1, 0, 1, 2, 3, 7, 100, high // 3, high - 1, high})
    some = [n for n in some if low <= n <= high]
    pairs = [(a, b) for a in some for b in some if b and not (a == low < 0 and b == -1)]
    return ", ".join(
        f"torch.tensor({list(one)}, dtype=torch.{dtype})" for one in zip(*pairs, strict=True)
    )


@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", RANGES)
def test_a_tensor_divides_to_the_last_bit(tmp_path: Path, dtype: str) -> None:
    module = Module(name=f"divided_{dtype}", args="x, y", body=DIVIDED, inputs=_edges(dtype))
    computes_the_module(imported(module.write(tmp_path)), tmp_path)


def _worst(most: int) -> tuple[list[int], list[int]]:
    """Return Pell's neighbours, of which each step of Euclid's algorithm leaves the most, alone and times 3, and others."""
    a, b = [0, 12, 18, -18, most, most // 2], [0, 18, -12, 0, most - 1, most]
    x, y = 1, 0
    while 2 * x + y <= most // 3:
        x, y = 2 * x + y, x
        a, b = [*a, x, 3 * x], [*b, y, 3 * y]
    return a, b


@pytest.mark.parametrize(
    "dtype", [pytest.param(d, marks=() if d == "int8" else pytest.mark.wider) for d in RANGES]
)
def test_common_divisors_and_multiples_of_the_worst_numbers(tmp_path: Path, dtype: str) -> None:
    a, b = _worst(RANGES[dtype][1])
    a, b = (a, b) if dtype != "uint8" else ([abs(n) for n in a], [abs(n) for n in b])
    inputs = f"torch.tensor({a}, dtype=torch.{dtype}), torch.tensor({b}, dtype=torch.{dtype})"
    body = "return torch.gcd(x, y), torch.lcm(x, y)"
    module = Module(name=f"common_{dtype}", args="x, y", body=body, inputs=inputs)
    computes_the_module(imported(module.write(tmp_path)), tmp_path)


def test_whole_numbers_between_maps_are_no_floats(tmp_path: Path) -> None:
    """They were float32 where two maps read them, and where a cast was written into a product."""
    body = "j = x * 100003\nreturn j % 7 + j // 11, (w.int() * 100003) % 1000"
    inputs = "torch.arange(2**24 - 40, 2**24), torch.linspace(0, 9999.5, 40)"
    module = Module(name="between", args="x, w", body=body, inputs=inputs)
    computes_the_module(imported(module.write(tmp_path)), tmp_path)


TABLE = floats(10, 4)
WORDS = torch.randint(0, 10, (15,), generator=torch.Generator().manual_seed(1))
NUMBERS = torch.arange(-40, 40).reshape(8, 10)
OTHERS = torch.where(NUMBERS.flip(0) % 10 == 0, 7, NUMBERS.flip(0) % 10 - 5 * (NUMBERS % 2))
OTHERS = torch.where(OTHERS == 0, -3, OTHERS)
CASES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "divided": (lambda x, y: (x // y, x % y), (NUMBERS, OTHERS)),
    "common": (lambda x, y: (torch.gcd(x, y), torch.lcm(x.int(), y.int())), (NUMBERS, OTHERS)),
    "bags_with_ends_in_the_text": (
        lambda w, i: F.embedding_bag(i, w, torch.tensor([0, 3, 3, 9]), mode="mean"),
        (TABLE, WORDS),
    ),
    "bags_with_ends_of_the_call": (
        lambda w, i, ends: F.embedding_bag(i, w, ends, mode="sum"),
        (TABLE, WORDS, torch.tensor([0, 3, 3, 9])),
    ),
    "reordered": (lambda x: x[torch.tensor([2, 0, 1])] + x, (floats(3, 8),)),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n == "divided" else pytest.mark.wider) for n in CASES]
)
def test_it_is_compiled_and_verified(name: str) -> None:
    fn, given = CASES[name]
    module = Call(fn)
    found = tree_leaves(septran.compile(module, given)(*given))
    for one, right in zip(found, tree_leaves(module(*given)), strict=True):
        torch.testing.assert_close(one, right, rtol=1e-5, atol=1e-5)


def _problem(tmp_path: Path, module: Module) -> Problem:
    found = imported(module.write(tmp_path))
    graph = found.graph
    names = {i.name: i.name for i in graph.inputs}
    params = tuple(
        KernelParam(name=i.name, shape=i.meta.shape, dtype=i.meta.dtype, privilege="r")
        for i in graph.inputs
    )
    domains = domains_of(graph, found.canon, names)
    return Problem(name="p", params=params, reference=Reference(fn=lambda: None), domains=domains)


def test_what_stands_in_the_text_keeps_its_value_and_a_buffer_is_drawn(tmp_path: Path) -> None:
    """A kernel that has a buffer's positions written into it is wrong: others may be loaded."""
    module = Module(
        name="orders",
        init="self.register_buffer('order', torch.tensor([2, 0, 1, 4, 3]))",
        body="x[torch.tensor([4, 3, 2, 0, 1])] + x[self.order]",
    )
    problem = _problem(tmp_path, module)
    text, buffer = (
        next(p.name for p in problem.params if p.dtype == "int64" and (p.name == "b_order") is own)
        for own in (False, True)
    )
    sets = [draw(problem, case) for case in planned(problem, 5)]
    assert all(s[text].tolist() == [4, 3, 2, 0, 1] for s in sets)
    assert len({tuple(s[buffer]) for s in sets}) > len(sets) // 2


def test_divisors_are_no_zeros_and_bags_begin_in_order(tmp_path: Path) -> None:
    module = Module(
        name="wanted",
        args="w, i, o, d",
        body="return F.embedding_bag(i, w, o.reshape(-1)), i // d.abs()",
        inputs="torch.randn(9, 4), torch.randint(0, 9, (20,)), torch.tensor([[0, 4], [9, 12]]), "
        "torch.arange(20) - 20",
    )
    problem = _problem(tmp_path, module)
    assert problem.domains["o"].rising and problem.domains["d"].nonzero
    mixed = Problem(
        name="p",
        params=problem.params,
        reference=problem.reference,
        domains={**problem.domains, "d": septran.domain.Domain(kind="index", low=-2, high=2, nonzero=True)},
    )  # fmt: skip
    for case in planned(mixed, 3):
        inputs = draw(mixed, case)
        assert np.all(inputs["d"] != 0)
        ends = inputs["o"].ravel()
        assert ends[0] == 0 and np.all(np.diff(ends) >= 0)


def test_a_zero_that_is_computed_is_said(tmp_path: Path) -> None:
    """torch divides by it for nobody; nor is it called right."""
    module = Call(lambda x, y: x // (y - 3))
    given = (NUMBERS, torch.where(OTHERS == 3, 4, OTHERS))
    with pytest.raises(ConfigError, match=r"C152.*ZeroDivisionError"):
        septran.compile(module, given)(*given)
