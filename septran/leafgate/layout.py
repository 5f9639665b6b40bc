"""Tokens of a parsed leaf to text: lines and indentation as they were, one spelling of everything else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Union


@dataclass(frozen=True, slots=True)
class Word:
    """A printed token. line: where it stood, 0 = wherever the last one is.

    style: " " apart, "<" close to what is before it, ">" close to what follows, "-" close to both.
    """

    text: str
    line: int
    style: str = " "


Tree = Union[Word, "list[Tree]"]
_BRACKETS = frozenset("()[]{},;")


def words(tree: Tree) -> Iterator[Word]:
    """Return the leaves of a tree in order, without recursion."""
    todo: list[Tree] = [tree]
    while todo:
        top = todo.pop()
        if isinstance(top, Word):
            yield top
        else:
            todo.extend(reversed(top))


def text_of(tree: Tree, indents: Mapping[int, str]) -> str:
    """Return the text of a tree; its first token stands on its own line's number."""
    out: list[str] = []
    row = 1
    last: Word | None = None
    for word in words(tree):
        if not word.text:
            continue
        if word.line > row:
            out.append("\n" * (word.line - row) + indents.get(word.line, ""))
            row = word.line
            last = None
        if last is not None and not _close(last, word):
            out.append(" ")
        out.append(word.text)
        last = word
    return "".join(out)


def _close(a: Word, b: Word) -> bool:
    if not (a.style in ">-" or b.style in "<-"):
        return False
    left, right = a.text[-1], b.text[0]
    if (left.isalnum() or left == "_") and (right.isalnum() or right == "_"):
        return False
    if left.isalnum() or left == "_" or right.isalnum() or right == "_":
        # `1 .x` and `x <:` cannot arise: numbers have no members, and nothing starts with ::
        return not (left.isdigit() and right == "." and a.text[0].isdigit())
    if left in _BRACKETS or right in _BRACKETS:
        return left + right != "[["  # which would be an attribute
    return left + right in (">>", ">:", ">.")
