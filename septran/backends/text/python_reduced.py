"""A Python module's text without the statements that are not needed; lines stay."""

from __future__ import annotations

import ast
from collections.abc import Sequence, Set

from septran.backends.text.python_module import bodies, placed


def reduced(
    text: str, tree: ast.Module, keep: Set[ast.stmt], wanted: Set[str]
) -> tuple[str, list[tuple[int, int]]]:
    """Return the text with all of the module's statements empty that are not in `keep`, and the (first, last) lines of those that are no imports.

    wanted: names that something kept uses: of `from module import a, b` the others go.
    """
    lines = text.splitlines()
    out: list[tuple[int, int]] = []
    parts = [*placed(tree.body)]
    around = {id(each) for node, inside in parts if node in keep for each in inside}
    gone: set[int] = set()
    for node, inside in parts:
        empty = next((each for each in inside if id(each) not in around), node)
        if node in keep:
            if isinstance(node, ast.ImportFrom):
                _only(lines, node, wanted)
        elif not _is_docstring(node) and id(empty) not in gone:
            gone.add(id(empty))
            span = _emptied(lines, empty)
            out += [] if isinstance(node, (ast.Import, ast.ImportFrom)) else [span]
    _fill(lines, tree.body, keep, around)
    return "\n".join(lines) + "\n", out


def _emptied(lines: list[str], node: ast.stmt) -> tuple[int, int]:
    """Make a statement's lines empty, and `else: statement` one that does nothing; return the first and the last."""
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
    last = node.end_lineno or first
    before = lines[first - 1][: node.col_offset].rstrip()
    lines[first - 1 : last] = [""] * (last - first + 1)
    if first == node.lineno and before.endswith(":"):
        lines[first - 1] = f"{before} pass"
    return first, last


def _only(lines: list[str], node: ast.ImportFrom, wanted: Set[str]) -> None:
    """Leave of an import that has its lines to itself the names that are wanted."""
    names = [a for a in node.names if (a.asname or a.name) in wanted]
    last = node.end_lineno or node.lineno
    around = lines[node.lineno - 1][: node.col_offset] + lines[last - 1][node.end_col_offset :]
    if names and node.module != "__future__" and not around.partition("#")[0].strip():
        text = ast.unparse(ast.ImportFrom(node.module, names, node.level))
        rest = [""] * (last - node.lineno)
        lines[node.lineno - 1 : last] = [" " * node.col_offset + text, *rest]


def _fill(
    lines: list[str], body: Sequence[ast.stmt], keep: Set[ast.stmt], around: Set[int]
) -> None:
    """Write `pass` where nothing is left of a list of statements in what stays."""
    for node in body:
        for part in bodies(node) if id(node) in around else ():
            first = part[0] if part else None
            lives = any(s in keep or id(s) in around or _is_docstring(s) for s in part)
            chained = isinstance(first, ast.If) and first.col_offset == node.col_offset  # `elif`
            if first is not None and not lives and not chained and not lines[first.lineno - 1]:
                lines[first.lineno - 1] = " " * first.col_offset + "pass"
            _fill(lines, part, keep, around)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
