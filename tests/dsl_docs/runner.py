"""What a DSL's runner module (`runner_<dsl>.py` beside this file) provides.

    KINDS: tuple[str, ...]                       tags it knows besides error and none
    def check(block, folder) -> Outcome          compile, lower, run or emulate one block
    def versions() -> Mapping[str, str]          installed versions, keys as in the front matter
    def unknown_names(text) -> set[str]          names of the DSL in `text` that do not exist

`check` gets every block, the `error` ones too; those must come back not ok with the quoted message
in the log. A runner that lacks a tool raises `pytest.skip` with the reason.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from septran.agent.docs import Doc, parse

DOCS = Path(__file__).parents[2] / "dsl_docs"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether the block was accepted, with all that the tools printed."""

    ok: bool
    log: str


def dsls() -> tuple[str, ...]:
    """Return the names of all documentation folders."""
    return tuple(sorted(p.parent.name for p in DOCS.glob("*/api.md")))


def docs_of(dsl: str) -> Iterator[Doc]:
    """Yield the parsed files of one DSL."""
    for path in sorted((DOCS / dsl).glob("*.md")):
        yield parse(path.read_text(encoding="utf-8"), f"dsl_docs/{dsl}/{path.name}")


def runner_of(dsl: str) -> ModuleType:
    """Return the DSL's runner module; a DSL without one is an error."""
    return importlib.import_module(f"tests.dsl_docs.runner_{dsl}")
