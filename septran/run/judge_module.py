"""What the object of a judged module is made with: the reference's `get_init_inputs`, as its text says it."""

from __future__ import annotations

import ast
from pathlib import Path

from septran.backends.base import Passed
from septran.errors import ConfigError, Span


def made_with(reference: Path) -> tuple[Passed, ...]:
    """Return the arguments of the module's class.

    Raises:
        ConfigError: C173, they are no plain values in the reference's text.
    """
    tree = ast.parse(reference.read_text(encoding="utf-8"))
    named: dict[str, object] = {}
    for stmt in tree.body:
        if isinstance(stmt, ast.Assign) and isinstance(stmt.targets[0], ast.Name):
            named[stmt.targets[0].id] = _plain(stmt.value, named)
        if isinstance(stmt, ast.FunctionDef) and stmt.name == "get_init_inputs":
            last = stmt.body[-1]
            value = _plain(last.value, named) if isinstance(last, ast.Return) else _UNKNOWN
            if isinstance(value, list | tuple):
                return tuple(Passed(value=v) for v in value)
            raise ConfigError.of(
                "C173",
                f"{reference}: get_init_inputs does not return plain values",
                Span(str(reference), stmt.lineno),
            )
    return ()


_UNKNOWN = object()


def _plain(node: ast.expr | None, named: dict[str, object]) -> object:
    if isinstance(node, ast.Name):
        return named.get(node.id, _UNKNOWN)
    if isinstance(node, ast.List | ast.Tuple):
        parts = [_plain(e, named) for e in node.elts]
        return _UNKNOWN if any(p is _UNKNOWN for p in parts) else parts
    try:
        return ast.literal_eval(node) if node is not None else _UNKNOWN
    except ValueError:
        return _UNKNOWN
