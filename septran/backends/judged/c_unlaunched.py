"""Why no function of a C++ or CUDA file may be the host function: the place and the reason."""

from __future__ import annotations

import re
from collections.abc import Callable

from septran.backends.judged.c_host import CHead, blank, functions, heads
from septran.ir.brackets import split_top

_MAIN = re.compile(r"\bmain\s*\([^(){};]*\)\s*\{")
_WRITE = "write a function that takes pointers to the tensors' elements and their sizes, launches the kernel and leaves the results in memory that it is given"


def unlaunched(text: str, skip: Callable[[str], bool]) -> tuple[int, str, str] | None:
    """Return line, reason and what to do of the likeliest function that launches (or, where nothing does, that there is), None for none.

    skip: as of `c_host.functions`.
    """
    plain = blank(text)
    every = [h for h in heads(text, named=True) if not skip(h.before)]
    launch = re.search(r"<<<", plain)
    hosts = [h for h in every if "<<<" in h.body] if launch else every
    for head in hosts:
        says = f"{head.name} launches in line {_line(text, head)}" if launch else head.name
        why = _trouble(text, head)
        return head.line, f"{says}{', but' if launch else ''} {why}", _WRITE
    main = _MAIN.search(plain)
    if launch and main is not None and main.start() < launch.start():
        line = plain.count("\n", 0, launch.start()) + 1
        return line, f"main launches in line {line}, but takes no tensors", _WRITE
    return None


def _line(text: str, head: CHead) -> int:
    """Return the line of a function's first launch."""
    at = blank(text).find("<<<", sum(len(row) + 1 for row in text.split("\n")[: head.line - 1]))
    return text.count("\n", 0, at) + 1


def _trouble(text: str, head: CHead) -> str:
    if "template" in head.before:
        return "is a template; a function that names its types can call it"
    params = [" ".join(p.split()) for p in split_top(head.params, "<") if p.strip()]
    for param in params:
        alone = f"void f(float* septran_other, {param}) {{}}"
        if not functions(f"{alone}\n{_types(text)}", lambda before: False):
            return f"takes {param}, which is neither a pointer to elements nor a number"
    return "takes no tensors"


def _types(text: str) -> str:
    """Return the names that a file gives to types, which its parameters may have."""
    return "\n".join(re.findall(r"(?:typedef|using)\b[^;{}]*;", blank(text)))
