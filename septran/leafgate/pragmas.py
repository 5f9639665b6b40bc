"""Loop pragmas of the C-family subset: what a leaf may ask of the compiler, spelled as its compiler has it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from septran.leafgate.names import Language

_UNROLL = re.compile(r"(?:GCC )?unroll(?: ?\( ?(\w+) ?\)| (\w+))")
_COUNT = re.compile(r"[1-9]\d?")
_CLAUSE = re.compile(r" (schedule|collapse|reduction)(?=\()")
_REDUCED = re.compile(r"reduction\([^:()]*:([\w,]*)\)")


def spelled(
    words: str, of: Language, constants: Collection[str], known: Callable[[str], bool]
) -> str:
    """Return a pragma's words as they are printed, "" where they are not part of the subset.

    constants: names that the leaf declares constexpr. known: whether a name is a variable of the leaf's.
    """
    unroll = _UNROLL.fullmatch(words)
    if unroll is not None:
        count = unroll[1] or unroll[2]
        return f"{of.unroll} {count}" if _COUNT.fullmatch(count) or count in constants else ""
    if not (of.pragmas.fullmatch(words) or of.threads.fullmatch(words)):
        return ""
    clauses = _CLAUSE.findall(words)
    reduced = [name for names in _REDUCED.findall(words) for name in names.split(",")]
    twice = any(clauses.count(word) > 1 for word in ("schedule", "collapse"))
    return words if all(map(known, reduced)) and not twice else ""
