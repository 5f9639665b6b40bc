"""Every code that is raised has a page, every page a code that is raised, and each page says enough."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from septran.cli.explain import pages, title
from tests.packaging.sources import ROOT, files, relative

CODE = re.compile(r"[CEKLMPV]\d{3}")
FOLDER = ROOT / "docs" / "errors"
SECTIONS = ("What it means", "Example", "Fix")


@cache
def raised() -> dict[str, str]:
    """Return code -> where: string constants that are exactly a code, docstrings aside."""
    found: dict[str, str] = {}
    for path in files():
        source = path.read_text(encoding="utf-8")
        if not CODE.search(source):
            continue
        for node in ast.walk(ast.parse(source)):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and CODE.fullmatch(text):
                found.setdefault(text, f"{relative(path)}:{getattr(node, 'lineno', 0)}")
    return found


def test_every_raised_code_has_a_page():
    missing = {code: where for code, where in raised().items() if code not in pages()}
    assert missing == {}


def test_every_page_has_a_code_that_is_raised():
    assert sorted(pages().keys() - raised().keys()) == []


def test_pages_are_named_after_codes():
    assert [p.name for p in FOLDER.iterdir() if not CODE.fullmatch(p.stem)] == []


@pytest.mark.parametrize("code", sorted(pages()))
def test_a_page_says_what_why_and_how_to_fix(code):
    text = pages()[code].read_text(encoding="utf-8")
    assert text.startswith(f"# {code}: "), "the heading is '# CODE: short title'"
    assert len(title(pages()[code])) > 3
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert [s for s in SECTIONS if s not in headings] == []
    assert len(text.splitlines()) < 60, "short"
    for section in re.split(r"^## .+$", text, flags=re.MULTILINE)[1:]:
        assert section.strip(), "an empty section"


def test_the_page_of_codes_lists_every_letter():
    table = set(re.findall(r"^\| ([A-Z])\w+ \|", (ROOT / "docs/errors.md").read_text(), re.M))
    assert table == {code[0] for code in pages()}
