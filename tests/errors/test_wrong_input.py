"""Damaged files of every kind: each gives a coded error at a place in the file, never a traceback."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from septran import backends, settings
from septran.agent import config as agent_config
from septran.batch import cells as batch_cells
from septran.batch.file import load_batch
from septran.bind.bind import bind
from septran.errors import EnvironmentProblem, SeptranError
from septran.machine import load_machine
from septran.mapping.load import load_mapping
from septran.mapping.text import mapping_text
from septran.tasklang.check import check_logic
from septran.tasklang.load import load_logic
from tests.backends.operators import ROOT, all_operators
from tests.bind.running import arguments, bound
from tests.errors.mangle import mangled

FEW, MANY = 20, 1500
PLACELESS = {"C044", "C110", "C111", "C130", "C131", "C132", "M070", "M080"}
"""About a name or size that the test gives, not the file."""


def logic(path: Path) -> None:
    found = load_logic(path, limit_s=5)
    for op in found.operators.values():
        check_logic(op.entry, {p: len(t.dims) for p, t in op.types().items()})
        bind(
            op.entry,
            load_mapping(ROOT / "mappings" / "cpp.mapping.yaml"),
            load_machine("cpp.x86_64"),
            arguments(op, op.odd_dims[0] if op.odd_dims else {}, "float32"),
            tasks=found.tasks,
            cores=2,
        )


def policy(path: Path) -> None:
    load_mapping(path)
    target = path.name.split(".")[0]
    backend = backends.get(target)
    for name in ("gemm", "softmax"):
        op, file = all_operators()[name]
        bound(op, file, backend, (backend.arches or ("",))[0], "float32", op.dims, mapping=path)


def explicit(path: Path) -> None:
    op, file = all_operators()[path.name.split(".")[0]]
    bound(op, file, backends.get("cuda_c"), "sm_90a", "float32", op.dims, mapping=path)


def batch(path: Path) -> None:
    batch_cells.expand(load_batch(path), settings.load(project=path.parent))


def config(path: Path) -> None:
    folder = path.parent.parent
    if path.parent.name == "machines":
        load_machine(path.stem)
    elif path.name.startswith("vllm_dsl_"):
        dsl = path.stem.removeprefix("vllm_dsl_").removesuffix("_config")
        agent_config.load(dsl, among=settings.load(project=folder).layers)
    else:
        settings.load(project=folder)


def sources(kind: str) -> dict[str, str]:
    """Return relative path -> text of the shipped files of a kind."""
    match kind:
        case "logic":
            return {p.name: p.read_text() for p in sorted((ROOT / "septran" / "ops").glob("*.py"))}
        case "policy":
            return {p.name: p.read_text() for p in sorted((ROOT / "mappings").glob("*.yaml"))}
        case "explicit":
            return {f"{n}.explicit.yaml": _printed(n) for n in ("gemm", "softmax", "attention")}
        case "batch":
            folder = ROOT / "configs" / "batches"
            return {p.name: p.read_text() for p in sorted(folder.glob("smoke*.yaml"))}
    configs = ROOT / "configs"
    paths = [*configs.glob("vllm_dsl_*.yaml"), *configs.glob("machines/*.yaml")]
    return {
        str(p.relative_to(ROOT)): p.read_text() for p in sorted([configs / "default.yaml", *paths])
    }


def _printed(name: str) -> str:
    op, path = all_operators()[name]
    found = bound(op, path, backends.get("cuda_c"), "sm_90a", "float32", op.dims)
    return mapping_text(found.mapping)


READERS: dict[str, Callable[[Path], None]] = {
    "logic": logic,
    "policy": policy,
    "explicit": explicit,
    "batch": batch,
    "config": config,
}


def survives(kind: str, files: dict[str, str], seed: int, folder: Path) -> str:
    """Read one damaged file; return its error's codes, or "" when it was still a proper file."""
    rng = random.Random(f"{kind} {seed}")
    name = rng.choice(sorted(files))
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    text = mangled(files[name], rng, code=kind == "logic")
    path.write_text(text, encoding="utf-8")
    try:
        READERS[kind](path)
    except EnvironmentProblem as e:
        return " ".join(e.codes)
    except SeptranError as e:
        for d in e.diagnostics:
            assert (ROOT / "docs" / "errors" / f"{d.code}.md").is_file(), d.code
            if d.code in PLACELESS:
                continue
            assert d.span is not None, f"seed {seed}: no place: {e}"
            assert str(path) == d.span.file or "septran" in d.span.file, f"seed {seed}: {e}"
            assert d.span.line >= 1 and d.span.col >= 1, f"seed {seed}: {e}"
            d.render()
        return " ".join(e.codes)
    except Exception as e:
        raise AssertionError(f"{kind}, seed {seed}, {name}: {type(e).__name__}: {e}") from e
    finally:
        path.unlink()
    return ""


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", READERS)
def test_a_damaged_file_is_an_error_with_a_place(kind, tmp_path, monkeypatch):
    _run(kind, FEW, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("kind", READERS)
def test_many_damaged_files(kind, tmp_path, monkeypatch):
    _run(kind, MANY, tmp_path, monkeypatch)


def _run(kind, count, tmp_path, monkeypatch):
    monkeypatch.setenv("SEPTRAN_PROJECT", str(tmp_path))
    files = sources(kind)
    found = [survives(kind, files, seed, tmp_path) for seed in range(count)]
    refused = sum(map(bool, found))
    assert refused >= count // 10, (
        f"only {refused} of {count} were refused: the damage is too small"
    )
