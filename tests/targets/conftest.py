"""The package of docs/add-a-target.md, installed in a folder of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_blocks import blocks
from tests.packaging.sources import ROOT

PAGE = ROOT / "docs" / "add-a-target.md"


def written(folder: Path) -> Path:
    """Write the page's files into `folder`."""
    for block in blocks(PAGE):
        for word in block.words:
            if word.startswith("file="):
                path = folder / word.removeprefix("file=")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text, encoding="utf-8")
    return folder


def announced(folder: Path, value: str, *, name: str = "numpy") -> None:
    """Leave what an installer leaves: metadata with the entry point."""
    info = folder / f"septran_{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: septran-{name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[septran.backends]\n{name} = {value}\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the import path; what it holds is forgotten afterwards."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def installed(site: Path) -> Path:
    """The page's package, installed."""
    written(site)
    announced(site, "septran_numpy.target:NUMPY")
    return site
