"""Numbers that a kernel's text holds: a branch on its inputs' values is often made of one, and no other input may meet it."""

from __future__ import annotations

import re

# a word of digits, as a float has them; numbers beyond are masks and limits, which families of values are about
_NUMBER = re.compile(r"(?<![\w.])(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?=[fFuUlL]*(?![\w.]))")
_HEX = re.compile(r"(?<![\w.])0[xX][0-9a-fA-F]{1,12}(?=[uUlL]*(?![\w.]))")
_LARGE, _MOST_NUMBERS = 1e6, 200


def points(text: str) -> tuple[float, ...]:
    """Return the numbers that a file's text holds, as far as floats have them: of such a branch may be made."""
    words = [float(word) for word in _NUMBER.findall(text)]
    found = dict.fromkeys((*words, *(float(int(word, 16)) for word in _HEX.findall(text))))
    return tuple(n for n in found if abs(n) < _LARGE)[:_MOST_NUMBERS]
