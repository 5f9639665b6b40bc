"""What a leaf may name: the runtime's names with their kinds (configs/leaves/), and the leaf's own scopes."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from septran import assets, spanyaml
from septran.leafgate.addresses import Called, Origins, Type, Value

TYPE, TYPE_TEMPLATE, FUNCTION, FUNCTION_TEMPLATE = (
    "type",
    "type template",
    "function",
    "function template",
)
VALUE, VALUE_TEMPLATE, VARIABLE, LAMBDA = "constant", "constant template", "variable", "lambda"
_LISTS = {
    "types": TYPE,
    "type_templates": TYPE_TEMPLATE,
    "functions": FUNCTION,
    "function_templates": FUNCTION_TEMPLATE,
    "values": VALUE,
    "value_templates": VALUE_TEMPLATE,
}
SCALARS = frozenset(
    ("void", "bool", "float", "double", "int", "unsigned", "signed", "short", "long", "char")
)
KEYWORDS = SCALARS | frozenset(
    "alignas alignof and and_eq asm auto bitand bitor break case catch class compl concept const consteval constexpr "
    "constinit const_cast continue co_await co_return co_yield decltype default delete do dynamic_cast else enum explicit "
    "export extern false for friend goto if inline mutable namespace new noexcept not not_eq nullptr operator or or_eq "
    "private protected public register reinterpret_cast requires restrict return sizeof static static_assert static_cast "
    "struct switch template this thread_local throw true try typedef typeid typename typeof union using virtual volatile "
    "wchar_t char8_t char16_t char32_t while xor xor_eq import module final override".split()
)
_NAME = re.compile(r"[A-Za-z]\w*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """The subset of one compiled language. kinds: full name -> kind; a template in the middle of a name is `x<>::y`."""

    name: str
    kinds: Mapping[str, str]
    fields: frozenset[str]
    members: str
    """how an operand's members are used, in words"""
    pragmas: re.Pattern[str]
    threads: re.Pattern[str]
    """pragmas that start threads: only where the contract allows them."""
    unroll: str
    """how its compiler spells the pragma that unrolls a loop."""
    loops: str
    """which pragmas a loop may have, in words."""
    imprecise: Mapping[str, str]
    """functions that are refused for their error: name -> what is written instead."""
    namespaces: tuple[str, ...]
    plain_c: bool
    storage: frozenset[str]
    """words before a declaration besides const, constexpr and static constexpr: __shared__."""
    arrays: frozenset[str]
    """macros of the runtime that declare an array: NAME(type, name, size)."""
    addressed: frozenset[str]
    """functions of the runtime, and members, that may be given an address."""
    of_views: frozenset[str]
    """functions of the runtime that may be given an array of views."""
    pointing: frozenset[str]
    """functions of the runtime that return an address inside the view they are given."""
    pointers: frozenset[str]
    """members that are addresses: of a view's first element."""
    inner_arrays: frozenset[str]
    """members that are arrays."""
    views: frozenset[str]
    """types whose values hold an address."""
    examples: Mapping[str, str]
    """what the documents' examples declare for themselves: name -> the line."""

    def similar(self, path: str) -> str:
        """Return the runtime's name with the same last part, "" when there is none."""
        last = path.split("::")[-1]
        return next((n for n in self.kinds if n.split("::")[-1] == last and n != path), "")


@functools.cache
def is_compiled(name: str) -> bool:
    """Return whether the subset is a compiled language's; a Python DSL's names its module."""
    return "module" not in spanyaml.load(assets.find(f"configs/leaves/{name}.yaml").path).value


