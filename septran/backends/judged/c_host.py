"""Host functions in somebody's C++ or CUDA file, and the entry with which the judge calls one."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from septran.ir.brackets import closing, split_top

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
    """A parameter. kind: tensor, number or stream. type: as it is written, of what `holder` holds its element. writes: not const.

    holder: vector or span where a tensor is one, "" for a pointer. default: what it is where nobody gives it, None where that is no literal.
    """

    name: str
    kind: str
    type: str
    dtype: str = ""
    writes: bool = False
    holder: str = ""
    default: float | int | bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CFunction:
    """A function defined at file level or in a namespace there. body: its text. scope: of its name, `ops::` or "" (also of a namespace without a name).

    result: what it returns, a vector or a number; None for anything else.
    """

    name: str
    line: int
    params: tuple[CParam, ...]
    body: str
    scope: str = ""
    result: CParam | None = None

    @property
    def held(self) -> bool:
        """Whether a tensor goes in or out as a vector or a span."""
        return any(p.holder for p in (*self.params, *([self.result] if self.result else [])))


@dataclass(frozen=True, slots=True, kw_only=True)
class CHead:
    """A function as it is written. before: what stands before its name. params, body: their text, comments made empty. scope: as CFunction's."""

    name: str
    line: int
    before: str
    params: str
    body: str
    scope: str


def functions(text: str, skip: Callable[[str], bool]) -> tuple[CFunction, ...]:
    """Return the functions at file level all of whose parameters are pointers to elements, vectors or spans of them, or numbers.

    skip: whether what stands before a function's name says that it is not for the host.
    """
    found, names = [], _aliases(text)
    for head in heads(text, named=True):
        if skip(head.before) or "template" in head.before:
            continue
        params = _params(head.params, names)
        if params is None or not any(p.kind == "tensor" for p in params):
            continue
        found.append(
            CFunction(
                name=head.name,
                line=head.line,
                params=params,
                body=head.body,
                scope=head.scope,
                result=_result(head.before, names),
            )
        )
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


def heads(text: str, *, named: bool = False) -> tuple[CHead, ...]:
    """Return all functions defined at file level, with `named` also in namespaces there; `main` left out."""
    plain = blank(text)
    found = []
    for match in _HEAD.finditer(plain):
        name, before = match["name"], match["before"]
        if plain[: match.start()].endswith("#"):  # the rest of a directive's line
            before = before.partition("\n")[2]
        before = re.split("[;{}]", before)[-1].strip()
        scope = _scope(plain[: match.start("name")])
        if scope is None or (scope and not named) or name in _KEYWORDS or name == "main":
            continue
        if not before:
            continue
        end = closing(plain, match.end() - 1, "{")
        line = text.count("\n", 0, match.start("name")) + 1
        found.append(
            CHead(
                name=name,
                line=line,
                before=before,
                params=match["params"],
                body=plain[match.end() : end],
                scope=scope.removeprefix(_UNNAMED),
            )
        )
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


_LINKAGE, _UNNAMED = "extern", "::"
_OPENS = re.compile(
    r"(?:\bextern|(?:\binline\s+)?\bnamespace(?P<name>\s+\w+(?:\s*::\s*\w+)*)?)\s*$"
)


def _scope(text: str) -> str | None:
    """Return the namespaces that are open behind `text`, `ops::`, "" for none, _UNNAMED for those without a name; None within other braces."""
    openers: list[str | None] = []
    for at, ch in enumerate(text):
        if ch == "{":
            match = _OPENS.search(text[max(0, at - 120) : at])
            if match is None:
                openers.append(None)
            else:
                linkage = match[0].startswith(_LINKAGE)
                openers.append(_LINKAGE if linkage else "".join((match["name"] or "").split()))
        elif ch == "}" and openers:
            openers.pop()
    if None in openers:
        return None
    names = [name for name in openers if name != _LINKAGE]
    return "".join(f"{name}::" for name in names if name) or (_UNNAMED if names else "")


def _params(text: str, names: Mapping[str, str]) -> tuple[CParam, ...] | None:
    found = []
    for one in split_top(text, "<"):
        said, _, value = one.partition("=")
        word = _held(said, names) or _param(said, names)
        if word is None:
            return None
        found.append(replace(word, default=_number(value.strip())))
    return tuple(found)


_NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


def _number(text: str) -> float | int | bool | None:
    """Return what a literal of C++ is, None where it is none."""
    if text in ("true", "false"):
        return text == "true"
    plain = re.sub(r"(?<=[\d.])[fFuUlL]+$", "", text)
    if not _NUMBER.fullmatch(plain):
        return None
    return int(plain) if re.fullmatch(r"-?(0|[1-9]\d*)", plain) else float(plain)


_HELD = re.compile(
    r"(?P<const>const\s+)?(?:std\s*::\s*)?(?P<holder>vector|span)\s*<\s*(?P<element>[\w:\s]+?)\s*>\s*(?P<after>const\b\s*)?(?P<by>&{0,2})\s*(?P<name>\w*)"
)


def _held(text: str, names: Mapping[str, str]) -> CParam | None:
    """Return a vector or span of elements as a parameter, None for anything else. A vector of bool has no elements in memory."""
    match = _HELD.fullmatch(" ".join(text.split()))
    if match is None:
        return None
    holder, words = match["holder"], match["element"].split()
    element = " ".join(w for w in words if w != "const")
    dtype = ELEMENTS.get(names.get(element, element), "")
    if not dtype or (dtype == "bool" and holder == "vector"):
        return None
    whole = "const" not in words if holder == "span" else match["by"] == "&"
    constant = holder == "vector" and (match["const"] or match["after"])
    return CParam(
        name=match["name"],
        kind="tensor",
        type=element,
        dtype=dtype,
        writes=whole and not constant,
        holder=holder,
    )


_BESIDE = re.compile(
    r"\b(?:static|inline|constexpr|extern|__host__|__forceinline__|__inline__|const)\b|[A-Z][A-Z0-9_]+\b|\[\[[^\]]*\]\]"
)


def _result(before: str, names: Mapping[str, str]) -> CParam | None:
    """Return what a function returns that has this before its name."""
    words = " ".join(_BESIDE.sub(" ", before).split())
    found = _held(words, names)
    if found is not None:
        return found if found.holder == "vector" else None
    known = names.get(words, words)
    if words and set(re.findall(r"\w+", known)) <= _NUMBERS and re.fullmatch(r"[\w: ]+", known):
        real = {"float", "double"} & set(known.split())
        return CParam(name="", kind="number", type=words, dtype="float64" if real else "int64")
    return None


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
