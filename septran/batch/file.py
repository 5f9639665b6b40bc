"""The file of a batch: a matrix of operators, targets, sizes, types and writers, as YAML.

ops: [gemm, "softmax*"]        # names, globs, or all
tasks: [my_model.py]           # torch module files, beside this file
logics: [my_op.py]             # logic files, beside this file
backends: all                  # names, globs, or all
archs: default                 # default, all, or names and globs
dims: [sample, odd, {M: 64}]   # a size set applies to the operators that have its names; {M: dynamic} stays open
dtypes: default                # default, all, or names
writers: [library]
exclude: [{op: conv2d, backend: "triton*"}]
include: [{op: gemm, backend: cpp, dims: {M: 8, N: 8, K: 8}}]
budget: {minutes: 60, cell_minutes: 5, tokens: 20000}
workers: 2
time: true
where: auto                    # auto, device or emulated
order: file                    # file, or spread: every operator on every target before any a second time
torch_compile: true            # task files are timed against torch.compile, too
fallback: torch                # torch computes what of a task file cannot be a kernel
require: []
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from septran import spanyaml
from septran.errors import ConfigError, Diagnostic, Span, closest
from septran.trial.place import WANTED

Words = tuple[str, ...]
DimSet = str | Mapping[str, int | str]
_KEYS = (
    "name ops tasks logics backends archs dims dtypes writers include exclude budget workers "
    "time where order require fallback torch_compile"
).split()
_CELL = ("op", "backend", "arch", "dims", "dtype", "writer")
_BUDGET = ("minutes", "cell_minutes", "tokens")
_WRITERS = ("library", "auto", "llm", "replay", "command")
_OPEN = re.compile(r"dynamic(:[1-9]\d{0,11})?")
"""A size that the kernel reads when it runs, and the size that its tiles are for."""
ORDERS = ("file", "spread")
_REQUIRE = ("compile", "device", "proved")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """minutes: of the whole batch. cell_minutes: of one cell. tokens: of one cell's model calls."""

    minutes: float | None = None
    cell_minutes: float = 20.0
    tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFile:
    """A read batch file; paths are absolute, words may be globs, "all" or "default"."""

    path: Path
    name: str
    ops: Words = ()
    tasks: tuple[Path, ...] = ()
    logics: tuple[Path, ...] = ()
    backends: Words = ()
    archs: Words = ("default",)
    dims: tuple[DimSet, ...] = ("sample",)
    dtypes: Words = ("default",)
    writers: Words = ("library",)
    include: tuple[Mapping[str, Any], ...] = ()
    exclude: tuple[Mapping[str, Any], ...] = ()
    budget: Budget = field(default_factory=Budget)
    workers: int | None = None
    time: bool = True
    where: str = "auto"
    order: str = "file"
    require: Words = ()
    fallback: str = ""
    torch_compile: bool = False
    spans: Mapping[tuple[str | int, ...], Span] = field(default_factory=dict, repr=False)

    def span(self, *path: str | int) -> Span | None:
        """Return the place of a key path, or of its nearest recorded parent."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.spans:
                return self.spans[path[:end]]
        return None


def load_batch(path: Path) -> BatchFile:
    """Return the batch file at `path`.

    Raises:
        ConfigError: C01x not readable or not YAML; C060 unknown keys, C061 values of a wrong kind, all
            of them together.
    """
    return _Reader(spanyaml.load(path), path).read()


class _Reader:
    """Checks each value where it stands and collects the problems."""

    def __init__(self, doc: spanyaml.Document, path: Path) -> None:
        self._doc, self._path = doc, path.resolve()
        self._problems: list[Diagnostic] = []

    def read(self) -> BatchFile:
        top = self._doc.value
        if not isinstance(top, dict):
            raise ConfigError.of(
                "C061", "a batch file is a mapping: ops, backends, dims, ...", self._doc.span()
            )
        self._known((), top, _KEYS)
        beside = self._path.parent
        found = BatchFile(
            path=self._path,
            name=str(top.get("name") or self._path.name.split(".")[0]),
            ops=self._words("ops", top, ()),
            tasks=tuple(beside / word for word in self._words("tasks", top, ())),
            logics=tuple(beside / word for word in self._words("logics", top, ())),
            backends=self._words("backends", top, ()),
            archs=self._words("archs", top, ("default",)),
            dims=self._dims(top),
            dtypes=self._words("dtypes", top, ("default",)),
            writers=self._words("writers", top, ("library",)),
            include=self._cells("include", top, ("op", "backend")),
            exclude=self._cells("exclude", top, ()),
            budget=self._budget(top),
            workers=self._number(("workers",), top.get("workers"), whole=True),
            time=self._flag("time", top),
            where=self._one_of("where", top, WANTED),
            order=self._one_of("order", top, ORDERS),
            require=self._words("require", top, ()),
            fallback=self._fallback(top),
            torch_compile=self._flag("torch_compile", top, default=False),
            spans=self._doc.spans,
        )
        for number, word in enumerate(found.require):
            if word not in _REQUIRE:
                self._wrong(
                    ("require", number), f"{word!r} is not one of compile, device", word, _REQUIRE
                )
        for number, word in enumerate(found.writers):
            kind, colon, detail = word.partition(":")
            if kind not in _WRITERS or bool(colon and detail) != (kind in ("replay", "command")):
                told = "use library, auto, llm, replay:RUN or command:PROGRAM"
                self._wrong(("writers", number), f"writer {word!r} is unknown; {told}")
        if self._problems:
            raise ConfigError(self._problems)
        return found

    def _known(
        self, path: tuple[str | int, ...], given: Mapping[Any, Any], keys: Iterable[str]
    ) -> None:
        known = tuple(keys)
        for key in given:
            if key not in known:
                self._problems.append(
                    Diagnostic(
                        code="C060",
                        message=f"unknown key {key!r}{closest(str(key), known)}",
                        span=self._doc.key_span(*path, key),
                        help=f"known here: {', '.join(known)}",
                    )
                )

    def _wrong(
        self, path: tuple[str | int, ...], message: str, word: str = "", known: Words = ()
    ) -> None:
        near = closest(word, known) if word else ""
        self._problems.append(
            Diagnostic(code="C061", message=message + near, span=self._doc.span(*path))
        )

    def _words(self, key: str, top: Mapping[str, Any], default: Words) -> Words:
        value = top.get(key)
        if value is None:
            return default
        if isinstance(value, str):
            return (value,)
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            return tuple(value)
        self._wrong((key,), f"{key} is a word or a list of words")
        return default

    def _dims(self, top: Mapping[str, Any]) -> tuple[DimSet, ...]:
        value = top.get("dims", "sample")
        found: list[DimSet] = []
        for number, entry in enumerate(value if isinstance(value, list) else [value]):
            at = ("dims", number) if isinstance(value, list) else ("dims",)
            if isinstance(entry, dict):
                if self._sizes(at, entry):
                    found.append(entry)
            elif entry in ("sample", "odd"):
                found.append(entry)
            else:
                self._wrong(at, f"{entry!r} is not sample, odd or {{NAME: SIZE}}")
        return tuple(found)

    def _sizes(self, at: tuple[str | int, ...], entry: Mapping[Any, Any]) -> bool:
        good = True
        for name, size in entry.items():
            if isinstance(size, str) and _OPEN.fullmatch(size):
                continue
            if not isinstance(name, str) or type(size) is not int or size < 1:
                self._wrong(
                    (*at, name),
                    f"size {name}: {size!r} is not a whole number from 1, dynamic or dynamic:TILES",
                )
                good = False
        return good

    def _cells(
        self, key: str, top: Mapping[str, Any], needed: Words
    ) -> tuple[Mapping[str, Any], ...]:
        value = top.get(key) or []
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            self._wrong((key,), f"{key} is a list of cells, such as {{op: gemm, dtype: float16}}")
            return ()
        for number, entry in enumerate(value):
            self._known((key, number), entry, _CELL)
            missing = [name for name in needed if name not in entry]
            if missing:
                self._wrong((key, number), f"an included cell names its {' and '.join(missing)}")
            dims = entry.get("dims", {})
            if isinstance(dims, dict):
                self._sizes((key, number, "dims"), dims)
            elif dims not in ("sample", "odd"):
                self._wrong((key, number, "dims"), f"{dims!r} is not sample, odd or {{NAME: SIZE}}")
        return tuple(value)

    def _budget(self, top: Mapping[str, Any]) -> Budget:
        value = top.get("budget") or {}
        if not isinstance(value, dict):
            self._wrong(("budget",), "budget is a mapping: minutes, cell_minutes, tokens")
            return Budget()
        self._known(("budget",), value, _BUDGET)
        numbers = {
            name: self._number(("budget", name), value[name], whole=name == "tokens")
            for name in _BUDGET
            if name in value
        }
        return Budget(**{name: n for name, n in numbers.items() if n is not None})

    def _number(self, path: tuple[str, ...], value: Any, *, whole: bool) -> Any:
        if value is None:
            return None
        kinds = (int,) if whole else (int, float)
        if type(value) not in kinds or not 0 < value < math.inf:
            what = "whole number" if whole else "number"
            self._wrong(path, f"{'.'.join(path)}: {value!r} is not a {what} above 0")
            return None
        return value

    def _one_of(self, key: str, top: Mapping[str, Any], words: Words) -> str:
        value = top.get(key, words[0])
        if value not in words:
            known = ", ".join(words)
            self._wrong((key,), f"{value!r} is not one of {known}", str(value), words)
            return words[0]
        return str(value)

    def _fallback(self, top: Mapping[str, Any]) -> str:
        value = top.get("fallback", "")
        if value not in ("", "torch"):
            self._wrong(("fallback",), f"{value!r} is not torch", str(value), ("torch",))
            return ""
        return str(value)

    def _flag(self, key: str, top: Mapping[str, Any], *, default: bool = True) -> bool:
        value = top.get(key, default)
        if not isinstance(value, bool):
            self._wrong((key,), f"{key} is true or false")
            return True
        return value
