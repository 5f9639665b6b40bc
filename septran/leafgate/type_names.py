"""Names and types of the C-family subset: what every name is, from the leaf's scopes or the runtime's list."""

from __future__ import annotations

import abc
from typing import NamedTuple, NoReturn

from septran.leafgate import names as n
from septran.leafgate.addresses import Called, Places, Value
from septran.leafgate.layout import Tree, Word
from septran.leafgate.names import Language, Scopes
from septran.leafgate.refusal import Refusal
from septran.leafgate.tokens import Cursor, Token

MAX_DEPTH = 70
MAX_CONSTANT = 65_536
"""of a template's argument."""
# what a word or sign that is no part of a leaf is replaced by
INSTEAD = {
    "goto": "use a loop and break", "asm": "use the runtime's calls", "struct": "use separate variables or arrays",
    "class": "use separate variables", "union": "convert with a function of the runtime", "enum": "use constexpr",
    "typedef": "write `using V = ...;`", "new": "use a local array of constant size", "delete": "use a local array",
    "template": "use a lambda with auto parameters", "try": "a leaf does not throw", "throw": "a leaf does not throw",
    "case": "it stands in a switch", "decltype": "name the type or use auto",
    "typeof": "name the type", "reinterpret_cast": "use the view's own element type", "const_cast": "declare it without const",
    "dynamic_cast": "use static_cast", "volatile": "leave it out", "register": "leave it out", "extern": "declare it in the leaf",
    "thread_local": "a leaf keeps nothing between calls", "static": "static constexpr, or no static: a leaf keeps nothing between calls",
    "inline": "leave it out", "this": "a leaf has no object", "nullptr": "views carry addresses", "auto": "",
    "alignas": "it stands in front of a declaration", "->": "use . on views", "::": "leave out the leading ::", "->*": "", ".*": "",
    "static_assert": "leave it out", "namespace": "", "operator": "use a lambda", "typename": "leave it out", "typeid": "name the type",
    "alignof": "use constants", "noexcept": "leave it out", "co_await": "a leaf does not suspend", "char": "write int8_t or uint8_t",
}  # fmt: skip
KIND_TEXT = {
    n.VARIABLE: "a variable",
    n.LAMBDA: "a lambda",
    n.TYPE: "a type",
    n.TYPE_TEMPLATE: "a type template",
    n.FUNCTION: "a function",
    n.FUNCTION_TEMPLATE: "a function template",
    n.VALUE: "a constant",
    n.VALUE_TEMPLATE: "a constant template",
}
_TEMPLATES = (n.TYPE_TEMPLATE, n.FUNCTION_TEMPLATE, n.VALUE_TEMPLATE)


class Part(NamedTuple):
    """A printed expression, how tightly its outermost operator binds, and what is known of its value."""

    level: int
    tree: Tree
    value: Value = Value()

    @property
    def address(self) -> bool:
        """Whether its value is an address."""
        return self.value.address


