"""What a kernel's object may hold before it is linked into the static host: text, constants, one global name.

Sections are allowed by name, because a start-up routine finds what it runs by name (.init_array, .preinit_array,
.ctors, .init, indirect functions) and would run it before the host confines itself. A writable section would be
memory from call to call. Symbols that the object needs are those of configs/gate.yaml and the runtime's own.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_SECTIONS = re.compile(
    r"|(\.rela)?\.(text|rodata|eh_frame|gcc_except_table|data\.rel\.ro)(\..*)?"
    r"|\.(comment|symtab|strtab|shstrtab|group|riscv\.attributes)|\.note\.(GNU-stack|gnu\.property)"
    r"|(\.rela)?\.debug_\w+"
)
# of files that SepTran did not write: variables, and .init_array, which the link gives another name
_FOREIGN = re.compile(r"(\.rela)?\.(t?data|t?bss|init_array)|(\.rela)?\.(t?data|t?bss)\..*")
# null, program bits, symbols, strings, relocations, note, no bits, group, x86-64 unwind tables, RISC-V attributes
_KINDS = frozenset({0, 1, 2, 3, 4, 7, 8, 17, 0x70000001, 0x70000003})
# of LLVM, which always writes them: options for the linker, addresses that matter. Empty, they say nothing
_LLVM = frozenset({0x6FFF4C01, 0x6FFF4C03})
_WRITE, _ALLOC, _EXECUTE, _THREAD = 1, 2, 4, 0x400
_IFUNC = 10
_RELOCATABLE, _SHARED = 1, 3
_SYMBOLS, _DYNAMIC = 2, 11
RUNTIME = frozenset({"st_scratch", "st_fresh", "st_tiles", "st_say", "_GLOBAL_OFFSET_TABLE_"})


@dataclass(frozen=True, slots=True)
class Section:
    """One section's name, type, flags and size in bytes."""

    name: str
    kind: int
    flags: int
    size: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """One symbol; defined: in this object. kind: STT_ number."""

    name: str
    kind: int
    is_global: bool
    defined: bool


def findings(
    path: Path, entry: str, allowed: Callable[[str], bool], *, foreign: bool = False
) -> list[str]:
    """Return what the object holds that no kernel needs, in words; [] when it may be linked.

    allowed: whether a kernel may need a symbol of this name. foreign: SepTran did not write it: it may have variables that live
    between calls, and global objects, whose code runs once the host is confined.
    """
    try:
        sections, symbols = read(path.read_bytes())
    except (struct.error, ValueError, IndexError) as error:
        return [f"is not an object of this machine: {error}"]
    found = [f"holds {text}" for s in sections if (text := _wrong(s, foreign))]
    for symbol in symbols:
        if symbol.kind == _IFUNC:
            found.append(f"has an indirect function {symbol.name}")
        needed = not symbol.defined and symbol.is_global and symbol.name not in RUNTIME
        if needed and not allowed(symbol.name):
            found.append(f"calls {symbol.name}")
    if not any(s.name == entry and s.defined and s.is_global for s in symbols):
        found.append(f"does not define {entry}")
    return found


def offers(path: Path, entry: str) -> bool:
    """Return whether a shared library can be read here and has `entry` for those who load it."""
    try:
        _, symbols = read(path.read_bytes(), shared=True)
    except (OSError, struct.error, ValueError, IndexError):
        return False
    return any(s.name == entry and s.defined and s.is_global for s in symbols)


def _wrong(section: Section, foreign: bool) -> str:
    if foreign and _FOREIGN.fullmatch(section.name) and not section.flags & _EXECUTE:
        return ""
    if section.kind in _LLVM and not section.size:
        return ""
    if section.kind not in _KINDS:
        return f"a section of kind {section.kind} ({section.name})"
    if section.name in (".data", ".bss") and not section.size:
        return ""
    if not _SECTIONS.fullmatch(section.name):
        writable = section.flags & (_WRITE | _THREAD)
        return f"{'writable ' if writable else ''}section {section.name}"
    constant = section.name.startswith(".data.rel.ro")
    if section.flags & _THREAD or (section.flags & _WRITE and not constant):
        return f"writable section {section.name}"
    if section.flags & _EXECUTE and not re.fullmatch(r"\.text(\..*)?", section.name):
        return f"code in section {section.name}"
    return ""


def read(raw: bytes, *, shared: bool = False) -> tuple[list[Section], list[Symbol]]:
    """Return the sections and symbols of a relocatable 64-bit little-endian object.

    shared: it is a shared library, of which the dynamic symbols are returned.

    Raises:
        ValueError: it is none. struct.error, IndexError: it is cut short.
    """
    wanted, symbol_table = (_SHARED, _DYNAMIC) if shared else (_RELOCATABLE, _SYMBOLS)
    if raw[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<H", raw, 16)[0] != wanted:
        kind = "shared" if shared else "relocatable"
        raise ValueError(f"no {kind} 64-bit little-endian ELF file")
    (table,) = struct.unpack_from("<Q", raw, 40)
    size, count, names = struct.unpack_from("<HHH", raw, 58)
    heads = [struct.unpack_from("<IIQQQQIIQQ", raw, table + size * i) for i in range(count)]
    at = heads[names][4]
    sections = [Section(_text(raw, at + h[0]), h[1], h[2], h[5]) for h in heads]
    symbols = []
    for head in heads:
        if head[1] == symbol_table:
            strings = heads[head[6]][4]
            for place in range(head[4] + 24, head[4] + head[5], 24):
                name, info, _, index = struct.unpack_from("<IBBH", raw, place)
                text = _text(raw, strings + name)
                symbols.append(Symbol(text, info & 15, info >> 4 != 0, index != 0))
    return sections, symbols


def _text(raw: bytes, at: int) -> str:
    return raw[at : raw.index(b"\0", at)].decode("utf-8", errors="replace")
