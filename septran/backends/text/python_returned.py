"""Which of its parameters a Python function gives back: only such a one can be a place for results of a function that returns some."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def given_back(node: ast.FunctionDef) -> tuple[str, ...] | None:
    """Return the parameters that what it returns is, or a view of, also through its variables; None where it returns nothing."""
    inside = [n for stmt in node.body for n in _of_function(stmt)]
    values = [n.value for n in inside if isinstance(n, ast.Return) and n.value is not None]
    values = [v for v in values if not isinstance(v, ast.Constant) and not _is_launch(v)]
    if not values:
        return None
    named: dict[str, set[str]] = {}
    for each in inside:
        if isinstance(each, ast.Assign):
            for target in each.targets:
                for part in ast.walk(target):
                    if isinstance(part, ast.Name):
                        named.setdefault(part.id, set()).update(_roots(each.value))
    found = {root for value in values for root in _roots(value)}
    grew = True
    while grew:
        more = {root for name in found for root in named.get(name, ())} - found
        found |= more
        grew = bool(more)
    a = node.args
    return tuple(p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs) if p.arg in found)


def _is_launch(node: ast.expr) -> bool:
    """Whether a value is `kernel[grid](..)`, which is no tensor."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)


def _roots(node: ast.expr) -> Iterator[str]:
    """Yield the names that a value is, or is made of by methods, attributes and elements: `out.view(n)[0]` is of `out`."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call, ast.Starred)):
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, (ast.Tuple, ast.List)):
        for part in node.elts:
            yield from _roots(part)
    elif isinstance(node, ast.IfExp):
        yield from (*_roots(node.body), *_roots(node.orelse))
    elif isinstance(node, ast.Dict):
        for value in node.values:
            yield from _roots(value)


def _of_function(node: ast.AST) -> Iterator[ast.AST]:
    """Walk a statement of a function, but not into what is defined in it."""
    yield node
    if not isinstance(node, _INNER):
        for child in ast.iter_child_nodes(node):
            yield from _of_function(child)
