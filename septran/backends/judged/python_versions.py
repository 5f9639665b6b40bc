"""Versions that a judged Python file asks for: of which packages, and which answers make its comparisons come out otherwise.

A run shows one version only. What a file compares a version with is written in it, so it is judged again with a version below, at and
above each number that it writes.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from importlib import metadata

from septran.backends.base import Reading

PACKAGES = ("triton", "torch", "tilelang")
IMPORTS = frozenset({"importlib", "importlib.metadata", "packaging", "packaging.version"})
ATTRIBUTES = frozenset(f"{package}.__version__" for package in PACKAGES)
"""what a file says that asks for versions, where each answer is judged: imports, and attributes that are refused otherwise"""
ONLY: Mapping[str, frozenset[str]] = {
    "importlib": frozenset({"import_module", "metadata"}),
    "importlib.metadata": frozenset({"version", "PackageNotFoundError"}),
    "packaging": frozenset({"version"}),
    "packaging.version": frozenset({"Version", "parse", "InvalidVersion"}),
}
"""all that such files may use of modules that hold more"""
CALLED = frozenset({"importlib.import_module", "importlib.metadata.version"})
"""what answers for versions only where the file itself calls it"""
_ASKS = re.compile(r"\b__version__\b|\bmetadata\b")
_NUMBER = re.compile(r"\d{1,4}(?:\.\d{1,6}){0,3}")
_MOST = 8
_USUAL = {
    "triton": ("2.3.1", "3.0.0", "3.3.1", "3.5.1", "4.0.0"),
    "torch": ("2.1.2", "2.4.1", "2.6.0", "2.9.1", "3.0.0"),
    "tilelang": ("0.1.5", "0.1.12", "0.2.0"),
}
"""what is tried of files that compare a version with nothing written out"""
_Version = tuple[int, ...]


def packages_asked(text: str) -> tuple[str, ...]:
    """Return the packages whose version a text may ask for."""
    if not _ASKS.search(text):
        return ()
    tree = ast.parse(text)
    asks_by_name = any(
        (isinstance(n, ast.Attribute) and n.attr in ("import_module", "metadata"))
        or (isinstance(n, ast.ImportFrom) and str(n.module).startswith("importlib"))
        for n in ast.walk(tree)
    )  # fmt: skip
    named = {
        *(ast.unparse(n.value) for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr == "__version__"),
        *(str(n.module) for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and any(a.name == "__version__" for a in n.names)),
    }  # fmt: skip
    named -= _by_name(tree)
    if named - {*PACKAGES}:  # of something that may be any of them
        named |= {*_imported(tree)}
    texts = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}
    return tuple(p for p in PACKAGES if p in named or (asks_by_name and p in texts))


def _by_name(tree: ast.Module) -> set[str]:
    """Return the variables that only `import_module(..)` gives a value."""
    given: list[str] = []
    bound = [n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)]
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=called)):
                given += [name] * ast.unparse(called).endswith("import_module")
            case ast.Name(id=name, ctx=ast.Store()):
                bound.append(name)
    return {name for name in given if bound.count(name) == given.count(name)}


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (a.name.partition(".")[0] for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module).partition(".")[0]


def other_versions(text: str) -> tuple[Reading, ...]:
    """Return the text once for each answer, besides what is installed, that its comparisons of versions may tell from it."""
    found = [
        Reading(f"{package} is {version}", text, versions=((package, version),))
        for package in packages_asked(text)
        for version in _answers(text, package)
    ]
    return tuple(found[:_MOST])


def _answers(text: str, package: str) -> Iterator[str]:
    installed = _installed(package)
    numbers = sorted({*_numbers(text)})
    if not numbers:
        yield from (v for v in _USUAL[package] if _read(v) != installed)
        return
    seen = {_class(installed, numbers)}
    for number in (*(each for n in numbers for each in (_below(n), n)), _above(numbers[-1])):
        if (kind := _class(number, numbers)) not in seen:
            seen.add(kind)
            yield ".".join(map(str, number))


def _numbers(text: str) -> Iterator[_Version]:
    """Yield the versions that a text writes: "3.0.0", or (3, 0) in a comparison."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Constant(value=str(word)) if _NUMBER.fullmatch(word.strip()):
                yield _read(word.strip())
            case ast.Compare():
                for side in (node.left, *node.comparators):
                    plain = side.elts if isinstance(side, ast.Tuple) else []
                    parts = [e.value for e in plain if isinstance(e, ast.Constant)]
                    if 1 < len(parts) == len(plain) and all(type(p) is int for p in parts):
                        yield _read(".".join(map(str, parts)))


def _read(version: str) -> _Version:
    """Return the numbers of a version, three at least: 3.0 is 3.0.0."""
    match = _NUMBER.match(version)
    found = [int(part) for part in match[0].split(".")] if match else []
    return tuple([*found, 0, 0, 0][: max(3, len(found))])


def _installed(package: str) -> _Version:
    try:
        return _read(metadata.version(package))
    except metadata.PackageNotFoundError:
        return (0, 0, 0)


def _class(version: _Version, numbers: list[_Version]) -> tuple[int, bool]:
    """Return where a version lies among those that a text has: before which, and whether it is that one."""
    at = bisect_left(numbers, version)
    return at, at < len(numbers) and numbers[at] == version


def _below(number: _Version) -> _Version:
    """Return a version just below: 3.0.9 for 3.1.0, 2.9.9 for 3.0.0."""
    last = max((k for k, part in enumerate(number) if part), default=0)
    return (*number[:last], max(0, number[last] - 1), *[9] * (len(number) - last - 1))


def _above(number: _Version) -> _Version:
    return (*number[:-1], number[-1] + 1)
