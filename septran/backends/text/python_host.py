"""What of somebody's Python file its host function needs, and which function that may be.

A tutorial's file also holds its demonstration: sizes, plots and benchmarks at module level. Only the statements
that the entry depends on are run; the others become empty lines, so line numbers stay.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from septran.backends.text.python_module import (
    heads,
    own_decorators,
    placed,
    plain_decorators,
    statements,
    undecorated,
)
from septran.backends.text.python_reduced import reduced
from septran.backends.text.python_returned import given_back

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_CHANGES = (
    "append",
    "extend",
    "update",
    "setdefault",
    "add",
    "insert",
    "pop",
    "popitem",
    "remove",
    "clear",
)
_SETS = ("set_allocator",)
"""what is called at module level for all launches that follow"""
_CACHES = ("lru_cache", "cache", "cached_property")
_PLAIN_DECORATORS = ("no_grad", "inference_mode", "contiguous", "torch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A function that may be the host. params: (name, has a default); then `*args` with its star, and `=name` of those by name only. gives: as `given_back`."""

    name: str
    line: int
    params: tuple[tuple[str, bool], ...]
    gives: tuple[str, ...] | None = None


Stars = Mapping[str, tuple[str, ...]]
"""Modules of which a file may import everything, and what that is."""
NO_STARS: Stars = {}


def host_functions(
    text: str, kernel: Callable[[ast.AST], bool], launches: Callable[[ast.AST], bool]
) -> tuple[Found, ...]:
    """Return the functions at module level that launch device code, also through others; not those others.

    Functions under decorators that the file defines itself are meant where there are no others. So is `name = X.apply` of an autograd function X whose `forward` launches, and X itself where nothing calls it.

    kernel: whether a function is device code. launches: whether an expression is a launch.

    Raises:
        SyntaxError: it is no Python.
    """
    tree = ast.parse(text)
    same = plain_decorators(tree)
    return _hosts(tree, text, kernel, launches, same) or _hosts(
        tree, text, kernel, launches, same | own_decorators(tree)
    )


def _hosts(
    tree: ast.Module,
    text: str,
    kernel: Callable[[ast.AST], bool],
    launches: Callable[[ast.AST], bool],
    same: set[int],
) -> tuple[Found, ...]:
    """Return what `host_functions` does. same: ids of decorators that leave a function what it is."""
    plain: dict[str, ast.FunctionDef] = {}
    for node in statements(tree):
        if isinstance(node, ast.FunctionDef) and not kernel(node) and is_plain(node, same):
            before = plain.get(node.name)
            # where a file has one for machines without a GPU besides, it is the one that launches
            if before is None or any(map(launches, ast.walk(node))) or not any(map(launches, ast.walk(before))):  # fmt: skip
                plain[node.name] = node
    own = _autograd(tree)
    inner_of = {**plain, **own}
    calls = {name: _free(node) & inner_of.keys() - {name} for name, node in inner_of.items()}
    direct = {n for n, node in inner_of.items() if any(launches(e) for e in ast.walk(node))}
    reached = _closure(calls, direct)
    hosts = [n for n in plain if n in reached and not is_test(n)]
    inner = {c for n in (*hosts, *(n for n in own if n in reached)) for c in calls[n]}
    found = [
        Found(
            name=n,
            line=plain[n].lineno,
            params=_params(plain[n]),
            gives=given_back(plain[n]),
        )
        for n in hosts
        if n not in inner
    ]
    for name, line, of in _applied(tree):
        if of in reached and of not in inner and not any(name in calls[n] for n in hosts):
            found.append(Found(name=name, line=line, params=_params(own[of])[1:]))
    used = inner | {of for _, _, of in _applied(tree)}
    classes = (autograd_class(text, name) for name in own if name in reached and name not in used)
    return (*found, *filter(None, classes))


def _autograd(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    """Return the `forward` of each class `X(torch.autograd.Function)`."""
    return {
        node.name: inner
        for node in statements(tree)
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(b).rpartition(".")[2] == "Function" for b in node.bases)
        for inner in node.body
        if isinstance(inner, ast.FunctionDef) and inner.name == "forward"
    }


def autograd_class(text: str, name: str) -> Found | None:
    """Return an autograd function with the parameters of its `apply`, None when the file has none of that name."""
    tree = ast.parse(text)
    forward = _autograd(tree).get(name)
    if forward is None:
        return None
    line = next(
        n.lineno for n in statements(tree) if isinstance(n, ast.ClassDef) and n.name == name
    )
    return Found(name=name, line=line, params=_params(forward)[1:])


def _applied(tree: ast.Module) -> Iterator[tuple[str, int, str]]:
    """Yield (name, line, class) of each `name = X.apply` at module level, X an autograd function."""
    own = _autograd(tree)
    for node in statements(tree):
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Attribute(value=ast.Name(id=of), attr="apply"),
            ) if of in own:
                yield name, node.lineno, of


