"""PTX as text: the instructions of a template and the registers that it declares. Source: PTX ISA, "Syntax".

It imports nothing of SepTran's: where Triton's interpreter runs such templates, a copy lies beside the judged kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

STRING = r'"(?:[^"\\\n]|\\.)*"'
"""a text in quotes, as a pattern"""


class NoPtx(Exception):
    """This has no C++ for the emulation. The words name what it is."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. guard: the predicate it depends on, "" for none. label: it is one, and nothing else."""

    opcode: str
    operands: tuple[str, ...]
    guard: str = ""
    unless: bool = False
    label: str = ""


def split(text: str, mark: str) -> list[str]:
    """Return the parts of a text that `mark` separates outside of brackets and strings."""
    parts, depth, begin, at = [], 0, 0, 0
    while at < len(text):
        if text[at] == '"':
            at += len(re.match(STRING, text[at:]).group()) if re.match(STRING, text[at:]) else 1  # type: ignore[union-attr]
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
        operands = tuple(o.strip() for o in split(rest, ",") if o.strip())
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
