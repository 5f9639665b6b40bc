"""From a batch file to its cells: which kernels exactly, and the key that says when two are the same."""

from __future__ import annotations

import fnmatch
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from septran import assets, backends
from septran.backends.base import Backend
from septran.batch.file import BatchFile, DimSet
from septran.errors import ConfigError, closest
from septran.kernel import content_hash
from septran.plan import catalog
from septran.plan.resolve import GenRequest, operator_of
from septran.run import store
from septran.settings import Settings
from septran.tasklang.operator import Operator

_NOT_IN_KEY = ("cli/", "batch/", "report/")
_PLAN_DATA = ("configs/accuracy.yaml", "configs/gate.yaml")
_MODEL_DATA = ("agents", "dsl_docs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One kernel of a batch.

    id: what a person reads and -k matches. key: cells with equal keys do the same work.
    request: the arguments of GenRequest as plain JSON values.
    """

    id: str
    key: str
    op: str
    backend: str
    request: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {name: getattr(self, name) for name in ("id", "key", "op", "backend", "request")}


_KEY = re.compile(r"[0-9a-z]{1,64}")


def planned_cell(data: Mapping[str, Any]) -> Cell:
    """Return the cell that `Cell.to_json` made plain values of; its key names files.

    Raises:
        TypeError: these are not such values.
    """
    cell = Cell(**data)
    words = (cell.id, cell.key, cell.op, cell.backend)
    if not all(isinstance(word, str) for word in words) or not isinstance(cell.request, dict):
        raise TypeError("a cell is four words and a request")
    if not _KEY.fullmatch(cell.key):
        raise TypeError(f"{cell.key!r} is no key of a cell")
    return cell


@dataclass(frozen=True, slots=True)
class _Source:
    """An operator and the file it comes from; `given` are GenRequest's words for it."""

    operator: Operator
    sha: str
    given: Mapping[str, str]


def expand(batch: BatchFile, settings: Settings) -> tuple[Cell, ...]:
    """Return the cells of a batch in a stable order, each once.

    A type that the operator or the backend does not have is not a cell; neither is a size set for
    an operator without those names.

    Raises:
        ConfigError: C061 a word that fits nothing, with its place; C062 the matrix is empty.
    """
    return _Expansion(batch, settings).cells()


class _Expansion:
    def __init__(self, batch: BatchFile, settings: Settings) -> None:
        self._batch, self._settings = batch, settings
        self._shas: dict[str, str] = {}
        self._refused: list[tuple[Path, str]] = []
        self._ground = _ground()
        # what has no form is an opaque leaf where somebody can write it
        self._models = any(writer != "library" for writer in batch.writers)

    def cells(self) -> tuple[Cell, ...]:
        batch = self._batch
        sources = list(self._sources())
        targets = [backends.get(name) for name in self._targets()]
        self._check_sizes(sources)
        self._check_dtypes([(s, b) for s in sources for b in targets])
        self._check_archs(targets)
        self._check_rules()
        found: dict[str, Cell] = {}
        for (path, sha), backend in itertools.product(self._refused, targets):
            self._add(found, self._refusal(path, sha, backend))
        for source, backend in itertools.product(sources, targets):
            for arch, dims, dtype, writer in itertools.product(
                self._arches(backend),
                self._dims(source.operator, batch.dims),
                self._dtypes(source.operator, backend),
                batch.writers,
            ):
                cell = self._cell(source, backend, arch, dims, dtype, writer)
                if not any(_excluded(cell, rule) for rule in batch.exclude):
                    self._add(found, cell)
        for number, entry in enumerate(batch.include):
            for cell in self._included(entry, number):
                self._add(found, cell)
        if not found:
            raise ConfigError.of(
                "C062", f"{batch.path.name}: no cell is left", batch.span(),
                help="give ops (or tasks, logics) and backends, and check exclude",
            )  # fmt: skip
        return tuple(found.values())

    def _add(self, found: dict[str, Cell], cell: Cell) -> None:
        """Add a cell; raises ConfigError C068 when two files mean different operators by one name."""
        other = found.setdefault(cell.id, cell)
        if other.key != cell.key:
            files = " and ".join(str(_file(c)) for c in (other, cell))
            raise ConfigError.of(
                "C068",
                f"{files} both define operator {cell.op!r}, so cells cannot be told apart",
                self._batch.span("logics"),
                help="give one of them another name=, or run them in two batches",
            )

    def _sources(self) -> Iterator[_Source]:
        names = [entry["name"] for entry in catalog.ops()] if self._batch.ops else []
        for name in self._pick("ops", self._batch.ops, names):
            yield self._source(op=name)
        for path in self._batch.tasks:
            if path.is_dir():
                for file in sorted(path.rglob("[!_]*.py")):
                    yield from self._task(file)
            else:
                yield self._source(task_file=str(path))
        for path in self._batch.logics:
            yield self._source(logic=str(path))

    def _task(self, file: Path) -> Iterator[_Source]:
        """Yield the operator of a file of a folder; one that is refused, or where SepTran fails, is a cell that fails."""
        try:
            source = self._source(task_file=str(file))
        except Exception:  # its cell says what it was: a bug at one file must not cost the others
            self._refused.append(
                (file, content_hash([file.read_text(encoding="utf-8", errors="replace")]))
            )
            return
        yield source

    def _refusal(self, file: Path, sha: str, backend: Backend) -> Cell:
        request: dict[str, Any] = {
            "task_file": str(file),
            "backend": backend.name,
            "arch": None,
            "dims": {},
            "dtype": None,
            "writer": "library",
            "budget_tokens": None,
            "require": list(self._batch.require),
            "where": self._batch.where,
            "seed": self._settings.seed,
        }
        return Cell(
            id=f"{file.stem}/{backend.name}",
            key=content_hash([request, sha, self._sha(backend, "library")]),
            op=file.stem,
            backend=backend.name,
            request=request,
        )

    def _source(self, **given: str) -> _Source:
        words: dict[str, Any] = {"op": None, **given}
        for name in ("task_file", "logic"):
            if name in words:
                words[name] = Path(words[name])
        if (self._models or self._batch.fallback) and "task_file" in words:
            words["opaque"] = "nodes"
        operator, logic = operator_of(GenRequest(backend="", **words))
        return _Source(operator, logic.sha, given)

    def _targets(self) -> list[str]:
        return self._pick("backends", self._batch.backends, backends.names())

    def _pick(self, key: str, words: Sequence[str], known: Sequence[str]) -> list[str]:
        """Return the known names that the words (names, globs, all) mean, in the words' order."""
        found: dict[str, None] = {}
        for number, word in enumerate(words):
            matches = known if word == "all" else fnmatch.filter(known, word)
            if not matches:
                raise ConfigError.of(
                    "C061", f"{key}: {word!r} names nothing{closest(word, known)}",
                    self._batch.span(key, number), help=f"known: {', '.join(known)}",
                )  # fmt: skip
            found.update(dict.fromkeys(matches))
        return list(found)

    def _arches(self, backend: Backend) -> list[str]:
        if not backend.arches or self._batch.archs == ("default",):
            return [backends.resolve_arch(backend, None)]
        return [
            arch
            for arch in backend.arches
            if any(word == "all" or fnmatch.fnmatch(arch, word) for word in self._batch.archs)
        ]

    def _check_sizes(self, sources: Sequence[_Source]) -> None:
        for number, entry in enumerate(self._batch.dims):
            if not isinstance(entry, str) and not any(
                set(entry) <= set(s.operator.dims) for s in sources
            ):
                raise ConfigError.of(
                    "C061", f"no operator of this batch has the dims {', '.join(entry)}",
                    self._batch.span("dims", number),
                )  # fmt: skip

    def _check_dtypes(self, pairs: Sequence[tuple[_Source, Backend]]) -> None:
        """Raise ConfigError C061 for a type that no operator and target of this batch share."""
        known = sorted({d for s, b in pairs for d in s.operator.dtypes if d in b.dtypes})
        for number, word in enumerate(self._batch.dtypes):
            if word not in ("default", "all") and word not in known:
                raise ConfigError.of(
                    "C061",
                    f"dtypes: no operator and target of this batch have {word!r}{closest(word, known)}",
                    self._batch.span("dtypes", number),
                    help=f"they have {', '.join(known)}",
                )

    def _check_archs(self, targets: Sequence[Backend]) -> None:
        known = sorted({arch for backend in targets for arch in backend.arches})
        for number, word in enumerate(self._batch.archs):
            if word not in ("default", "all") and not fnmatch.filter(known, word):
                raise ConfigError.of(
                    "C061",
                    f"archs: no target of this batch has {word!r}{closest(word, known)}",
                    self._batch.span("archs", number),
                    help=f"they have {', '.join(known) or 'none to choose from'}",
                )

    def _check_rules(self) -> None:
        """Raise ConfigError C061 for an `exclude` whose words name nothing: it would exclude nothing."""
        known = {"op": [e["name"] for e in catalog.ops()], "backend": list(backends.names())}
        for number, rule in enumerate(self._batch.exclude):
            for name, names in known.items():
                word = str(rule.get(name, "*"))
                own = name == "op" and (self._batch.logics or self._batch.tasks)
                if not own and not fnmatch.filter(names, word):
                    raise ConfigError.of(
                        "C061",
                        f"exclude: {name} {word!r} names nothing{closest(word, names)}",
                        self._batch.span("exclude", number),
                    )

    def _dims(self, operator: Operator, wanted: Sequence[DimSet]) -> list[dict[str, int | str]]:
        found: list[dict[str, int | str]] = []
        for entry in wanted:
            if entry == "sample":
                found.append(dict(operator.dims))
            elif entry == "odd":
                found.extend({**operator.dims, **odd} for odd in operator.odd_dims)
            elif not isinstance(entry, str) and set(entry) <= set(operator.dims):
                found.append({**operator.dims, **entry})
        return found

    def _dtypes(self, operator: Operator, backend: Backend) -> list[str]:
        shared = [dtype for dtype in operator.dtypes if dtype in backend.dtypes]
        words = self._batch.dtypes
        if words == ("default",):
            return shared[:1]
        return [dtype for dtype in shared if "all" in words or dtype in words]

    def _included(self, entry: Mapping[str, Any], number: int) -> Iterator[Cell]:
        at = self._batch.span("include", number)
        known = [each["name"] for each in catalog.ops()]
        if entry["op"] not in known:
            near = closest(str(entry["op"]), known)
            raise ConfigError.of("C061", f"include: no operator {entry['op']!r}{near}", at)
        source, backend = self._source(op=entry["op"]), backends.get(entry["backend"])
        dims = entry.get("dims", "sample")
        if isinstance(dims, dict):
            source.operator.bind_dims(_sized(source.operator, dims))
        arch = backends.resolve_arch(backend, entry.get("arch"))
        shared = [d for d in source.operator.dtypes if d in backend.dtypes]
        for sizes in self._dims(source.operator, (dims,)):
            dtype = entry.get("dtype") or (shared[0] if shared else "")
            if dtype not in shared:
                raise ConfigError.of(
                    "C061",
                    f"include: {entry['op']} on {backend.name} has no dtype {dtype!r}{closest(dtype, shared)}",
                    at,
                    help=f"it has {', '.join(shared)}" if shared else "",
                )
            yield self._cell(source, backend, arch, sizes, dtype, entry.get("writer", "library"))

    def _cell(
        self,
        source: _Source,
        backend: Backend,
        arch: str,
        dims: Mapping[str, int | str],
        dtype: str,
        writer: str,
    ) -> Cell:
        sizes = ",".join(f"{name}={size}" for name, size in dims.items())
        target = f"{backend.name}.{arch}" if arch else backend.name
        request = {
            **source.given,
            "backend": backend.name,
            "arch": arch or None,
            "dims": _sized(source.operator, dims),
            "dtype": dtype,
            "writer": writer,
            "budget_tokens": self._batch.budget.tokens,
            "require": list(self._batch.require),
            "where": self._batch.where,
            "seed": self._settings.seed,
        }
        opened = [name for name, size in dims.items() if isinstance(size, str)]
        if opened:  # a key of its own, so that cells without keep theirs
            request["dynamic"] = opened
        if "task_file" in source.given and self._batch.fallback:
            request["fallback"] = self._batch.fallback
        elif writer != "library" and "task_file" in source.given:
            request["opaque"] = "nodes"
        if "task_file" in source.given and self._batch.torch_compile and self._batch.time:
            request["torch_compile"] = True
        timed = self._batch.time and {"threads": self._settings.threads}
        return Cell(
            id=f"{source.operator.name}/{target}/{sizes}/{dtype}/{writer}",
            key=content_hash([request, source.sha, timed, self._sha(backend, writer)]),
            op=source.operator.name,
            backend=backend.name,
            request=request,
        )

    def _sha(self, backend: Backend, writer: str) -> str:
        """Return the hash of all that decides how this backend's kernels come out."""
        models = writer != "library"
        known = f"{backend.name} {models}"
        if known not in self._shas:
            prefixes: tuple[str, ...] = (
                f"mappings/{backend.name}.",
                f"configs/machines/{backend.name}",
                "verify_templates",
            )
            prefixes += _PLAN_DATA + (_MODEL_DATA if models else ())
            data = [
                (asset.name, asset.sha)
                for asset in assets.listing(among=self._settings.layers)
                if asset.name.startswith(prefixes)
            ]
            model = [self._settings.base_url, self._settings.model] if models else []
            self._shas[known] = content_hash([self._ground, data, model])
        return self._shas[known]


def _file(cell: Cell) -> object:
    given = cell.request
    return given.get("logic") or given.get("task_file") or f"the shipped {given.get('op')}"


def _sized(operator: Operator, dims: Mapping[str, int | str]) -> dict[str, int]:
    """Return each dim's size, of an open one that its tiles are for: the operator's own, or N of `dynamic:N`."""
    found = {}
    for name, size in dims.items():
        tiles = size.partition(":")[2] if isinstance(size, str) else size
        found[name] = int(tiles) if tiles else operator.dims.get(name, 1)
    return found


def _excluded(cell: Cell, rule: Mapping[str, Any]) -> bool:
    dims = {**cell.request["dims"], **dict.fromkeys(cell.request.get("dynamic", ()), "dynamic")}
    for name, wanted in rule.items():
        if name == "dims":
            if not isinstance(wanted, dict) or any(
                dims.get(n) != size for n, size in wanted.items()
            ):
                return False
            continue
        value = cell.op if name == "op" else cell.request[name]
        if not fnmatch.fnmatch(str(value), str(wanted)):
            return False
    return True


def _ground() -> str:
    """Return the hash of SepTran's own sources, the libraries' versions and the machine."""
    sources = assets.sources_sha(without=_NOT_IN_KEY)
    return content_hash([sources, repr((store.versions(), store.machine()))])
