"""The words of verdicts: one list, one order, one translation."""

from __future__ import annotations

import json
from typing import get_args

from septran.agent.writer import LeafVerdict
from septran.outcome import LEVELS, VERIFIED, LeafStatus, Level, Status


def test_every_level_has_its_place() -> None:
    assert sorted(LEVELS) == sorted(Level)
    order = ("emitted", "compiled", "ran", "accurate", "attested")
    assert [Level(word).rank for word in order] == [0, 1, 2, 3, 4]
    assert Level.REJECTED.rank == Level.UNAVAILABLE.rank == -1
    assert LEVELS[-2:] == VERIFIED


def test_every_status_has_a_word_for_leaves() -> None:
    words = {status.of_leaf for status in Status}
    assert words == set(get_args(LeafStatus)) - {"unusable"}
    assert Status.INCORRECT_SHAPE.of_leaf == Status.INCORRECT_NUMERICAL.of_leaf == "wrong"


def test_stored_words_are_plain_text() -> None:
    found = LeafVerdict(level=Level.ACCURATE, status=Status.PASSED.of_leaf)
    assert json.dumps([found.level, found.status]) == '["accurate", "ok"]'
    assert f"{found.level}" == "accurate"
    assert found == LeafVerdict(level="accurate", status="ok")  # type: ignore[arg-type]
    assert found.verified
