"""What an `asm` statement of a CUDA file says: its template as PTX instructions, its operands as C++ expressions.

Source of the syntax: PTX ISA, "Syntax"; CUDA, "Inline PTX Assembly".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_STRING = r'"(?:[^"\\\n]|\\.)*"'
_SKIPPED = re.compile(rf"//[^\n]*|/\*.*?\*/|{_STRING}|'(?:[^'\\\n]|\\.)*'", re.S)
_ASM = re.compile(
    r"\b(?:asm|__asm__|__asm)\b(?:\s|\\\n)*(?:(?:__volatile__|__volatile|volatile)\b)?(?:\s|\\\n)*\("
)
_OPERAND = re.compile(rf"\s*({_STRING})\s*\((.*)\)\s*", re.S)
_CONSTRAINTS = ("r", "l", "h", "f", "d", "n")
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}


class NoPtx(Exception):
    """This has no C++ for the emulation. The words name what it is."""


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand. constraint: its letter. reads, writes: what the statement does with it. text: C++."""

    constraint: str
    reads: bool
    writes: bool
    text: str


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. guard: the predicate it depends on, "" for none. label: it is one, and nothing else."""

    opcode: str
    operands: tuple[str, ...]
    guard: str = ""
    unless: bool = False
    label: str = ""


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
    parts = _split(body, ":")
    if not re.fullmatch(rf"(\s*{_STRING})+\s*", parts[0]):
        raise NoPtx("a template that is no text")
    template = "".join(_plain(s) for s in re.findall(_STRING, parts[0]))
    operands: list[Operand] = []
    for place, part in enumerate(parts[1:3]):
        for one in _split(part, ","):
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


def _split(text: str, mark: str) -> list[str]:
    """Return the parts of a text that `mark` separates outside of brackets and strings."""
    parts, depth, begin, at = [], 0, 0, 0
    while at < len(text):
        if text[at] == '"':
            at += len(re.match(_STRING, text[at:]).group()) if re.match(_STRING, text[at:]) else 1  # type: ignore[union-attr]
            continue
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if text[at] == mark and not depth:
            parts.append(text[begin:at])
            begin = at + 1
        at += 1
    return [*parts, text[begin:]]


_LABEL = re.compile(r"\s*([A-Za-z_$][\w$]*)\s*:(?!:)")
_GUARD = re.compile(r"@(!?)\s*([%\w$]+)\s+")
_ENTRY = re.compile(r"\.reg\s+\.(\w+)\s+(.*)", re.S)


def registers(template: str) -> dict[str, str]:
    """Return the registers that a template declares -> their type."""
    found: dict[str, str] = {}
    for statement in _lines(template):
        if match := _ENTRY.fullmatch(statement):
            for name in re.split(r"\s*,\s*", match.group(2).strip()):
                counted = re.fullmatch(r"([%\w$]+)<(\d+)>", name)
                names = [name]
                if counted:
                    names = [
                        f"{counted.group(1)}{i}" for i in range(min(int(counted.group(2)), 256))
                    ]
                found |= dict.fromkeys(names, match.group(1))
    return found


def instructions(template: str) -> Iterator[Instruction]:
    """Yield the instructions of a template, labels among them; declarations are left out."""
    for statement in _lines(template):
        while match := _LABEL.match(statement):
            yield Instruction("", (), label=match.group(1))
            statement = statement[match.end() :].strip()
        if not statement or statement.startswith(".reg"):
            continue
        guard, unless = "", False
        if match := _GUARD.match(statement):
            guard, unless = match.group(2), bool(match.group(1))
            statement = statement[match.end() :]
        opcode, _, rest = statement.partition(" ")
        operands = tuple(o.strip() for o in _split(rest, ",") if o.strip())
        yield Instruction(opcode, operands, guard, unless)


def _lines(template: str) -> Iterator[str]:
    """Yield the statements of a template; a block in braces is part of the whole, a vector is not."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", template, flags=re.S)
    text = re.sub(r"\s+", " ", text)
    depth, begin = 0, 0
    for at, c in enumerate(text):
        # a vector follows an opcode or a comma, a block begins a statement
        if c == "{" and (depth or text[begin:at].strip()):
            depth += 1
        elif c == "{" or (c == "}" and not depth):
            if text[begin:at].strip():  # a label at the end of a block
                yield text[begin:at].strip()
            begin = at + 1
        elif c == "}":
            depth -= 1
        elif c == ";":
            if text[begin:at].strip():
                yield text[begin:at].strip()
            begin, depth = at + 1, 0
    if text[begin:].strip():
        yield text[begin:].strip()
