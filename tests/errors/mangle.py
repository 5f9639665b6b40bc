"""Shipped files with random damage: what a person's slip of the keyboard, or a model's edit, leaves."""

from __future__ import annotations

import ast
import random
import re

import yaml

_TOKEN = re.compile(r"\w+|[^\w\s]")
_VALUES = (
    "null", "true", "-1", "0", "1.5", "1e400", "99999999999999999999", '""', '"x"', "[]", "[1, a]",
    "{}", "{a: 1}", "[[]]", "!tune {type: choice, values: [1]}", "!other 3", "*gone", "x y", "'", "é",
    "\t", "\x00", "~", ".nan", "0x10", "- -", "? a", "|",
)  # fmt: skip
_CODE = (
    "None", "True", "-1", "0", "1.5", "10**9", "''", "'x'", "[]", "()", "{}", "lambda: 0", "task", "C",
    "(", ")", ":", "for i in x:", "return", "break", "if C:", "import nowhere", "1 / 0", "é", "\x00",
)  # fmt: skip


def mangled(text: str, rng: random.Random, *, code: bool) -> str:
    """Return `text` with one to three random edits; three quarters of the results still parse."""
    strict = rng.random() < 0.75
    found = text
    for _ in range(30):
        found = text
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            edit = rng.choice((_line, _line, _token, _token, _type, _type, _type, _characters))
            found = edit(found, rng, _CODE if code else _VALUES)
        if not strict or _parses(found, code):
            break
    return found


def _parses(text: str, code: bool) -> bool:
    try:
        if code:
            ast.parse(text)
        else:
            yaml.compose(text)
    except (SyntaxError, ValueError, yaml.YAMLError):
        return False
    return True


def _line(text: str, rng: random.Random, values: tuple[str, ...]) -> str:
    lines = text.splitlines(keepends=True) or ["\n"]
    at = rng.randrange(len(lines))
    match rng.randrange(6):
        case 0:
            del lines[at]
        case 1:
            lines.insert(rng.randrange(len(lines) + 1), lines[at])
        case 2:
            lines[at] = lines[at].replace("  ", "   ", 1) if "  " in lines[at] else " " + lines[at]
        case 3:
            lines[at] = lines[at].lstrip()
        case 4:
            other = rng.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        case 5:
            lines = lines[: at + 1]
    return "".join(lines)


def _token(text: str, rng: random.Random, values: tuple[str, ...]) -> str:
    found = list(_TOKEN.finditer(text))
    if not found:
        return text
    one, two = rng.choice(found), rng.choice(found)
    match rng.randrange(3):
        case 0:
            return text[: one.start()] + text[one.end() :]
        case 1:
            return text[: one.start()] + two.group() + text[one.end() :]
    return text[: one.start()] + two.group() + " " + text[one.start() :]


def _type(text: str, rng: random.Random, values: tuple[str, ...]) -> str:
    words = [m for m in _TOKEN.finditer(text) if m.group()[0].isalnum()]
    if not words:
        return text
    one = rng.choice(words)
    end = one.end()
    if rng.random() < 0.5:  # the rest of the line too
        end = len(text[: one.end()]) + len(text[one.end() :].split("\n", 1)[0])
    return text[: one.start()] + rng.choice(values) + text[end:]


def _characters(text: str, rng: random.Random, values: tuple[str, ...]) -> str:
    at = rng.randrange(len(text) + 1)
    if rng.random() < 0.5:
        return text[:at] + text[at + rng.randrange(1, 9) :]
    return text[:at] + rng.choice("{}[]()'\":,-#!&*|>%@\\ \n\t0a") + text[at:]
