"""SepTran's own settings, each with the layer that set it.

defaults < bundled configs/default.yaml < the user's < the project's < septran.toml < SEPTRAN_* < flags
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from septran import assets, spantoml, spanyaml
from septran.layered import Key, Layered, Origin, Schema, Source, layered, parse_text

SCHEMA: Schema = {
    "base_url": Key(kind="str", env="SEPTRAN_BASE_URL", about="OpenAI-compatible endpoint"),
    "model": Key(kind="str", env="SEPTRAN_MODEL", about="model name at the endpoint"),
    "writer": Key(
        kind="str",
        default="library",
        env="SEPTRAN_WRITER",
        about="who writes leaves: library, llm, replay:RUN, command:PROGRAM",
    ),
    "attempts": Key(kind="int", default=8, minimum=1, about="model calls for one leaf"),
    "candidates": Key(kind="int", default=1, minimum=1, about="replies asked for at once"),
    "budget_tokens": Key(kind="int", minimum=0, about="stop before spending more tokens"),
    "budget_minutes": Key(kind="float", minimum=0, about="stop after this many minutes"),
    "search": Key(kind="str", default="best-of", choices=("best-of", "evolve")),
    "seed": Key(kind="int", minimum=0, about="of the secret inputs; default: from the system"),
    "threads": Key(
        kind="int", env="SEPTRAN_THREADS", minimum=1, about="kernel threads; default: cores"
    ),
    "run_timeout_s": Key(
        kind="float", minimum=1, about="wall time of one call of a kernel; default: the target's"
    ),
    "memory_mib": Key(kind="int", minimum=256, about="memory of its child; default: the target's"),
    "keep_runs": Key(kind="int", default=200, minimum=1, about="what `runs prune` keeps"),
}

ENVIRONMENT: Mapping[str, str] = {
    "SEPTRAN_HOME": "store, caches, runs and the user's own data files",
    "SEPTRAN_PROJECT": "the project folder (--project)",
    "SEPTRAN_BASE_URL": "OpenAI-compatible endpoint",
    "SEPTRAN_MODEL": "model name",
    "SEPTRAN_WRITER": "who writes leaves",
    "SEPTRAN_THREADS": "threads of a kernel",
    "SEPTRAN_AMX": "0: kernels do without the processor's matrix tiles",
    "SEPTRAN_LOGIC_SECONDS": "processor seconds for reading a logic file, tracing a task or calling a reference",
    "OPENAI_API_KEY": "the endpoint's key; read when a call is made, never stored",
}
"""Every environment variable SepTran reads (NO_COLOR aside)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The merged settings; field meanings are in SCHEMA.

    home: SEPTRAN_HOME or ~/.septran. project: folder with septran.toml, if any.
    layers: where data files are looked up. origins: setting -> who set it.
    """

    home: Path
    project: Path | None
    layers: tuple[assets.Layer, ...]
    base_url: str | None
    model: str | None
    writer: str
    attempts: int
    candidates: int
    budget_tokens: int | None
    budget_minutes: float | None
    search: str
    seed: int | None
    threads: int | None
    run_timeout_s: float | None
    memory_mib: int | None
    keep_runs: int
    origins: Mapping[str, Origin] = field(default_factory=dict, repr=False)

    def to_json(self) -> dict[str, dict[str, Any]]:
        """Return {setting: {value, from}}; holds no secrets."""
        found: dict[str, dict[str, Any]] = {
            "home": {"value": str(self.home), "from": _env_or_default("SEPTRAN_HOME")},
            "project": {
                "value": str(self.project) if self.project else None,
                "from": _env_or_default("SEPTRAN_PROJECT"),
            },
        }
        for name in SCHEMA:
            found[name] = {"value": getattr(self, name), "from": str(self.origins[name])}
        return found


def load(*, project: Path | None = None, flags: Mapping[str, Any] | None = None) -> Settings:
    """Return the settings as seen from the working directory; `flags` with value None are not given.

    Raises:
        ConfigError: C010 and following for a broken file, C020-C022 for a bad key or value.
    """
    root = project if project is not None else assets.find_project()
    layers = assets.layers(root)
    merged = layered(SCHEMA, [*_files(layers, root), *_environment(SCHEMA), *_flags(flags or {})])
    return _build(merged, root, layers)


def _build(merged: Layered, root: Path | None, layers: tuple[assets.Layer, ...]) -> Settings:
    names = {f.name for f in fields(Settings)}
    return Settings(
        home=assets.home(),
        project=root,
        layers=layers,
        origins={name: merged.origin(name) for name in SCHEMA},
        **{name: value for name, value in merged.values.items() if name in names},
    )


def config_sources(name: str, layers: tuple[assets.Layer, ...]) -> list[Source]:
    """Return configs/`name` from every layer that has it, weakest first, for `layered`.

    Raises:
        ConfigError: C010, C011 for a broken file.
    """
    found = assets.every(f"configs/{name}", among=layers)
    return [Source(asset.layer, spanyaml.load(asset.path)) for asset in reversed(found)]


def _files(layers: tuple[assets.Layer, ...], project: Path | None) -> list[Source]:
    sources = config_sources("default.yaml", layers)
    toml = project / "septran.toml" if project is not None else None
    if toml is not None and os.path.lexists(toml):
        sources.append(Source("septran.toml", spantoml.load(toml)))
    return sources


def _environment(schema: Schema) -> list[Source]:
    return [
        Source.plain(key.env, {name: parse_text(key, text)})
        for name, key in schema.items()
        if isinstance(key, Key) and key.env and (text := os.environ.get(key.env))
    ]


def _flags(flags: Mapping[str, Any]) -> list[Source]:
    return [
        Source.plain(f"--{name.replace('_', '-')}", {name: value})
        for name, value in flags.items()
        if value is not None
    ]


def _env_or_default(variable: str) -> str:
    return variable if os.environ.get(variable) else "default"
