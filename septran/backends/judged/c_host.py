"""Host functions in somebody's C++ or CUDA file, and the entry with which the judge calls one."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from septran.ir.brackets import closing

# in one pattern, so that what looks like a comment inside a string is none; ' after a digit separates digits
_TEXT = re.compile(
    r"""//[^\n]*|/\*.*?\*/|\bR"(?P<end>[^\s()\\]{0,16})\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"|(?<!\w)'(?:\\.|[^'\\\n])+'""",
    re.DOTALL,
)
_HEAD = re.compile(
    r"(?P<before>[\w\s:*&<>,\"]*?)\b(?P<name>\w+)\s*\((?P<params>[^(){};]*)\)\s*(?:noexcept\s*)?\{"
)
_WORDS = re.compile(r"\b\w+\b")
_KEYWORDS = ("if", "for", "while", "switch", "return", "catch", "sizeof", "else", "do")

ELEMENTS: Mapping[str, str] = {
    "float": "float32",
    "double": "float64",
    "_Float16": "float16",
    "half": "float16",
    "__half": "float16",
    "__bf16": "bfloat16",
    "__nv_bfloat16": "bfloat16",
    "nv_bfloat16": "bfloat16",
    "std::bfloat16_t": "bfloat16",
    "int": "int32",
    "int32_t": "int32",
    "long long": "int64",
    "int64_t": "int64",
    "long": "int64",
    "int8_t": "int8",
    "signed char": "int8",
    "char": "int8",
    "uint8_t": "uint8",
    "unsigned char": "uint8",
    "bool": "bool",
    "void": "",
}
"""C type of a tensor's element -> dtype; "" says nothing about it."""
_NUMBERS = frozenset(
    """
    int unsigned long short float double bool size_t ssize_t ptrdiff_t int32_t uint32_t int64_t uint64_t int16_t
    uint16_t int8_t uint8_t char signed std
    """.split()
)
STREAM = "cudaStream_t"


@dataclass(frozen=True, slots=True, kw_only=True)
class CParam:
    """A parameter. kind: tensor, number or stream. type: as it is written. writes: not const."""

    name: str
    kind: str
    type: str
    dtype: str = ""
    writes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CFunction:
    """A function defined at file level. body: its text."""

    name: str
    line: int
    params: tuple[CParam, ...]
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CHead:
    """A function as it is written. before: what stands before its name. params, body: their text, comments made empty."""

    name: str
    line: int
    before: str
    params: str
    body: str


def functions(text: str, skip: Callable[[str], bool]) -> tuple[CFunction, ...]:
    """Return the functions at file level all of whose parameters are pointers to elements or numbers.

    skip: whether what stands before a function's name says that it is not for the host.
    """
    found, names = [], _aliases(text)
    for head in heads(text):
        if skip(head.before) or "template" in head.before:
            continue
        params = _params(head.params, names)
        if params is None or not any(p.kind == "tensor" for p in params):
            continue
        found.append(CFunction(name=head.name, line=head.line, params=params, body=head.body))
    return tuple(found)


_ALIAS = re.compile(
    r"\b(?:typedef\s+(?P<old>(?:\w|::)+(?:\s+\w+)*?)\s+(?P<name>\w+)|using\s+(?P<name2>\w+)\s*=\s*(?P<old2>(?:\w|::)+(?:\s+\w+)*))\s*;"
)


def _aliases(text: str) -> Mapping[str, str]:
    """Return what the names of a file's own for elements and numbers stand for; a name that is given twice stands for nothing."""
    found: dict[str, set[str]] = {}
    for match in _ALIAS.finditer(blank(text)):
        name, old = match["name"] or match["name2"], match["old"] or match["old2"]
        found.setdefault(name, set()).add(" ".join(old.split()))
    known: dict[str, str] = {}
    for _ in range(4):  # an alias of an alias
        for name, of in found.items():
            old = known.get(next(iter(of)), next(iter(of)))
            if len(of) == 1 and (old in ELEMENTS or set(re.findall(r"\w+", old)) <= _NUMBERS):
                known[name] = old
    return known


def heads(text: str) -> tuple[CHead, ...]:
    """Return all functions defined at file level, `main` left out."""
    plain = blank(text)
    found = []
    for match in _HEAD.finditer(plain):
        name, before = match["name"], match["before"].split(";")[-1].split("}")[-1].strip()
        if _depth(plain[: match.start("name")]) or name in _KEYWORDS or name == "main":
            continue
        if not before:
            continue
        end = closing(plain, match.end() - 1, "{")
        line = text.count("\n", 0, match.start("name")) + 1
        found.append(
            CHead(name=name, line=line, before=before, params=match["params"], body=plain[match.end() : end])
        )  # fmt: skip
    return tuple(found)


def outermost(found: tuple[CFunction, ...]) -> tuple[CFunction, ...]:
    """Return the functions that no other of `found` calls."""
    called = {w for f in found for w in _WORDS.findall(f.body) if w != f.name}
    return tuple(f for f in found if f.name not in called)


def blank(text: str) -> str:
    """Return the text with comments and strings made empty; places stay."""
    return _TEXT.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def literal(value: object) -> str:
    """Return a number as C++."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if math.isfinite(value):
            return value.hex()
        return (
            '__builtin_nan("")' if value != value else f"{'-' if value < 0 else ''}__builtin_inf()"
        )
    return f"{value}LL"


def _depth(text: str) -> int:
    """Braces that are open, those of `extern "C" {` and namespaces not counted."""
    depth, openers = 0, []
    for at, ch in enumerate(text):
        if ch == "{":
            head = text[max(0, at - 60) : at].rstrip()
            linkage = re.search(r"(extern\s*)$", head) is not None
            openers.append(linkage)
            depth += not linkage
        elif ch == "}" and openers:
            depth -= not openers.pop()
    return depth


def _params(text: str, names: Mapping[str, str]) -> tuple[CParam, ...] | None:
    found = []
    for one in text.split(","):
        word = _param(one.split("=")[0], names)
        if word is None:
            return None
        found.append(word)
    return tuple(found)


def _param(text: str, names: Mapping[str, str]) -> CParam | None:
    words = re.sub(r"\b(__restrict__|__restrict|restrict|struct|register|volatile)\b", " ", text)
    match = re.fullmatch(
        r"\s*(?P<type>[\w:<>\s*&]+?)(?P<name>\w+)\s*(?P<array>\[\s*\w*\s*\])?\s*", words
    )
    if match is None:
        return None
    kind = " ".join(match["type"].split())
    if "&" in kind or "<" in kind:
        return None
    stars = kind.count("*") + bool(match["array"])
    bare = re.sub(r"\bconst\b", " ", kind.replace("*", " "))
    bare = " ".join(bare.split())
    known = names.get(bare, bare)
    if bare == STREAM and not stars:
        return CParam(name=match["name"], kind="stream", type=kind)
    if stars == 1 and known in ELEMENTS:
        const = re.match(r"(const\b.*|\w+\s+const\b)", kind.split("*")[0].strip()) is not None
        element = f"{'const ' if const else ''}{bare}*"
        return CParam(
            name=match["name"], kind="tensor", type=element, dtype=ELEMENTS[known], writes=not const
        )
    if stars == 0 and bare and set(re.findall(r"\w+", known)) <= _NUMBERS:
        return CParam(name=match["name"], kind="number", type=bare)
    return None
