"""What tests of parts without a form have in common."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from septran.frontend.table.build import ROWS


@pytest.fixture(scope="module", autouse=True)
def _without_rows(request: pytest.FixtureRequest) -> Iterator[None]:
    """Take the forms of the operators in a test file's `WITHOUT` away from the table, while its tests run."""
    with pytest.MonkeyPatch.context() as patch:
        for name in getattr(request.module, "WITHOUT", ()):
            patch.delitem(ROWS, name)
        yield
