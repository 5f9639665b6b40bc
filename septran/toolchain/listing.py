"""Read a listing of g++ with its own estimate of how often each block runs (`-S -dA`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_NAME = re.compile(r"([\w.$]+):")
_BLOCK = re.compile(r"(?:#|//) BLOCK (\d+)(?:, count:(\d+))?")
_GUESSED = re.compile(r"\[89\.0% \(guessed\)\] [^()]*\([^)]*\) \([^)]*DFS_BACK")
"""a loop's way back that is as likely as the compiler takes it to be when it knows nothing"""
_PRED = re.compile(r"(?:#|//) PRED: (.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A basic block. runs: how often it runs in a call of its function. loops: it is a whole loop by itself.

    guessed: the compiler does not know how often the loop that it ends goes round. lines: its instructions as the
    assembler reads them.
    """

    runs: float
    loops: bool
    guessed: bool
    lines: tuple[str, ...]


def functions(text: str) -> Mapping[str, tuple[Block, ...]]:
    """Return the blocks of each function of a listing, the counts those of one call."""
    found: dict[str, tuple[Block, ...]] = {}
    name = ""
    parts: list[tuple[int, int, str, list[str]]] = []
    for line in (*text.splitlines(), "end:"):
        label = _NAME.match(line)
        if label and not label[1].startswith("."):
            if parts:
                found[name] = _blocks(parts)
            name, parts = label[1], []
        elif block := _BLOCK.match(line):
            parts.append((int(block[1]), int(block[2] or 0), "", []))
        elif parts and (pred := _PRED.match(line)):
            parts[-1] = (*parts[-1][:2], pred[1], parts[-1][3])
        elif parts and re.match(r"\t[a-z]", line):
            parts[-1][3].append(line.strip())
    return found


def _blocks(parts: list[tuple[int, int, str, list[str]]]) -> tuple[Block, ...]:
    """Return the blocks with counts over that of the entry; a part without one (`.cold`) never runs."""
    entry = next((count for _, count, pred, _ in parts if pred.startswith("ENTRY")), 0)
    return tuple(
        Block(
            runs=count / entry if entry else 0.0,
            loops=re.search(rf"(?:^|\) ){number} \[", pred) is not None,
            guessed=_GUESSED.search(pred) is not None,
            lines=tuple(lines),
        )
        for number, count, pred, lines in parts
    )
