"""Which names in a Python text are some function's own, whatever else has that name."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def local_names(tree: ast.AST) -> set[int]:
    """Return the ids of all `ast.Name` nodes that mean a parameter or a local variable of a function.

    Such a name never means a builtin: Python decides for a whole function whether a name is its own. Names of a module or a
    class are not counted, as whether they are bound shows only when the text runs.
    """
    found: set[int] = set()
    _visit(tree, frozenset(), found)
    return found


def _visit(node: ast.AST, bound: frozenset[str], found: set[int]) -> None:
    if isinstance(node, ast.Name) and node.id in bound:
        found.add(id(node))
    if isinstance(node, _FUNCTIONS):
        a = node.args
        params = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
        outside: list[ast.AST] = [*a.defaults, *filter(None, a.kw_defaults)]
        outside += [p.annotation for p in params if p.annotation]
        outside += [
            *getattr(node, "decorator_list", ()),
            *filter(None, [getattr(node, "returns", None)]),
        ]
        for each in outside:
            _visit(each, bound, found)
        body: list[ast.AST] = [*node.body] if isinstance(node.body, list) else [node.body]
        inside = [n for part in body for n in _of_scope(part)]
        others = {name for n in inside if isinstance(n, ast.Global) for name in n.names}
        own = {p.arg for p in params}.union(*map(_binds, inside))
        for part in body:
            _visit(part, (bound | own) - others, found)
    elif isinstance(node, _COMPREHENSIONS):
        own = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
        _visit(node.generators[0].iter, bound, found)
        first = id(node.generators[0].iter)
        for child in ast.iter_child_nodes(node):
            parts = ast.iter_child_nodes(child) if isinstance(child, ast.comprehension) else [child]
            for part in parts:
                if id(part) != first:
                    _visit(part, bound | own, found)
    else:
        for child in ast.iter_child_nodes(node):
            _visit(child, bound, found)


def _of_scope(node: ast.AST) -> Iterator[ast.AST]:
    """Walk a statement of a function, but not into scopes inside of it."""
    yield node
    if not isinstance(node, (*_FUNCTIONS, *_COMPREHENSIONS, ast.ClassDef)):
        for child in ast.iter_child_nodes(node):
            yield from _of_scope(child)


def _binds(node: ast.AST) -> set[str]:
    """Return the names that one node binds."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            return {name}
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.ExceptHandler(name=str(name)):
            return {name}
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return {a.asname or a.name.partition(".")[0] for a in names}
    return set()
