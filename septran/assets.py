"""Find the data SepTran is configured with: project > user > packages > bundled, decided file by file.

The five folders (agents, configs, dsl_docs, mappings, verify_templates) are plain data. A user's project, the home
folder and each installed package that brings a target mirror the same names; a file there hides the bundled file of
the same path. Files under `configs/` merge instead (septran/settings.py).
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from septran.errors import ConfigError, EnvironmentProblem

if TYPE_CHECKING:
    from types import CodeType

    from jinja2 import BytecodeCache, Environment

FOLDERS = ("agents", "configs", "dsl_docs", "mappings", "verify_templates")
TARGETS = "septran.backends"
"""The entry-point group of packages that bring a target."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One root that mirrors the five folders. name: project, user, bundled or a package's name."""

    name: str
    root: Path


@dataclass(frozen=True, slots=True)
class Asset:
    """A data file: `name` is its path below the root, e.g. "mappings/cpp.mapping.yaml"."""

    name: str
    layer: str
    path: Path

    def read(self) -> str:
        """Return the text."""
        return self.path.read_text(encoding="utf-8")

    @property
    def sha(self) -> str:
        """16 hex digits of the SHA-256 of the file's bytes."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()[:16]


def bundled() -> Path:
    """Return the root of the shipped data; the only place that knows where it lives.

    Raises:
        EnvironmentProblem: V001, the installation lost its data folders.
    """
    here = Path(__file__).resolve().parent
    data = here / "_data"  # in a wheel
    root = data if data.is_dir() else here.parent  # in a checkout or an editable install
    if not (root / "configs").is_dir():
        raise EnvironmentProblem.of(
            "V001",
            f"SepTran's data folders are missing beside {here}",
            help="reinstall the package: pip install --force-reinstall septran",
        )
    return root


def home() -> Path:
    """Return $SEPTRAN_HOME, else ~/.septran: user assets, leaf store and caches.

    Raises:
        EnvironmentProblem: V002, this user has no home, or there is no user of that name.
    """
    named = os.environ.get("SEPTRAN_HOME")
    try:
        return Path(named or "~/.septran").expanduser().absolute()
    except RuntimeError:
        raise EnvironmentProblem.of(
            "V002",
            f"SEPTRAN_HOME names nobody's home: {named}" if named else "this user has no home",
            help="set SEPTRAN_HOME to a folder of yours",
        ) from None


def find_project(start: Path | None = None) -> Path | None:
    """Return $SEPTRAN_PROJECT, else the nearest parent of `start` (cwd) with a septran.toml.

    Raises:
        ConfigError: C005, SEPTRAN_PROJECT is no folder.
    """
    named = os.environ.get("SEPTRAN_PROJECT")
    if named and start is None:
        if not Path(named).is_dir():
            raise ConfigError.of(
                "C005", f"the project {named} is no folder (set by SEPTRAN_PROJECT)"
            )
        return Path(named).resolve()
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / "septran.toml").is_file():
            return folder
    return None


def layers(project: Path | None = None) -> tuple[Layer, ...]:
    """Return the layers, the strongest first; `project` defaults to the one around cwd."""
    root = project if project is not None else find_project()
    found = [Layer("project", root)] if root is not None else []
    return (*found, Layer("user", home()), *_packages(), Layer("bundled", bundled()))


def targets() -> tuple[metadata.EntryPoint, ...]:
    """Return what installed packages bring as targets; read again only when a folder of sys.path has changed."""
    return _targets(tuple((path, _changed(path)) for path in sys.path))


def _changed(path: str) -> int:
    try:
        return Path(path or ".").stat().st_mtime_ns
    except OSError:
        return 0


@functools.lru_cache(maxsize=4)
def _targets(_folders: tuple[tuple[str, int], ...]) -> tuple[metadata.EntryPoint, ...]:
    return tuple(metadata.entry_points(group=TARGETS))


def _packages() -> Iterator[Layer]:
    """Yield the folder of each package that an entry point names as a target's; nothing is imported."""
    seen = set()
    for entry in targets():
        package = entry.value.partition(":")[0].partition(".")[0]
        if package in seen:
            continue
        seen.add(package)
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations if spec is not None else None) or ():
            yield Layer(package, Path(folder))


def find(name: str, *, among: Sequence[Layer] | None = None) -> Asset:
    """Return the strongest file called `name` ("mappings/cpp.mapping.yaml").

    Raises:
        ConfigError: C001 no such file; names the nearest ones. C002 `name` leaves the folders.
    """
    search = tuple(among) if among is not None else layers()
    _check_name(name)
    for layer in search:
        path = layer.root / name
        if path.is_file():
            return Asset(name, layer.name, path)
    folder = name.split("/", 1)[0]
    known = [asset.name for asset in listing(folder, among=search)]
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    raise ConfigError.of(
        "C001",
        f"no file {name!r} in the project, the user's folder, a target's package or the bundled data",
        notes=[f"searched {layer.root} ({layer.name})" for layer in search],
        help=f"the nearest names are {', '.join(near)}" if near else "see `septran assets ls`",
    )


