"""The card that README.md shows is the one that the command prints today."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.packaging.sources import ROOT


def sample() -> str:
    found = re.search(r"```text\n(gemm on cpp.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def without_figures(card: str) -> list[str]:
    """Return a card's lines with every figure, path and duration as one sign."""
    lines = [re.sub(r"\S*runs/\S+", "PATH", line) for line in card.strip().splitlines()]
    lines = [
        re.sub(r"; (not reliable: [^;)]*|one thread each)", "", line) for line in lines
    ]  # busy
    return [re.sub(r"(?<![\w=])\d+(\.\d+)?(e[+-]\d+)?(?!\w)", "#", line) for line in lines]


def largest_difference(card: str) -> float:
    found = re.search(r"float64 torch (\S+)", card)
    assert found is not None
    return float(found[1])


@pytest.mark.slow
def test_the_card_in_the_readme_is_todays(tmp_path):
    command = [sys.executable, "-m", "septran", "gen", "--op", "gemm", "--backend", "cpp"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    card = done.stdout or done.stderr
    shown = card[card.index("gemm on cpp") :]
    unchecked = [line for line in without_figures(shown) if "not checked" in line]
    assert [x for x in without_figures(shown) if x not in unchecked] == without_figures(sample())
    # rounding of 512 products; an order of magnitude is the same on every machine
    assert largest_difference(sample()) == pytest.approx(largest_difference(shown), rel=9)
