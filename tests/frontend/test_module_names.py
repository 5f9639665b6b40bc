"""Names of module files that the written logic could not define as they are."""

from __future__ import annotations

import pytest

from septran.frontend.translate import module_name


@pytest.mark.parametrize(
    ("file", "name"),
    [("task.py", "m_task"), ("class.py", "m_class"), ("2d.py", "m_2d"), ("a-b.py", "a_b"), ("torch.py", "m_torch")],
)  # fmt: skip
def test_a_name_that_means_something_else_is_changed(file: str, name: str) -> None:
    assert module_name(f"/somewhere/{file}") == name
