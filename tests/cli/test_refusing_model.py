"""A model or an endpoint that refuses is not asked again and again; the run says why and keeps the library's leaf."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.openai_double import Answer, ChatDouble, Status, Step


@pytest.fixture(autouse=True)
def nobody_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the library's leaf takes is part of a prompt, and no matter of these tests."""
    monkeypatch.setattr("septran.trial.leaf_judge.LeafJudge.library", lambda *_: "")
    monkeypatch.setattr("septran.run.one.time_kernel", lambda *_, **__: None)


GEN = (
    "gen",
    "--op",
    "relu",
    "--backend",
    "cpp",
    "--dim",
    "N=64",
    "--writer",
    "llm",
    "--attempts",
    "8",
)
FILTERED = (
    '{"error": {"message": "The response was filtered due to the prompt triggering our content management policy.",'
    ' "code": "content_filter", "status": 400}}'
)
SPENT = '{"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}'


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("step", "asked", "said"),
    [
        (Answer("", finish_reason="content_filter"), 2, "the model refuses"),
        (Answer(None), 2, "the model refuses"),
        (Status(400, body=FILTERED), 2, "content management policy"),
        (Answer("I cannot help with that."), 3, "the same without code 3 times in a row: I cannot"),
    ],
)
def test_a_refusal_is_heeded(septran, fresh_home: Path, step: Step, asked: int, said: str) -> None:
    with ChatDouble(lambda _: step) as double:
        done = septran(*GEN, "--base-url", double.base_url, "--json")
        assert len(double.requests) == asked
    assert done.code == 0, done.err
    assert done.json["leaves"][0]["writer"] == "library"
    assert said in done.err
    assert "the library leaf stays" in done.err


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (Status(402), "402"),
        (Status(451), "451"),
        (Status(429, body=SPENT), "quota"),
        (Status(400, "unknown parameter"), "unknown parameter"),
    ],
)
def test_an_error_that_stays_ends_the_run_at_once(
    septran, fresh_home: Path, step: Step, said: str
) -> None:
    with ChatDouble(lambda _: step) as double:
        done = septran(*GEN, "--base-url", double.base_url, "--json")
        assert len(double.requests) == 1
    assert done.code == 3
    assert "L502" in done.err
    assert said in done.err


def test_words_that_differ_are_no_refusal(septran, fresh_home: Path) -> None:
    """A model that gropes for the form may go on to its last call."""
    said = iter(f"Let me think, {n}." for n in range(9))
    with ChatDouble(lambda _: Answer(next(said))) as double:
        done = septran(*GEN, "--base-url", double.base_url, "--json")
        assert len(double.requests) == 8
    assert done.code == 0
    assert "8 calls" in done.err
