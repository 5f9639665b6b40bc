"""The package's source files as syntax trees, for tests about the whole package."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "septran"


@dataclass(frozen=True)
class Import:
    module: str
    line: int
    at_start: bool  # runs when the module is imported


def files() -> list[Path]:
    return [p for p in sorted(PACKAGE.rglob("*.py")) if "_data" not in p.parts]


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of a file; nobody changes it."""
    return parsed(path.read_text(encoding="utf-8"))


@cache
def parsed(text: str) -> ast.Module:
    """The syntax tree of a text; nobody changes it."""
    return ast.parse(text)


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Every statement of a tree: a tenth of its nodes."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.stmt):
            yield child
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from statements(child)


def imports(path: Path, text: str | None = None) -> tuple[Import, ...]:
    return _read(path) if text is None else tuple(_imports(parsed(text).body, at_start=True))


@cache
def _read(path: Path) -> tuple[Import, ...]:
    return imports(path, path.read_text(encoding="utf-8"))


def _imports(body: list[ast.stmt], *, at_start: bool) -> Iterator[Import]:
    for node in body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, at_start)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield Import(node.module, node.lineno, at_start)
            for alias in node.names:
                yield Import(f"{node.module}.{alias.name}", node.lineno, at_start)
        else:
            typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
            deferred = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            inner = at_start and not typing_only and not deferred
            for name in ("body", "orelse", "finalbody"):
                yield from _imports(getattr(node, name, []), at_start=inner)
            for handler in getattr(node, "handlers", []):
                yield from _imports(handler.body, at_start=inner)
