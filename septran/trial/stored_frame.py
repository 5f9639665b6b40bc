"""What stands around the leaves of a stored kernel and decides what its judge reads: only as it is printed here is it judged.

A header, a module of an emulator, or a branch that one of two builds compiles says what the judge sees, so none of it is
taken from a run or a bundle. Other text may differ, as long as it brings nothing of the kind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from septran.kernel import Kernel

_HEAD = re.compile(r"^// ---- ([^\n:]*)[^\n]*$", re.M)
_CONDITION = re.compile(r"^\s*#\s*(?:el)?if", re.M)
_DIRECTIVE = re.compile(r"^[^\S\n]*(?:#|%:|\?\?=)[^\S\n]*(?!pragma\b)[^\n]*", re.M)
_SPLICED = re.compile(r"(?:\\|\?\?/)[ \t\r\f\v]*$", re.M)
# of the judge, of compilers, and what is another in another build
_BROUGHT = re.compile(
    r"\b(?:cuemu|CUEMU|SEPTRAN_|septran_|ST_LAUNCH|judged_kernel|__builtin_|__has_)\w*|\b__[A-Z][A-Z0-9_]*__\b|\bsource_location\b"
    r'|\b_Pragma\b|\b(?:u8|[uUL])?R"'
)
_QUOTED = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)


def plain(text: str) -> str:
    """Return a text without the comment lines that name versions and writers; one that takes the next line with it stays."""
    return "\n".join(
        one for one in text.splitlines() if not one.startswith("// ") or _SPLICED.search(one)
    )


def not_printed_here(kernel: Kernel, printed: Mapping[str, str]) -> str:
    """Return what of a kernel decides what its judge reads and is not the `printed` files' text, "" when nothing.

    Leaves that the source gate read are in `printed`, too.
    """
    for name, text in kernel.files:
        if name not in printed:
            return f"the file {name} is none that is printed here"
        if name != kernel.main and plain(text) != plain(printed[name]):
            return f"{name}, which comes with the target, is not what is printed here"
    if kernel.main.endswith(".py") or kernel.main not in printed:
        return ""  # a Python file is read whole by the static gate
    mine, ours = _sections(kernel.source), _sections(printed[kernel.main])
    if [name for name, _ in mine] != [name for name, _ in ours]:
        return f"{kernel.main} has other parts than what is printed here"
    wrong = (_changed(name, text, own) for (name, text), (_, own) in zip(mine, ours, strict=True))
    return next((f"{kernel.main}: {what}" for what in wrong if what), "")


def _sections(text: str) -> list[tuple[str, str]]:
    """Return the parts of a printed text, each by the name in its headline; what comes before the first has none."""
    pieces = _HEAD.split(text)
    return [("", pieces[0]), *zip(pieces[1::2], pieces[2::2], strict=True)]


def _changed(name: str, text: str, printed: str) -> str:
    if plain(text) == plain(printed):
        return ""
    where = f"the part {name!r}" if name else "its beginning"
    if _CONDITION.search(printed):
        return (
            f"{where} holds what only one of two builds compiles, and is not what is printed here"
        )
    if _directives(text) != _directives(printed):
        return f"{where} has preprocessor lines that are not printed here"
    if _SPLICED.search(text):
        return f"{where} has a line that goes on behind a backslash"
    bare = _QUOTED.sub(" ", text)
    if "/*" in bare or "*/" in bare:
        return f"{where} has a comment that does not end in it"
    known = set(_BROUGHT.findall(printed))
    brought = next((m.group() for m in _BROUGHT.finditer(text) if m.group() not in known), "")
    return f"{where} names {brought}, which is another in another build" if brought else ""


def _directives(text: str) -> list[str]:
    kept = _QUOTED.sub(lambda m: " " if m.group().startswith("/") else m.group(), text)
    return [" ".join(line.split()) for line in _DIRECTIVE.findall(kept)]
