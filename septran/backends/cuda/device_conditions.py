"""Resolve the conditions of a CUDA file that depend on `__CUDA_ARCH__`, directly or through the file's own macros.

All other conditions stay for the compiler, as both passes decide them alike. Lines stay where they are.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from septran.backends.base import Unjudged

_ARCH = "__CUDA_ARCH__"
_DIRECTIVE = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif|else|endif|define|undef)\b(.*)$", re.DOTALL)
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_COMPARED = re.compile(rf"\b{_ARCH}\s*(<=|>=|==|!=|<(?!<)|>(?!>))\s*(\d+)\b")
_OPERATIONS: dict[type, Callable[[int, int], int]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne, ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_SIGNS = {"<": ast.Lt, "<=": ast.LtE, ">": ast.Gt, ">=": ast.GtE, "==": ast.Eq, "!=": ast.NotEq}
_ON_BOTH = {"__CUDACC__": 1, "__NVCC__": 1, "CUDART_VERSION": 12080, "CUDA_VERSION": 12080}
_ON_NONE = (
    "__clang__",
    "_MSC_VER",
    "__HIPCC__",
    "__HIP_PLATFORM_AMD__",
    "__HIP_DEVICE_COMPILE__",
    "__CUDACC_RTC__",
)


@dataclass(frozen=True, slots=True)
class Passes:
    """What a pass reads. depends: the file's own macros that are another in another pass."""

    text: str
    depends: frozenset[str]


@dataclass(slots=True)
class _Group:
    """An `#if` that is open. mine: it depends on the pass, so it is resolved; taken: a branch was."""

    mine: bool
    live: bool
    taken: bool


@dataclass(slots=True)
class _State:
    arch: int | None
    values: dict[str, str] = field(default_factory=dict)
    depends: set[str] = field(default_factory=set)


def resolved(text: str, arch: int | None) -> Passes:
    """Return what the pass for `arch` reads of a text; None: the host's.

    Raises:
        Unjudged: a condition mixes `__CUDA_ARCH__` with what is not known here.
    """
    state = _State(arch, depends=_depending(text))
    groups: list[_Group] = []
    out: list[str] = []
    for number, line in _logical(text):
        live = all(g.live for g in groups)
        match = _DIRECTIVE.match(_COMMENT.sub(" ", line))
        word, rest = (match[1], re.sub(r"\\\r?\n", " ", match[2]).strip()) if match else ("", "")
        kept = live
        if word in ("if", "ifdef", "ifndef"):
            mine = bool(set(re.findall(r"\w+", rest)) & (state.depends | {_ARCH}))
            truth = not mine or (live and _truth(word, rest, state, number))
            groups.append(_Group(mine, truth, truth))
            kept = live and not mine
        elif word in ("elif", "else", "endif") and groups:
            group = groups[-1]
            kept = all(g.live for g in groups[:-1]) and not group.mine
            if word == "endif":
                groups.pop()
            elif group.mine:
                truth = not group.taken and (word == "else" or _truth("if", rest, state, number))
                group.live, group.taken = truth, group.taken or truth
            elif set(re.findall(r"\w+", rest)) & (state.depends | {_ARCH}):
                raise Unjudged(number, f"#elif {rest} mixes {_ARCH} with another condition")
        elif live and word == "define" and (name := re.match(r"(\w+)(\(?)", rest)):
            state.values[name[1]] = rest[name.end(1) :].strip()
        elif live and word == "undef":
            state.values.pop(rest, None)
        out.append(_told(line, state, number) if kept else "\n" * line.count("\n"))
    return Passes("".join(out), frozenset(state.depends))


def _logical(text: str) -> list[tuple[int, str]]:
    """Return lines with numbers; a directive that continues is one."""
    found: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        if found and re.search(r"\\\r?\n$", found[-1][1]):
            found[-1] = (found[-1][0], found[-1][1] + line)
        else:
            found.append((number, line))
    return found