def exists(name: str, *, among: Sequence[Layer] | None = None) -> bool:
    """Return whether any layer has the file."""
    _check_name(name)
    return any(
        (layer.root / name).is_file() for layer in (among if among is not None else layers())
    )


def read(name: str, *, among: Sequence[Layer] | None = None) -> str:
    """Return the text of the strongest file called `name`; raises like `find`."""
    return find(name, among=among).read()


def every(name: str, *, among: Sequence[Layer] | None = None) -> tuple[Asset, ...]:
    """Return `name` from each layer that has it, the strongest first."""
    _check_name(name)
    return tuple(
        Asset(name, layer.name, layer.root / name)
        for layer in (among if among is not None else layers())
        if (layer.root / name).is_file()
    )


def listing(folder: str = "", *, among: Sequence[Layer] | None = None) -> tuple[Asset, ...]:
    """Return the visible file of each name below `folder` (all five when ""), sorted by name."""
    found: dict[str, Asset] = {}
    for layer in among if among is not None else layers():
        for top in (folder,) if folder else FOLDERS:
            start = layer.root / top
            if not start.is_dir():
                continue
            for path in sorted(start.rglob("*")):
                name = path.relative_to(layer.root).as_posix()
                if path.is_file() and _is_data(name):
                    found.setdefault(name, Asset(name, layer.name, path))
    return tuple(found[name] for name in sorted(found))


def page(template: str, **values: Any) -> str:
    """Return an HTML page of `configs/report/<template>.html.j2`; values are escaped."""
    found = environment("configs/report")
    found.autoescape = True
    return found.get_template(f"{template}.html.j2").render(**values)


def environment(folder: str, *, among: Sequence[Layer] | None = None) -> Environment:
    """Return a Jinja environment over `folder` of every layer.

    A file may extend the one it hides: `{% extends "bundled:leaf_writer/system.j2" %}`. An unknown
    variable raises jinja2.UndefinedError with its name. Output is not escaped: it is source code.
    """
    from jinja2 import (
        BaseLoader,
        ChoiceLoader,
        Environment,
        FileSystemLoader,
        PrefixLoader,
        StrictUndefined,
    )

    search = tuple(among) if among is not None else layers()
    roots: dict[str, BaseLoader] = {
        layer.name: FileSystemLoader(layer.root / folder) for layer in search
    }
    return Environment(
        loader=ChoiceLoader([*roots.values(), PrefixLoader(roots, delimiter=":")]),
        undefined=StrictUndefined,
        autoescape=False,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=_compiled_templates(),
    )


@functools.cache
def _compiled_templates() -> BytecodeCache:
    """Templates as compiled in this process, by the checksum of their text: most of rendering one is compiling it."""
    from jinja2 import BytecodeCache
    from jinja2.bccache import Bucket

    class InMemory(BytecodeCache):
        def __init__(self) -> None:
            self._codes: dict[tuple[str, str, bool], CodeType] = {}

        def load_bytecode(self, bucket: Bucket) -> None:
            bucket.code = self._codes.get(_key(bucket))

        def dump_bytecode(self, bucket: Bucket) -> None:
            if bucket.code is not None:
                self._codes[_key(bucket)] = bucket.code

    def _key(bucket: Bucket) -> tuple[str, str, bool]:
        return bucket.key, bucket.checksum, bool(bucket.environment.autoescape)

    return InMemory()


def _is_data(name: str) -> bool:
    return not any(part.startswith((".", "__")) for part in PurePosixPath(name).parts)


def _check_name(name: str) -> None:
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or parts[0] not in FOLDERS:
        raise ConfigError.of(
            "C002",
            f"{name!r} is not a path inside {', '.join(FOLDERS)}",
            help="write it relative to a project, e.g. mappings/cpp.mapping.yaml",
        )


def sources_sha(*, without: tuple[str, ...] = ()) -> str:
    """Return the hash of SepTran's own sources: a version number stays the same while they change.

    without: folders of the package that do not matter, e.g. ("cli/",). Data files have layers and are not in it.
    """
    package = Path(__file__).resolve().parent
    found = hashlib.sha256()
    for path in sorted(package.rglob("*")):
        name = path.relative_to(package).as_posix()
        skip = "__pycache__" in name or name.startswith(("_data/", *without))
        if path.is_file() and not skip:
            found.update(name.encode() + path.read_bytes())
    return found.hexdigest()[:16]
