"""Brackets of C text that a printer of SepTran's wrote: no strings, no characters."""

from __future__ import annotations

_PAIRS = {"(": ")", "{": "}", "[": "]"}


def closing(text: str, at: int) -> int:
    """Return where the bracket that opens at `at` closes.

    Raises:
        ValueError: it does not.
    """
    depth = 0
    for i in range(at, len(text)):
        if text[i] in _PAIRS:
            depth += 1
        elif text[i] in _PAIRS.values():
            depth -= 1
            if not depth:
                return i
    raise ValueError("a bracket is not closed")


def split_top(text: str) -> list[str]:
    """Return the parts of a list that commas outside of brackets separate."""
    parts, depth, begin = [], 0, 0
    for i, c in enumerate(text):
        if c in _PAIRS:
            depth += 1
        elif c in _PAIRS.values():
            depth -= 1
        elif c == "," and not depth:
            parts.append(text[begin:i])
            begin = i + 1
    return [*parts, text[begin:]]
