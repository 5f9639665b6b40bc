"""README.zh-CN.md says what README.md says: the same sections, commands, code, rows and links."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.docs.test_blocks import blocks
from tests.packaging.sources import ROOT

ENGLISH, CHINESE = ROOT / "README.md", ROOT / "README.zh-CN.md"


def _prose(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def sections(text: str) -> list[str]:
    return re.findall(r"^(#+) ", _prose(text), re.MULTILINE)


def code(text: str) -> list[tuple[object, ...]]:
    return [(b.language, b.words, b.text) for b in blocks(ENGLISH, text)]


def words(text: str) -> list[list[str]]:
    """Return the commands and other code words of each section; languages order them differently."""
    parts = re.split(r"^#+ .*$", _prose(text), flags=re.MULTILINE)
    return [sorted(re.findall(r"`([^`\n]+)`", part)) for part in parts]


def links(text: str) -> list[str]:
    own = ("README.md", "README.zh-CN.md")
    return [t for t in re.findall(r"\]\(([^)\s]+)\)", _prose(text)) if t not in own]


def shapes(text: str) -> list[tuple[int, int, int]]:
    """Return how many list items and table rows a section has, and whether it has prose at all."""
    parts = re.split(r"^#+ .*$", _prose(text), flags=re.MULTILINE)
    return [
        (len(re.findall(r"^- ", p, re.M)), len(re.findall(r"^\|", p, re.M)), int(bool(p.strip())))
        for p in parts
    ]


VIEWS = (sections, code, words, links, shapes)


@pytest.mark.parametrize("view", VIEWS)
def test_the_translation_keeps_step(view: Callable[[str], object]):
    assert view(CHINESE.read_text(encoding="utf-8")) == view(ENGLISH.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("view", "before", "after"),
    [
        (sections, "## Install", "### Install"),
        (code, "septran ls ops", "septran ls backends"),
        (words, "`--json`", "`--jsonl`"),
        (links, "docs/tutorial.md", "docs/index.md"),
        (shapes, "- **Logic**", "**Logic**"),
    ],
)
def test_what_falls_behind_is_found(view: Callable[[str], object], before: str, after: str):
    text = ENGLISH.read_text(encoding="utf-8")
    assert before in text
    assert view(text.replace(before, after, 1)) != view(text)


def test_each_names_the_other():
    assert "(README.zh-CN.md)" in ENGLISH.read_text(encoding="utf-8")
    assert "(README.md)" in CHINESE.read_text(encoding="utf-8")


def test_the_translation_is_chinese_throughout():
    text = re.sub(r"`[^`]*`", "", _prose(CHINESE.read_text(encoding="utf-8")))
    for part in text.split("\n\n"):
        if len(part) > 60 and "](" not in part:
            assert re.search(r"[\u4e00-\u9fff]", part), part
