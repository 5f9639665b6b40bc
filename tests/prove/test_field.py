"""Products over a prime field: what torch says, on every target, and what planted faults do to it."""

from __future__ import annotations

import pytest

from septran import backends
from septran.errors import SeptranError
from septran.plan.resolve import GenRequest, Plan, lower_plan, resolve
from septran.run.field import FieldRun, check_field
from tests.backends.operators import all_operators
from tests.cli.conftest import septran as septran
from tests.prove.mutants import mutants

DIMS = {"M": 70, "N": 40, "K": 50}


def planned(op: str, target: str, **dims: int) -> Plan:
    return resolve(GenRequest(op=op, backend=target, dtype="float32", dims=dims))


def test_prove_runs_products_over_a_field(septran):
    asked = [f"--dim={n}={size}" for n, size in DIMS.items()]
    done = septran("prove", "--op", "gemm", "--backend", "cuda_c", *asked, "--field")
    assert done.code == 0, done.err
    assert "agrees with torch modulo 127" in done.out
    done = septran("prove", "--op", "softmax", "--backend", "cpp", "--field", "--json")
    assert done.code == 0 and "no polynomial" in done.json["field"]["why"]


def test_a_long_sum_gets_a_smaller_prime():
    plan = planned("gemm", "cpp", M=3, N=5, K=5000)
    found = check_field(plan, lower_plan(plan).program)
    assert (found.wrong, found.why) == ("", "") and 1 < found.prime < 127


@pytest.mark.parametrize("target", sorted(dict(backends.BUILTIN)))
def test_a_product_is_the_product_over_the_field(target: str):
    plan = planned("gemm", target, **DIMS)
    assert check_field(plan, lower_plan(plan).program) == FieldRun(prime=127)


@pytest.mark.slow
@pytest.mark.parametrize("target", sorted(dict(backends.BUILTIN)))
def test_every_polynomial_is_asked_and_agrees(target: str):
    asked = set()
    for op, (operator, _) in all_operators().items():
        try:
            plan = planned(op, target, **operator.odd_dims[0])
            found = check_field(plan, lower_plan(plan).program)
        except SeptranError as e:
            assert e.exit_code == 2, e
            continue
        assert found.wrong == "", op
        asked |= {op} if found.prime else set()
    assert {"gemm", "gemv", "batched_gemm", "conv2d", "row_sum", "col_sum", "mul"} <= asked


def test_a_fault_in_the_data_shows():
    plan = planned("gemm", "cuda_c", **DIMS)
    program = lower_plan(plan).program
    asked = ("dropped: copy", "run twice", "one iteration less", "dim 1 clipped")
    planted = [(n, m) for n, m in mutants(program) if n.startswith(asked)]
    assert len(planted) >= 5
    for name, mutant in planted:
        assert check_field(plan, mutant).wrong.startswith("C["), name
