"""Our own module files: imported whole, and their logic computes what the exported graph computes."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.plan.floor import library_leaves
from septran.plan.problem import problem_of
from septran.plan.torch_module import load_imported
from septran.trial.judge import judge_kernel
from septran.trial.place import place_of
from septran.verify.cases import plan as plan_cases
from tests.frontend.families import FAMILIES
from tests.frontend.importing import computes_the_module, imported
from tests.frontend.modules import MODULES, Module
from tests.frontend.planning import planned


@pytest.mark.few(14)
@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.name)
def test_the_written_logic_is_the_module(tmp_path: Path, module: Module) -> None:
    found = imported(module.write(tmp_path))
    assert found.written.kernels <= module.kernels
    computes_the_module(found, tmp_path)


SAMPLE = (
    "pointwise_mish",
    "rows_group_norm",
    "rows_long",
    "product_linear_rank3",
    "attention_self",
    "conv_grouped",
    "conv_depthwise",
    "conv_transposed_strided",
    "pool_avg_inside",
    "layout_pad",
    "layout_same_twice",
    "recurrent_lstm",
    "recurrent_gru",
    "scan_sum_middle",
    "arg_topk",
    "gather_embedding",
    "scatter_add",
    "map_bools",
    "map_fmod",
    "map_to_int",
    "loss_cross_entropy",
    "block_moe",
    "block_rope",
)


VIEWED = ("conv_grouped", "pool_max", "attention_self", "layout_same_twice", "rows_group_norm")
"""Text with permuted, reshaped and sliced views, and windows filled with -inf."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "name"),
    [
        *(("cpp", n) for n in SAMPLE),
        *(
            (t, n)
            for t in ("triton_cuda", "dsa_c", "tilelang_cuda", "tilelang_npuir")
            for n in VIEWED
        ),
        ("dsa_c", "window_avg_3d"),
    ],
)
def test_the_judge_accepts_the_kernels(tmp_path: Path, target: str, name: str) -> None:
    module = next(m for m in (*MODULES, *FAMILIES) if m.name == name)
    found = imported(module.write(tmp_path))
    plan, lowered = planned(load_imported(found), target)
    backend, arch = plan.backend, plan.arch
    leaves = library_leaves(backend, lowered.program, lowered.bound.mapping)
    kernel = backend.emit(lowered.program, leaves)
    place = place_of(backend, arch, "auto", 1)
    judged = judge_kernel(
        place,
        kernel,
        problem_of(plan, lowered.program, {}),
        work=tmp_path / "work",
        admission=True,
    )
    assert judged.verdict.passed, judged.verdict.message
    assert "own" in {c.name for c in plan_cases(problem_of(plan, lowered.program, {}))}
