"""Lines of a C or C++ text that compare nothing but numbers of the launch: places in the grid, sizes that are handed over, and numbers.

Their comparisons come out as they do whatever the tensors hold, so no input turns them. A name counts only where all that is ever stored to it
is read here; an element, a pointer's target, a call's result or an address that is taken make it one that data may decide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from septran.backends.judged.c_host import blank
from septran.backends.judged.c_sizes import scopes
from septran.backends.judged.c_terms import NUMBER, WHOLE, tokens_of
from septran.ir.brackets import closing, split_top

_COMPARES = ("<", "<=", ">", ">=", "==", "!=")
_ENDS = frozenset((";", ",", "&&", "||", "?", ":", "{", "}", "=", "return"))
_PLAIN = frozenset(
    "+ - * / % << >> & | ^ ~ ! ( ) . ? : < <= > >= == != && || x y z blockIdx threadIdx blockDim gridDim warpSize min max "
    "const int unsigned long short size_t std::size_t static_cast sizeof float double".split()
)
_WRITES = r"(?<![\w.>&])\b{0}\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)"
_DECLARED = re.compile(rf"\b(?:{WHOLE}|auto)\s+(\w+)\s*(?==(?!=)|;|,)")
_MORE = re.compile(r",\s*(\w+)\s*=(?!=)")
_PARAMETER = re.compile(rf"\s*(?:const\s+)?(?:{WHOLE}\s+)+(\w+)\s*")
_NUMBERS = re.compile(rf"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+\(?{NUMBER}\)?[ \t]*$|\bconstexpr\s+(?:{WHOLE}\s+)+(\w+)\s*=\s*{NUMBER}\s*;", re.M)  # fmt: skip
_BY_REFERENCE = re.compile(rf"\b{WHOLE}\s*&")
_WHOLE = (";", "{", "}", ")")
"""how a line ends that is no part of a longer one"""
_ASKS = re.compile(r"\b(?:if|while)\s*(?:constexpr\s*)?\(")


def lines_of_places(text: str) -> frozenset[int]:
    """Return the lines, from 1, that compare nothing which data decide."""
    plain = blank(text).replace("\\\n", " \n")
    if _BY_REFERENCE.search(plain):
        return frozenset()  # what a function is handed so, it may change
    numbers = {a or b for a, b in _NUMBERS.findall(plain)}
    found: set[int] = set()
    for name, part in scopes(plain):
        if not name:
            continue
        known = numbers | _known(name, part, plain, numbers)
        at = plain.index(part)
        first = plain.count("\n", 0, at) + 1
        before = ";"
        for number, line in enumerate(part.split("\n"), first):
            if before[-1] in _WHOLE and line.strip()[-1:] in _WHOLE and _is_placed(line, known):
                found.add(number)
            before = line.strip() or before
    return frozenset(found)


def _known(name: str, part: str, plain: str, numbers: set[str]) -> set[str]:
    """Return the names in a function that hold nothing but what is made of places, sizes and numbers."""
    head = part[part.index("(") + 1 : closing(part, part.index("("), "(")]
    before = plain[: plain.index(part)].rsplit("}", 1)[-1].rsplit(";", 1)[-1]
    handed = "__global__" in before or len(re.findall(rf"\b{re.escape(name)}\b", plain)) == 1
    params = [m[1] for p in split_top(head) if (m := _PARAMETER.fullmatch(p))] if handed else []
    known = {*params, *_DECLARED.findall(part), *_MORE.findall(part)}
    known -= {n for n in known if re.search(rf"(?<!&)&\s*{n}\b(?!\s*\[)|\b{n}\s*\[", part)}
    while True:
        bad = {n for n in known if any(not _is_plain(s, known | numbers) for s in _stored(n, part))}
        if not bad:
            return known
        known -= bad


def _stored(name: str, part: str) -> Iterator[list[str]]:
    """Yield the words of all that is stored to a name."""
    for m in re.finditer(_WRITES.format(re.escape(name)), part):
        words, depth = [], 0
        for word in tokens_of(part[m.end() :], most=200):
            depth += (word in "([{") - (word in ")]}")
            if depth < 0 or (depth == 0 and word in (";", ",")):
                break
            words.append(word)
        yield words


def _is_plain(words: Sequence[str], known: set[str]) -> bool:
    return bool(words) and all(w in _PLAIN or w in known or w[0].isdigit() for w in words)


def _is_placed(line: str, known: set[str]) -> bool:
    words = tokens_of(line)
    compares = [k for k, word in enumerate(words) if word in _COMPARES]
    if not compares or words.count("(") != words.count(")"):
        return False  # a part of a condition that goes on
    for m in _ASKS.finditer(line):
        end = closing(line, m.end() - 1, "(")
        asked = tokens_of(line[m.end() : end if end > 0 else len(line)])
        if not _is_plain(asked, known):
            return False
    sides = (s for k in compares for s in (_side(words, k, -1), _side(words, k, 1)))
    return all(_is_plain(side, known) for side in sides)


def _side(words: Sequence[str], at: int, step: int) -> list[str]:
    """Return the words on one side of a comparison, as far as its operand goes."""
    opens, closes = ("([", ")]") if step > 0 else (")]", "([")
    found, depth = [], 0
    at += step
    while 0 <= at < len(words):
        word = words[at]
        depth += (word in opens) - (word in closes)
        if depth < 0 or (depth == 0 and word in (*_ENDS, *_COMPARES)):
            break
        found.append(word)
        at += step
    return found
