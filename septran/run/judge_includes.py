"""Files that lie beside a judged C++ or CUDA file and that it includes: put in where they are included, so that every check reads them.

A compiler that was given the folder would do the same. As one text, what the file says is judged by one set of rules, whichever file says
it, and what is hashed is what was judged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from septran.backends.base import Beside, Foreign
from septran.errors import ConfigError, Span
from septran.plan.wanted import read_source
from septran.run.nesting import check_nesting

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*\"([^\"\n]+)\"[^\n]*$", re.MULTILINE)
_HIDDEN = re.compile(
    r'R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL,
)
_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once\b[^\n]*$", re.MULTILINE)
_DEEPEST, _MOST_BYTES = 16, 4 << 20


@dataclass(frozen=True, slots=True)
class Whole:
    """A file with what it includes. lines: of each line of the text, the file it is of, as included, and its number there."""

    text: str
    lines: tuple[tuple[str, int], ...]
    files: tuple[str, ...] = ()

    def in_files(self, error: ConfigError, file: Path) -> ConfigError:
        """Return an error whose lines are those of the files. file: the main one."""
        if not self.files:
            return error

        def placed(span: Span | None) -> Span | None:
            if span is None or span.file != str(file):
                return span
            name, line = self._place(span.line)
            return replace(span, file=str(file.parent / name) if name else str(file), line=line)

        return ConfigError([replace(d, span=placed(d.span)) for d in error.diagnostics])

    def file_of(self, line: int) -> str:
        """Return which file a line of the text is of, "" for the main one."""
        return self._place(line)[0]

    def said(self, text: str, name: str) -> str:
        """Return a text in which lines count the text as a whole with lines that count the files. name: of the main file."""
        if not self.files:
            return text

        def at(match: re.Match[str]) -> str:
            file, line = self._place(int(match[1]))
            return f"{file or name}:{line}"

        def plainly(match: re.Match[str]) -> str:
            file, line = self._place(int(match[1]))
            return f"line {line} of {file}" if file else f"line {line}"

        return re.sub(r"\bline (\d+)\b", plainly, re.sub(rf"\b{re.escape(name)}:(\d+)", at, text))

    def said_all(self, texts: Mapping[str, str], name: str) -> dict[str, str]:
        """Return `said` of each value."""
        return {key: self.said(text, name) for key, text in texts.items()}

    def _place(self, line: int) -> tuple[str, int]:
        return self.lines[line - 1] if 0 < line <= len(self.lines) else ("", line)


def text_of(file: Path) -> str:
    """Return the text that tells which target a user's file is for. Raises ConfigError C170, C173."""
    return read_python(file) if file.suffix == ".py" else _included(file).text


def whole_of(file: Path, foreign: Foreign) -> Whole:
    """Return a user's file with what it includes, or imports of the files beside it. Raises ConfigError C170, C173; Unjudged."""
    if file.suffix != ".py":
        return _included(file)
    if foreign.beside is None:
        return Whole(read_python(file), ())
    found = foreign.beside(file, read_python(file), Beside(read_python, elsewhere))
    return Whole(found.text, found.lines, found.files)


def _included(file: Path) -> Whole:
    return with_includes(file, read_source(file, "C170"))


def read_python(file: Path) -> str:
    """Return a Python file's text; raises ConfigError C170, it cannot be read or nests too deep."""
    text = read_source(file, "C170")
    check_nesting(file, text, "C170")
    return text


def elsewhere(path: Path, folder: Path) -> bool:
    """Whether a file is outside of a folder, or behind a link."""
    return _linked(path, folder) or not path.resolve().is_relative_to(folder)


def with_includes(file: Path, text: str) -> Whole:
    """Return a C++ or CUDA file's text with the files beside it, and in folders below, that it includes.

    What is in no such file stays as it is: the compiler has it, or says that nobody has.

    Raises:
        ConfigError: C173, one is outside of the file's folder, or behind a link; they include each other without end. C170,
            one cannot be read.
    """
    reader = _Reader(file)
    lines = reader.read(file, "", text, 0)
    return Whole(
        "\n".join(t for t, _, _ in lines), tuple((n, k) for _, n, k in lines), tuple(reader.files)
    )


_Line = tuple[str, str, int]


class _Reader:
    def __init__(self, file: Path) -> None:
        self.file, self.folder = file, file.resolve().parent
        self.files: dict[str, None] = {}
        self.once: set[Path] = set()
        self.size = 0

    def read(self, path: Path, name: str, text: str, depth: int) -> list[_Line]:
        self.size += len(text)
        if depth > _DEEPEST or self.size > _MOST_BYTES:
            raise self.refused(
                1,
                f"the files that it includes are deeper than {_DEEPEST} or larger than {_MOST_BYTES >> 20} MiB",
            )
        shown = _HIDDEN.sub(_blank, text)
        rows = text.split("\n")
        found: list[_Line] = []
        for number, (row, plain) in enumerate(zip(rows, shown.split("\n"), strict=True), start=1):
            match = _INCLUDE.match(row)
            beside = None
            if match and plain.lstrip().startswith("#"):
                beside = self.beside(path, match[1], number)
            if beside is None:
                found.append((row, name, number))
            elif beside not in self.once:
                found += self.included(beside, depth)
        return found

    def included(self, beside: Path, depth: int) -> list[_Line]:
        text = read_source(beside, "C170")
        if _ONCE.search(_HIDDEN.sub(_blank, text)):
            self.once.add(beside)
            text = _ONCE.sub("", text, count=1)
        name = beside.relative_to(self.folder).as_posix()
        self.files[name] = None
        return self.read(beside, name, text, depth + 1)

    def beside(self, path: Path, word: str, line: int) -> Path | None:
        """Return the file that an include names, None where there is none beside the one that includes it, nor beside the first."""
        for folder in dict.fromkeys((path.resolve().parent, self.folder)):
            found = folder / word
            if not found.is_file():
                continue
            real = found.resolve()
            if elsewhere(found, self.folder):
                raise self.refused(
                    line, f"it includes {word!r}, which is not a plain file in its own folder"
                )
            return real
        return None

    def refused(self, line: int, what: str) -> ConfigError:
        return ConfigError.of("C173", f"{self.file}: {what}", Span(str(self.file), line))


def _linked(path: Path, folder: Path) -> bool:
    """Whether a file, or a folder on the way to it from `folder`, is a link."""
    return any(
        p.is_symlink() for p in (path, *path.parents) if p != folder and p.is_relative_to(folder)
    )


def _blank(match: re.Match[str]) -> str:
    """Return blanks for a comment or a text; the name behind an include is such a text and read apart."""
    return re.sub(r"[^\n]", " ", match.group())
