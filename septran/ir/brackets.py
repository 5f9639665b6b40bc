"""Brackets of a text, or of a list of its words, in which no strings stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

_PAIRS = {"(": ")", "{": "}", "[": "]", "<": ">"}
_Text = TypeVar("_Text", str, list[str])


def closing(text: Sequence[str], at: int, kinds: str = "({[") -> int:
    """Return where the bracket that opens at `at` closes, the length of `text` where it does not. kinds: which brackets count."""
    opening, ends = tuple(kinds), [_PAIRS[k] for k in kinds]
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] in opening) - (text[i] in ends)
        if depth == 0:
            return i
    return len(text)


def split_top(text: _Text, kinds: str = "({[") -> list[_Text]:
    """Return the parts of a list that commas outside of brackets separate."""
    opening, ends = tuple(kinds), [_PAIRS[k] for k in kinds]
    parts: list[_Text] = []
    depth = begin = 0
    for i, c in enumerate(text):
        depth += (c in opening) - (c in ends)
        if c == "," and depth == 0:
            parts.append(text[begin:i])
            begin = i + 1
    parts.append(text[begin:])
    return parts
