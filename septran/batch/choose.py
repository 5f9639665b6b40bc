"""`-k EXPR`: choose cells by words of their ids, with and, or, not and parentheses."""

from __future__ import annotations

import re
from collections.abc import Callable

from septran.errors import ConfigError

Choose = Callable[[str], bool]
_TOKEN = re.compile(r"\s*([()]|[^\s()]+)")


def selector(expression: str) -> Choose:
    """Return whether an id is chosen; a word matches anywhere in the id, upper or lower case.

    Raises:
        ConfigError: C063, the expression cannot be read.
    """
    parser = _Parser(_TOKEN.findall(expression), expression)
    found = parser.either()
    if parser.words:
        raise parser.wrong(f"{parser.words[0]!r} is not expected")
    return found


class _Parser:
    """either := both (or both)*; both := one (and one)*; one := not one | ( either ) | WORD."""

    def __init__(self, words: list[str], text: str) -> None:
        self.words, self._text = words, text

    def wrong(self, why: str) -> ConfigError:
        return ConfigError.of(
            "C063", f"-k {self._text!r}: {why}", help='for example -k "gemm and not bfloat16"'
        )

    def either(self) -> Choose:
        found = self._both()
        while self.words and self.words[0] == "or":
            self.words.pop(0)
            found = _any(found, self._both())
        return found

    def _both(self) -> Choose:
        found = self._one()
        while self.words and self.words[0] == "and":
            self.words.pop(0)
            found = _all(found, self._one())
        return found

    def _one(self) -> Choose:
        if not self.words:
            raise self.wrong("it ends where a word is expected")
        word = self.words.pop(0)
        if word == "not":
            inner = self._one()
            return lambda name: not inner(name)
        if word == "(":
            found = self.either()
            if not self.words or self.words.pop(0) != ")":
                raise self.wrong("a ( is not closed")
            return found
        if word in (")", "and", "or"):
            raise self.wrong(f"{word!r} is not expected")
        return lambda name: word.lower() in name.lower()


def _any(a: Choose, b: Choose) -> Choose:
    return lambda name: a(name) or b(name)


def _all(a: Choose, b: Choose) -> Choose:
    return lambda name: a(name) and b(name)
