"""A policy's smaller sizes are used when, and only when, a memory is too small for its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from septran.errors import MappingError
from septran.mapping.schema import Policy
from septran.plan.resolve import GenRequest, Plan, lower_plan, resolve
from septran.trial.judge import distinct_specs

TARGETS = (
    ("cuda_c", "sm_80"),
    ("cuda_c", "sm_90a"),
    ("tilelang_cuda", "sm_80"),
    ("tilelang_cuda", "sm_90a"),
    ("tilelang_hip", "gfx942"),
)
WIDE = {"B": 32, "H": 56, "W": 56, "Ci": 256, "Co": 64}


def planned(target: tuple[str, str], op: str, dims: dict[str, int], dtype: str = "float32") -> Plan:
    backend, arch = target
    return resolve(GenRequest(op=op, backend=backend, arch=arch, dims=dims, dtype=dtype))


def without(plan: Plan) -> Plan:
    assert isinstance(plan.mapping, Policy)
    return replace(plan, mapping=replace(plan.mapping, smaller=()))


def emitted(plan: Plan) -> str:
    program = lower_plan(plan).program
    leaves = {spec.key: plan.backend.library(spec) for spec in distinct_specs(program)}
    return plan.backend.emit(program, {k: v for k, v in leaves.items() if v is not None}).source


@pytest.mark.parametrize("target", TARGETS, ids=".".join)
def test_many_channels_get_smaller_tiles(target: tuple[str, str]) -> None:
    # 256 channels are one step of the sum, and a ring that is never refilled has one slot: that fits sm_90a
    wide = {**WIDE, "Ci": 512} if target == ("cuda_c", "sm_90a") else WIDE
    plan = planned(target, "conv2d_1x1", wide)
    with pytest.raises(MappingError) as refused:
        emitted(without(plan))
    assert [d.code for d in refused.value.diagnostics] == ["M011"]
    assert emitted(plan)


@pytest.mark.few(5)
@pytest.mark.parametrize("target", TARGETS, ids=".".join)
@pytest.mark.parametrize("op", ["gemm", "softmax", "conv2d"])
def test_what_fits_is_left_alone(target: tuple[str, str], op: str) -> None:
    plan = planned(target, op, {})
    assert lower_plan(plan).program == lower_plan(without(plan)).program


def test_the_first_refusal_is_told_when_nothing_fits() -> None:
    plan = planned(("cuda_c", "sm_80"), "softmax", {"M": 4, "N": 262_144})
    with pytest.raises(MappingError) as alone:
        emitted(without(plan))
    with pytest.raises(MappingError) as tried:
        lower_plan(plan)
    assert str(tried.value) == str(alone.value)


def test_the_printed_mapping_is_the_one_that_fits() -> None:
    plan = planned(("cuda_c", "sm_80"), "conv2d_1x1", WIDE)
    found = lower_plan(plan).bound.mapping
    again = lower_plan(replace(plan, mapping=found)).program
    assert again == lower_plan(plan).program


def test_other_mistakes_are_not_tried_again() -> None:
    plan = planned(("cuda_c", "sm_80"), "gemm", {})
    assert isinstance(plan.mapping, Policy)
    wrong = replace(plan.mapping, grid="CORE")
    with pytest.raises(MappingError) as told:
        lower_plan(replace(plan, mapping=wrong))
    assert "M011" not in [d.code for d in told.value.diagnostics]
