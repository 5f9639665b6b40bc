"""No attack gets through, no control is refused. `python -m tests.attacks` prints the table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.attacks import carried, families, replied, table
from tests.attacks.attack import Attack, Outcome, missing, run
from tests.attacks.corpus import CORPUS

# one of each kind, and a few controls; CI tries all in the table
FAST = {
    *(
        "S09",
        "H03",
        "T01",
        "C06",
        "G01",
        "B20",
        "P01",
        "Q01",
        "U20",
        "L10",
        "N09",
        "D01",
        "K31",
        "Z06",
    ),
    *("F04", "E01", "RN03", "RP01", "RT17"),
}


def test_the_corpus_is_large_and_has_controls() -> None:
    names = [a.name for a in CORPUS]
    assert len(set(names)) == len(names)
    assert sum(not a.honest for a in CORPUS) >= 200
    assert sum(a.honest for a in CORPUS) >= 20
    assert set(names) >= FAST


def test_every_family_has_attacks_and_controls() -> None:
    attacks = Counter(a.language for a in CORPUS if not a.honest)
    controls = Counter(a.language for a in CORPUS if a.honest)
    assert set(attacks) == set(controls) == {*families.TITLES, *carried.TITLES, *replied.TITLES}
    assert min(attacks.values()) >= 12


def test_the_published_table_is_about_this_corpus() -> None:
    """docs/attacks.md is written by `python -m tests.attacks.table`."""
    text = table.PAGE.read_text(encoding="utf-8")
    assert table.names(text) == [a.name for a in CORPUS]
    assert "GOT THROUGH" not in text
    assert "REFUSED" not in text
    for attack in CORPUS:
        assert attack.what in text, attack.name


@pytest.mark.parametrize(
    "attack",
    [pytest.param(a, id=a.name, marks=() if a.name in FAST else pytest.mark.slow) for a in CORPUS],
)
def test_attack(attack: Attack, tmp_path: Path) -> None:
    lacks = missing(attack)
    if lacks:
        pytest.skip(f"needs {lacks}")
    outcome = run(attack, tmp_path)
    if attack.honest:
        assert not outcome.rejected, outcome
        return
    assert outcome.rejected, f"{attack.name} ({attack.what}) got through"
    if not attack.static_only:
        assert outcome.dynamic, f"{attack.name} is seen by the static gate only: {outcome.static}"


def test_one_that_cannot_be_tried_is_a_wrong_row_not_the_end_of_the_table(tmp_path: Path) -> None:
    unbuildable = Attack(name="X01", what="does not compile", language="cpp", body="no such text;")
    row = table._tried(unbuildable, tmp_path / "x")
    assert not row.right and "X01" in row.failed
    assert "NOT TRIED" in table.page([row], "2026-01-01")


def test_a_row_that_is_wrong_once_in_three_tries_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attack = Attack(name="X02", what="by chance", language="cpp")
    through, rejected = Outcome("", ""), Outcome("V202: 1 element", "")

    def tried(outcomes: list[Outcome]) -> table.Row:
        monkeypatch.setattr(table, "run", lambda *_: outcomes.pop(0))
        return table._tried(attack, tmp_path)

    shaky = tried([through, rejected, rejected])
    assert shaky.right and "once in three" in table.page([shaky], "2026-01-01")
    assert not tried([through, rejected, through]).right
    assert tried([rejected]).once == ""
