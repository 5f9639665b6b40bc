"""What `readelf` says of an object file: sections, symbols, and whether a segment is writable and executable.

One call of one tool. `nm` says the same in two calls, and each loads the linker's plug-ins, among them LLVM where that is
installed: a sixth of what a verdict cost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_SECTION = re.compile(
    r"^  \[ *(\d+)\] +(\S+) +\S+ +[0-9a-f]+ +[0-9a-f]+ +([0-9a-f]+) +[0-9a-f]+ +([A-Za-z]*) +\d+ +\d+ +\d+$"
)
_SEGMENT = re.compile(r"^  [A-Z_]+ .*\bRWE\b")


@dataclass(frozen=True)
class Section:
    """One section. size: in bytes; writable: a kernel may store there."""

    name: str
    size: int
    writable: bool


@dataclass(frozen=True)
class Symbol:
    """One symbol. kind: OBJECT, FUNC, ..; bind: LOCAL, GLOBAL, WEAK, UNIQUE; index: of its section, UND or ABS; table: its own."""

    name: str
    kind: str
    bind: str
    index: str
    table: str


@dataclass(frozen=True)
class ObjectFile:
    """Sections by index, symbols of all tables."""

    sections: dict[str, Section]
    symbols: tuple[Symbol, ...]
    writable_code: bool

    @property
    def imports(self) -> list[str]:
        """What the dynamic linker is to find elsewhere, without versions."""
        asked = [s for s in self.symbols if s.index == "UND" and s.table == ".dynsym"]
        return [s.name.partition("@")[0] for s in asked]

    @property
    def variables(self) -> list[str]:
        """Names in writable sections; also those in a section of which no line could be read."""
        return [s.name for s in self.symbols if s.table != ".dynsym" and self._writable(s)]

    def _writable(self, symbol: Symbol) -> bool:
        if symbol.index in ("UND", "ABS") or symbol.kind in ("SECTION", "FILE"):
            return False
        section = self.sections.get(symbol.index)
        # tables of types and virtual functions, which every file that uses one has: written by the loader only
        if section and symbol.bind == "WEAK" and section.name.startswith(".data.rel.ro"):
            return False
        return section is None or section.writable


def read(text: str) -> ObjectFile:
    """Return what the text of `readelf -SlsW` says."""
    sections: dict[str, Section] = {}
    writable_code = False
    for line in text.splitlines():
        if found := _SECTION.match(line):
            index, name, size, flags = found.groups()
            sections[index] = Section(name, int(size, 16), writable="W" in flags)
        writable_code |= _SEGMENT.match(line) is not None
    return ObjectFile(sections, tuple(_symbols(text)), writable_code)


def _symbols(text: str) -> Iterator[Symbol]:
    table = ""
    for line in text.splitlines():
        if found := re.match(r"Symbol table '(.*)' contains", line):
            table = found[1]
        # number, value, size, kind, binding, visibility, section, name
        words = line.split(None, 7)
        if table and len(words) == 8 and words[0][:-1].isdigit() and words[0].endswith(":"):
            yield Symbol(words[7], words[3], words[4], words[6], table)
