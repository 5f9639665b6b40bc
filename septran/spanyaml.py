"""Read YAML as plain values plus the place of every key and value; the only module that knows YAML.

YAML 1.2 core rules decide what a bare word is: only true and false are bools, `no`, `on` and `yes` are
strings, `010` is ten, `1e3` is a float. Duplicate keys are errors. Custom tags (`!tune {...}`) go to
the caller's constructors.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from septran.errors import ConfigError, Diagnostic, Span

KeyPath = tuple[str | int, ...]
Tag = Callable[[Any, Span], Any]
_MAX_DIGITS = 400
_MAX_NODES = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A parsed file.

    value: dicts, lists, str, int, float, bool, None and whatever the tag constructors returned.
    spans: key path -> place of the value; `()` is the root. Paths below a tag are included.
    key_spans: key path -> place of the key that introduces the value.
    """

    file: str
    value: Any
    spans: Mapping[KeyPath, Span]
    key_spans: Mapping[KeyPath, Span]

    def span(self, *path: str | int) -> Span:
        """Return the place of a value, or of its nearest recorded parent."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.spans:
                return self.spans[path[:end]]
        return Span(self.file, 1)

    def key_span(self, *path: str | int) -> Span:
        """Return the place of a key, or of the value (list items), or of the nearest parent."""
        return self.key_spans.get(path) or self.span(*path)


def load(path: Path, *, tags: Mapping[str, Tag] | None = None) -> Document:
    """Return the parsed file; `tags` maps "!name" to a constructor (plain value, span) -> value.

    Raises:
        ConfigError: C010 syntax, C011 duplicate key, C012 missing or unreadable file, C013 unknown tag,
            C014 a structure that is not allowed (key that is no scalar, recursive or huge document).
    """
    return loads(read_text(path), file=str(path), tags=tags)


def read_text(path: Path) -> str:
    """Return the file's text; a missing file is an error that names the nearest ones.

    Raises:
        ConfigError: C012.
    """
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as e:
        raise ConfigError.of("C012", f"{path} is not UTF-8 text (byte {e.start})") from e
    except OSError as e:
        reason = "does not exist" if isinstance(e, FileNotFoundError) else (e.strerror or str(e))
        raise ConfigError.of("C012", f"{path}: file {reason}", help=_nearest_files(path)) from e


def loads(text: str, *, file: str = "<text>", tags: Mapping[str, Tag] | None = None) -> Document:
    """Return the parsed text; `file` is what spans name. Raises as `load`."""
    try:
        node = _composed(text)
    except RecursionError:
        raise ConfigError.of("C014", f"{file}: it nests too deep", Span(file, 1)) from None
    except yaml.MarkedYAMLError as e:
        raise _syntax_error(e, file) from e
    except yaml.YAMLError as e:  # a control character, found before there is a position
        raise ConfigError.of("C010", f"{file}: {_one_line(str(e))}", Span(file, 1)) from e
    reader = _Reader(file, tags or {})
    try:
        value = reader.read(node, ()) if node is not None else None
    except RecursionError:
        raise ConfigError.of("C014", f"{file}: it nests too deep", Span(file, 1)) from None
    reader.spans.setdefault((), Span(file, 1))
    if reader.problems:
        raise ConfigError(reader.problems)
    return Document(file=file, value=value, spans=reader.spans, key_spans=reader.key_spans)


@dataclass(frozen=True, slots=True)
class Tagged:
    """A value that `dump` writes with a tag: Tagged("!tune", {...}) -> `!tune {...}`."""

    tag: str
    value: Mapping[str, Any]


def dump(value: Any, *, comment: str = "", flow_depth: int | None = None) -> str:
    """Return `value` (dicts, lists, scalars) as YAML text that `loads` reads back equal.

    comment: lines put on top. flow_depth: mappings at this depth and below are written `{a: 1}`.
    """
    text: str = yaml.dump(
        _flowed(value, flow_depth, 0) if flow_depth is not None else value,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=110,
    )
    head = "".join(f"# {line}".rstrip() + "\n" for line in comment.splitlines())
    return head + text


_INT = re.compile(r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$")
_FLOAT = re.compile(
    r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?(?:\.inf|\.Inf|\.INF)|\.nan|\.NaN|\.NAN)$"
)
_BOOL = re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")
_NULL = re.compile(r"^(?:~|null|Null|NULL|)$")


class _CoreResolver:
    """The implicit types of YAML 1.2's core schema, in place of YAML 1.1's."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - the name and form PyYAML looks up
        None: [
            ("tag:yaml.org,2002:null", _NULL),
            ("tag:yaml.org,2002:bool", _BOOL),
            ("tag:yaml.org,2002:int", _INT),
            ("tag:yaml.org,2002:float", _FLOAT),
        ]
    }


