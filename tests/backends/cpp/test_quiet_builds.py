"""The shipped leaves compile without a word from the compiler: what a user sees in a log is the user's."""

from __future__ import annotations

import pytest

from septran.backends.cpp.backend import CPP
from septran.kernel import leaf_specs
from septran.plan.resolve import GenRequest, lower_plan, resolve


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        ("gemm", "float32"),
        ("gemm", "bfloat16"),
        pytest.param("attention", "float16", marks=pytest.mark.slow),
        pytest.param("conv2d", "float32", marks=pytest.mark.slow),
    ],
)
def test_no_warning(op, dtype, tmp_path):
    plan = resolve(GenRequest(op=op, backend="cpp", dtype=dtype))
    program = lower_plan(plan).program
    kernel = CPP.emit(program, {spec.key: CPP.library(spec) for _, spec in leaf_specs(program)})
    built = CPP.build(kernel, tmp_path)
    assert built.ok
    assert not built.log, built.log