@functools.cache
def language(name: str) -> Language:
    """Return the subset of "cpp", "cuda" or "c". Raises FileNotFoundError-like AssetError for others."""
    value = spanyaml.load(assets.find(f"configs/leaves/{name}.yaml").path).value
    kinds: dict[str, str] = {}
    for key, kind in _LISTS.items():
        kinds.update(dict.fromkeys(str(value.get(key) or "").split(), kind))
    return Language(
        name=name,
        kinds=kinds,
        fields=frozenset(str(value["fields"]).split()),
        members=str(value["members"]),
        pragmas=re.compile("|".join(value["pragmas"])),
        threads=re.compile("|".join(value.get("thread_pragmas") or ["(?!)"])),
        unroll=str(value.get("unroll") or "unroll"),
        loops=str(value.get("loops") or ""),
        imprecise=dict(value.get("imprecise") or {}),
        namespaces=tuple(value.get("namespaces") or ()),
        plain_c=bool(value.get("plain_c")),
        storage=frozenset(value.get("storage") or ()),
        arrays=frozenset(value.get("arrays") or ()),
        addressed=frozenset(str(value.get("addressed") or "").split()),
        of_views=frozenset(str(value.get("of_views") or "").split()),
        pointing=frozenset(str(value.get("pointing") or "").split()),
        pointers=frozenset(str(value.get("pointers") or "").split()),
        inner_arrays=frozenset(str(value.get("inner_arrays") or "").split()),
        views=frozenset(str(value.get("views") or "").split()),
        examples=dict(value.get("examples") or {}),
    )


@functools.cache
def macros() -> frozenset[str]:
    """Return the macros without a leading _ that the compilers' headers define: no name of a leaf."""
    value = spanyaml.load(assets.find("configs/leaves/macros.yaml").path).value
    return frozenset(str(value["names"]).split())


def objection(name: str) -> str:
    """Return why a leaf may not declare `name`, "" when it may."""
    if not _NAME.fullmatch(name):
        return "names start with a letter"
    if name in KEYWORDS or name in ("st", "std"):
        return "it is a word of the language"
    if name in macros():
        return "it is a macro of the compiler's headers"
    return ""


class Scopes:
    """The leaf's own names, innermost last, over the runtime's."""

    def __init__(self, of: Language, params: tuple[str, ...]) -> None:
        """params: the leaf's arguments."""
        self._of = of
        self.origins = Origins()
        self._open: list[dict[str, str]] = [dict.fromkeys(params, VARIABLE)]
        self._values: list[dict[str, Value | Called | Type]] = [
            {name: self._operand() for name in params}
        ]
        self.using: tuple[str, ...] = ()
        """namespaces of `using namespace st;`: their st:: may be left out; printed names have it."""

    def _operand(self) -> Value:
        return Value(inside=self.origins.object(), data=self.origins.holder(self.origins.object()))

    def enter(self) -> None:
        """Open a scope."""
        self._open.append({})
        self._values.append({})

    def leave(self) -> None:
        """Close the innermost scope."""
        self._open.pop()
        self._values.pop()

    def declare(self, name: str, kind: str, value: Value | Called | Type | None = None) -> None:
        """Give a name of the innermost scope its kind, and what is known of its value."""
        self._open[-1][name] = kind
        self._values[-1][name] = value or Value()

    def value(self, name: str) -> Value:
        """Return what is known of a variable's value."""
        found = self._known(name)
        return found if isinstance(found, Value) else Value()

    def called(self, name: str) -> Called:
        """Return what a lambda of the leaf's own takes and gives."""
        found = self._known(name)
        return found if isinstance(found, Called) else Called()

    def type_of(self, name: str) -> Type:
        """Return what a name for a type stands for."""
        found = self._known(name)
        return found if isinstance(found, Type) else Type()

    def _known(self, name: str) -> Value | Called | Type | None:
        return next((scope[name] for scope in reversed(self._values) if name in scope), None)

    def own(self, name: str) -> str:
        """Return the kind of a name of the leaf's own, "" when it has none."""
        return next((scope[name] for scope in reversed(self._open) if name in scope), "")

    def find(self, path: str) -> tuple[str, str]:
        """Return (kind, full name) of a name as written, ("", "") when there is none."""
        own = self.own(path)
        if own:
            return own, path
        for full in (path, *(f"{space}::{path}" for space in self.using)):
            if full in self._of.kinds:
                return self._of.kinds[full], full
        return "", ""
