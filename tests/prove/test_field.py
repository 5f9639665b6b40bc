"""Products over a prime field: what the mathematics says, on every target, and what planted faults do to it."""

from __future__ import annotations

import pytest
import torch

from septran import backends
from septran.plan.resolve import GenRequest, lower_plan, resolve
from tests.prove.field import P, field_run
from tests.prove.mutants import mutants

DIMS = {"M": 70, "N": 40, "K": 50}


@pytest.mark.parametrize("target", sorted(dict(backends.BUILTIN)))
def test_a_product_is_the_product_over_the_field(target: str):
    program = lower_plan(resolve(GenRequest(op="gemm", backend=target, dims=DIMS))).program
    given, found = field_run(program, DIMS["K"])
    exact = given["A"].double() @ given["B"].double() % P
    assert torch.equal(found["C"].double(), exact)


def test_a_fault_in_the_data_shows():
    program = lower_plan(resolve(GenRequest(op="gemm", backend="cuda_c", dims=DIMS))).program
    given, _ = field_run(program, DIMS["K"])
    exact = given["A"].double() @ given["B"].double() % P
    asked = ("dropped: copy", "run twice", "one iteration less", "dim 1 clipped")
    planted = [(n, m) for n, m in mutants(program) if n.startswith(asked)]
    assert len(planted) >= 5
    for name, mutant in planted:
        _, found = field_run(mutant, 2 * DIMS["K"])
        assert not torch.equal(found["C"].double(), exact), name
