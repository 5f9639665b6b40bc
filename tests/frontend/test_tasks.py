"""Whole task files, written as people write them: single operators, chains, blocks of networks, and what servers run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from septran.errors import ConfigError
from septran.plan.floor import library_leaves
from septran.plan.problem import problem_of
from septran.plan.torch_module import load_imported
from septran.trial.judge import judge_kernel
from septran.trial.place import place_of
from tests.frontend.importing import computes_the_module, imported
from tests.frontend.planning import planned

TASKS = Path(__file__).parent / "tasks"
QUICK = (
    "level1/attention_half",
    "level1/far_from_core",
    "level2/conv_activation_bn",
    "level3/lstm_hidden",
    "level3/rnn_relu",
    "level3/vanilla_rnn_hidden",
    "serving/int4_unpack",
    "serving/kv_cache_put",
    "serving/static_cache_slice",
    "serving/temperature_topk_mask",
    "serving/top_p_mask",
)
"""One for each class of file that once had no form or a wrong one; the others run with the slow tests."""
DROPS = ("level3/vision_transformer",)
FILES = sorted(str(p.relative_to(TASKS).with_suffix("")) for p in TASKS.glob("*/*.py"))


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in QUICK else (pytest.mark.slow,)) for n in FILES],
)
def test_the_written_logic_is_the_module(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{Path(name).name}.py"
    shutil.copy(TASKS / f"{name}.py", path)
    computes_the_module(imported(path), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_it_imports_as_it_is_made(tmp_path: Path, name: str) -> None:
    """Norms with batch statistics; dropout that is not active is no dropout, and what is has no defined result."""
    path = tmp_path / f"{Path(name).name}.py"
    shutil.copy(TASKS / f"{name}.py", path)
    if name in DROPS:
        with pytest.raises(ConfigError, match="C152"):
            imported(path, "as-is")
        return
    found = imported(path, "as-is")
    assert found.written.kernels > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("serving/topk_softmax_gating", "eval"),
        ("serving/logprob_of_target", "eval"),
        ("level2/deconv3d_sum_layernorm_pool_gelu", "eval"),
        ("level3/densenet_small", "as-is"),
    ],
)
def test_the_judge_accepts_what_it_once_refused(tmp_path: Path, name: str, mode: str) -> None:
    """Ties that rounding decides, and what intermediate results round away; for several secret seeds."""
    path = tmp_path / f"{Path(name).name}.py"
    shutil.copy(TASKS / f"{name}.py", path)
    plan, lowered = planned(load_imported(imported(path, mode)), "cpp")
    backend = plan.backend
    kernel = backend.emit(
        lowered.program, library_leaves(backend, lowered.program, lowered.bound.mapping)
    )
    place = place_of(backend, plan.arch, "auto", 1)
    for seed in (1, 2, 3):
        judged = judge_kernel(
            place,
            kernel,
            problem_of(plan, lowered.program, {}),
            work=tmp_path / f"work{seed}",
            seed=seed,
        )
        assert judged.verdict.passed, judged.verdict.message
