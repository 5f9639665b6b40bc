"""Honest kernels pass for any secret seed: a verifier that cries wolf is switched off."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.verify.session import Sessions
from septran.verify.verify import Request, verify
from tests.verify import kernels


@pytest.mark.slow
@pytest.mark.parametrize("name", kernels.HONEST)
def test_forty_seeds(name: str, tmp_path: Path) -> None:
    body, make = kernels.HONEST[name]
    problem = make()
    source = kernels.entry(body)
    built = kernels.build(source, tmp_path)
    kernel = kernels.kernel_of(problem, source)
    for seed in range(40):
        request = Request(seed=seed, sessions=Sessions(budget_s=60))
        verdict = verify(kernel, built, problem, run_dir=tmp_path / str(seed), request=request)
        assert verdict.passed, (seed, verdict.message)


LONG = 16384


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_long_naive_sums_stay_inside_the_budget(seed: int, tmp_path: Path) -> None:
    source = kernels.entry(
        f"""
    const float* A = (const float*)args[1]; const float* B = (const float*)args[2]; float* C = (float*)args[0];
    for (int i = 0; i < 16; i++) for (int j = 0; j < 16; j++) {{
      float s = 0; for (int k = 0; k < {LONG}; k++) s += A[i*{LONG}+k] * B[k*16+j]; C[i*16+j] = s; }}"""
    )
    problem = kernels.gemm(16, 16, LONG)
    built = kernels.build(source, tmp_path)
    verdict = verify(
        kernels.kernel_of(problem, source),
        built,
        problem,
        run_dir=tmp_path / "run",
        request=Request(seed=seed),
    )
    assert verdict.passed, verdict.message
