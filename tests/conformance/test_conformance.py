"""The table on every target that can run here: each row is right, or refused with a coded error."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.harness import Target, batches
from tests.conformance.table import REFUSED, ROWS

TARGETS = ("cpp",)
ONE_LAUNCH = ("tilelang_npuir",)


def test_names_are_unique() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)


def _check(name: str, folder: Path, *, compiled: bool) -> None:
    target = Target.of(name)
    lacks = {row.name: "dtype" for row in ROWS if not target.takes(row)}
    wrong: dict[str, str] = {}
    rows = [row for row in ROWS if target.takes(row)]
    for number, batch in enumerate(batches(rows, one_launch=name in ONE_LAUNCH)):
        here = folder / str(number)
        here.mkdir()
        refused = target.refused(batch.rows, here)
        lacks |= refused
        for part in batches([row for row in batch.rows if row.name not in refused]):
            wrong |= target.wrong(part, here, compiled=compiled)
    assert wrong == {}
    assert lacks == dict(REFUSED.get(name, {}))


@pytest.mark.parametrize("name", TARGETS)
def test_rows(name: str, tmp_path: Path) -> None:
    _check(name, tmp_path, compiled=False)
