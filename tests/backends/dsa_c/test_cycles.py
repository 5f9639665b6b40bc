"""The cycle model: the shipped policy reaches the bound, depth pays until memory binds, M011 before codegen."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from septran.backends.dsa.backend import DSA_C
from septran.errors import MappingError
from septran.ir.nodes import Program
from septran.passes.pipeline_loops import pipeline_loops
from septran.plan.resolve import GenRequest, lower_plan, resolve
from tests.backends.dsa_c_tools import kernel_of, run_text
from tests.backends.dsa_programs import gemm


def report(program: Program, folder: Path) -> dict:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.buffer.shape).astype(p.buffer.dtype) for p in program.params]
    found, facts = run_text(kernel_of(program), folder, arrays)
    assert facts["errors"] == []
    facts["digest"] = hashlib.sha256(found[0].tobytes()).hexdigest()
    return facts


def test_gemm_512_with_the_shipped_policy(tmp_path: Path) -> None:
    program = lower_plan(resolve(GenRequest(op="gemm", backend="dsa_c"))).program
    assert [p.buffer.shape for p in program.params] == [(512, 512)] * 3
    facts = report(program, tmp_path)
    assert facts["mma_bound_share"] >= 0.85
    assert facts["overlap"] > 1  # loads run under products


def at_depth(depth: int, tile: tuple[int, int, int], folder: Path) -> dict:
    program = pipeline_loops(gemm(128, 128, 512, tile=tile, pipeline=depth))
    return report(program, folder / str(depth))


@pytest.mark.wider
def test_depth_pays_until_memory_binds(tmp_path: Path) -> None:
    runs = [at_depth(d, (64, 64, 64), tmp_path) for d in (0, 2, 3)]
    cycles = [r["cycles"] for r in runs]
    assert cycles[1] < 0.85 * cycles[0]
    assert cycles[2] <= 1.02 * cycles[1]
    assert len({r["digest"] for r in runs}) == 1  # the depth never changes a bit of the result
    small = [at_depth(d, (16, 16, 64), tmp_path / "small") for d in (3, 4, 8)]
    assert small[2]["cycles"] > 0.95 * small[1]["cycles"]  # bound by loads: depth no longer pays
    assert small[2]["queues"]["LOAD"]["utilisation"] > small[2]["queues"]["MMA"]["utilisation"]


def test_time_is_deterministic(tmp_path: Path) -> None:
    first, second = (at_depth(2, (64, 64, 64), tmp_path / n) for n in ("a", "b"))
    assert first == second


def test_operands_in_one_bank_cost_more(tmp_path: Path) -> None:
    facts = report(gemm(32, 32, 32, tile=(32, 32, 32)), tmp_path)
    assert facts["bank_conflicts"] == 1


def test_too_much_is_refused_with_the_numbers() -> None:
    program = pipeline_loops(gemm(1024, 1024, 1024, tile=(128, 128, 256), pipeline=4))
    with pytest.raises(
        MappingError,
        match=r"SHARED needs 1048576 bytes per CORE but the limit is 524288: A_s\[128, 256\] float32 x4 stages",
    ):
        DSA_C.finished(program, {})
