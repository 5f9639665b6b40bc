"""No attack gets through, no control is refused. `python -m tests.attacks` prints the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks import corpus_c, corpus_python
from tests.attacks.attack import Attack, run

CORPUS = (*corpus_c.ALL, *corpus_python.ALL)
# one of each kind; the rest is in the wider run
FAST = {
    "S09",
    "S22",
    "M03",
    "M06",
    "H03",
    "H09",
    "H17",
    "T01",
    "C06",
    "C07",
    "P01",
    "P21",
    "P28",
    "Q01",
}


def test_the_corpus_is_large_enough() -> None:
    names = [a.name for a in CORPUS]
    assert len(names) == len(set(names))
    assert sum(not a.honest for a in CORPUS) >= 60
    assert sum(a.honest for a in CORPUS) >= 8


@pytest.mark.parametrize(
    "attack",
    [pytest.param(a, id=a.name, marks=() if a.name in FAST else pytest.mark.slow) for a in CORPUS],
)
def test_attack(attack: Attack, tmp_path: Path) -> None:
    outcome = run(attack, tmp_path)
    if attack.honest:
        assert not outcome.rejected, outcome
        return
    assert outcome.rejected, f"{attack.name} ({attack.what}) got through"
    if not attack.static_only:
        assert outcome.dynamic, f"{attack.name} is seen by the static gate only: {outcome.static}"
