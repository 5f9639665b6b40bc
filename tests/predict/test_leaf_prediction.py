"""A leaf that is right and cannot be timed here comes with what is predicted of its kernel."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from septran import backends
from septran.plan.floor import admitted, library_leaves
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.trial.leaf_judge import LeafJudge
from septran.trial.place import place_of


@pytest.mark.slow
def test_a_leaf_for_a_gpu_that_is_not_here(tmp_path: Path):
    plan = resolve(GenRequest(op="relu", backend="cuda_c", dims={"N": 5000}))
    lowered = lower_plan(plan)
    backend = backends.get("cuda_c")
    leaves = library_leaves(backend, lowered.program, lowered.bound.mapping)
    (leaf,) = leaves.values()
    judge = LeafJudge(
        place_of(backend, plan.arch or "", "emulated", 1),
        lowered.program,
        problem_of(plan, lowered.program, plan.dims),
        leaves,
        work=tmp_path,
    )
    told = judge.library(leaf.spec)
    assert "bound by launch" in told
    assert "global memory: 1250 sectors of 32 bytes, 1.00 x what the bytes need" in told
    found = judge.check(admitted(replace(leaf, writer="llm"), backend))
    assert found.verified, found.message
    assert found.figures["global_sectors"] == found.baseline_figures["global_sectors"] == 1250
    assert "1250 sectors" in found.accesses
    assert found.speedup is None
    assert found.predicted.startswith("predicted, not measured: ")
    assert "bound by launch" in found.predicted


@pytest.mark.slow
def test_the_librarys_leaf_is_timed_where_there_is_a_clock(tmp_path: Path):
    plan = resolve(GenRequest(op="relu", backend="cpp", dims={"N": 5000}))
    lowered = lower_plan(plan)
    backend = backends.get("cpp")
    leaves = library_leaves(backend, lowered.program, lowered.bound.mapping)
    (leaf,) = leaves.values()
    judge = LeafJudge(
        place_of(backend, plan.arch or "", "auto", 1),
        lowered.program,
        problem_of(plan, lowered.program, plan.dims),
        leaves,
        work=tmp_path,
    )
    told = judge.library(leaf.spec)
    assert re.match(r"[\d.e+]+ us a call, measured here on 1 thread; ", told), told
    assert "vector bytes" in told
    assert "bound by" in told