class _Loader(_CoreResolver, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Parser of PyYAML (libyaml's when it is there) with the core resolver."""


@lru_cache(maxsize=256)
def _composed(text: str) -> yaml.Node | None:
    """The tree of `text`, which readers only read: the same few files are asked for with every kernel."""
    return yaml.compose(text, Loader=_Loader)


class _Dumper(_CoreResolver, yaml.SafeDumper):
    """Writer that quotes a string exactly when the core resolver would read it as something else."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(
    Tagged,
    lambda dumper, data: dumper.represent_mapping(data.tag, data.value.items(), flow_style=True),
)


class _Flow(dict[str, Any]):
    """A mapping to be written on one line."""


_Dumper.add_representer(
    _Flow,
    lambda dumper, data: dumper.represent_mapping(
        "tag:yaml.org,2002:map", data.items(), flow_style=True
    ),
)


def _flowed(value: Any, depth: int, at: int) -> Any:
    if isinstance(value, dict):
        inner = {k: _flowed(v, depth, at + 1) for k, v in value.items()}
        return _Flow(inner) if at >= depth else inner
    if isinstance(value, (list, tuple)):
        return [_flowed(v, depth, at + 1) for v in value]
    return value


class _Reader:
    """Turns composed nodes into values, noting spans and collecting problems."""

    def __init__(self, file: str, tags: Mapping[str, Tag]) -> None:
        self.file = file
        self.tags = tags
        self.spans: dict[KeyPath, Span] = {}
        self.key_spans: dict[KeyPath, Span] = {}
        self.problems: list[Diagnostic] = []
        self._open: set[int] = set()
        self._count = 0

    def read(self, node: yaml.Node, path: KeyPath) -> Any:
        span = _span(node, self.file)
        self.spans[path] = span
        self._count += 1
        if id(node) in self._open or self._count > _MAX_NODES:
            what = "contains itself" if id(node) in self._open else "is too large when expanded"
            self._problem("C014", f"this value {what}", span)
            raise ConfigError(self.problems)
        self._open.add(id(node))
        value = self._plain(node, path)
        self._open.discard(id(node))
        tag = node.tag
        if tag.startswith("tag:yaml.org,2002:"):
            return value
        if tag not in self.tags:
            known = ", ".join(sorted(self.tags)) or "none"
            self._problem("C013", f"unknown tag {tag}; known here: {known}", span)
            return value
        return self.tags[tag](value, span)

    def _plain(self, node: yaml.Node, path: KeyPath) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.read(item, (*path, i)) for i, item in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)
        if len(node.value) > _MAX_DIGITS and _INT.match(node.value) and not node.style:
            self._problem("C014", "this number has too many digits", _span(node, self.file))
            return 0
        return _scalar(node)

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            at = _span(key_node, self.file)
            if not isinstance(key_node, yaml.ScalarNode):
                self._problem("C014", "a key must be a plain word or number", at)
                continue
            key = self._plain(key_node, path)
            if key in found:
                first = self.key_spans[(*path, key)]
                self._problem("C011", f"duplicate key {key!r}", at, f"first given at {first}")
                continue
            self.key_spans[(*path, key)] = at
            found[key] = self.read(value_node, (*path, key))
        return found

    def _problem(self, code: str, message: str, span: Span, note: str = "") -> None:
        notes = (note,) if note else ()
        self.problems.append(Diagnostic(code=code, message=message, span=span, notes=notes))


def _scalar(node: yaml.ScalarNode) -> Any:
    text: str = node.value
    match node.tag.rpartition(":")[2]:
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int":
            return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
        case "float":
            return _float(text.lower())
        case "str":
            return text
    if not node.style:  # under a custom tag the resolver did not look at the bare word
        for pattern, kind in ((_NULL, "null"), (_BOOL, "bool"), (_INT, "int"), (_FLOAT, "float")):
            if pattern.match(text):
                return _scalar(yaml.ScalarNode(f"tag:yaml.org,2002:{kind}", text))
    return text


def _float(text: str) -> float:
    if text.endswith(".inf"):
        return -math.inf if text.startswith("-") else math.inf
    return math.nan if text == ".nan" else float(text)


def _span(node: yaml.Node, file: str) -> Span:
    start, end = node.start_mark, node.end_mark
    one_line = isinstance(node, yaml.ScalarNode) and end.line == start.line
    width = max(1, end.column - start.column) if one_line else 1
    return Span(file, start.line + 1, start.column + 1, width)


def _syntax_error(e: yaml.MarkedYAMLError, file: str) -> ConfigError:
    mark = e.problem_mark or e.context_mark
    span = Span(file, mark.line + 1, mark.column + 1) if mark else Span(file, 1)
    notes = []
    if e.context and e.context_mark and e.context_mark is not mark:
        notes.append(f"{e.context} that starts at line {e.context_mark.line + 1}")
    message = f"this is not valid YAML: {_one_line(e.problem or str(e))}"
    return ConfigError([Diagnostic(code="C010", message=message, span=span, notes=tuple(notes))])


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _nearest_files(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f"the folder {folder} does not exist either"
    names = [p.name for p in folder.iterdir() if p.is_file()]
    near = difflib.get_close_matches(path.name, names, n=3, cutoff=0.5)
    return f"the nearest names there are {', '.join(near)}" if near else ""
