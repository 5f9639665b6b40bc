"""The shop is made once for all commands; each test stands in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.shop import Shop, opened
from tests.support.homes import with_tools


@pytest.fixture(scope="package")
def made(tmp_path_factory: pytest.TempPathFactory, _session_home: Path) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("shop")
    with_tools(folder / "home", _session_home)
    with (
        pytest.MonkeyPatch.context() as patched,
        opened(folder, patched) as shop,
    ):
        yield shop


@pytest.fixture
def shop(made: Shop, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """The shop as home and working folder of one test, with its model."""
    monkeypatch.setenv("SEPTRAN_HOME", str(made.home))
    monkeypatch.setenv("SEPTRAN_BASE_URL", made.model)
    monkeypatch.chdir(made.folder)
    made.newest(made.verified)
    return made
