"""Every target has all that a target brings; what is missing is told by name, and nothing is skipped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from septran import backends
from septran.agent.config import load
from septran.agent.docs import load as load_docs
from septran.machine import load_machine
from septran.plan.resolve import load_target_mapping

GOLDEN = Path(__file__).parents[1] / "golden"


def lacks(name: str) -> list[str]:
    """Return what target `name` of this repository lacks."""
    backend = backends.get(name)
    found = list(backends.missing(backend))
    if not any(p.is_file() for p in (GOLDEN / name).glob("*")):
        found.append(f"tests/golden/{name}")
    return found


@pytest.mark.parametrize("name", [name for name, _ in backends.BUILTIN])
def test_nothing_is_missing(name: str) -> None:
    assert lacks(name) == []


@pytest.mark.parametrize("name", [name for name, _ in backends.BUILTIN])
def test_what_is_there_can_be_read(name: str) -> None:
    backend = backends.get(name)
    for arch in backend.arches or ("",):
        load_machine(backend.machine(arch))
        assert load_target_mapping(backend, arch, None).target == name
    docs = load_docs(f"dsl_docs/{backend.docs}")
    assert docs.api and docs.basic_docs and docs.suggestion
    load(backend.docs)


def test_a_target_without_anything_is_told_all_of_it() -> None:
    bare = replace(
        backends.get("cpp"),
        name="bare",
        arches=("one",),
        machine=lambda arch: f"bare.{arch}",
        loader="bare.py.j2",
        docs="bare",
        language="bare",
    )
    assert backends.missing(bare) == (
        "configs/machines/bare.one.yaml",
        "mappings/bare.one.mapping.yaml",
        "verify_templates/loaders/bare.py.j2",
        "dsl_docs/bare/api.md",
        "dsl_docs/bare/basic_docs.md",
        "dsl_docs/bare/suggestion.md",
        "configs/vllm_dsl_bare_config.yaml",
        "agents/coder/frames/bare.j2",
        "agents/coder/frames/bare.yaml",
    )
