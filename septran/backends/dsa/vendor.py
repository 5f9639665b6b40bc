"""Vendor tables: how a vendor's C calls are spelled, read from configs/vendors/<name>.yaml."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from septran.backends.dsa.library import Library, library_of
from septran.errors import ConfigError, closest

_VEC_UNARY = "copy neg abs exp exp2 log sqrt rsqrt tanh sigmoid erf".split()
_VEC_BINARY = "add sub mul div pow max min lt le gt ge eq ne".split()
_REVERSED = "sub div pow".split()
_REDUCE = "sum prod max min".split()

OPERATIONS: tuple[str, ...] = (
    "dsa.dma_copy",
    "dsa.dma_cast",
    "dsa.dma_fill",
    "dsa.fill",
    "dsa.mma",
    "dsa.set",
    "dsa.wait",
    "dsa.sync",
    "dsa.barrier",
    "dsa.vec_select",
    "dsa.vec_index",
    "dsa.vec_transpose",
    *(f"dsa.vec_{n}" for n in _VEC_UNARY),
    *(f"dsa.vec_{n}" for n in _VEC_BINARY),
    *(f"dsa.vec_{n}s" for n in _VEC_BINARY),
    *(f"dsa.vec_r{n}s" for n in _REVERSED),
    *(f"dsa.vec_reduce_{n}" for n in _REDUCE),
)
"""Every operation a kernel can contain."""
REQUIRED = ("dsa.dma_copy", "dsa.set", "dsa.wait", "dsa.sync", "dsa.barrier")
"""Operations no table may leave out; an operator that needs another missing one is refused (C122)."""


_RUNTIMES = Path(__file__).resolve().parent
_OPERAND = frozenset("address rows cols ld dtype pitch".split())
_OFFSET = frozenset(("offset", "base", "index"))
_BIND = frozenset("name pointer bytes index writable".split())
_WORKSPACE = frozenset(("name", "bytes"))
_PARTS = frozenset((*_OPERAND, "bytes", "memory"))
_TILES = frozenset("dabc")


def fields_of(op: str) -> frozenset[str]:
    """Return the names that the template of operation `op` can use."""
    name = op.removeprefix("dsa.")
    match name:
        case "sync" | "barrier":
            words = ""
        case "set" | "wait":
            words = "source target event"
        case "dma_copy" | "dma_cast" | "vec_transpose":
            words = "d a rows cols way"
        case "fill" | "dma_fill":
            words = "d rows cols value"
        case "vec_index":
            words = "d base by_row by_col"
        case "mma":
            words = "d a b m n k flags init trans_a trans_b"
        case "vec_select":
            words = "d a b c rows cols"
        case _ if name.startswith("vec_reduce_"):
            words = "d a across"
        case _ if name.removeprefix("vec_") in _VEC_UNARY:
            words = "d a rows cols"
        case _ if name.removeprefix("vec_") in _VEC_BINARY:
            words = "d a b rows cols"
        case _:
            words = "d a s rows cols"
    return frozenset(words.split())


def _unknown_field(template: str, names: frozenset[str]) -> str:
    """Return what is wrong with the fields of a template, or ""."""
    try:
        found = [
            field for _, field, _, _ in string.Formatter().parse(template) if field is not None
        ]
    except ValueError as error:
        return f"{error} in {template!r}; a brace of C is written twice"
    for text in found:
        name, dot, part = text.partition(".")
        if name not in names:
            known = " ".join(f"{{{n}}}" for n in sorted(names)) or "none"
            return f"nothing is called {{{text}}} here; there is {known}"
        if dot and (name not in _TILES or part not in _PARTS):
            return f"{{{text}}}: a tile has {', '.join(sorted(_PARTS))}"
    return ""


def _spelled(given: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield (key of the file, operation, template), families written out."""
    for key, template in given.items():
        if not isinstance(template, dict):
            yield key, key, "" if template is None else template
            continue
        # a family: {template: "f({op}, ...)", ops: {add: VL_ADD}}
        text, ops = template.get("template"), template.get("ops")
        if not isinstance(text, str) or not isinstance(ops, dict):
            yield key, key.split(" ")[0].replace("*", "copy"), None
            continue
        for short, word in ops.items():
            yield key, key.split(" ")[0].replace("*", short), text.replace("{op}", str(word))


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """A vendor's call set.

    calls: operation -> C statement template; "" = nothing to emit. families: "{op}" shorthands.
    memory: GLOBAL/SHARED/REGISTER -> address template. operand: how a tile is written.
    headers, sources: file names in the `runtime` folder beside this file; sources make it run here (the simulator).
    library: the vendor's own library with a model of the machine, which is then linked in place of the simulator.
    lanes: a tile's rows lie on lanes, so it has to take them as its buffer has them.
    products: types of operands that the matrix engine takes, () = all of `dtypes`.
    """

    name: str
    calls: Mapping[str, str]
    memory: Mapping[str, str]
    operand: str
    dtypes: Mapping[str, str]
    queues: Mapping[str, str]
    headers: tuple[str, ...]
    sources: tuple[str, ...]
    core_id: str
    core_num: str
    launch: str
    bind: str
    workspace: str
    runtime: str = "simulator"
    library: Library | None = None
    lanes: bool = False
    flushes_denormals: bool = False
    products: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    """file name -> text, for headers the table carries itself."""

    def text(self, file: str) -> str:
        """Return the text of a header or a source."""
        return self.texts.get(file) or (_RUNTIMES / self.runtime / file).read_text(encoding="utf-8")