class TypeNames(Cursor, abc.ABC):
    """Token stream, names and types; `Expressions` builds on it."""

    def __init__(self, tokens: list[Token], language: Language, scopes: Scopes) -> None:
        """tokens: of the whole leaf, the last of kind "end"."""
        super().__init__(tokens)
        self.language = language
        self.scopes = scopes
        self.depth = 0
        self.lambdas = 0
        self.value = Value()
        """what is known of the expression that was taken last"""
        self.values: list[Value] = []
        """and of the arguments that were taken last"""
        self.returns = Called()
        """and of the lambda"""
        self.compared: list[tuple[Places, Token, tuple[str, str]]] = []
        """what the addresses point into that are compared, where, and what is said of several; judged when the whole leaf is known"""

    @abc.abstractmethod
    def binary(self, least: int) -> Part:
        """Return the expression here whose operators bind at least as tightly as `least`."""

    # ---- tokens
    def next(self) -> Token:
        """Take the token here."""
        token = self.now
        self.at += token.kind != "end"
        return token

    def eat(self, text: str, style: str = " ") -> Word:
        """Take the token `text`, which must be there."""
        if self.now.text != text or self.now.kind in ("pragma", "end"):
            self.refuse(f"expected {text} before {self.now.text[:30]!r}")
        return self.word(style)

    def word(self, style: str = " ") -> Word:
        """Take the token here as it is printed."""
        token = self.next()
        return Word(token.text, token.line, style)

    def refuse(
        self, what: str = "", instead: str | None = None, token: Token | None = None
    ) -> NoReturn:
        """Raise Refusal at `token`, the one here when it is not given."""
        token = token or self.now
        if instead is None:
            instead = INSTEAD.get(token.text, "")
        raise Refusal(
            token.line, what or f"{token.text[:40]!r} is not part of a leaf here", instead
        )

    def enter(self) -> None:
        """Count one more level of nesting; each `enter` has its `leave`."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.refuse(f"more than {MAX_DEPTH} levels of nesting", "use statements and names")

    def leave(self) -> None:
        """Undo `enter`."""
        self.depth -= 1

    # ---- names and types
    def path(self) -> str:
        """Return the longest qualified name here without template arguments, read only."""
        parts, ahead = [self.now.text], 1
        while self.peek(ahead).text == "::" and self.peek(ahead + 1).kind == "name":
            parts.append(self.peek(ahead + 1).text)
            ahead += 2
        return "::".join(parts)

    def kind_here(self) -> str:
        """Return the kind of the name here, "" when it has none."""
        if self.now.kind != "name":
            return ""
        path = self.path()
        return self.scopes.find(path)[0] or self._member_of_type(path)

    def name(self, allowed: tuple[str, ...], hint: str = "") -> tuple[str, Tree]:
        """Take a name, its qualifiers and template arguments; return (kind, printed)."""
        first = self.now
        path = ""
        tree: list[Tree] = []
        while True:
            token = self.next()
            path += token.text
            kind, full = self.scopes.find(path)
            space = full.removesuffix(f"::{path}")
            if kind and space != full and not tree:  # found by `using namespace st;`
                tree += [Word(space, token.line), Word("::", token.line, "-")]
            tree.append(Word(token.text, token.line, "<" if tree else " "))
            if self.now.text == "<" and kind in _TEMPLATES:
                tree.append(self.template_arguments())
                path += "<>" if self.now.text == "::" else ""
            if self.now.text != "::":
                break
            tree.append(self.eat("::", "-"))
            path += "::"
            if self.now.kind != "name":
                self.refuse(f"expected a name after {path}")
        kind = kind or self._member_of_type(path)
        if not kind:
            self._unknown(path, first)
        if kind not in allowed:
            what = f"{path.replace('<>', '')} is {KIND_TEXT[kind]} and cannot stand here"
            self.refuse(what, hint, first)
        if kind in (n.TYPE_TEMPLATE, n.VALUE_TEMPLATE) and not isinstance(tree[-1], list):
            self.refuse(f"{path} without template arguments", "", first)
        return kind, tree

    def _member_of_type(self, path: str) -> str:
        """X::R of a type of the leaf's own."""
        parts = path.split("::")
        if (
            len(parts) == 2
            and self.scopes.own(parts[0]) == n.TYPE
            and parts[1] in self.language.fields
        ):
            return n.FUNCTION if self.now.text == "(" else n.VALUE
        return ""

    def _unknown(self, path: str, token: Token) -> NoReturn:
        path = path.replace("<>", "")
        near = self.language.similar(path)
        if path in INSTEAD or path in n.KEYWORDS:
            self.refuse(f"{path!r} is not part of a leaf", INSTEAD.get(path, ""), token)
        if path in self.language.imprecise:
            instead = f"write {self.language.imprecise[path]}"
            self.refuse(f"{path} has a larger error than float32 results may have", instead, token)
        if path in self.language.examples:
            near = f"the documents' examples begin with `{self.language.examples[path]}`: write it into the leaf, too"
        elif near and ("::" not in path or path.startswith(("st::", "std::"))):
            near = (
                f"write {near}"
                if not near.startswith("st::")
                else f"write {near}, or first `using namespace st;`"
            )
        else:
            near = "declare it before its use; the API page lists the runtime's names"
        self.refuse(f"{path} is neither declared in the leaf nor part of the runtime", near, token)

    def template_arguments(self) -> Tree:
        """Take `<..>`: types and small constants."""
        self.enter()
        tree: list[Tree] = [self.eat("<", "-")]
        while True:
            if self.starts_type():
                tree.append(self.type())
            else:
                if (
                    self.now.kind == "number"
                    and int(
                        "0" + "".join(c for c in self.now.text.split(".")[0] if c.isdigit())[:9]
                    )
                    > MAX_CONSTANT
                ):
                    self.refuse("a large template argument", f"at most {MAX_CONSTANT}")
                part = self.binary(11)
                tree.append(part.tree)
            if self.now.text != ",":
                break
            tree.append(self.eat(",", "<"))
        tree.append(self.eat(">", "<"))
        self.leave()
        return tree

    def starts_type(self) -> bool:
        """Return whether a type stands here (not a conversion `T(x)` or `T{..}`)."""
        token = self.now
        if token.text in ("const", "auto") or token.text in n.SCALARS:
            following = self.peek().text
            return token.text in ("const", "auto") or following not in ("(", "{")
        if self.kind_here() not in (n.TYPE, n.TYPE_TEMPLATE):
            return False
        return self.tokens[self._after_name()].text not in ("(", "{", "::")

    def _after_name(self) -> int:
        """Return the index behind the qualified name and its template arguments here."""
        at = self.at + 1
        while True:
            if self.tokens[at].text == "::" and self.tokens[at + 1].kind == "name":
                at += 2
            elif self.tokens[at].text == "<":
                end = self._behind_angles(at)
                if end < 0:
                    return at
                at = end
            else:
                return at

    def _behind_angles(self, at: int) -> int:
        depth = 0
        for i in range(at, min(at + 200, len(self.tokens))):
            token = self.tokens[i]
            if token.text in ("<", ">"):
                depth += 1 if token.text == "<" else -1
                if depth == 0:
                    return i + 1
            elif token.kind not in ("name", "number") and token.text not in (
                ",",
                "::",
                "-",
                "*",
                "+",
                "/",
                "(",
                ")",
            ):
                return -1
        return -1

    def type(self, *, auto: bool = False) -> Tree:
        """Take a type without its pointer or reference sign."""
        tree: list[Tree] = []
        base = False
        while True:
            token = self.now
            if token.text == "const":
                tree.append(self.word())
            elif token.text in n.SCALARS and not base:
                while self.now.text in n.SCALARS:
                    tree.append(self.word())
                base = True
            elif token.text == "auto" and auto and not base and not self.language.plain_c:
                tree.append(self.word())
                base = True
            elif token.kind == "name" and not base:
                tree.append(self.name((n.TYPE, n.TYPE_TEMPLATE))[1])
                base = True
            else:
                break
        if not base:
            self.refuse(f"expected a type before {self.now.text[:30]!r}")
        return tree