def _depending(text: str) -> set[str]:
    """Return the macros that are defined or not, or defined so or so, as the pass has it."""
    found: set[str] = set()
    grew = True
    while grew:
        before, stack = len(found), [False]
        for _, line in _logical(text):
            match = _DIRECTIVE.match(_COMMENT.sub(" ", line))
            if match is None:
                continue
            words = re.findall(r"[A-Za-z_]\w*", match[2])
            about = bool(set(words) & (found | {_ARCH}))
            if match[1] in ("if", "ifdef", "ifndef"):
                stack.append(stack[-1] or about)
            elif match[1] == "elif":
                stack[-1] = stack[-1] or about
            elif match[1] == "endif" and len(stack) > 1:
                stack.pop()
            elif (
                match[1] in ("define", "undef")
                and words
                and (stack[-1] or set(words[1:]) & (found | {_ARCH}))
            ):
                found.add(words[0])
        grew = len(found) > before
    return found


def _told(line: str, state: _State, number: int) -> str:
    """Return a line with what it says of the architecture decided."""
    if _ARCH not in _COMMENT.sub(" ", line) or state.arch is None:
        return line
    arch = state.arch
    line = _COMPARED.sub(
        lambda m: f"({str(bool(_OPERATIONS[_SIGNS[m[1]]](arch, int(m[2])))).lower()})", line
    )
    if _ARCH in _COMMENT.sub(" ", line):
        raise Unjudged(number, f"{_ARCH} is used as a number; it may be compared with one")
    return line


def _truth(word: str, rest: str, state: _State, number: int) -> bool:
    """Return whether a condition holds."""
    if word != "if":
        return (_value(rest, state, number, asked=True) is not None) == (word == "ifdef")
    text = re.sub(
        r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))",
        lambda m: str(int(_value(m[1] or m[2], state, number, asked=True) is not None)),
        rest,
    )
    text = re.sub(r"\b(\d+)[uUlL]*\b", r"\1", text)
    text = re.sub(r"[A-Za-z_]\w*", lambda m: f"({_value(m[0], state, number) or 0})", text)
    text = re.sub(r"!(?!=)", " not ", text.replace("&&", " and ").replace("||", " or "))
    return bool(_arithmetic(text.strip(), rest, number))


def _value(name: str, state: _State, number: int, *, asked: bool = False) -> str | None:
    """Return what a name is in this pass, None where it is not defined. asked: only whether it is."""
    if name == _ARCH:
        return None if state.arch is None else str(state.arch)
    if name in state.values:
        value = state.values[name]
        if asked or re.fullmatch(r"\(?\d+\)?", value):
            return value
        if value == _ARCH:
            return _value(_ARCH, state, number)
    elif name in _ON_BOTH:
        return str(_ON_BOTH[name])
    elif name in _ON_NONE or name in state.depends:
        return None
    raise Unjudged(number, f"a condition mixes {_ARCH} with {name}, whose value is not known here")


def _arithmetic(text: str, shown: str, number: int) -> int:
    try:
        return _number(ast.parse(text, mode="eval").body)
    except (SyntaxError, ArithmeticError, KeyError) as error:
        raise Unjudged(number, f"the condition `{shown[:60]}` on {_ARCH} cannot be read") from error


def _number(node: ast.expr) -> int:
    """Return what an expression of numbers is.

    Raises:
        KeyError: it is more than that. ArithmeticError: it divides by zero.
    """
    match node:
        case ast.Constant(value=int(value)):
            return int(value)
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return int(not _number(inner))
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_number(inner)
        case ast.BoolOp(op=op, values=values):
            found = [_number(v) for v in values]
            return int(all(found) if isinstance(op, ast.And) else any(found))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return int(_OPERATIONS[type(op)](_number(left), _number(right)))
        case ast.BinOp(left=left, op=op, right=right):
            return int(_OPERATIONS[type(op)](_number(left), _number(right)))
    raise KeyError(ast.dump(node)[:60])
