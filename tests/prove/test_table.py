"""docs/proofs.md is about the operators and targets that there are, and its counts add up."""

from __future__ import annotations

import re

import pytest

from septran import backends
from septran.prove import RULES
from tests.backends.operators import all_operators
from tests.prove import symbolic_table
from tests.prove.table import PAGE, Page, modules_of


def _tables() -> list[list[list[str]]]:
    """Return the rows of each table of the page, heads first, without the rules between."""
    found: list[list[list[str]]] = []
    last = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("|"):
            cells = [c.strip() for c in line.strip("|").split("|")]
            if not last.startswith("|"):
                found.append([])
            if set(line) != {"|", "-"}:
                found[-1].append(cells)
        last = line
    return found


def test_every_target_and_operator_is_in_the_table():
    head, *rows = _tables()[0]
    assert head == ["target", "kernels", *RULES, "seconds, median and worst"]
    labels = [
        f"{t} {a or ''}".strip()
        for t in dict(backends.BUILTIN)
        for a in backends.get(t).arches or (None,)
    ]
    page = PAGE.read_text(encoding="utf-8")
    late = re.search(r"^Not measured yet: (.+)\.$", page, re.M)
    missing = late.group(1).split(", ") if late else []
    assert sorted([*(r[0] for r in rows), *missing]) == sorted(labels)
    for label, kernels, *proved, _ in rows:
        told = page.count(f"- {label}, ")  # what is not proven is listed by name
        assert int(kernels) + told >= len(all_operators()), label
        backend = backends.get(label.split()[0])
        blank = {"order": bool(backend.copies_ordered_by), "text": backend.read_back is None}
        for rule, count in zip(RULES, proved, strict=True):
            assert (count == "-") == blank.get(rule, False), (label, rule)
            assert count == "-" or int(count) + told >= int(kernels), (label, rule)


@pytest.mark.wider
def test_symbolic_sizes_are_told_for_every_target():
    text = symbolic_table.PAGE.read_text(encoding="utf-8")
    rows = [x.strip("|").split("|") for x in text.splitlines() if x.startswith("| ")][1:]
    late = re.search(r"^Not measured yet: (.+)\.$", text, re.M)
    told = {r[0].strip() for r in rows} | set(late.group(1).split(", ") if late else ())
    assert told == set(dict(backends.BUILTIN))
    spans = symbolic_table.SPANS
    assert [r[1].strip() for r in rows] == [*spans] * (len(rows) // len(spans))
    for r in rows:
        counts = [c.strip() for c in r[2:-1]]
        assert len(counts) == len(symbolic_table.ASKED)
        short = any(c != "-" and int(c) < len(all_operators()) for c in counts)
        assert short == (r[-1].strip() != "nothing"), r


def test_planted_faults_add_up():
    page = PAGE.read_text(encoding="utf-8")
    told = re.search(r"^(\d+) faults, (\d+) refused, (\d+) proven to mean the same", page, re.M)
    assert told is not None
    total, refused, same = map(int, told.groups())
    rows = _tables()[-1][1:]
    assert total == sum(int(n) for r in rows for n in r[1:4]) >= 500
    assert refused == sum(int(r[4]) for r in rows) and same == sum(int(r[6]) for r in rows)
    assert total == refused + same
    assert {r[0].split()[0] for r in rows} <= set(dict(backends.BUILTIN))
    assert len(re.findall(r"^- [\w ]+, [\w]+: ", page, re.M)) >= same


def test_the_modules_table_stays_when_the_page_is_made_again():
    text = PAGE.read_text(encoding="utf-8")
    section = modules_of(text)
    assert section and Page.of(text).text().count(section) == 1
    head, *rows = next(t for t in _tables() if t[0][1] == "modules")
    assert head[2:-1] == list(RULES)
    for _, modules, *counts, _ in rows:
        most = int(modules.split()[0])
        told = [c for c in counts if c != "-"]
        assert all(int(c.split(",")[0].split()[0]) <= most for c in told)
        short = any(int(c.split(",")[0].split()[0]) < most for c in told)
        assert not short or "Not proven:" in section
