"""What an `asm` statement of a CUDA file says: its template, its operands as C++ expressions.

Source of the syntax: CUDA, "Inline PTX Assembly".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from septran.backends.text.ptx import STRING, NoPtx, split

_SKIPPED = re.compile(rf"//[^\n]*|/\*.*?\*/|{STRING}|'(?:[^'\\\n]|\\.)*'", re.S)
_ASM = re.compile(
    r"\b(?:asm|__asm__|__asm)\b(?:\s|\\\n)*(?:(?:__volatile__|__volatile|volatile)\b)?(?:\s|\\\n)*\("
)
_OPERAND = re.compile(rf"\s*({STRING})\s*\((.*)\)\s*", re.S)
_CONSTRAINTS = ("r", "l", "h", "f", "d", "n")
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand. constraint: its letter. reads, writes: what the statement does with it. text: C++."""

    constraint: str
    reads: bool
    writes: bool
    text: str


@dataclass(frozen=True, slots=True)
class Asm:
    """What an `asm` statement says."""

    template: str
    operands: tuple[Operand, ...]


def statements(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the `asm` statements of a text begin and end; those of comments and strings are none."""
    blank = _SKIPPED.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)
    for match in _ASM.finditer(blank):
        depth, at = 1, match.end()
        while depth and at < len(blank):
            depth += (blank[at] == "(") - (blank[at] == ")")
            at += 1
        yield match.start(), at


def parsed(text: str, start: int, end: int) -> Asm:
    """Return the statement at a place of `statements`.

    Raises:
        NoPtx: it is no statement of a template and operands, as those of host code.
    """
    body = text[text.index("(", start) + 1 : end - 1].replace("\\\n", " ")
    body = _SKIPPED.sub(lambda m: " " if m.group().startswith("/") else m.group(), body)
    parts = split(body, ":")
    if not re.fullmatch(rf"(\s*{STRING})+\s*", parts[0]):
        raise NoPtx("a template that is no text")
    template = "".join(_plain(s) for s in re.findall(STRING, parts[0]))
    operands: list[Operand] = []
    for place, part in enumerate(parts[1:3]):
        for one in split(part, ","):
            if not one.strip():
                continue
            match = _OPERAND.fullmatch(one)
            if match is None:
                raise NoPtx("an operand with a name")
            mark = match.group(1)[1:-1]
            operands.append(
                Operand(
                    constraint=mark.lstrip("=+&"),
                    reads=place == 1 or "+" in mark,
                    writes=place == 0,
                    text=" ".join(match.group(2).split()),
                )
            )
    if len(parts) > 4 or any(one.constraint not in _CONSTRAINTS for one in operands):
        raise NoPtx("operands of host code")
    return Asm(template, tuple(operands))


def _plain(string: str) -> str:
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m.group(1), m.group(1)), string[1:-1])