def decorators(node: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    """Yield the last word of each decorator, and the decorator."""
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        yield (
            called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", ""),
            decorator,
        )


def any_function(text: str, name: str) -> Found | None:
    """Return the function `name` of the file, None when there is none.

    Raises:
        SyntaxError: it is no Python.
    """
    for node in reversed(
        [*statements(ast.parse(text))]
    ):  # of two of one name the last is the module's
        if isinstance(node, ast.FunctionDef) and node.name == name:
            params = _params(node)
            return Found(name=name, line=node.lineno, params=params, gives=given_back(node))
    tree = ast.parse(text)
    for applied, line, of in _applied(tree):
        if applied == name:
            return Found(name=name, line=line, params=_params(_autograd(tree)[of])[1:])
    return None


def module_class(text: str, name: str) -> Found | None:
    """Return the class `name` with the parameters of its `forward`, None when the file has none.

    Raises:
        SyntaxError: it is no Python.
    """
    for node in statements(ast.parse(text)):
        if isinstance(node, ast.ClassDef) and node.name == name:
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef) and inner.name == "forward":
                    return Found(name=name, line=node.lineno, params=_params(inner)[1:])
    return None


def opened(text: str, stars: Stars) -> str:
    """Return the text with each `from module import *` written out, of modules that `stars` knows."""
    lines = text.splitlines()
    for node in ast.parse(text).body if stars else ():
        match node:
            case ast.ImportFrom(module=str(module), names=[ast.alias(name="*")]) if module in stars:
                lines[node.lineno - 1] = f"from {module} import {', '.join(stars[module])}"
    return "\n".join(lines) + "\n"


def needed(text: str, entry: str, stars: Stars = NO_STARS) -> tuple[str, tuple[str, ...]]:
    """Return the text with the statements that `entry` does not need made empty, and "lines A-B" of those.

    Imports stay when something that is kept uses them, and of `from module import a, b` the names that something does.
    """
    text = undecorated(opened(text, stars))
    tree = ast.parse(text)
    keep, wanted = _kept(tree, entry)
    kept, out = reduced(text, tree, keep, wanted)
    return kept, tuple(_ranges(out))


def defined_names(tree: ast.Module) -> set[str]:
    """Return the names that a module binds."""
    return {name for node in tree.body for name in _defines(node)}


def used_names(tree: ast.AST) -> set[str]:
    """Return the names that a text reads, wherever they are from."""
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def changed_inside(text: str) -> tuple[str, ...]:
    """Return the names of a module that its functions bind again or whose objects they change: they live from call to call."""
    tree = ast.parse(text)
    own = defined_names(tree)
    found: set[str] = set()
    for function in (n for n in ast.walk(tree) if isinstance(n, _FUNCTIONS)):
        found |= set(_kept_by(function))
        for node in ast.walk(function):
            if isinstance(node, (ast.Global, ast.Nonlocal)):
                found |= set(node.names)
            elif isinstance(node, ast.Call):
                changed = root_of(node.func) if getattr(node.func, "attr", "") in _CHANGES else ""
                if getattr(node.func, "id", "") == "next" and node.args:
                    changed = root_of(node.args[0])
                found |= {changed} & own
            elif isinstance(node, ast.stmt):
                found |= _touches(node) & (own if function.name == "__init__" else {*own, "self"})
    return tuple(sorted(found))


