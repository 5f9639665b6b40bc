"""Where a C++ or CUDA file says its own name: in a message nobody judges it by, anywhere else it may decide.

`__FILE__` is another text in each build. What checks of errors do with it, printing it or throwing it, also through
functions of the file that are handed it, is the one use in which no result can depend on it.
"""

from __future__ import annotations

import re

from septran.backends.judged.c_host import CHead, blank, heads

_BUILD = re.compile(r"\b(?:__DATE__|__TIME__|__TIMESTAMP__|__COUNTER__)\b")
_PLACE = re.compile(r"\b(?:__FILE__|__FILE_NAME__|__builtin_FILE|source_location)\b")
_SINK = re.compile(
    r"(?:std\s*::\s*)?v?f?printf|(?:std\s*::\s*)?f?puts|perror|(?:C10_|AT_|TORCH_)\w*(?:CHECK|ASSERT|ERROR|WARN)\w*"
    r"|throw\s+(?:std\s*::\s*)?\w*(?:error|exception|Error|Exception)|(?:std\s*::\s*)?(?:runtime|logic)_error"
)
_WRAPPERS = re.compile(r"(?:std\s*::\s*)?(?:string|string_view|to_string)")
_STREAM = re.compile(r"(?:std\s*::\s*)?(?:cerr|cout|clog)\s*<<[^;{}]*")
_CALLED = re.compile(r"(?:throw\s+)?[\w:]+(?:\s*<[\w\s,:]*>)?\s*$")
# a call whose value is thrown away: it begins a statement, or what an `if` guards
_BEGINS = re.compile(r"(?:^|[;{})\n:]|\b(?:else|do))\s*$")
_DEPTH = 3


def asks_its_file(text: str) -> tuple[str, ...]:
    """Return what of a C++ text depends on when it is compiled, or on where its file lies."""
    spliced = re.sub(r"\\[ \t]*\r?\n", "  ", text)
    plain = blank(spliced)
    found = [f"{m.group()} (another value in each build)" for m in _BUILD.finditer(plain)]
    functions = {f.name: f for f in heads(spliced)}
    # a message that the file defines itself may do anything
    own = [n for n in re.findall(r"#\s*define\s+(\w+)", plain) if _SINK.fullmatch(n)]
    found += [f"{name} defined by the file" for name in own if _PLACE.search(plain)]
    found += [
        f"{m.group()} outside of a message (its users' build has another)"
        for m in _PLACE.finditer(plain)
        if not _said(plain, m.start(), functions, _DEPTH) and not _included(plain, m.start())
    ]
    return tuple(dict.fromkeys(found))


def _included(plain: str, at: int) -> bool:
    return re.search(r"#\s*include\s*<$", plain[:at]) is not None


def _said(plain: str, at: int, functions: dict[str, CHead], depth: int) -> bool:
    """Whether what stands at `at` is an argument of nothing but messages."""
    start = max(plain.rfind(c, 0, at) for c in ";{}\n") + 1
    if _STREAM.fullmatch(plain[start:at].strip()):
        return True
    while (opened := _enclosing(plain, at)) is not None:
        place, index = opened
        called = _CALLED.search(plain, max(0, place - 120), place)
        if called is None:
            return False
        name = called.group().strip()
        if name not in functions and _SINK.fullmatch(name):
            begins = called.start() + len(called.group()) - len(called.group().lstrip())
            return name.startswith("throw") or _throws(plain, begins) or _begins(plain, begins)
        if name in functions and depth:
            return _begins(plain, called.start()) and _hands_on(functions, name, index, depth - 1)
        if not _WRAPPERS.fullmatch(name):
            return False
        at = called.start()
    return False


def _throws(plain: str, at: int) -> bool:
    return re.search(r"\bthrow\s*$", plain[max(0, at - 20) : at]) is not None


def _begins(plain: str, at: int) -> bool:
    return _BEGINS.search(plain[max(0, at - 60) : at]) is not None


def _enclosing(plain: str, at: int) -> tuple[int, int] | None:
    """Return where the innermost call around `at` opens, and which of its arguments it is; None where there is none."""
    depth = commas = 0
    for place in range(at - 1, -1, -1):
        ch = plain[place]
        if ch in ")]":
            depth += 1
        elif ch in "([":
            if not depth:
                return (place, commas) if ch == "(" else None
            depth -= 1
        elif ch == "," and not depth:
            commas += 1
        elif ch in ";{}\n" and not depth:
            return None
    return None


def _hands_on(functions: dict[str, CHead], name: str, index: int, depth: int) -> bool:
    """Whether a function of the file does nothing with a parameter but say it."""
    head = functions[name]
    given = [re.findall(r"\w+", p.split("=")[0]) for p in head.params.split(",")]
    if index >= len(given) or not given[index]:
        return False
    word = re.compile(rf"\b{re.escape(given[index][-1])}\b")
    body = "{" + head.body
    return all(_said(body, m.start(), functions, depth) for m in word.finditer(body))
