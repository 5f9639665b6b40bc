"""Attention in a user's module is one kernel that never stores the scores, however the module spells it."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
import torch

from septran.frontend.write.attention import is_causal
from septran.frontend.write.program import Written, write
from septran.plan.floor import library_leaves
from septran.plan.problem import problem_of
from septran.plan.torch_module import load_imported
from septran.trial.judge import judge_kernel
from septran.trial.place import place_of
from tests.frontend.importing import computes_the_module, imported
from tests.frontend.modules import Module
from tests.frontend.planning import planned

QKV = "torch.randn(2, 3, 9, 8), torch.randn(2, 3, 11, 8), torch.randn(2, 3, 11, 7)"
SQUARE = "torch.randn(2, 3, 9, 8), torch.randn(2, 3, 9, 8), torch.randn(2, 3, 9, 7)"
HALF = ", ".join(["torch.randn(2, 2, 9, 8).bfloat16()"] * 3)
PRODUCT = "s = q @ k.transpose(-2, -1) * 0.3\n"
ONE = {
    "of_torch": ("q, k, v", "F.scaled_dot_product_attention(q, k, v)", QKV),
    "causal": ("q, k, v", "F.scaled_dot_product_attention(q, k, v, is_causal=True)", SQUARE),
    "a_bias": (
        "q, k, v, m",
        "F.scaled_dot_product_attention(q, k, v, attn_mask=m)",
        f"{QKV}, torch.randn(9, 11)",
    ),
    "a_mask": (
        "q, k, v, m",
        "F.scaled_dot_product_attention(q, k, v, attn_mask=m)",
        f"{QKV}, torch.rand(2, 1, 9, 11) > 0.7",
    ),
    "by_hand": ("q, k, v", f"{PRODUCT}return torch.softmax(s, -1) @ v", QKV),
    "with_dropout": ("q, k, v", f"{PRODUCT}return F.dropout(torch.softmax(s, -1), 0.1, self.training) @ v", QKV),
    "filled": (
        "q, k, v, m",
        f"{PRODUCT}s = s.masked_fill(m == 0, float('-inf'))\nreturn torch.relu(s.softmax(-1) @ v + 1.0)",
        f"{QKV}, torch.randint(0, 2, (9, 11))",
    ),
    "by_letters": (
        "q, k, v",
        "p = torch.einsum('bhqd,bhkd->bhqk', q, k).softmax(-1)\nreturn torch.einsum('bhqk,bhkd->bqhd', p, v)",
        QKV,
    ),
    "one_head": ("q, k, v", "torch.softmax(q @ k.T, 1) @ v", "torch.randn(9, 8), torch.randn(11, 8), torch.randn(11, 7)"),
    "half": (
        "q, k, v",
        "F.scaled_dot_product_attention(q, k, v, is_causal=True)",
        HALF,
    ),
    "half_by_hand": ("q, k, v", f"{PRODUCT}return torch.softmax(s, -1) @ v", HALF),
    "half_scores_in_float": (
        "q, k, v",
        f"{PRODUCT}s = s.masked_fill(~torch.ones(9, 9).tril().bool(), float('-inf'))\nreturn F.softmax(s, dim=-1, dtype=torch.float32).to(q.dtype) @ v",
        HALF,
    ),
    "half_softmax_of_floats": ("q, k, v", f"{PRODUCT}return torch.softmax(s.float() * 1.5, -1).type_as(q) @ v", HALF),
    "weights_of_half_times_floats": (
        "q, k, v",
        f"{PRODUCT}return torch.softmax(s, -1).float() @ v",
        f"{HALF.rsplit(', torch', 1)[0]}, torch.randn(2, 2, 9, 8)",
    ),
    "one_query": (
        "q, k, v",
        "F.scaled_dot_product_attention(q, k, v)",
        "torch.randn(2, 3, 1, 8), torch.randn(2, 3, 11, 8), torch.randn(2, 3, 11, 7)",
    ),
}  # fmt: skip
MORE = {
    "weights_are_a_result": (f"{PRODUCT}p = torch.softmax(s, -1)\nreturn p @ v, p", 2),
    "scores_are_a_result": (f"{PRODUCT}return torch.softmax(s, -1) @ v, s", 3),
    "weights_are_read_twice": (f"{PRODUCT}p = torch.softmax(s, -1)\nreturn p @ v + p.sum(-1, keepdim=True)", 2),
    "over_queries": (f"{PRODUCT}return torch.softmax(s, -2) @ v", 3),
    "logarithms": (f"{PRODUCT}return torch.log_softmax(s, -1) @ v", 3),
    "no_maximum": (f"{PRODUCT}e = torch.exp(s)\nreturn (e / e.sum(-1, keepdim=True)) @ v", 2),
    "weights_on_the_right": (f"{PRODUCT}return v.transpose(-2, -1) @ torch.softmax(s, -1).transpose(-2, -1)", 3),
    "rows_too_wide": ("s = q @ k.transpose(-2, -1)\nreturn torch.softmax(s, -1) @ v.repeat(1, 1, 1, 60)", 3),
}  # fmt: skip


def _written(folder: Path, args: str, body: str, inputs: str) -> Written:
    found = imported(Module(name="model", args=args, body=body, inputs=inputs).write(folder))
    computes_the_module(found, folder)
    return found.written


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ONE)
def test_one_kernel(tmp_path: Path, name: str) -> None:
    found = _written(tmp_path, *ONE[name])
    assert found.kernels == 1
    assert 'task.tensor("S"' in found.text


@pytest.mark.wider
def test_blocks_behind_the_diagonal_are_not_entered(tmp_path: Path) -> None:
    assert "task.minimum(kn.shape[2], " in _written(tmp_path, *ONE["causal"]).text
    assert "task.minimum" not in _written(tmp_path, *ONE["a_mask"]).text


@pytest.mark.parametrize(
    ("expr", "causal"),
    [
        ("select(at(3) <= at(2), s * 0.5, (-1 / 0.0))", True),
        ("select(at(3) <= at(2), exp(s) + (m), (-1 / 0.0))", True),
        ("select(at(2) <= at(3), s, (-1 / 0.0))", False),
        ("select(at(3) <= at(2), s, 0.5)", False),
        # ends as a causal mask does, and has numbers behind the diagonal
        ("select(at(3) <= at(2), s, 0.5) * select(m, 1.0, (-1 / 0.0))", False),
    ],
)
def test_what_a_causal_mask_is(expr: str, causal: bool) -> None:
    assert is_causal(expr, 4) is causal


@pytest.mark.few(1)
@pytest.mark.parametrize("name", MORE)
def test_more_kernels(tmp_path: Path, name: str) -> None:
    body, kernels = MORE[name]
    found = _written(tmp_path, "q, k, v", body, QKV)
    assert found.kernels >= kernels
    assert 'task.tensor("S"' not in found.text


def test_with_open_sizes_it_stays_in_parts(tmp_path: Path) -> None:
    module = Module(name="m", args=ONE["by_hand"][0], body=ONE["by_hand"][1], inputs=QKV)
    assert write(imported(module.write(tmp_path)).canon, sizes_open=True).kernels == 3


HIDDEN = (
    "q, k, v",
    # a query that sees nothing, one whose scores are the lowest number, one that is not finite
    "m = torch.zeros(9, 11)\nm[1] = float('-inf')\nm[2] = torch.finfo(torch.float32).min\nm[3, 4] = float('inf')\nm[5, :10] = float('-inf')\n",
)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "end",
    ["F.scaled_dot_product_attention(q, k, v, attn_mask=m)", "(q @ k.transpose(-2, -1) + m).softmax(-1) @ v"],
)  # fmt: skip
def test_rows_of_nothing_and_of_the_lowest_number(
    tmp_path: Path, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch's attention has 0 where a query sees nothing, a softmax no number."""
    args, body = HIDDEN
    exact = functools.partial(torch.testing.assert_close, equal_nan=True)
    monkeypatch.setattr(torch.testing, "assert_close", exact)
    assert 'task.tensor("S"' in _written(tmp_path, args, f"{body}return {end}", QKV).text


