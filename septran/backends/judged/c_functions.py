"""What was read of a C++ file."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from septran.backends.judged.values import Value


@dataclass(frozen=True, slots=True)
class CParameter:
    """A parameter; type: its words, with `*` for an address."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class CSource:
    """A function. marks: words before its name. templates: names of template parameters. unread: why its body is not known."""

    name: str
    line: int
    marks: frozenset[str]
    templates: tuple[str, ...]
    params: tuple[CParameter, ...]
    body: tuple[ast.stmt, ...]
    unread: str = ""


@dataclass(frozen=True, slots=True)
class CFile:
    """Functions by name, and declarations at file level."""

    functions: dict[str, CSource]
    declared: tuple[ast.stmt, ...]


@dataclass(frozen=True, slots=True)
class Closure:
    """A lambda. env, depth: where it was made; refers: it captures by reference, and sees what its names are when it is called."""

    source: CSource
    env: dict[str, Value]
    depth: int
    refers: bool
