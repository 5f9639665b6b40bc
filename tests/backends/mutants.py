"""What tests of planted bugs share: a mutant is one replaced piece of an emitted kernel."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Generic, NamedTuple, TypeVar

import pytest

Case = TypeVar("Case")

LEAST = 20
"""Mutants that each backend must have, all of which change results or race."""


class Mutant(NamedTuple, Generic[Case]):
    """case: what the backend's test emits the kernel from. old -> new: the planted bug."""

    title: str
    case: Case
    old: str
    new: str

    def of(self, source: str, count: int = -1) -> str:
        """Return the mutated text; `count` occurrences are replaced. The piece must be there."""
        assert self.old in source, f"{self.title}: the text has no {self.old!r}\n{source}"
        changed = source.replace(self.old, self.new, count)
        assert changed != source, f"{self.title}: changes nothing"
        return changed


def asked(request: pytest.FixtureRequest) -> frozenset[str]:
    """Return the titles (and other words) that the tests of this file which run are about."""
    found: set[str] = set()
    for item in request.session.items:
        if item.path == request.path:
            for value in getattr(item, "callspec", _NONE).params.values():
                found |= {value.title if isinstance(value, Mutant) else str(value)}
    return frozenset(found)


_NONE = SimpleNamespace(params={})


def parametrize(mutants: Sequence[Mutant[Case]]) -> pytest.MarkDecorator:
    """Return the mark that runs a test once per mutant, by its title."""
    assert len(mutants) >= LEAST
    assert len({m.title for m in mutants}) == len(mutants), "two mutants have one title"
    return pytest.mark.parametrize("mutant", mutants, ids=[m.title for m in mutants])
