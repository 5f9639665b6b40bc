"""Which cells of a matrix run by default, and that what does not is run by CI."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest

from tests.conftest import _left_out
from tests.packaging.sources import ROOT


class Cell:
    def __init__(self, values):
        self.callspec = SimpleNamespace(params={f"p{i}": v for i, v in enumerate(values)})


def runs(*values):
    made = [Cell(cell) for cell in itertools.product(*values)]
    left = _left_out(made)
    return [tuple(one.callspec.params.values()) for one in made if one not in left]


@pytest.mark.parametrize(
    ("values", "count"),
    [
        (("abc",), 3),
        (("ab", (1, 2, 3)), 3),
        (("abcd", (1, 2), (5.0, 6.0, 7.0)), 4),
        (("a", (1,)), 1),
    ],
)
def test_every_value_is_in_one_of_the_fewest_cells(values, count):
    kept = runs(*values)
    assert len(kept) == count
    for place, several in enumerate(values):
        assert {cell[place] for cell in kept} == set(several)


def test_the_choice_is_the_same_each_time():
    assert runs("abcd", (1, 2, 3)) == runs("abcd", (1, 2, 3))


def test_ci_runs_what_is_wider():
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (line,) = [one for one in text.splitlines() if '-m "wider' in one and "pytest" in one]
    assert "pytest --slow" in line and "tests/" not in line
    assert (
        '-m "wider and not slow"' in line
    )  # slow timings want a quieter machine than three processes leave
