"""What becomes one kernel: reductions of reductions in a resident row, pools of pools, neighbours over the same tensor."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from septran.frontend.kernel_group import RESIDENT
from septran.frontend.write.program import Written, write
from septran.kernel import Kernel
from septran.plan.fit import Lowered
from septran.plan.floor import library_leaves
from septran.plan.problem import problem_of
from septran.plan.resolve import Plan
from septran.plan.torch_module import load_imported
from septran.trial.judge import judge_kernel
from septran.trial.place import place_of
from tests.frontend.importing import computes_the_module, imported
from tests.frontend.modules import Module
from tests.frontend.planning import planned

MAPS = "torch.randn(2, 6, 5, 7)"
LONG = f"torch.randn(1, 4, {RESIDENT // 2})"


def _written(
    folder: Path, body: str, inputs: str, init: str = "pass", mode: str = "eval"
) -> Written:
    module = Module(name="model", init=init, body=body, inputs=inputs)
    found = imported(module.write(folder), mode)
    computes_the_module(found, folder)
    return found.written


TOGETHER = {
    "softmax_then_mean": ("x = torch.softmax(x, 1)\nreturn x.mean((2, 3))", MAPS),
    "mean_then_logsumexp": ("x = x.mean((2, 3), keepdim=True)\nreturn torch.logsumexp(x, 1)", MAPS),
    "inner_then_outer": ("x = torch.min(x, 1, keepdim=True)[0]\nreturn x.sum(2, keepdim=True)", MAPS),
    "all_at_the_end": ("y = torch.exp(x - x.amax(3, keepdim=True))\nreturn y.sum(1).mean()", MAPS),
    "both_read_again": ("a = x.mean(1, keepdim=True)\nb = x.amax((2, 3), keepdim=True)\nreturn (x - a) * b", MAPS),
    "group_norm_then_channels": ("return F.group_norm(x, 3).amin(1) * 2.0", "torch.randn(4, 12)"),
    "group_norm_then_all": ("return torch.relu(F.group_norm(x, 3).mean((1, 2, 3)))", MAPS),
    "group_norm_then_a_part": ("return F.group_norm(x, 2).mean((1, 2))", MAPS),
    "one_element": ("x = x.sum(1, keepdim=True)\nx = torch.logsumexp(x.amax(1, keepdim=True), 1, keepdim=True)\nreturn x.mean(1)", "torch.randn(5, 37)"),
    "two_of_one_tensor": ("return torch.amax(x, 1) - torch.amin(x, 1), x.mean(1)", MAPS),
    "two_maps_of_one_tensor": ("return x * 2.0, torch.relu(x) + 1.0", MAPS),
    "deviation_apart": ("return (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)", "torch.randn(5, 37)"),
}  # fmt: skip


@pytest.mark.few(4)
@pytest.mark.parametrize("name", TOGETHER)
def test_one_kernel(tmp_path: Path, name: str) -> None:
    body, inputs = TOGETHER[name]
    assert _written(tmp_path, body, inputs).kernels == 1


APART = {
    "long_rows": ("x = torch.softmax(x, 2)\nreturn x.sum(1)", LONG),
    "long_rows_twice": ("return torch.logsumexp(x.sum(2), 1)", LONG),
    "different_tensors": ("return x * 2.0, self.w + 1.0", "torch.randn(3, 4)"),
    "different_loops": ("return x * 2.0, x.T + self.w", "torch.randn(3, 4)"),
}


@pytest.mark.parametrize("name", APART)
def test_two_kernels(tmp_path: Path, name: str) -> None:
    body, inputs = APART[name]
    shape = "3, 4" if "self.w +" in body else "4, 3"
    assert (
        _written(tmp_path, body, inputs, f"self.w = nn.Parameter(torch.randn({shape}))").kernels
        == 2
    )


def test_counters_of_norms_are_one_kernel(tmp_path: Path) -> None:
    """In the mode `as-is` each norm counts its calls in a tensor of one number."""
    init = "\n".join(
        f"self.n{i} = nn.BatchNorm1d(6)\nself.l{i} = nn.Linear(6, 6)" for i in range(3)
    )
    body = "\n".join(f"x = self.l{i}(self.n{i}(x))" for i in range(3)) + "\nreturn x"
    assert _written(tmp_path, body, "torch.randn(5, 6)", init, "as-is").kernels == 7


POOLS = {  # pools, input -> kernels, window
    "max": ("nn.MaxPool2d(2), nn.MaxPool2d(3)", (14, 13), 1, (6, 6)),
    "max_with_rest": ("nn.MaxPool2d(2), nn.MaxPool2d(2)", (11, 10), 1, (4, 4)),
    "max_overlapping": ("nn.MaxPool2d(3, 2, 1), nn.MaxPool2d(2)", (12, 13), 1, (5, 5)),
    "max_of_more_reads": ("nn.MaxPool2d(3, 1), nn.MaxPool2d(5, 1)", (12, 13), 2, None),
    "max_padded_later": ("nn.MaxPool2d(2), nn.MaxPool2d(2, padding=1)", (12, 13), 2, None),
    "max_with_gaps": ("nn.MaxPool2d(2, 3), nn.MaxPool2d(2)", (13, 13), 2, None),
    "max_dilated": ("nn.MaxPool2d(2, 2, dilation=2), nn.MaxPool2d(2)", (13, 13), 2, None),
    "average": ("nn.AvgPool2d(2), nn.AvgPool2d(3)", (14, 13), 1, (6, 6)),
    "average_three": ("nn.AvgPool2d(2), nn.AvgPool2d(2), nn.AvgPool2d(2)", (18, 17), 1, (8, 8)),
    "average_overlapping": ("nn.AvgPool2d(3, 2), nn.AvgPool2d(2)", (14, 13), 2, None),
    "average_of_max": ("nn.MaxPool2d(2), nn.AvgPool2d(2)", (14, 13), 2, None),
    "average_padded_first": ("nn.AvgPool2d(2, 2, 1), nn.AvgPool2d(2)", (14, 13), 1, (4, 4)),
    "average_not_counting": (
        "nn.AvgPool2d(2, 2, 1, count_include_pad=False), nn.AvgPool2d(2)", (14, 13), 2, None,
    ),
}  # fmt: skip


@pytest.mark.few(2)
@pytest.mark.parametrize("name", POOLS)
def test_pools_of_pools(tmp_path: Path, name: str) -> None:
    pools, size, kernels, window = POOLS[name]
    init = f"self.p = nn.Sequential({pools})"
    found = _written(tmp_path, "self.p(x)", f"torch.randn(2, 3, {size[0]}, {size[1]})", init)
    assert found.kernels == kernels
    if window:
        (op,) = (o for o in found.canon.ops if o.kind == "window")
        assert op.attrs["window"] == window and math.prod(op.shape[:2]) == 6


def test_a_pool_that_is_a_result_too_stays(tmp_path: Path) -> None:
    body = "y = F.max_pool2d(x, 2)\nreturn y, F.max_pool2d(y, 2)"
    assert _written(tmp_path, body, MAPS).kernels == 2


CROSSED = "x = torch.softmax(x, 1)\nreturn x.mean((2, 3))"
"""Reductions along columns, then along rows."""


def _emitted(folder: Path, target: str) -> tuple[Plan, Lowered, Kernel]:
    module = Module(name="crossed", body=CROSSED, inputs="torch.randn(3, 6, 5, 7)")
    plan, lowered = planned(load_imported(imported(module.write(folder))), target)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    return plan, lowered, plan.backend.emit(lowered.program, leaves)


def test_tilelang_reads_reduced_values_of_another_layout_from_shared_memory(tmp_path: Path) -> None:
    """Its compiler finds no registers for a value that is spread over columns in a kernel that reduces rows, too."""
    *_, kernel = _emitted(tmp_path, "tilelang_cuda")
    text = dict(kernel.files)[kernel.main]
    assert "T.copy(rowmax, " in text and "rowmax[i // 6" not in text


@pytest.mark.slow
@pytest.mark.parametrize(
    "target", ["cpp", "cuda_c", "triton_cuda", "tilelang_cuda", "dsa_c", "tilelang_npuir"]
)
def test_crossed_reductions_are_accurate(tmp_path: Path, target: str) -> None:
    plan, lowered, kernel = _emitted(tmp_path, target)
    judged = judge_kernel(
        place_of(plan.backend, plan.arch, "auto", 1),
        kernel,
        problem_of(plan, lowered.program, {}),
        work=tmp_path / "work",
    )
    assert judged.verdict.passed, judged.verdict.message


def test_with_open_sizes_no_kernel_depends_on_how_long_a_row_is(tmp_path: Path) -> None:
    canon = imported(Module(name="m", body=CROSSED, inputs=MAPS).write(tmp_path)).canon
    assert write(canon, sizes_open=True).kernels == 2
