"""Macros of a C++ or CUDA file, put in as the preprocessor does, where they are numbers, names and expressions.

A macro that only looks whether a call of the CUDA runtime went well (`CHECK(cudaMalloc(..))`) becomes the call: none fails
where kernels are proven. Comments and strings must be blank. Lines stay where they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from septran.ir.brackets import closing
from septran.prove.foreign.launch import NotRead

_ROUNDS, _LONGEST = 6, 2_000_000
_CHECKING = frozenset(
    """
    do while if else const auto cudaError_t cudaError hipError_t cudaSuccess hipSuccess int exit abort return throw std cerr cout endl
    fprintf printf stderr stdout fflush runtime_error string to_string EXIT_FAILURE cudaGetErrorString cudaGetErrorName
    cudaGetLastError cudaPeekAtLastError __FILE__ __LINE__ __func__ __FUNCTION__ true false
    """.split()
)
"""what a macro that checks a call may say besides its own names"""
_DECLARED = re.compile(r"\b(?:cudaError_t|cudaError|auto)\s+(?:const\s+)?(\w+)\s*[=({]")


@dataclass(frozen=True, slots=True)
class _Macro:
    name: str
    params: tuple[str, ...]
    body: str
    line: int


def expanded(text: str) -> str:
    """Return the text with its macros put in and without other directives than pragmas.

    Raises:
        NotRead: a condition, or a macro that is more than an expression.
    """
    objects: dict[str, str] = {}
    functions: dict[str, _Macro] = {}
    found, line = [], 0
    lines = text.split("\n")
    while line < len(lines):
        first, whole, used = line + 1, lines[line], 1
        while whole.rstrip().endswith("\\") and line + used < len(lines):
            whole = whole.rstrip()[:-1] + " " + lines[line + used]
            used += 1
        bare = whole.strip()
        directive = bare.startswith("#") and not bare.startswith("#pragma")
        if not directive:
            found += lines[line : line + used]
        else:
            found += [""] * used
            _directive(bare, first, objects, functions)
        line += used
    return _put_in("\n".join(found), objects, functions)


def _directive(bare: str, line: int, objects: dict[str, str], functions: dict[str, _Macro]) -> None:
    if match := re.match(r"#\s*define\s+(\w+)\(([\w\s,]*)\)(.*)$", bare):
        params = tuple(p.strip() for p in match[2].split(",") if p.strip())
        if match[1] in functions:
            raise NotRead(line, "a macro or condition of the preprocessor")
        functions[match[1]] = _Macro(match[1], params, match[3].strip(), line)
    elif match := re.match(r"#\s*define\s+(\w+)\s+(.+)$", bare):
        objects[match[1]] = f"({match[2].strip()})"
    elif re.match(r"#\s*(define\s+\w+\(|if|else|elif|undef)", bare):
        raise NotRead(line, "a macro or condition of the preprocessor")


def _put_in(text: str, objects: dict[str, str], functions: dict[str, _Macro]) -> str:
    for _ in range(_ROUNDS):
        before = text
        for name, value in objects.items():
            text = re.sub(rf"\b{name}\b", lambda m, v=value: v, text)  # type: ignore[misc]
        for macro in functions.values():
            text = _calls(text, macro)
        if text == before:
            return text
    if functions:  # they name each other
        line = min(macro.line for macro in functions.values())
        raise NotRead(line, "a macro or condition of the preprocessor")
    return text


def _calls(text: str, macro: _Macro) -> str:
    """Return the text with each call of `macro` replaced by what it stands for."""
    call, at = re.compile(rf"\b{macro.name}\s*\("), 0
    while match := call.search(text, at):
        close = closing(text, match.end() - 1, "(")
        if close >= len(text) or len(text) > _LONGEST:
            raise NotRead(macro.line, "a macro or condition of the preprocessor")
        given = text[match.end() : close]
        body = _with_arguments(macro, _arguments(given))
        text = f"{text[: match.start()]}{body}{given.count(chr(10)) * chr(10)}{text[close + 1 :]}"
        at = match.start() + len(body)
    return text


def _with_arguments(macro: _Macro, given: list[str]) -> str:
    unread = NotRead(macro.line, "a macro or condition of the preprocessor")
    if _checks(macro):
        return ", ".join(given)
    if len(given) != len(macro.params) or "#" in macro.body or re.search(r"[;{}]", macro.body):
        raise unread
    values = dict(zip(macro.params, given, strict=True))
    return re.sub(r"[A-Za-z_]\w*", lambda m: values.get(m.group(), m.group()), macro.body)


def _checks(macro: _Macro) -> bool:
    """Return whether a macro evaluates its only argument once and otherwise only says that it went wrong."""
    if len(macro.params) != 1:
        return False
    (param,) = macro.params
    body = re.sub(rf"#\s*{param}\b", " ", macro.body)
    own = {param, *_DECLARED.findall(body)}
    words = set(re.findall(r"[A-Za-z_]\w*", body))
    once = len(re.findall(rf"\b{param}\b", body)) == 1
    return once and words <= own | _CHECKING and "cudaSuccess" in words


def _arguments(given: str) -> list[str]:
    """Return a call's arguments, each in one line."""
    found, depth = [""], 0
    for sign in given:
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and depth == 0:
            found.append("")
        else:
            found[-1] += " " if sign == "\n" else sign
    return [one.strip() for one in found] if given.strip() else []
