"""What of an object its entry reaches: the sections that relocations lead to, and the names they need from elsewhere.

A judged file also holds demonstrations and clocks that no call of its host function comes to. With a section for each
function and variable, what a call can come to is what relocations lead to from the entry and from start-up code.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_SYMBOLS, _RELOCATIONS, _WEAK = 2, 4, 2
_STARTS = (".init_array", ".preinit_array", ".ctors")


@dataclass(frozen=True, slots=True)
class Reached:
    """sections: names of those that the entry reaches. needed: names that these take from elsewhere; weak: if they are there."""

    sections: frozenset[str]
    needed: frozenset[str]
    weak: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Named:
    """A symbol: its name, the number of the section that defines it (0: none), whether it may be missing."""

    name: str
    section: int
    weak: bool


def reached(raw: bytes, entry: str) -> Reached:
    """Return what `entry` of a relocatable 64-bit little-endian object reaches.

    Raises:
        ValueError, struct.error, IndexError: it is no such object, or has no such entry.
    """
    if raw[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<H", raw, 16)[0] != 1:
        raise ValueError("no relocatable 64-bit little-endian ELF file")
    (table,) = struct.unpack_from("<Q", raw, 40)
    size, count, strings = struct.unpack_from("<HHH", raw, 58)
    heads = [struct.unpack_from("<IIQQQQIIQQ", raw, table + size * i) for i in range(count)]
    names = [_text(raw, heads[strings][4] + head[0]) for head in heads]
    symbols = _symbols(raw, heads)
    leads: dict[int, list[_Named]] = {}
    for head in heads:
        if head[1] == _RELOCATIONS:
            places = range(head[4], head[4] + head[5], 24)
            told = (struct.unpack_from("<QQq", raw, at)[1] >> 32 for at in places)
            leads.setdefault(head[7], []).extend(symbols[number] for number in told)
    known = {s.name: s.section for s in symbols if s.section and s.name}
    if entry not in known:
        raise ValueError(f"no {entry}")
    todo = [known[entry], *(k for k, name in enumerate(names) if name.startswith(_STARTS))]
    seen = set(todo)
    needed: set[str] = set()
    weak: set[str] = set()
    while todo:
        for symbol in leads.get(todo.pop(), ()):
            at = symbol.section or known.get(symbol.name, 0)
            if not at:
                (weak if symbol.weak else needed).add(symbol.name)
            elif at not in seen:
                seen.add(at)
                todo.append(at)
    return Reached(frozenset(names[k] for k in seen), frozenset(needed - {""}), frozenset(weak))


def _symbols(raw: bytes, heads: list[tuple[int, ...]]) -> list[_Named]:
    """Return all symbols; what is absolute or common (numbers above every section) counts as defined nowhere."""
    found = []
    for head in heads:
        if head[1] == _SYMBOLS:
            strings = heads[head[6]][4]
            for place in range(head[4], head[4] + head[5], 24):
                name, info, _, index = struct.unpack_from("<IBBH", raw, place)
                defined = index if index < len(heads) else 0
                found.append(_Named(_text(raw, strings + name), defined, info >> 4 == _WEAK))
    return found


def _text(raw: bytes, at: int) -> str:
    return raw[at : raw.index(b"\0", at)].decode("utf-8", errors="replace")
