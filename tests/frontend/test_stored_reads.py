"""A result in 16 bits that the module reads again: a kernel may read it as it is stored, or before; nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from septran.accuracy import load_policy
from septran.plan.problem import problem_of
from septran.plan.torch_module import load_imported
from septran.verify import budget, judge
from septran.verify.problem import Problem
from septran.verify.settle import read_stored, settle
from tests.frontend.importing import imported
from tests.frontend.modules import Module
from tests.frontend.planning import planned

HOW = {"zero_mean": False, "policy": load_policy(), "seed": 1}
BODY = """s = residual + x
r = s.float()
return (r * torch.rsqrt(r.pow(2).mean(-1, keepdim=True) + 1e-6)).half(), s"""


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    """A sum in half precision and the norm of it."""
    module = Module(
        name="norm",
        args="x, residual",
        body=BODY,
        inputs="torch.randn(4, 64).half(), torch.randn(4, 64).half()",
    )
    found = imported(module.write(tmp_path_factory.mktemp("norm")))
    plan, lowered = planned(load_imported(found), "cpp")
    return problem_of(plan, lowered.program, {})


def _norm(s: torch.Tensor) -> torch.Tensor:
    r = s.double()
    return (r * torch.rsqrt(r.pow(2).mean(-1, keepdim=True) + 1e-6)).half()


def _wrong(problem: Problem, s: torch.Tensor, y: torch.Tensor) -> list[int]:
    x, residual = _inputs()
    arrays = {"x": x.numpy(), "residual": residual.numpy()}
    known = budget.expected(problem, arrays, **HOW)
    raw = dict(zip((p.name for p in problem.outputs), (y, s), strict=True))
    given = {n: t.contiguous().numpy().tobytes() for n, t in raw.items()}
    known = read_stored(problem, arrays, known, given, **HOW)
    pairs = zip(problem.outputs, known, strict=True)
    return [judge.compare(p, one, given[p.name]).wrong for p, one in pairs]


def _inputs() -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(3)
    return tuple(torch.from_numpy(rng.standard_normal((4, 64)).astype(np.float16)) for _ in "ab")


def test_both_readings_are_right(problem: Problem) -> None:
    x, residual = _inputs()
    s = x.double() + residual.double()
    assert _wrong(problem, s.half(), _norm(s.half())) == [0, 0]  # torch's own
    assert _wrong(problem, s.half(), _norm(s)) == [0, 0]


def test_a_norm_of_something_else_is_wrong(problem: Problem) -> None:
    x, residual = _inputs()
    s = (x.double() + residual.double()).half()
    y = _norm(s)
    off = y.clone()
    off[0, :8] += off[0, :8].abs() * 4e-3
    assert _wrong(problem, s, off)[0] > 0
    assert _wrong(problem, s, _norm(s.double() * 1.01 + 0.01))[0] > 0


def test_a_wrong_sum_does_not_excuse_the_norm_of_it(problem: Problem) -> None:
    x, residual = _inputs()
    s = ((x.double() + residual.double()) + 0.5).half()
    assert min(_wrong(problem, s, _norm(s))) > 0


TOP = """s = residual + x
v, i = torch.topk(s.float(), 1, dim=-1)
return (s.float() * 2).half(), s, v, i"""


def _wrong_top(tmp_path: Path, place: int) -> list[int]:
    """Of each output, how many elements are wrong where a kernel says that the largest of 1 + 2^-13, 1 + 2^-12 and 0.5 lies at `place`."""
    module = Module(
        name="top", args="x, residual", body=TOP, inputs=", ".join(["torch.randn(1, 3).half()"] * 2)
    )
    plan, lowered = planned(load_imported(imported(module.write(tmp_path))), "cpp")
    problem = problem_of(plan, lowered.program, {})
    x = torch.tensor([[1.0, 1.0, 0.5]]).half()
    residual = torch.tensor([[2.0**-13, 2.0**-12, 0.0]]).half()
    arrays = {"x": x.numpy(), "residual": residual.numpy()}
    s = (x.double() + residual.double()).half()
    at = torch.tensor([[place]])
    results = (s * 2, s, s.float().gather(1, at), at)
    given = {
        p.name: r.to(judge.torch_dtype(p.dtype)).numpy().tobytes()
        for p, r in zip(problem.outputs, results, strict=True)
    }
    known = budget.expected(problem, arrays, **HOW)
    known, _ = settle(problem, arrays, known, given, **HOW)
    known = read_stored(problem, arrays, known, given, **HOW)
    return [
        judge.compare(p, one, given[p.name]).wrong
        for p, one in zip(problem.outputs, known, strict=True)
    ]


def test_an_order_is_one_of_values_as_stored_or_before(tmp_path: Path) -> None:
    """Stored, the first two are equal; a decision behind a result in 16 bits was once taken as it came."""
    assert _wrong_top(tmp_path, 0) == [0, 0, 0, 0]
    assert _wrong_top(tmp_path, 1) == [0, 0, 0, 0]
    assert _wrong_top(tmp_path, 2) == [0, 0, 1, 1]
