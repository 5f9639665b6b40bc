"""Arithmetic of C and C++ on sizes and numbers, read wherever it stands in a text: what is anything else is no term."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence

from septran.ir.size_asked import BLOCKS, SIGNS, Size, Term, reckoned

WHOLE = r"(?:unsigned|int|long|short|(?:std::)?(?:size_t|ptrdiff_t|u?int(?:16|32|64)_t))"
NUMBER = r"(?:0[xX][0-9a-fA-F']+|\d[\d']*)"
_TOKEN = re.compile(
    r"(?P<number>0[xX][0-9a-fA-F']+[uUlLzZ]*|(?:\d[\d']*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[uUlLzZfF]*)"
    r"|(?P<name>(?:::\s*)?[A-Za-z_]\w*(?:\s*::\s*[A-Za-z_]\w*)*)"
    r"|(?P<op><<<|>>>|<<=|>>=|<=>|->|<<|>>|<=|>=|==|!=|&&|\|\||\+\+|--|[-+*/%&|^]=|\S)"
)
_LEVELS = {"|": 1, "^": 2, "&": 3, "<<": 4, ">>": 4, "+": 5, "-": 5, "*": 6, "/": 6, "%": 6}
_CASTS = re.compile(rf"(?:const|double|float|auto|{WHOLE})")
_OF_TWO = {"min": "min", "max": "max", "fmin": "min", "fmax": "max", "ceil_div": "cdiv", "cdiv": "cdiv"}  # fmt: skip
_SIZED = ("size", "numel")
_FUNCTIONS_OF_ONE = ("ceil", "floor", "round", "abs")
_KEYWORDS = ("return", "if", "while", "switch", "constexpr", "else", "and", "or", "not", "case")
_OPENS = ("(", "+", "-")
_MOST_DEEP, _MOST_NUMBER = 24, 2**53
_PLACES, _BLOCKS = ("threadIdx", "blockDim"), ("blockIdx", "gridDim")
_GOES_ON = frozenset((*_LEVELS, ".", "->", "::", "~", ")", "]"))
"""after these what stands here is part of something else"""


def tokens_of(text: str, *, most: int = 0) -> list[str]:
    """Return the words of a text, the first `most` of them."""
    found = (m[0] for m in _TOKEN.finditer(text))
    return list(itertools.islice(found, most) if most else found)


class Terms:
    """Reads terms of the words of a function. of: function, name -> what it may stand for. A term is a list of what it may be, [] where it is none."""

    def __init__(
        self,
        words: Sequence[str],
        of: Callable[[str, str], list[Term]],
        results: Mapping[str, list[Term]],
        scope: str,
    ) -> None:
        self.words, self.at, self._deep = words, 0, 0
        self._of, self._results, self._scope = of, results, scope

    @property
    def here(self) -> str | None:
        """The word that stands here, None at the end."""
        return self.words[self.at] if self.at < len(self.words) else None

    def may_begin(self) -> bool:
        """Whether a term may begin here that is no part of a longer one."""
        if not self.at:
            return True
        before, word = self.words[self.at - 1], self.words[self.at]
        operand = before not in _KEYWORDS and re.match(r"[\w)\]]", before) is not None
        return before not in _GOES_ON and not (operand and word in _OPENS)

    def compares(self) -> bool:
        """Whether a comparison stands here."""
        return self.here in SIGNS

    def term(self, least: int) -> list[Term]:
        """Take operators that bind at least as tightly as `least`."""
        left = self._one()
        while left and (level := _LEVELS.get(self.here or "", 0)) > least:
            op = self.here or ""
            self.at += 1
            right = self.term(level)
            left = reckoned("//" if op == "/" else op, left, right)
        return left

    def _one(self) -> list[Term]:
        word = self.here
        if word is None or self._deep > _MOST_DEEP:
            return []
        self.at += 1
        self._deep += 1
        found = self._read(word)
        self._deep -= 1
        return found

    def _read(self, word: str) -> list[Term]:
        if word[0].isdigit() or (word[0] == "." and len(word) > 1):
            return _number(word)
        if word in ("-", "+"):
            return reckoned(word, [0], self._one())
        if word == "(":
            return self._bracketed()
        if not re.match(r"[A-Za-z_:]", word):
            return []
        return self._named(re.sub(r"\s", "", word).removeprefix("::"))

    def _bracketed(self) -> list[Term]:
        start = self.at
        while self.here and _CASTS.fullmatch(self.here):
            self.at += 1
        if self.at > start and self.here == ")":
            self.at += 1
            return self._one()
        self.at = start
        found = self.term(0)
        if not found or self.here != ")":
            return []
        self.at += 1
        return found

    def _named(self, name: str) -> list[Term]:
        last = name.rpartition("::")[2]
        if name.endswith("_cast") and self.here == "<":
            while self.here not in (">", None):
                self.at += 1
            self.at += 1
            return self._arguments(1)[0]
        if _CASTS.fullmatch(name) and self.here in ("(", "{"):
            return self._arguments(1)[0]
        if last in _OF_TWO and self.here in ("(", "<"):
            if self.here == "<":
                while self.here not in ("(", None):
                    self.at += 1
            a, b = self._arguments(2)
            return reckoned(_OF_TWO[last], a, b)
        if self.here == "(" and last in _FUNCTIONS_OF_ONE:
            return self._arguments(1)[0]
        if self.here == "(":
            return self._called(name)
        if self.here in (".", "->"):
            return self._member(name)
        if self.here == "[":
            return self._element(name)
        if self.here in ("{", "::", "++", "--"):
            return []
        return self._of(self._scope, name)

    def _called(self, name: str) -> list[Term]:
        """What a function of the file returns, of the sizes that it was handed."""
        found = self._results.get(name, [])
        depth = 0
        while self.here is not None:
            depth += (self.here == "(") - (self.here == ")")
            self.at += 1
            if not depth:
                break
        return list(found)

    def _element(self, name: str) -> list[Term]:
        """What an array of sizes may hold."""
        found = self._of(self._scope, f"{name}[]")
        end = self.at + 2
        if not found or end >= len(self.words) or self.words[end] != "]":
            return []
        self.at = end + 1
        return found

    def _member(self, name: str) -> list[Term]:
        self.at += 1
        member = self.here or ""
        self.at += 1
        if member in _SIZED and self.here == "(":
            axis = self.words[self.at + 1] if self.at + 1 < len(self.words) else ""
            if axis == ")":
                self.at += 2
                return [Size(f"{member}()", f"{name}.{member}()")]
            close = self.at + (3 if axis == "-" else 2)
            if close < len(self.words) and self.words[close] == ")":
                inner = "".join(self.words[self.at + 1 : close])
                self.at = close + 1
                of = f"{member}({inner})" if inner.isdigit() else ""
                return [Size(of, f"{name}.{member}({inner})")]
            return []
        if self.here in ("(", "[", ".", "->", "++", "--"):
            return []
        if name in _BLOCKS:
            return [Size(BLOCKS, f"{name}.{member}")]
        return [] if name in _PLACES else self._of("", f".{member}")

    def _arguments(self, n: int) -> list[list[Term]]:
        """Take n terms in brackets; each [] where they are others."""
        none: list[list[Term]] = [[] for _ in range(n)]
        if self.here not in ("(", "{"):
            return none
        close = ")" if self.here == "(" else "}"
        found = []
        for k in range(n):
            self.at += 1
            found.append(self.term(0))
            if not found[-1] or self.here != ("," if k < n - 1 else close):
                return none
        self.at += 1
        return found


def _number(word: str) -> list[Term]:
    found = _literal(word.replace("'", ""))
    return [] if found is None or found > _MOST_NUMBER else [found]


def _literal(plain: str) -> int | float | None:
    if plain[:2] in ("0x", "0X"):
        return int(plain.rstrip("uUlLzZ"), 16)
    digits = plain.rstrip("uUlLzZ")
    if re.fullmatch(r"0\d+", digits):
        return int(digits, 8) if re.fullmatch(r"[0-7]+", digits) else None
    if digits.isdigit():
        return int(digits) if len(digits) < 20 else None
    try:
        return float(plain.rstrip("fFlL"))
    except ValueError:
        return None
