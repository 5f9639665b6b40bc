"""Faults of TileLang's kind in printed text: copies turned round, clips dropped, another block's index, another kind of loop."""

from __future__ import annotations

import re
from collections.abc import Iterator

Edit = tuple[str, str]
"""name of the fault, the whole text with it"""

_COPY = re.compile(r"(T\.\w+)\((\w+(?:\[.*\])?), (\w+(?:\[.*\])?)\)$", re.M)
_CONJUNCT = re.compile(r"(\([^()]* (?:<|>=) [^()]*\)) & | & (\([^()]* (?:<|>=) [^()]*\))")
_ONLY = re.compile(r"T\.if_then_else\((\([^()]*\)), (.*), [^,]*\)$", re.M)
_IF = re.compile(r"^( *)if \(.*\):\n((?:\1    .*\n)+)", re.M)
_BOUND = re.compile(r"T\.(?:min|max)\(([^(),]*), ([^(),]*)\)")
_BLOCK = re.compile(r"^( *)for [\w, ]+ in T\.Parallel\(.*\n((?:\1 .*\n)+)", re.M)
_LOOP = re.compile(r"T\.(serial|Pipelined|Parallel)\(")
_INDEX = re.compile(r"\b(?:[ijk]\d*|cid|bx|at(?:_\d)?)\b")
_LEAF = re.compile(r"(leaf_\w+)\((\w+), (\w+)")


def tile_faults(body: str) -> Iterator[Edit]:
    """Yield each fault that one line of a TileLang kernel's body can have, in the text's order per kind."""

    def put(what: str, start: int, end: int, new: str) -> Edit:
        line = body.count("\n", 0, start) + 1
        return f"line {line}: {what}", body[:start] + new + body[end:]

    for m in _COPY.finditer(body):
        yield put(f"{m[1]} turned round", m.start(), m.end(), f"{m[1]}({m[3]}, {m[2]})")
    for m in _LEAF.finditer(body):
        yield put("operands exchanged", m.start(), m.end(), f"{m[1]}({m[3]}, {m[2]}")
    for m in _CONJUNCT.finditer(body):
        yield put(f"{m[1] or m[2]} dropped", m.start(), m.end(), "")
    for m in _ONLY.finditer(body):
        yield put(f"{m[1]} dropped", m.start(), m.end(), m[2])
    for m in _IF.finditer(body):
        inner = re.sub("^    ", "", m[2], flags=re.M)
        yield put("the condition dropped", m.start(), m.end(), inner)
    for m in _BOUND.finditer(body):
        for kept in (m[1], m[2]):
            yield put(f"{kept} for {m[0]}", m.start(), m.end(), kept)
    for m in _BLOCK.finditer(body):
        yield put("a loop dropped", m.start(), m.end(), "")
        yield put("a loop twice", m.start(), m.end(), m[0] * 2)
    for m in _LOOP.finditer(body):
        for kind in sorted({"serial", "Parallel"} - {m[1]}):
            yield put(f"T.{kind} for T.{m[1]}", m.start(), m.end(), f"T.{kind}(")
    for m in _INDEX.finditer(body):
        above = set(_INDEX.findall(body[: body.index("\n", m.start())]))
        for other in sorted(above - {m[0]}):
            yield put(f"{other} for {m[0]}", m.start(), m.end(), other)