def load_vendor(name: str) -> Vendor:
    """Return the vendor table `configs/vendors/<name>.yaml`.

    Raises:
        ConfigError: C012 no such file, C121 a call or key is missing or unknown.
    """
    from septran import spanyaml
    from septran.assets import find

    doc = spanyaml.load(find(f"configs/vendors/{name}.yaml").path)
    return vendor_of(name, _extended(name, doc.value), doc.key_span)


def _extended(name: str, data: object, seen: tuple[str, ...] = ()) -> object:
    """Return `data` with what it leaves out taken from the table that its `extends` names; of a `library`, key by key.

    Raises:
        ConfigError: C012 no such table, C121 a table that extends itself.
    """
    from septran import spanyaml
    from septran.assets import find

    if not isinstance(data, dict) or "extends" not in data:
        return data
    seen = (*seen, name)
    base_name = str(data["extends"])
    if base_name in seen:
        raise ConfigError.of("C121", f"vendor table {name}: extends {base_name}, which extends it")
    found = spanyaml.load(find(f"configs/vendors/{base_name}.yaml").path).value
    base = _extended(base_name, found, seen)
    own = {key: value for key, value in data.items() if key != "extends"}
    if not isinstance(base, dict):
        return own
    both = {**base, **own}
    if isinstance(base.get("library"), dict) and isinstance(own.get("library"), dict):
        both["library"] = {**base["library"], **own["library"]}
    return both


def vendor_of(name: str, data: object, place: Callable[..., Any] | None = None) -> Vendor:
    """Return the vendor of parsed YAML `data`; `place` gives the span of a key's path.

    Raises:
        ConfigError: C121 a call or key is missing, unknown, or says what cannot be filled in.
    """

    def wrong(message: str, *path: str | int) -> ConfigError:
        span = place(*path) if place is not None else None
        return ConfigError.of("C121", f"vendor table {name}: {message}", span)

    if not isinstance(data, dict):
        raise wrong("the file must hold a mapping")
    given = data.get("calls") or {}
    if not isinstance(given, dict):
        raise wrong("calls must be a mapping from operations to C statements", "calls")
    calls: dict[str, str] = {}
    for key, op, template in _spelled(given):
        if op not in OPERATIONS:
            raise wrong(f"unknown operation {op!r}{closest(op, OPERATIONS)}", "calls", key)
        if not isinstance(template, str):
            raise wrong(f"{key}: neither a C statement nor template and ops", "calls", key)
        if problem := _unknown_field(template, fields_of(op)):
            raise wrong(f"{op}: {problem}", "calls", key)
        calls[op] = template
    missing = sorted(set(REQUIRED) - set(calls))
    if missing:
        raise wrong(f"no call for {', '.join(missing)}", "calls")
    runtime = data.get("runtime", "simulator")
    if runtime not in ("simulator", "sophgo"):
        raise wrong(f"runtime is simulator or sophgo, not {runtime!r}", "runtime")
    folder = _RUNTIMES / runtime
    try:
        for key in ("headers", "sources"):
            for file in data.get(key) or ():
                if file not in (data.get("texts") or {}) and not (folder / file).is_file():
                    known = sorted(p.name for p in folder.iterdir())
                    text = f"{file!r} is neither in texts nor shipped{closest(file, known)}"
                    raise wrong(f"{key}: {text}", key)
        for key, names in (
            ("operand", _OPERAND),
            ("bind", _BIND),
            ("workspace", _WORKSPACE),
        ):
            if problem := _unknown_field(data.get(key, ""), names):
                raise wrong(f"{key}: {problem}", key)
        for memory, names in (
            ("GLOBAL", frozenset({"pointer"})),
            ("SHARED", _OFFSET),
            ("REGISTER", _OFFSET),
        ):
            if problem := _unknown_field(data["memory"][memory], names):
                raise wrong(f"{memory}: {problem}", "memory", memory)
        return Vendor(
            name=name,
            calls=calls,
            memory=dict(data["memory"]),
            operand=data["operand"],
            dtypes=dict(data["dtypes"]),
            queues=dict(data.get("queues") or {}),
            headers=tuple(data["headers"]),
            sources=tuple(data.get("sources") or ()),
            core_id=data["core_id"],
            core_num=data["core_num"],
            launch=data["launch"],
            bind=data.get("bind", ""),
            workspace=data.get("workspace", ""),
            runtime=runtime,
            library=library_of(data.get("library"), lambda text: wrong(text, "library")),
            lanes=bool(data.get("lanes", False)),
            flushes_denormals=bool(data.get("flushes_denormals", False)),
            products=tuple(str(dtype) for dtype in data.get("products") or ()),
            texts=dict(data.get("texts") or {}),
        )
    except KeyError as e:
        raise wrong(f"key {e.args[0]!r} is missing") from e
