"""No module imports itself in a roundabout way, late imports counted; two circles inside one program are known."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.packaging.sources import PACKAGE, files, parsed, statements

# both for types only
HARMLESS = {
    frozenset({"septran.backends.tilesim.buffers", "septran.backends.tilesim.lanes"}),
    frozenset({"septran.tasklang.reader", "septran.tasklang.remote"}),
}


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def graph(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Return module -> the modules whose names it uses; module: dotted name, source: its text."""
    return {name: set(_used(name, text, sources.keys())) for name, text in sources.items()}


def _used(name: str, text: str, known: object) -> Iterator[str]:
    assert hasattr(known, "__contains__")
    package = name.rpartition(".")[0]
    for node in statements(parsed(text)):
        targets: list[str] = []
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:  # simulators run alone and import their neighbours
                base = ".".join(filter(None, (package, node.module)))
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                targets.append(inner if inner in known else base)
        yield from (t for t in targets if t in known and t != name)


def circles(edges: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """Return the sets of modules that reach each other."""
    reach = {name: _reached(name, edges) for name in edges}
    return {
        frozenset({name, *(other for other in found if name in reach[other])})
        for name, found in reach.items()
        if name in found
    }


def _reached(start: str, edges: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    todo = list(edges[start])
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += edges.get(name, ())
    return found


def test_there_is_no_circle_but_the_harmless_ones():
    sources = {name_of(path): path.read_text(encoding="utf-8") for path in files()}
    assert circles(graph(sources)) == HARMLESS


def test_a_planted_circle_is_found():
    sources = {
        "septran.a": "from septran import b",
        "septran.b": "def f():\n    from septran.c import x",
        "septran.c": "import septran.a",
        "septran.d": "from septran import a",
    }
    assert circles(graph(sources)) == {frozenset({"septran.a", "septran.b", "septran.c"})}
