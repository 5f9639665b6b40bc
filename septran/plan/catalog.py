"""What there is: operators, backends, mappings, agents, models and machines, as plain values."""

from __future__ import annotations

import difflib
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septran import assets
from septran.errors import ConfigError

if TYPE_CHECKING:
    from septran.tasklang.load import Logic
    from septran.tasklang.operator import Operator

OPS = Path(__file__).resolve().parent.parent / "ops"


def op_files() -> tuple[Path, ...]:
    """Return the shipped logic files, sorted by name."""
    return tuple(p for p in sorted(OPS.glob("*.py")) if not p.name.startswith("_"))


def ops() -> list[dict[str, Any]]:
    """Return name, about, dims, dtypes and file of each shipped operator, sorted by name."""
    found = [_op(operator, path) for operator, path in _operators()]
    return sorted(found, key=lambda entry: str(entry["name"]))


def op_file(name: str) -> Path:
    """Return the logic file that defines operator `name`.

    Raises:
        ConfigError: C044 with the nearest names.
    """
    for path in sorted(op_files(), key=lambda path: _likeness(name, path), reverse=True):
        if name in shipped(path).operators:
            return path
    known = [operator.name for operator, _ in _operators()]
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    raise ConfigError.of(
        "C044",
        f"no operator {name!r}",
        help=f"the nearest are {', '.join(near)}" if near else "`septran ls ops` lists them",
    )


def backends() -> list[dict[str, Any]]:
    """Return name, title, arches, dtypes and where of each backend; here: whether that works on this machine, "no: " and why not."""
    from septran import backends as registry

    found = []
    for name in registry.names():
        try:
            backend = registry.get(name)
        except (ImportError, ConfigError):  # `septran doctor` says why
            continue
        state = backend.available().get("compile" if backend.where == "native" else "emulate")
        found.append(
            {
                "name": backend.name,
                "title": backend.title,
                "language": backend.language,
                "arches": list(backend.arches),
                "dtypes": list(backend.dtypes),
                "where": backend.where,
                "here": "yes" if state is None or state.ok else f"no: {state.detail}",
            }
        )
    return found


def mappings() -> list[dict[str, Any]]:
    """Return each mapping file and its layer."""
    return _files("mappings", ".mapping.yaml")


def machines() -> list[dict[str, Any]]:
    """Return each machine description and its layer."""
    return _files("configs/machines", ".yaml")


def models() -> list[dict[str, Any]]:
    """Return each model config (configs/vllm_dsl_<dsl>_config.yaml) and its layer."""
    return [entry for entry in _files("configs", ".yaml") if entry["name"].startswith("vllm_dsl_")]


def agents() -> list[dict[str, Any]]:
    """Return each agent role (agents/<role>/role.yaml) and its layer."""
    return [
        {"name": asset.name.split("/")[1], "layer": asset.layer, "path": str(asset.path)}
        for asset in assets.listing("agents")
        if asset.name.endswith("/role.yaml")
    ]


@functools.cache
def _operators() -> tuple[tuple[Operator, Path], ...]:
    """The shipped operators with their files; the package's own files do not change while it runs."""
    return tuple((o, path) for path in op_files() for o in shipped(path).operators.values())


def _likeness(name: str, path: Path) -> tuple[bool, bool, int]:
    """How probable it is that a file defines an operator: reading the likely one first spares reading the others."""
    text = path.read_text(encoding="utf-8")
    return (
        path.stem == name,
        f'"{name}"' in text,
        sum(f'"{word}"' in text for word in name.split("_")),
    )


@functools.cache
def shipped(path: Path) -> Logic:
    """Return a shipped logic file, read once per process."""
    from septran.tasklang.load import load_logic

    return load_logic(path)


def _op(operator: Any, path: Path) -> dict[str, Any]:
    return {
        "name": operator.name,
        "about": operator.about,
        "dims": dict(operator.dims),
        "dtypes": list(operator.dtypes),
        "file": str(path),
    }


def _files(folder: str, suffix: str) -> list[dict[str, Any]]:
    found = []
    for asset in assets.listing(folder):
        below = asset.name.removeprefix(folder + "/")
        if below.endswith(suffix) and "/" not in below:
            name = below.removesuffix(suffix)
            found.append({"name": name, "layer": asset.layer, "path": str(asset.path)})
    return found
