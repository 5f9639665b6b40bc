"""Every target has all that a target brings; what is missing is told by name, and nothing is skipped."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from septran import backends
from septran.agent.config import load
from septran.agent.docs import load as load_docs
from septran.assets import find
from septran.backends.base import Backend
from septran.errors import ConfigError
from septran.machine import load_machine
from septran.plan.resolve import GenRequest, load_target_mapping, resolve
from tests.attacks import families, replied
from tests.packaging.sources import ROOT
from tests.targets import planted

GOLDEN = Path(__file__).parents[1] / "golden"


PAGE = ROOT / "docs" / "backends.md"
SOURCES = re.compile(
    r"sources?\b|programming guide|user guide|instruction set|library gives|refusals name",
    re.IGNORECASE,
)
"""Words in a machine file's comments that say where its figures are from."""


def lacks(name: str) -> list[str]:
    """Return what target `name` of this repository lacks, and what each of its archs does."""
    backend = backends.get(name)
    found = list(backends.missing(backend))
    if not any(p.is_file() for p in (GOLDEN / name).glob("*")):
        found.append(f"tests/golden/{name}")
    section = sections().get(name, "")
    if not section:
        found.append(f"docs/backends.md: a section about {name}")
    for arch in backend.arches:
        found += [f"{name} {arch}: {what}" for what in lacks_arch(backend, arch, section)]
    found += stale_documents(backend)
    reasons = dict(backend.lacks)
    for dtype in ("float32", "float16", "bfloat16", "float64"):
        if (dtype in backend.dtypes) == bool(reasons.get(dtype)):
            found.append(f"{dtype} in dtypes, or the reason in lacks")
    if name not in ATTACKED:
        found.append(f"tests/attacks: a family of {name}")
    if name not in planted.BUGS:
        found.append(f"tests/targets/planted.py: bugs of {name}")
    return found


def stale_documents(backend: Backend) -> list[str]:
    """Return which of a target's documents for a model name other archs than it has."""
    docs = load_docs(f"dsl_docs/{backend.docs}")
    mine = [d for d in (*docs.api, *docs.basic_docs, *docs.suggestion) if backend.docs in d.file]
    return [
        f"{doc.file}: targets: [{', '.join(backend.arches)}]"
        for doc in mine
        if doc.front["targets"] != [*backend.arches]
    ]


def lacks_arch(backend: Backend, arch: str, section: str) -> list[str]:
    """Return what an arch lacks: facts with a source, and a word in its target's section."""
    text = find(f"configs/machines/{backend.machine(arch)}.yaml").path.read_text(encoding="utf-8")
    comments = "\n".join(line.partition("#")[2] for line in text.splitlines())
    found = []
    if not SOURCES.search(comments):
        found.append("a source of its machine file's figures")
    if not load_machine(backend.machine(arch)).facts:
        found.append("facts for whoever writes a leaf")
    if arch not in section.lower():
        found.append("a word about it in docs/backends.md")
    return found


def sections() -> dict[str, str]:
    """Return the sections of docs/backends.md by the targets that their titles name."""
    parts = re.split(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = zip(parts[1::2], parts[2::2], strict=True)
    return {name: text for title, text in found for name in title.split(" and ")}


ATTACKED = (
    {f.backend for f in families.FAMILIES.values()}
    | {asking.backend for asking in replied.REPLIES.values()}
    | {"triton_hip"}
)
"""Targets with a family of attacks; triton_hip prints triton_cuda's text for another arch."""


@pytest.mark.parametrize("name", [name for name, _ in backends.BUILTIN])
def test_nothing_is_missing(name: str) -> None:
    assert lacks(name) == []


@pytest.mark.parametrize(
    ("target", "dtype", "why"),
    [
        ("pallas_tpu", "float16", "takes float32 and bfloat16"),
        ("triton_npu", "float64", "do not compute in it"),
        ("dsa_c", "float64", "add in float32"),
        ("cpp", "flaot32", "did you mean 'float32'?"),
    ],
)
def test_a_type_that_a_target_lacks_is_refused_with_the_reason(target: str, dtype: str, why: str):
    """The reason of a type that exists, and the nearest name of one that does not."""
    with pytest.raises(ConfigError, match=why.replace("?", r"\?")) as caught:
        resolve(GenRequest(op="relu", backend=target, dtype=dtype))
    assert caught.value.codes == ("C132",)
    assert dtype == "flaot32" or "did you mean" not in str(caught.value)


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


def test_what_an_arch_lacks_is_told() -> None:
    """A machine file without a source and a page without a word are seen."""
    cuda = backends.get("cuda_c")
    assert lacks_arch(cuda, "sm_80", "about sm_80") == []
    assert lacks_arch(cuda, "sm_80", "about others") == ["a word about it in docs/backends.md"]
    assert not SOURCES.search("A100: 163 KiB of shared memory")
