"""Numbers that a kernel's text holds: a branch on its inputs' values is often made of one, and no other input may meet it."""

from __future__ import annotations

import itertools
import math
import operator
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

# a word of digits, as a float has them
_NUMBER = re.compile(r"(?<![\w.])(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?=[fFuUlL]*(?![\w.]))")
_HEX = re.compile(r"(?<![\w.])0[xX][0-9a-fA-F]{1,12}(?=[uUlL]*(?![\w.]))")
_BETWEEN_DIGITS = re.compile(r"(?<=\d)['_](?=\d)")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\\\n", re.S)
_CAST = re.compile(
    r"\(\s*(?:const\s+)?(?:float|double|int|long|unsigned|half|__half|int\d+_t)\s*\)"
)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+", re.M)
_TOKEN = re.compile(
    r"(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFuUlL]*(?![\w.])|(?P<name>[A-Za-z_]\w*)|"
    r"(?P<sign>[=!<>]=|\*\*|<<|[^\s\w])"
)
_MOST_NUMBERS, _MOST_STEPS, _DEEPEST, _MOST_LOOKS = 200, 64, 16, 100_000
_STATEMENT = re.compile(r"[;{}\n]")
_COMPARED = re.compile(r"[=!<>]=|(?<![<>-])[<>](?![<>])|\b(?:where|select|if_then_else)\b")
_MOST_COMPARED, _MOST_UNDONE = 4, 120


def points(text: str) -> tuple[float, ...]:
    """Return the numbers that a file's text holds or computes of such numbers alone, of any size: of such a branch may be made."""
    plain = _BETWEEN_DIGITS.sub("", text)
    words = [float(word) for word in _NUMBER.findall(plain)]
    words += [float(int(word, 16)) for word in _HEX.findall(plain)]
    held = list(dict.fromkeys(words))[:_MOST_NUMBERS]
    found = dict.fromkeys(held)
    for number in _Folding(plain).results():
        if len(found) >= 2 * _MOST_NUMBERS:
            break
        found.setdefault(number)
    for number in itertools.islice(_undone(plain), _MOST_UNDONE):
        found.setdefault(number)
    return tuple(n for n in found if abs(n) < float("inf"))


def _undone(text: str) -> Iterator[float]:
    """Yield what a value is where something computed of it and one number of a comparison is another: `x * 3 == 21`, `exp(x) > 5`."""
    for part in _STATEMENT.split(_COMMENT.sub(" ", text)):
        if not _COMPARED.search(part):
            continue
        words = [
            float(word) for word in _NUMBER.findall(part) if word.strip("0.") and len(word) < 30
        ]
        numbers = list(dict.fromkeys(n for n in words if n < 1e30))[:_MOST_COMPARED]
        for a, b in itertools.permutations(numbers, 2):
            yield from (a / b, a - b, a + b)
            if b == int(b) and b <= 64:
                yield from (a * 2.0**b, a / 2.0**b)
        for a in numbers:
            yield from (math.sqrt(a), a * a, math.log(a), 1 / a)
            if a < 80:
                yield from (math.exp(a), 2.0**a)


@dataclass(frozen=True, slots=True)
class _Value:
    """A constant as double precision has it, and as single precision does; whole: of integers alone."""

    wide: float
    single: float
    whole: bool


_APPLY: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": lambda a, b: a % b,
    "<<": lambda a, b: float(int(a) << int(b)) if 0 <= b < 63 else float("nan"),
    "**": lambda a, b: a**b if abs(b) <= 64 else float("nan"),
}
_FUNCTIONS: dict[str, Callable[..., float]] = {
    **{
        name: getattr(math, name)
        for name in (
            "sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh erf erfc pow fabs floor ceil trunc fmod "
            "ldexp hypot copysign cbrt"
        ).split()
    },
    "rsqrt": lambda a: 1 / math.sqrt(a),
    "abs": abs,
    "min": min,
    "max": max,
    "fmin": min,
    "fmax": max,
    "fma": lambda a, b, c: a * b + c,
}
"""functions of C's and the languages' libraries, without the prefix of their module and the suffix of single precision"""
_LEVELS = (("<<",), ("+", "-"), ("*", "/", "%"), ("**",))
"""Operators of C and Python, the weakest first."""


