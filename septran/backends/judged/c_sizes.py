"""What a C or C++ text asks of its sizes: comparisons of what it reckons of a size, whose other side no call at one size reaches.

A size is a whole number that a function is given, unless the text shows what it is given, and an extent or a count of a tensor; what is made of
these by arithmetic, under another name, as a member or in another function of the file, is followed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from septran.backends.judged.c_host import blank
from septran.backends.judged.c_terms import NUMBER, WHOLE, Terms, tokens_of
from septran.ir.brackets import closing, split_top
from septran.ir.size_asked import Size, SizeAsked, Term, compared, reckoned, rests, sizes_of

_PARAMETER = re.compile(rf"[(,]\s*(?:const\s+)?(?:{WHOLE}\s+)+(\w+)\s*(?=[,)])")
_IS_WHOLE = re.compile(rf"\s*(?:const\s+)?(?:{WHOLE}[\s&]+)+(\w+)\s*(?:=[^,]*)?")
_DEFINED = re.compile(rf"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(\(?.*{NUMBER}.*)$", re.M)
_MADE = re.compile(r"(?<![\w.>])((?:\w+\s*(?:\.|->)\s*)?\w+)\s*([-+*/%&|^]|<<|>>)?=(?!=)")
_STEPPED = re.compile(r"(?:\+\+|--)\s*(\w+)|\b(\w+)\s*(?:\+\+|--)")
_STRUCT = re.compile(r"\bstruct\s+(\w+)\s*\{([^{}]*)\}")
_FIELD = re.compile(r"[\s*&](\w+)\s*(?:=[^;,]*)?[;,]")
_FUNCTION = re.compile(r"\b(\w+)\s*(?:=\s*\[[^\]]{0,200}\]\s*)?\(([^(){};]{0,4000})\)\s*(?:(?:const|noexcept|mutable|->\s*\w+)\s*)*\{")  # fmt: skip
_LOOP = re.compile(r"\bfor\s*\([^;()]*?\b(\w+)\s*=[^;]*;\s*(?=\w)\1\s*<(?![<=])")
_INDEX = re.compile(r"\b(\w+)\s*=[^;=]*\bblockIdx\s*\.[^;]*;")
_COPIED = re.compile(
    r"\b(memcpy|cudaMemcpyToSymbol(?:Async)?)\s*\(\s*&?\s*(\w+)\s*,\s*&\s*(\w+)\s*,"
)
_ARRAY = re.compile(r"\b(\w+)\s*\[\w*\]\s*=?\s*\{([^{}]*)\}")
_CALL = r"\b{}\s*(?:<(?!<)[^;(){{}}]{{0,200}}?>\s*)?(?:<<<[^;{{}}]{{0,400}}?>>>\s*)?\("
_NO_NAMES = ("if", "for", "while", "switch", "return", "catch", "sizeof", "else", "do")
_MOST, _MOST_HEADS, _ROUNDS, _ALTERNATIVES = 16, 200, 3, 3


def sizes_asked(text: str) -> tuple[SizeAsked, ...]:
    """Return what a text asks of its sizes, each once, in the order of the text."""
    plain = blank(text).replace("\\\n", "  ")
    names = _names(plain)
    found: dict[SizeAsked, None] = {}
    for scope, part in scopes(plain):
        for asked in _asked(part, names, scope):
            found.setdefault(asked)
            if len(found) == _MOST:
                return tuple(found)
    return tuple(found)


@dataclass
class _Names:
    """What names may stand for, in a function ("" of none) and at file level; results: of a function, what it returns."""

    known: dict[tuple[str, str], list[Term]] = field(default_factory=dict)
    results: dict[str, list[Term]] = field(default_factory=dict)

    def of(self, scope: str, name: str) -> list[Term]:
        return self.known.get((scope, name)) or self.known.get(("", name), [])

    def add(self, scope: str, name: str, term: Term) -> None:
        terms = self.known.setdefault((scope, name), [])
        if term not in terms and len(terms) < _ALTERNATIVES:
            terms.append(term)


def scopes(plain: str) -> Iterator[tuple[str, str]]:
    """Yield each function with its head and body, and what stands outside of all ("")."""
    at, outside = 0, ""
    while (m := _FUNCTION.search(plain, at)) is not None:
        end = closing(plain, m.end() - 1, "{") + 1
        if m[1] in _NO_NAMES:
            outside, at = outside + plain[at : m.end()], m.end()
            continue
        outside += plain[at : m.start()]
        yield m[1], plain[m.start() : end]
        at = end
    yield "", outside + plain[at:]


def _names(plain: str) -> _Names:
    names = _Names()
    parts = list(scopes(plain))
    for name, value in _DEFINED.findall(plain):
        for term in _terms(value, names, ""):
            names.add("", name, term)
    heads = [(scope, m) for scope, part in parts for m in _FUNCTION.finditer(part) if m[1] not in _NO_NAMES][:_MOST_HEADS]  # fmt: skip
    given = {(scope, p[1]): m[1] for scope, m in heads for one in split_top(m[2]) if (p := _IS_WHOLE.fullmatch(one))}  # fmt: skip
    for scope, part in parts:
        for name in _PARAMETER.findall(part):
            given.setdefault((scope, name), scope)
    fields = {m[1]: _FIELD.findall(m[2]) for m in _STRUCT.finditer(plain)}
    calls = {name: [(scope, args) for scope, part in parts for args in _calls(part, name)] for name in {m[1] for _, m in heads}}  # fmt: skip
    for known in ("what nobody hands over", "what is read nowhere"):
        for _ in range(_ROUNDS):
            before = sum(map(len, names.known.values()))
            shown: set[tuple[str, str]] = set()
            for scope, m in heads:
                shown |= set(_handed(calls[m[1]], scope, m, names))
            for scope, name in sorted(given.keys() - shown):
                if (
                    given[scope, name] not in calls
                    or not calls[given[scope, name]]
                    or known == "what is read nowhere"
                ):
                    names.add(scope, name, Size(name, name))
            for scope, part in parts:
                _assigned(part, scope, names)
                _filled(part, scope, fields, names)
                _copied(part, scope, names)
                _reached(part, scope, names)
                _returned(part, scope, names)
            if sum(map(len, names.known.values())) == before:
                break
    return names


def _calls(part: str, name: str) -> list[str]:
    """Return the arguments of each call of a function."""
    found = []
    for m in re.finditer(_CALL.format(re.escape(name)), part):
        end = closing(part, m.end() - 1, "(")
        if not part[end + 1 : end + 40].lstrip().startswith("{"):  # its own head
            found.append(part[m.end() : end])
    return found


def _handed(
    calls: list[tuple[str, str]], scope: str, head: re.Match[str], names: _Names
) -> Iterator[tuple[str, str]]:
    """Give parameters of a function what its calls hand it, and yield those of which all calls are understood."""
    params = [_IS_WHOLE.fullmatch(p) for p in split_top(head[2])]
    unread: set[str] = set()
    for caller, args in calls if any(params) else ():
        for param, arg in zip(params, split_top(args), strict=False):
            if param is None:
                continue
            terms = _terms(arg, names, caller)
            unread |= set() if terms else {param[1]}
            for term in terms:
                names.add(scope, param[1], term)
    if calls:
        yield from ((scope, p[1]) for p in params if p is not None and p[1] not in unread)


def _filled(part: str, scope: str, fields: Mapping[str, list[str]], names: _Names) -> None:
    """What the members of a structure are that is made of a list."""
    for kind, members in fields.items():
        for m in re.finditer(
            rf"\b{re.escape(kind)}\b\s*(?:\w+\s*)?(?:=\s*)?\{{([^{{}}]*)\}}", part
        ):
            for member, text in zip(members, split_top(m[1]), strict=False):
                for term in _terms(text, names, scope):
                    names.add("", f".{member}", term)


def _assigned(part: str, scope: str, names: _Names) -> None:
    """What `name = term`, `name op= term` and `object.name = term` say; a number that changes is none."""
    stepped = {a or b for a, b in _STEPPED.findall(part)}
    for m in _MADE.finditer(part):
        target, op = re.split(r"\.|->", m[1]), m[2]
        name, where = target[-1].strip(), "" if len(target) > 1 else scope
        for term in _terms(part[m.end() :], names, scope, whole=False):
            if op:
                old = [t for t in names.of(scope, name) if any(sizes_of(t))]
                made = reckoned(_whole(op), old, [term])
            else:
                made = [term] if any(sizes_of(term)) or name not in stepped else []
            for one in made:
                names.add(where, f".{name}" if len(target) > 1 else name, one)
        if op and not any(any(sizes_of(t)) for t in names.of(scope, name)):
            names.known.pop((scope, name), None)


def _reached(part: str, scope: str, names: _Names) -> None:
    """The largest that a loop's number, or an index of a grid, becomes: one less than the size that ends it."""
    ends = [(m[1], m.end()) for m in _LOOP.finditer(part)]
    for name in {m[1] for m in _INDEX.finditer(part)}:
        ends += [(name, m.end()) for m in re.finditer(rf"\b{name}\s*(?:<|>=)(?![<=])", part)]
    for name, end in ends:
        for term in _terms(part[end:], names, scope, whole=False):
            for last in reckoned("-", [term], [1]) if any(sizes_of(term)) else ():
                names.add(scope, name, last)


