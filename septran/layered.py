"""Merge layers of nested configuration against a schema, remembering where each value came from.

One function serves SepTran's own settings and every other config file (model configs, batches):
unknown keys, wrong types and values outside the choices are errors with file:line and the nearest key,
all reported at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from septran.errors import ConfigError, Diagnostic, Span, closest
from septran.spanyaml import Document, KeyPath

Kind = Literal["str", "int", "float", "bool", "list", "map", "any"]
_PYTHON: Mapping[str, Any] = {
    "str": (str,),
    "int": (int,),
    "float": (float, int),
    "bool": (bool,),
    "list": (list, tuple),
    "map": (dict,),
    "any": (object,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One setting.

    kind: "map" and "any" take what is written, unchecked (passed on to a third party).
    default: None also allows null in a file. choices: allowed values. minimum: for numbers.
    env: environment variable that sets it. secret: shown as "(set)", never as its value.
    """

    kind: Kind
    default: Any = None
    about: str = ""
    choices: tuple[Any, ...] = ()
    minimum: float | None = None
    env: str = ""
    secret: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A mapping whose keys are free names and whose values all follow one schema (roles, models)."""

    entry: Schema
    about: str = ""


Schema = Mapping[str, "Key | Table | Schema"]


@dataclass(frozen=True, slots=True)
class Source:
    """One layer: `name` as shown to a person ("default", "project", "SEPTRAN_MODEL", "--model")."""

    name: str
    document: Document

    @classmethod
    def plain(cls, name: str, value: Mapping[str, Any]) -> Source:
        """Return a layer without places (flags, environment, defaults)."""
        return cls(name, Document(file=name, value=dict(value), spans={}, key_spans={}))


@dataclass(frozen=True, slots=True)
class Origin:
    """Which layer set a value, and where in its file."""

    layer: str
    span: Span | None = None

    def __str__(self) -> str:
        return f"{self.layer} ({self.span.file}:{self.span.line})" if self.span else self.layer


@dataclass(frozen=True, slots=True)
class Layered:
    """The merged configuration: nested plain `values` with every key of the schema, and origins."""

    values: dict[str, Any]
    origins: Mapping[KeyPath, Origin] = field(default_factory=dict)

    def origin(self, *path: str) -> Origin:
        """Return who set the value at `path`."""
        return self.origins.get(path, Origin("default"))


def layered(schema: Schema, sources: Sequence[Source]) -> Layered:
    """Return defaults overridden by `sources`, weakest first; mappings merge, lists are replaced.

    Raises:
        ConfigError: C020 unknown key, C021 wrong type, C022 value not allowed.
    """
    merge = _Merge()
    values = _defaults(schema)
    for source in sources:
        document = source.document
        if document.value is None:
            continue
        if not isinstance(document.value, dict):
            merge.fail("C021", "a configuration file holds key: value pairs", document.span())
            continue
        merge.into(values, schema, document.value, (), source)
    if merge.problems:
        raise ConfigError(merge.problems)
    return Layered(values, merge.origins)


def _defaults(schema: Schema) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, rule in schema.items():
        if isinstance(rule, Key):
            found[name] = rule.default
        else:
            found[name] = {} if isinstance(rule, Table) else _defaults(rule)
    return found


class _Merge:
    def __init__(self) -> None:
        self.problems: list[Diagnostic] = []
        self.origins: dict[KeyPath, Origin] = {}

    def fail(self, code: str, message: str, span: Span | None, *, help: str = "") -> None:
        self.problems.append(Diagnostic(code=code, message=message, span=span, help=help))

    def into(
        self,
        values: dict[str, Any],
        schema: Schema,
        given: Mapping[Any, Any],
        path: KeyPath,
        source: Source,
    ) -> None:
        for name, value in given.items():
            here = (*path, name)
            rule = schema.get(name)
            if rule is None:
                key_span = _place(source, here, key=True)
                dotted = ".".join(str(p) for p in here)
                near = closest(str(name), schema)
                self.fail("C020", f"unknown key {dotted!r}{near}", key_span, help=_known(schema))
            elif isinstance(rule, Key):
                self._leaf(values, rule, value, here, source)
            elif not isinstance(value, dict):
                dotted = ".".join(str(p) for p in here)
                self.fail("C021", f"{dotted} holds key: value pairs", _place(source, here))
            elif isinstance(rule, Table):
                for entry, inner in value.items():
                    target = values[name].setdefault(entry, _defaults(rule.entry))
                    if isinstance(inner, dict):
                        self.into(target, rule.entry, inner, (*here, entry), source)
                    elif inner is not None:
                        span = _place(source, (*here, entry))
                        self.fail("C021", f"{entry} holds key: value pairs", span)
            else:
                self.into(values[name], rule, value, here, source)

    def _leaf(
        self, values: dict[str, Any], rule: Key, value: Any, path: KeyPath, source: Source
    ) -> None:
        span = _place(source, path)
        problem = check_value(rule, value)
        if problem:
            code, text = problem
            by = "" if span else f" (set by {source.name})"
            self.fail(code, f"{'.'.join(str(p) for p in path)}: {text}{by}", span)
            return
        if rule.kind == "float" and isinstance(value, int):
            value = float(value)
        if rule.kind == "map" and isinstance(values.get(str(path[-1])), dict) and value is not None:
            value = {**values[str(path[-1])], **value}
        values[str(path[-1])] = value
        self.origins[path] = Origin(source.name, span)


def check_value(rule: Key, value: Any) -> tuple[str, str] | None:
    """Return (code, what is wrong) or None when `value` is allowed."""
    if value is None:
        return None if rule.default is None else ("C021", "null is not allowed here")
    wrong_bool = isinstance(value, bool) and rule.kind in ("int", "float")
    if wrong_bool or not isinstance(value, _PYTHON[rule.kind]):
        return "C021", f"expected {_ARTICLE[rule.kind]}, found {_shown(rule, value)}"
    if isinstance(value, float) and not math.isfinite(value):
        return "C022", f"{value} is not a finite number"
    if rule.choices and value not in rule.choices:
        names = ", ".join(str(c) for c in rule.choices)
        near = closest(str(value), [str(c) for c in rule.choices])
        return "C022", f"{_shown(rule, value)} is not one of {names}{near}"
    if rule.minimum is not None and float(value) < rule.minimum:
        return "C022", f"{value} is below the minimum {rule.minimum:g}"
    return None


def parse_text(rule: Key, text: str) -> Any:
    """Return the value an environment variable or flag means; the text itself when it is malformed."""
    try:
        if rule.kind == "int":
            return int(text)
        if rule.kind == "float":
            return float(text)
    except ValueError:
        return text
    if rule.kind == "bool":
        return {"1": True, "true": True, "0": False, "false": False}.get(text.lower(), text)
    return text


_ARTICLE: Mapping[str, str] = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list",
    "map": "key: value pairs",
    "any": "a value",
}


def _shown(rule: Key, value: Any) -> str:
    return "a secret" if rule.secret else repr(value)


def _known(schema: Schema) -> str:
    return f"known keys: {', '.join(schema)}"


def _place(source: Source, path: KeyPath, *, key: bool = False) -> Span | None:
    document = source.document
    if not document.spans:
        return None
    return document.key_span(*path) if key else document.span(*path)