class _Folding:
    """Reads constants and what is computed of them in a text of C or Python; what it does not know ends an expression."""

    def __init__(self, text: str) -> None:
        # a macro is a name that is set; its line's end ends nothing else
        text = _DEFINE.sub(r"; \1 = ", _CAST.sub(" ", _COMMENT.sub(" ", text)))
        self.tokens = [(str(m.lastgroup), m[m.lastgroup or 0]) for m in _TOKEN.finditer(text)]
        self.names: dict[str, _Value] = {}
        self.made: list[_Value] = []
        self.steps = self.looks = 0

    def results(self) -> Iterator[float]:
        """Yield the results in the text's order, each in both precisions."""
        for at, (kind, word) in enumerate(self.tokens):
            if self.looks > _MOST_LOOKS:  # a long table, or a text made to keep the judge busy
                return
            if kind == "sign" and word not in "(+-":
                continue
            self.made, self.steps = [], 0
            value, end = self.level(at, 0, 0)
            if value is None:
                continue
            named = self.word(at - 1) == "=" and self.kind(at - 2) == "name"
            if named and self.word(end) not in {*_APPLY, "(", ".", "["}:
                self.names[self.word(at - 2)] = value
            for made in self.made:
                yield made.wide
                yield made.single

    def kind(self, at: int) -> str:
        return self.tokens[at][0] if 0 <= at < len(self.tokens) else ""

    def word(self, at: int) -> str:
        return self.tokens[at][1] if 0 <= at < len(self.tokens) else ""

    def level(self, at: int, level: int, depth: int) -> tuple[_Value | None, int]:
        """Return the value of the longest constant expression from a token on, None where none begins, and its end."""
        if level == len(_LEVELS):
            return self.single(at, depth)
        value, at = self.level(at, level + 1, depth)
        while value is not None and self.word(at) in _LEVELS[level] and self.steps < _MOST_STEPS:
            self.steps += 1
            other, end = self.level(at + 1, level + 1, depth)
            made = None if other is None else _applied(self.word(at), value, other)
            if made is None:
                break
            value, at = made, end
            self.made.append(value)
        return value, at

    def single(self, at: int, depth: int) -> tuple[_Value | None, int]:
        self.looks += 1
        kind, word = self.kind(at), self.word(at)
        if depth > _DEEPEST:
            return None, at
        if kind == "number":
            return _literal(word), at + 1
        if kind == "name":
            while self.word(at + 1) in (".", ":") and (after := self._qualified(at)):
                at = after
            if self.word(at + 1) == "(":
                return self.called(at, depth)
            known = self.word(at + 1) not in (".", "[") and self.word(at) == word
            return (self.names.get(word) if known else None), at + 1
        if word in ("-", "+"):
            value, end = self.single(at + 1, depth + 1)
            sign = -1 if word == "-" else 1
            return value and _Value(sign * value.wide, sign * value.single, value.whole), end
        if word == "(":
            value, end = self.level(at + 1, 0, depth + 1)
            return (value if self.word(end) == ")" else None), end + 1
        return None, at

    def _qualified(self, at: int) -> int:
        """Return where the next name of a qualified one is, 0 where there is none: `std::exp`, `tl.math.exp2`."""
        step = 3 if self.word(at + 1) == ":" == self.word(at + 2) else 2
        return at + step if self.kind(at + step) == "name" and self.word(at + 1) in ".:" else 0

    def called(self, at: int, depth: int) -> tuple[_Value | None, int]:
        """Return what a function of the library makes of constants, and the end of its arguments."""
        name = self.word(at).lstrip("_")
        function = _FUNCTIONS.get(name) or _FUNCTIONS.get(name.removesuffix("f"))
        args: list[_Value] = []
        end = at + 1
        while function is not None and self.word(end) in ("(", ",") and len(args) < 3:
            value, end = self.level(end + 1, 0, depth + 1)
            if value is None:
                return None, at + 1
            args.append(value)
        if function is None or self.word(end) != ")":
            return None, at + 1
        try:
            wide = float(function(*(_argument(a.wide, a.whole) for a in args)))
            single = _single(float(function(*(_argument(a.single, a.whole) for a in args))))
        except (ArithmeticError, ValueError, TypeError):
            return None, end + 1
        made = _Value(wide, single, False)
        self.made.append(made)
        return made, end + 1


def _argument(value: float, whole: bool) -> float:
    return int(value) if whole and abs(value) < 2**31 else value


def _literal(word: str) -> _Value:
    if word[:2] in ("0x", "0X"):
        return _Value(float(int(word, 16)), float(int(word, 16)), True)
    value = float(word)
    return _Value(value, _single(value), word.isdigit())


def _applied(sign: str, a: _Value, b: _Value) -> _Value | None:
    whole = a.whole and b.whole
    if sign == "<<" and not whole:
        return None
    try:
        wide, single = (_APPLY[sign](x, y) for x, y in ((a.wide, b.wide), (a.single, b.single)))
        if isinstance(wide, complex) or isinstance(single, complex):  # (-2) ** 0.5 in Python
            return None
        if sign == "/" and whole:  # C's quotient; Python's is kept beside it
            return _Value(float(int(wide)), wide, True)
        return _Value(wide, _single(single), whole)
    except (ArithmeticError, ValueError, TypeError):
        return None


def _single(value: float) -> float:
    """Return a number as single precision holds it; an infinity where it does not."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return float("inf")