def _copied(part: str, scope: str, names: _Names) -> None:
    """What is copied from a size's address, and what an array holds that is made of sizes."""
    for where, target, name in _COPIED.findall(part):
        for term in names.of(scope, name):
            names.add("" if where != "memcpy" else scope, target, term)
    for m in _ARRAY.finditer(part):
        for term in (t for text in split_top(m[2]) for t in _terms(text, names, scope)):
            if any(sizes_of(term)):
                names.add(scope, f"{m[1]}[]", term)


def _returned(part: str, scope: str, names: _Names) -> None:
    for m in re.finditer(r"\breturn\b", part):
        for term in _terms(part[m.end() :], names, scope, whole=False):
            terms = names.results.setdefault(scope, [])
            if any(sizes_of(term)) and term not in terms and len(terms) < _ALTERNATIVES:
                terms.append(term)


def _whole(op: str) -> str:
    return "//" if op == "/" else op


def _terms(text: str, names: _Names, scope: str, *, whole: bool = True) -> list[Term]:
    """Return what a term at the begin of a text may be; whole: and nothing behind it."""
    reader = Terms(tokens_of(text, most=0 if whole else 64), names.of, names.results, scope)
    found = reader.term(0)
    ends = reader.here in ((None,) if whole else (None, ";", ",", "}", ")"))
    return found if ends else []


def _asked(part: str, names: _Names, scope: str) -> Iterator[SizeAsked]:
    reader = Terms(tokens_of(part), names.of, names.results, scope)
    while reader.here is not None:
        start = reader.at
        left = reader.term(0) if reader.may_begin() else []
        if not left:
            reader.at = start + 1
            continue
        right: list[Term] = []
        if reader.compares():
            sign, after = reader.here, reader.at + 1
            reader.at = after
            right = reader.term(0)
            for asked in (compared(a, sign, b) for a in left for b in right):
                if asked is not None:
                    yield asked
            if not right:
                reader.at = after
        for term in (*left, *right):
            # a comparison has said already what is asked of a rest
            if not (right and getattr(term, "op", "") in ("%", "&")):
                yield from rests(term)
