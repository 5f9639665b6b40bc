"""Files that lie beside a judged Python file, or in its package, and that it imports names from: put in before it, so that every check reads them.

What is run is one module, as if its author had written it in one file; so one name may not mean two things. Of a file beside it only
what the imported names need is kept.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from septran.backends.base import Beside, Merged, Unjudged
from septran.backends.text.python_host import defined_names, needed, used_names

_MOST = 32
"""Files beside it, at most."""


def merged(file: Path, text: str, beside: Beside) -> Merged:
    """Return a Python file's text after the files in its folder, and below, and in its package, that it imports names from.

    `from .x import a` and `from x import a` name x.py beside the file that says so, `from ..x import a` one in the folder above where both are
    of one package (folders with an __init__.py), `from pkg.sub.x import a` the one of that package, or of one whose
    folders end in that of the judged file; of a folder its __init__.py. Any other import stays, and is judged by the rules for imports.

    Raises:
        Unjudged: a file beside it is no Python or behind a link, there are too many, or one name means two things in them.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Merged(text)  # its own error says more
    reader = _Reader(file, beside)
    if not any(reader.beside(file, node) for node in _imports(tree)):
        return Merged(text)
    main = reader.read(file, "", text)
    reader.check_names()
    first = [(row, "", n) for row, _, n in main if row.startswith("from __future__")]
    rows = first + [row for part in reader.parts.values() for row in part.rows]
    rows += [("" if row.startswith("from __future__") else row, name, n) for row, name, n in main]
    return Merged(
        "\n".join(row for row, _, _ in rows) + "\n",
        tuple((name, n) for _, name, n in rows),
        tuple(reader.parts[path].name for path in reader.parts),
    )


_Row = tuple[str, str, int]


@dataclass(slots=True)
class _Part:
    """A file beside the judged one. wanted: what others import of it. rows: what of it is kept."""

    name: str
    text: str
    wanted: set[str] = field(default_factory=set)
    rows: list[_Row] = field(default_factory=list)


class _Reader:
    def __init__(self, file: Path, beside: Beside) -> None:
        self.file, self.folder = file, file.resolve().parent
        self.top = _above_package(self.folder)
        self.files = beside
        self.parts: dict[Path, _Part] = {}
        self.said: dict[str, dict[str, str]] = {}
        """name -> file -> what it means there"""

    def read(self, path: Path, name: str, text: str) -> list[_Row]:
        """Return a file's lines without its imports of files beside it, whose own lines are put into `parts` first."""
        rows = text.split("\n")
        if not rows[-1]:
            rows.pop()
        tree = ast.parse(text)
        for node in _imports(tree):
            other = self.beside(path, node)
            if other is None:
                continue
            names = self._names(tree, node, other)
            self._want(other, {a.name for a in names}, node.lineno)
            given = [f"{a.asname} = {a.name}" for a in names if a.asname not in (None, a.name)]
            last = node.end_lineno or node.lineno
            rows[node.lineno - 1 : last] = ["; ".join(given)] + [""] * (last - node.lineno)
        self._note(name, "\n".join(rows))
        return [(row, name, number) for number, row in enumerate(rows, start=1)]

    def _want(self, path: Path, names: set[str], line: int) -> None:
        """Keep what `names` of a file need; a file that imports from this one again gets what it wants in the end."""
        part = self.parts.pop(path, None)
        if part is None:
            text = self.files.read(path)
            try:
                ast.parse(text)
            except (SyntaxError, ValueError) as e:
                raise Unjudged(line, f"{path.name}:{getattr(e, 'lineno', 1)}: {e}") from e
            part = _Part(Path(os.path.relpath(path, self.folder)).as_posix(), text)
        if len(self.parts) >= _MOST:
            raise Unjudged(line, f"more than {_MOST} files beside it are imported")
        before, part.wanted = set(part.wanted), part.wanted | names
        if part.wanted != before or not part.rows:
            self.parts[path] = part  # before what it imports: two files may import from each other
            kept = _union([needed(part.text, wanted)[0] for wanted in sorted(part.wanted)])
            kept = "\n".join("" if r.startswith("from __future__") else r for r in kept.split("\n"))
            part.rows = self.read(path, part.name, kept)
            del self.parts[path]
        self.parts[path] = part

    def _names(self, tree: ast.Module, node: ast.ImportFrom, other: Path) -> list[ast.alias]:
        if [a.name for a in node.names] != ["*"]:
            return node.names
        offered = defined_names(ast.parse(self.files.read(other)))
        return [ast.alias(n) for n in sorted(offered & used_names(tree)) if n[:1] != "_"]

    def beside(self, path: Path, node: ast.ImportFrom) -> Path | None:
        """Return the file that an import names, None where there is none in the judged file's folder or below, nor in its package."""
        here = path.resolve().parent
        parts = (node.module or "").split(".")
        if not parts[0]:
            return None
        if node.level > 1:
            above = here.parents[min(node.level - 2, len(here.parents) - 1)]
            if above == self.top or not above.is_relative_to(self.top):
                return None
            tried = [(above, parts)]
        else:
            tried = [(here, parts)]
        if node.level == 0:
            tried += [
                (self.folder, parts[k:])
                for k in range(len(parts) - 1, 0, -1)
                if self.folder.parts[-k:] == tuple(parts[:k])
            ]
            if self.top != self.folder and self.folder.relative_to(self.top).parts[0] == parts[0]:
                tried.append((self.top, parts))
        for folder, names in tried:
            whole = folder.joinpath(*names)
            for found in (whole.with_name(f"{whole.name}.py"), whole / "__init__.py"):
                if not found.is_file() or found.resolve() == self.file.resolve():
                    continue
                if self.files.elsewhere(found, self.top):
                    raise Unjudged(
                        node.lineno,
                        f"it imports from {node.module}, which is not a plain file in its own folder or package",
                    )
                return found.resolve()
        return None

    def _note(self, name: str, text: str) -> None:
        for node in ast.parse(text).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                for alias in node.names:
                    bound = alias.asname or alias.name.partition(".")[0]
                    whole = (
                        alias.name if alias.asname or isinstance(node, ast.ImportFrom) else bound
                    )
                    means = f"{getattr(node, 'module', '')}:{whole}"
                    self.said.setdefault(bound, {})[name] = means
            else:
                for bound in defined_names(ast.Module([node], [])):
                    self.said.setdefault(bound, {})[name] = f"{name}:{bound}"

    def check_names(self) -> None:
        """Raise Unjudged where a name means two things."""
        for name, of in self.said.items():
            if len(set(of.values())) > 1:
                files = " and ".join(file or self.file.name for file in of)
                raise Unjudged(
                    1, f"{name} means different things in {files}, which are judged as one module"
                )


def _above_package(folder: Path) -> Path:
    """Return the folder that holds the outermost package that a folder is of, the folder itself where it is of none."""
    while (folder / "__init__.py").is_file() and folder != folder.parent:
        folder = folder.parent
    return folder


def _imports(tree: ast.Module) -> Iterator[ast.ImportFrom]:
    """Yield the imports of names at module level."""
    yield from (node for node in tree.body if isinstance(node, ast.ImportFrom))


def _union(texts: list[str]) -> str:
    """Return one text of several that are each a part of the same: a line that any of them has."""
    rows = zip(*(t.split("\n") for t in texts), strict=True)
    return "\n".join(next((row for row in each if row), "") for each in rows)
