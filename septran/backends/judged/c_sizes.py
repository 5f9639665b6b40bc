"""What a C or C++ text asks of its sizes: comparisons of a size with a number, whose other side no call at one size reaches."""

from __future__ import annotations

import re
from collections.abc import Iterator

from septran.backends.base import SizeAsked
from septran.backends.judged.c_host import blank

_WHOLE = r"(?:unsigned|int|long|(?:std::)?(?:size_t|ptrdiff_t|u?int(?:32|64)_t))"
_PARAMETER = re.compile(rf"[(,]\s*(?:const\s+)?(?:{_WHOLE}\s+)+(\w+)\s*(?=[,)])")
_OF_A_TENSOR = re.compile(r"\w+\.((?:size|numel)\(\d*\))")
_MADE = re.compile(rf"\b(?:auto|{_WHOLE})\s+(\w+)\s*=\s*([^;]*);")
_NUMBER = r"(?:0[xX][0-9a-fA-F']+|\d[\d']*)"
_NAMED = re.compile(
    rf"(?:^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+\(?({_NUMBER})[uUlLzZ]*\)?[ \t]*$"
    rf"|\bconst(?:expr)?\s+(?:{_WHOLE}\s+)+(\w+)\s*=\s*({_NUMBER})[uUlLzZ]*\s*;)",
    re.M,
)
_VALUE = rf"({_NUMBER}|[A-Za-z_]\w*)[uUlLzZ]*\b(?!\s*[.(\[])"
_SIZE = r"([A-Za-z_]\w*(?:\s*\.\s*(?:size|numel)\s*\(\s*\d*\s*\))?)"
_AHEAD = re.compile(rf"(?<![\w.]){_SIZE}\s*(%|&(?!&)|<=|>=|[=!]=|<(?!<)|>(?!>))\s*{_VALUE}")
_BEHIND = re.compile(rf"(?<![\w.]){_VALUE}\s*(<=|>=|[=!]=|<(?!<)|>(?!>))\s*{_SIZE}")
_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
_LEAST, _MOST = 32, 16
"""Small numbers are those of tails and dimensions."""


def sizes_asked(text: str) -> tuple[SizeAsked, ...]:
    """Return what a text asks of its sizes, each once, in the order of the text."""
    plain = blank(text)
    sizes = _sizes(plain)
    numbers = {m[1] or m[3]: _read(m[2] or m[4]) for m in _NAMED.finditer(plain)}
    found = []
    for one in sorted(_compared(plain), key=lambda c: c[0]):
        _, name, sign, value = one
        number = _read(value) if value[0].isdigit() else numbers.get(value)
        name = re.sub(r"\s", "", name)
        if number is not None and number >= _LEAST and (name in sizes or "(" in name):
            of = sizes.get(name, name.rpartition(".")[2])
            found.append(SizeAsked(name, sign, number, of))
    return tuple(dict.fromkeys(found))[:_MOST]


def _compared(plain: str) -> Iterator[tuple[int, str, str, str]]:
    for m in _AHEAD.finditer(plain):
        yield m.start(), m[1], m[2], m[3]
    for m in _BEHIND.finditer(plain):
        yield m.start(), m[3], _TURNED[m[2]], m[1]


def _sizes(plain: str) -> dict[str, str]:
    """Return the names of whole numbers that a function is given, or that are made of a tensor's sizes or such a name, with what they are."""
    found = {name: name for name in _PARAMETER.findall(plain)}
    for name, value in _MADE.findall(plain):
        text = re.sub(r"\s", "", value)
        if text in found:
            found.setdefault(name, found[text])
        elif _OF_A_TENSOR.search(text):
            whole = _OF_A_TENSOR.fullmatch(text)
            found.setdefault(name, whole[1] if whole else "")
    return found


def _read(word: str) -> int:
    return int(word.replace("'", ""), 0) if not re.fullmatch(r"0\d+", word) else int(word, 8)