def _kept_by(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Yield what a function keeps from call to call: itself where it is cached, defaults that can be changed."""
    for decorator in function.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if ast.unparse(called).rpartition(".")[2] in _CACHES:
            yield function.name
    given = function.args
    named = (*given.posonlyargs, *given.args)
    defaults = given.defaults
    pairs = [*zip(named[len(named) - len(defaults) :], defaults, strict=True)]
    pairs += [(a, d) for a, d in zip(given.kwonlyargs, given.kw_defaults, strict=True) if d]
    for arg, default in pairs:
        if isinstance(default, (ast.List, ast.Dict, ast.Set, ast.Call)):
            yield arg.arg


def _kept(tree: ast.Module, entry: str) -> tuple[set[ast.stmt], set[str]]:
    """Return the statements that `entry` needs, and all that change a name which they need; and these names."""
    parts = [*placed(tree.body)]
    assigned = {n for node, _ in parts if not _is_import(node) for n in _defines(node)}
    keep: set[ast.stmt] = set()
    answers: set[ast.stmt] = set()  # to the errors of what is kept
    wanted, grew = {entry}, True
    while grew:
        grew = False
        for node, inside in parts:
            if node in keep:
                continue
            named = (
                _defines(node) & wanted or _touches(node) & wanted & assigned or _is_setting(node)
            )
            future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
            if named or future or node in answers:
                keep.add(node)
                wanted |= set() if _is_import(node) else _free(node)
                for each in inside:
                    wanted = wanted.union(*map(_free, heads(each)))
                    answers |= {s for h in getattr(each, "handlers", ()) for s in h.body}
                grew = True
    return keep, wanted


def _is_setting(node: ast.stmt) -> bool:
    match node:
        case ast.Expr(ast.Call(ast.Attribute(attr=word) | ast.Name(id=word))):
            return word in _SETS
    return False


def _defines(node: ast.AST) -> set[str]:
    """Return the names that a statement binds."""
    if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {a.asname or a.name.split(".")[0] for a in node.names}
    found = {
        n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    if isinstance(node, (ast.If, ast.Try, ast.With, ast.For, ast.While)):
        inner = [n for part in ast.iter_child_nodes(node) for n in ast.walk(part)]
        kinds = (*_FUNCTIONS, ast.ClassDef, ast.Import, ast.ImportFrom)
        for each in inner:
            if isinstance(each, kinds):
                found |= _defines(each)
    return found


def _touches(node: ast.stmt) -> set[str]:
    """Return the names of objects that a statement changes: `x[k] = v`, `x.a = v`, `x.append(v)`."""
    if isinstance(node, (ast.Assign, ast.AugAssign)):
        targets: Sequence[ast.expr] = (
            node.targets if isinstance(node, ast.Assign) else [node.target]
        )
        return {
            r
            for t in targets
            if isinstance(t, (ast.Subscript, ast.Attribute)) and (r := root_of(t))
        }
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        func = node.value.func
        known = isinstance(func, ast.Attribute) and func.attr in _CHANGES
        return {root_of(func)} - {""} if known else set()
    return set()


def root_of(node: ast.expr) -> str:
    """Return the name that an attribute or an element begins with, "" for none."""
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _free(node: ast.AST) -> set[str]:
    """Return the names that a statement reads from the module; those that functions in it bind themselves are theirs.

    A script's own `if __name__ == "__main__":` binds names that functions have for parameters.
    """
    if not isinstance(node, (*_FUNCTIONS, ast.Lambda)):
        own = {node.id} if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) else set()
        return own.union(*map(_free, ast.iter_child_nodes(node)))
    a, body = node.args, node.body if isinstance(node.body, list) else [node.body]
    params = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
    outside = [*a.defaults, *filter(None, a.kw_defaults), *(p.annotation for p in params if p.annotation)]  # fmt: skip
    if not isinstance(node, ast.Lambda):
        outside += [*node.decorator_list, *filter(None, (node.returns,))]
    inside = [n for part in body for n in _of_function(part)]
    shared = {name for n in inside if isinstance(n, ast.Global) for name in n.names}
    bound = {p.arg for p in params}.union(*map(_binds, inside)) - shared
    read = shared.union(*map(_free, body)) - bound
    return read.union(*map(_free, outside))


def _binds(node: ast.AST) -> set[str]:
    """Return the names that one node binds, without those in it."""
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Store) else set()
    if isinstance(node, ast.ExceptHandler):
        return {node.name} if node.name else set()
    kinds = (*_FUNCTIONS, ast.ClassDef, ast.Import, ast.ImportFrom)
    return _defines(node) if isinstance(node, kinds) else set()


def _of_function(node: ast.AST) -> Iterator[ast.AST]:
    """Walk a function's statement, but not into the functions in it."""
    yield node
    if not isinstance(node, (*_FUNCTIONS, ast.Lambda, ast.ClassDef)):
        for child in ast.iter_child_nodes(node):
            yield from _of_function(child)


def _closure(calls: Mapping[str, set[str]], direct: set[str]) -> set[str]:
    found, grew = set(direct), True
    while grew:
        more = {n for n, called in calls.items() if called & found} - found
        found |= more
        grew = bool(more)
    return found


def is_plain(node: ast.FunctionDef, same: set[int]) -> bool:
    """Whether a function's decorators leave it what it is. same: ids of decorators that do."""
    others = [n for d in node.decorator_list if id(d) not in same for n in ast.walk(d)]
    words = {n.attr for n in others if isinstance(n, ast.Attribute)}
    words |= {n.id for n in others if isinstance(n, ast.Name)}
    return words <= set(_PLAIN_DECORATORS)


def is_test(name: str) -> bool:
    """Whether a function is named as a demonstration, a benchmark or a test."""
    return name == "main" or name.startswith(
        ("test", "bench", "_test", "_bench", "run_bench", "run_test", "run_regression", "check_")
    )


def _is_import(node: ast.AST) -> bool:
    return isinstance(node, (ast.Import, ast.ImportFrom))


def _params(node: ast.FunctionDef) -> tuple[tuple[str, bool], ...]:
    args = [*node.args.posonlyargs, *node.args.args]
    first = len(args) - len(node.args.defaults)
    named = tuple((a.arg, k >= first) for k, a in enumerate(args))
    more = ((f"*{node.args.vararg.arg}", True),) if node.args.vararg else ()
    only = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    return (*named, *more, *((f"={a.arg}", d is not None) for a, d in only))


def _ranges(spans: Sequence[tuple[int, int]]) -> Iterator[str]:
    merged: list[list[int]] = []
    for first, last in spans:
        if merged and first <= merged[-1][1] + 3:
            merged[-1][1] = last
        else:
            merged.append([first, last])
    for first, last in merged:
        yield f"line {first}" if first == last else f"lines {first}-{last}"