CELLS = [
    ("causal", "cpp"),
    ("a_mask", "cpp"),
    *(
        pytest.param(name, target, marks=pytest.mark.wider)
        for target in ("cuda_c", "triton_cuda", "tilelang_cuda", "dsa_c", "tilelang_npuir")
        for name in ("causal", "a_mask")
    ),
    pytest.param("half_scores_in_float", "cpp", marks=pytest.mark.wider),
]


@pytest.mark.few(1)
@pytest.mark.parametrize(("name", "target"), CELLS)
def test_it_is_accurate(tmp_path: Path, name: str, target: str) -> None:
    args, body, inputs = ONE[name]
    inputs = inputs.replace("9, 8", "37, 40").replace("11, 8", "45, 40").replace("11, 7", "45, 24")
    inputs = inputs.replace("9, 11", "37, 45").replace("9, 7", "37, 24")
    body = body.replace("ones(9, 9)", "ones(37, 37)")
    module = Module(name="model", args=args, body=body, inputs=inputs)
    plan, lowered = planned(load_imported(imported(module.write(tmp_path))), target)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    judged = judge_kernel(
        place_of(plan.backend, plan.arch, "auto", 1),
        plan.backend.emit(lowered.program, leaves),
        problem_of(plan, lowered.program, {}),
        work=tmp_path / "work",
    )
    assert judged.verdict.passed, judged.verdict.message
