"""`gen --writer llm --plan`: what a model would be asked, in which order and for how much; and that a run asks just that."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.run.leaf_work import leaf_work
from septran.run.work import work_of
from tests.support.openai_double import Answer, ChatDouble

ATTENTION = ("gen", "--op", "attention", "--backend", "cpp", "--writer", "llm")


def test_the_plan_ranks_leaves_and_asks_nobody(septran, fresh_home: Path) -> None:
    with ChatDouble([]) as double:
        found = septran(*ATTENTION, "--base-url", double.base_url, "--plan", "--json").json
        assert not double.requests
    assert not list(fresh_home.glob("runs/*"))
    leaves = found["leaves"]
    shares = [leaf["share"] for leaf in leaves]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1, abs=0.01)
    assert [leaf["task"] for leaf in leaves if leaf["asked"]] == ["online"]
    assert {leaf["share_by"] for leaf in leaves} == {"performance model"}
    kept = {leaf["task"]: leaf["kept"] for leaf in leaves if not leaf["asked"]}
    assert "fills" in kept["zero"]
    assert "one call" in kept["weigh"]
    calls = found["attempts"]
    longest = max(leaf["prompt_tokens"] for leaf in leaves if leaf["asked"])
    assert found["most_tokens"] >= calls * (found["reply_tokens"] + longest)
    assert found["most_cost"] is None


def test_prices_and_a_budget(septran, fresh_home: Path, tmp_path: Path) -> None:
    config = tmp_path / "mine.yaml"
    config.write_text("prices: {prompt_per_million: 1.0, completion_per_million: 10.0}\n")
    given = (*ATTENTION, "--plan", "--config", str(config))
    found = septran(*given, "--json").json
    assert found["most_cost"] > 0
    assert not found["capped"]
    capped = septran(*given, "--budget-tokens", "1000", "--json").json
    assert capped["capped"]
    assert capped["most_tokens"] == 1000
    text = septran(*given, "--budget-tokens", "1000").out
    assert "USD" in text
    assert "may end the search early" in text


def test_leaves_whose_loops_are_not_generated_are_named(
    septran, fresh_home: Path, tmp_path: Path
) -> None:
    config = tmp_path / "loops.yaml"
    config.write_text("frame: loops\n")
    given = ("gen", "--backend", "cpp", "--writer", "llm", "--plan", "--config", str(config))
    (softmax,) = septran(*given, "--op", "softmax", "--json").json["leaves"]
    (gelu,) = septran(*given, "--op", "gelu", "--json").json["leaves"]
    assert (softmax["whole"], gelu["whole"]) == (True, False)
    assert "with its loops" in septran(*given, "--op", "softmax").out


def test_a_named_leaf_is_asked_for_whatever_it_is(septran, fresh_home: Path) -> None:
    given = ("gen", "--op", "gemm", "--backend", "cpp", "--writer", "llm", "--plan")
    assert "no leaf is worth asking" in septran(*given).out
    found = septran(*given, "--leaf", "zero", "--json").json
    assert [leaf["task"] for leaf in found["leaves"] if leaf["asked"]] == ["zero"]
    wrong = septran(*given, "--leaf", "zeros")
    assert wrong.code == 2
    assert "C137" in wrong.err
    assert "'zero'" in wrong.err


@pytest.mark.parametrize(
    ("rules", "asked"),
    [
        ("moves: true, min_share: 0", ["bias_gelu", "zero"]),
        ("single_calls: true", ["mma", "bias_gelu"]),
        ("min_share: 0.5", []),
    ],
)
def test_the_rules_are_settings(
    septran, fresh_home: Path, tmp_path: Path, rules: str, asked: list[str]
) -> None:
    config = tmp_path / "mine.yaml"
    config.write_text(f"ask: {{{rules}}}\n")
    given = ("gen", "--op", "gemm_bias_gelu", "--backend", "cpp", "--writer", "llm", "--plan")
    found = septran(*given, "--config", str(config), "--json").json
    assert [leaf["task"] for leaf in found["leaves"] if leaf["asked"]] == asked


@pytest.mark.wider  # the plans themselves are shown above
def test_a_run_asks_what_the_plan_says(septran, fresh_home: Path) -> None:
    with ChatDouble(lambda body: Answer("I cannot.")) as double:
        made = septran(
            *ATTENTION, "--base-url", double.base_url, "--attempts", "1", "--stop-after", "emit"
        )
        asked = [str(seen.body["messages"][1]["content"]) for seen in double.requests]
    assert made.code == 0, made.err
    assert [text.split("(task ")[1].split(",")[0] for text in asked] == ["online"]
    assert "1 leaf x 1 calls" in made.err


@pytest.mark.parametrize(
    ("backend", "by", "first"),
    [
        ("dsa_c", "performance model", "online"),  # exponentials cost four times as much there
        ("cuda_c", "performance model", "scores"),
        ("pallas_tpu", "operations and bytes", "scores"),
    ],
)
def test_shares_are_the_models_where_the_machine_has_figures(
    septran, backend: str, by: str, first: str
) -> None:
    given = ("gen", "--op", "attention", "--backend", backend, "--writer", "llm", "--plan")
    leaves = septran(*given, "--json").json["leaves"]
    assert {leaf["share_by"] for leaf in leaves} == {by}
    assert leaves[0]["task"] == first
    assert sum(leaf["share"] for leaf in leaves) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("op", ["gemm", "attention", "attention_causal"])
def test_the_account_agrees_with_the_exact_count(op: str) -> None:
    """The products are most of the work; sampled iterations must not lose or invent any of it."""
    plan = resolve(GenRequest(op=op, backend="cpp", dims={"M": 300, "K": 1033, "N": 170} if op == "gemm" else {}))  # fmt: skip
    program = lower_plan(plan).program
    exact = work_of(program)
    products = [
        w for w in leaf_work(program, plan.machine) if w.spec.prims[0].name.startswith("gemm")
    ]
    assert exact is not None
    assert sum(w.flops for w in products) == pytest.approx(exact, rel=0.02)


def test_where_the_library_writes_all_leaves_it_is_said(septran, fresh_home) -> None:
    found = septran("gen", "--op", "softmax", "--backend", "cpp", "--writer", "library", "--plan")
    assert found.code == 0
    assert (
        found.out
        == "no model is asked: the library writes every leaf; --writer llm and --writer command ask one\n"
    )
