"""Replies in other forms than a block with a body: a diff, a JSON object, the whole function under another name."""

from __future__ import annotations

import ast
import json
import re
import textwrap
from collections.abc import Mapping

from septran.agent.frame import C_TOKENS, Frame

DIFFS = ("diff", "patch")
_FIELDS = ("code", "body", "leaf", "reply", "answer", "content", "arguments", "input")
_FUNCTION = re.compile(
    r"\bvoid\s+(?P<name>operator\s*\(\s*\)|\w+)\s*\((?P<params>[^;{}()]{0,2000})\)[^;{}=]{0,200}\{"
)


def of_diff(text: str) -> str:
    """Return what a diff leaves: its added and unchanged lines."""
    kept = []
    for line in text.splitlines():
        if line.startswith(("---", "+++", "@@", "-", "index ", "diff ", "\\")):
            continue
        kept.append(line[1:] if line[:1] in ("+", " ") else line)
    return textwrap.dedent("\n".join(kept)).strip("\n") + "\n"


def of_json(found: Mapping[str, object]) -> str:
    """Return the text of a JSON object that holds code under one of the usual names, "" when none does."""
    for name in _FIELDS:
        value = found.get(name)
        if isinstance(value, str) and value.strip().startswith("{"):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                return str(value)
        if isinstance(value, dict):
            return of_json(value)
        if isinstance(value, str) and value.strip():
            return value
    return ""


def named(code: str, frame: Frame, symbol: str) -> tuple[str, str]:
    """Return code in which the only function, where it has another name than `symbol`, has that; and why it cannot have it.

    It is the leaf's where its parameters have the leaf's names in the leaf's order.
    """
    if re.search(rf"\b{re.escape(symbol)}\b", code):
        return code, ""
    return _named_c(code, frame, symbol) if frame.braces else _named_python(code, frame, symbol)


def _named_c(code: str, frame: Frame, symbol: str) -> tuple[str, str]:
    plain = C_TOKENS.sub(lambda token: re.sub(r"[^\n]", " ", token[0]), code)
    found = [*_FUNCTION.finditer(plain)]
    before = plain[: found[0].start()] if found else ""
    if len(found) != 1 or before.count("}") > before.count("{"):
        return code, ""
    start, end = found[0].span("name")
    own, wanted = _names(found[0]["params"]), _names(frame.signature.partition("(")[2])
    if own != wanted:
        return code, _other(found[0]["name"], own, wanted)
    return code[:start] + symbol + code[end:], ""


def _names(params: str) -> list[str]:
    """Return the names of C parameters."""
    plain = params
    while (shorter := re.sub(r"<[^<>]*>", "", plain)) != plain:
        plain = shorter
    return re.findall(r"(\w+)\s*(?=,|\)|$)", plain)


def _named_python(code: str, frame: Frame, symbol: str) -> tuple[str, str]:
    try:
        tree = ast.parse(textwrap.dedent(code))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the gate says which
        return code, ""
    found = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    wanted = re.search(rf"\bdef {re.escape(symbol)}\(([^)]*)\)", frame.text)
    if len(found) != 1 or wanted is None or ("return" not in code and len(tree.body) > 1):
        return code, ""
    own = [a.arg for a in found[0].args.args]
    names = re.findall(r"\w+", re.sub(r":[^,]*", "", wanted[1]))
    if own != names:
        return code, _other(found[0].name, own, names)
    return re.sub(rf"\bdef {re.escape(found[0].name)}\b", f"def {symbol}", code, count=1), ""


def _other(name: str, own: list[str], wanted: list[str]) -> str:
    return (
        f"the reply defines {name}({', '.join(own)}), the leaf has the parameters ({', '.join(wanted)}): "
        "write its body alone, with these names"
    )
