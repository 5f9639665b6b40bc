"""Convolutions by Winograd's algorithm: only where `math: winograd` asks for it, and by a budget that is declared."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from septran.accuracy import load_policy
from septran.errors import MappingError
from septran.kernel import leaf_specs
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.run.prove import prove_request
from septran.verify import budget
from tests.backends.cpp.programs import CPP, library_leaf, poisoned, run_kernel
from tests.cli.conftest import septran as septran

SMALL = {"B": 2, "H": 13, "W": 9, "Ci": 17, "Co": 19}


def lowered(op="conv2d", dims=None, math="winograd"):
    plan = resolve(GenRequest(op=op, backend="cpp", dims=dims or SMALL, math=math, tuned=False))
    return plan, lower_plan(plan).program


def kernel(op="conv2d", dims=None, math="winograd"):
    program = lowered(op, dims, math)[1]
    leaves = {s.key: library_leaf(s) for _, s in leaf_specs(program)}
    return CPP.emit(program, leaves)


def inputs(dims, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal([dims[n] for n in ("B", "H", "W", "Ci")], dtype=np.float32)
    return x, rng.standard_normal((3, 3, dims["Ci"], dims["Co"]), dtype=np.float32)


def known(dims, x, w):
    plan, program = lowered(dims=dims)
    problem = problem_of(plan, program, dims)
    given = {"X": x, "W": w}
    return problem, *budget.expected(problem, given, zero_mean=True, policy=load_policy(), seed=1)


WIDE = {"B": 1, "H": 8, "W": 21, "Ci": 33, "Co": 72}


@pytest.mark.parametrize("dims", [SMALL, pytest.param(WIDE, marks=pytest.mark.slow)])
def test_it_is_right_at_edges_and_its_own_algorithm(dims, tmp_path):
    x, w = inputs(dims)
    made = poisoned((dims["B"], dims["H"], dims["W"], dims["Co"]))
    run_kernel(kernel(dims=dims), [made, x, w], tmp_path)
    _, one = known(dims, x, w)
    error = np.abs(made - one.values.numpy())
    assert (error <= one.budget.numpy()).all()
    sums = np.abs(one.values.numpy().astype(np.float32) - one.values.numpy()).max()
    assert error.max() > 4 * sums  # squares round more than sums do


def test_only_a_mapping_that_asks_has_it():
    for math, used in (("", False), ("winograd", True)):
        assert ("gemm_winograd<" in kernel(math=math).source) is used
    plan, program = lowered(math="")
    assert problem_of(plan, program, SMALL).declared == ""


def test_windows_that_step_by_two_are_refused_because_nothing_declares_their_accuracy():
    plan, program = lowered("conv2d_stride2", {"B": 1, "H": 15, "W": 11, "Ci": 17, "Co": 19})
    with pytest.raises(MappingError, match="M094"):
        problem_of(plan, program, plan.dims)
    plan, program = lowered("gemm", {"M": 32, "N": 32, "K": 32})
    assert problem_of(plan, program, plan.dims).declared == ""


@pytest.mark.slow
def test_taps_that_are_no_neighbours_are_added_as_sums(tmp_path):
    """The leaf decides by where its operands lie: every second pixel is no square."""
    dims = {"B": 1, "H": 15, "W": 35, "Ci": 16, "Co": 16}
    x, w = inputs(dims)
    made = poisoned((1, 8, 18, 16))
    run_kernel(kernel("conv2d_stride2", dims), [made, x, w], tmp_path)
    turned = torch.from_numpy(x).double().permute(0, 3, 1, 2)
    taps = torch.from_numpy(w).double().permute(3, 2, 0, 1)
    right = torch.nn.functional.conv2d(turned, taps, stride=2, padding=1).permute(0, 2, 3, 1)
    np.testing.assert_allclose(made, right.numpy(), atol=2e-5)


def test_the_budget_refuses_ten_bits_and_a_wrong_tap():
    dims = {"B": 1, "H": 12, "W": 12, "Ci": 64, "Co": 16}
    x, w = inputs(dims)
    problem, one = known(dims, x, w)

    def worst(x, w):
        given = {"X": torch.from_numpy(x).double(), "W": torch.from_numpy(w).double()}
        (found,) = budget.evaluate(problem, given)
        return float(((found - one.values).abs() / one.budget).max())

    def short(a):  # tf32
        return (a.view(np.uint32) + 0x1000 & np.uint32(0xFFFFE000)).view(np.float32)

    bad = w.copy()
    bad[2, 1, 5, 3] *= 1.001
    assert worst(x, w) == 0 and worst(short(x), short(w)) > 1 and worst(x, bad) > 1


def test_small_integers_are_not_asked_for_bits():
    plan, program = lowered()
    assert problem_of(plan, program, SMALL).reference.integer_exact is False


def test_its_hierarchy_and_text_are_proven():
    asked = GenRequest(op="conv2d", backend="cpp", dims=SMALL, math="winograd")
    states = {rule.rule: rule.state for rule in prove_request(asked).certificate.rules}
    assert states["data"] == states["sums"] == states["text"] == "proved"


def test_the_leaf_that_a_model_would_replace_says_so():
    _, program = lowered()
    spec = next(s for _, s in leaf_specs(program) if s.task == "mma")
    assert "gemm_winograd<" in library_leaf(spec).source
    plain = replace(spec, options=())
    assert "gemm_taps<" in library_leaf(plain).source


@pytest.mark.slow
def test_a_user_asks_for_it(septran):
    asked = [w for n, s in SMALL.items() for w in ("--dim", f"{n}={s}")]
    found = septran("gen", "--op", "conv2d", "--backend", "cpp", "--math", "winograd", *asked)
    assert found.code == 0 and re.search(r"declared .*winograd", found.out)
    told = septran("gen", "--op", "conv2d", "--backend", "dsa_c", "--math", "winograd", "--json")
    assert told.code == 2 and json.loads(told.out)["errors"][0]["code"] == "M017"
