"""Expressions of the C-family subset: recursive descent with name kinds, printed as they are understood.

`a < b`, `T * x` and `T(x)` mean different things for a type, a template and a variable. Every name's kind is known
here, from the leaf's scopes or the runtime's list, so there is nothing to guess.
"""

from __future__ import annotations

import re

from septran.leafgate import names as n
from septran.leafgate.address_rules import DISTANCE, MADE_OF, AddressRules, Declared
from septran.leafgate.addresses import Value, either
from septran.leafgate.layout import Tree, Word
from septran.leafgate.type_names import KIND_TEXT, Part

_BINARY = {
    "||": 3, "&&": 4, "|": 5, "^": 6, "&": 7, "==": 8, "!=": 8, "<": 9, ">": 9, "<=": 9, ">=": 9,
    "<<": 10, ">>": 10, "+": 11, "-": 11, "*": 12, "/": 12, "%": 12,
}  # fmt: skip
_ASSIGN = frozenset(("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="))
_COMMA, _ASSIGNMENT, _CONDITIONAL, _UNARY, _PRIMARY = 0, 1, 2, 14, 15
_BITS = frozenset((5, 6, 7, 10))
_ORDERS = frozenset(("<", ">", "<=", ">="))
_COMPARES = _ORDERS | {"==", "!="}
_NUMBER = re.compile(r"(?:std::)?(?:u?int(?:8|16|32|64)_t|size_t|ptrdiff_t)")
"""types besides the language's own whose size a device and an emulation have alike"""


class Expressions(AddressRules):
    """Expressions over names and types; `Statements` builds on it."""

    # ---- expressions, loosest first
    def expression(self) -> Tree:
        """Take an expression, commas included."""
        part = self.assignment()
        tree: list[Tree] = [part.tree]
        while self.now.text == ",":
            comma, part = self.eat(",", "<"), self.assignment()
            tree += [comma, part.tree]
        self.value = part.value
        return tree

    def assignment(self) -> Part:
        """Take an expression without commas."""
        self.enter()
        left = self.conditional()
        sign = self.operator()
        if sign in _ASSIGN:
            if left.level < _UNARY:
                self.refuse(
                    f"{sign} after an operator that binds less tightly", "put it in parentheses"
                )
            word = self.operator_word(sign)
            right = self.assignment()
            if sign == "-=" and right.address:
                self.refuse(*DISTANCE)
            self.given(left.value, sign, right.value)
            value = left.value
            if self.language.plain_c and sign == "=" and right.address:
                value = right.value
            left = Part(_ASSIGNMENT, [left.tree, word, right.tree], value)
        self.leave()
        return left

    def conditional(self) -> Part:
        """Take `a ? b : c` or what binds more tightly."""
        first = self.binary(3)
        if self.now.text != "?":
            return first
        self.no_place(first.address)
        self.no_number(first.value)
        mark = self.word()
        if self.now.text == ":":
            self.refuse("a ? without its middle operand", "name the middle operand")
        self.enter()
        middle = self.assignment()
        colon = self.eat(":")
        last = self.assignment()
        self.leave()
        return Part(
            _CONDITIONAL,
            [first.tree, mark, _shut(middle, _CONDITIONAL), colon, _shut(last, _CONDITIONAL)],
            either(middle.value, last.value),
        )

    def operator(self) -> str:
        """Return the operator here; `>` `>` that touch are one."""
        token, after = self.now, self.peek()
        if token.kind != "op":
            return ""
        if token.text == ">" and after.at == token.at + 1 and after.text in (">", ">="):
            return ">" + after.text
        return token.text

    def operator_word(self, sign: str) -> Word:
        """Take the operator `sign`, which may be two tokens."""
        token = self.next()
        if token.text != sign:
            self.next()
        return Word(sign, token.line)

    def binary(self, least: int) -> Part:
        """Take operators that bind at least as tightly as `least` (a row of the table above)."""
        left = self.unary()
        while True:
            token, sign = self.now, self.operator()
            level = _BINARY.get(sign, -1)
            if level < least:
                return left
            word = self.operator_word(sign)
            self.enter()
            right = self.binary(level + 1)
            self.leave()
            value = Value()
            if sign == "-" and right.address:
                self.distance(token, left.value, right.value)
            elif sign in _COMPARES:
                self.compare(token, left.value, right.value)
                if sign in _ORDERS and left.address and not self.language.plain_c:
                    left = _by_distance(left, word, right)
                    continue
            elif sign in ("+", "-"):
                value = left.value if left.address else right.value
                value = Value(value.levels, data=value.data)
            else:
                self.no_number(left.value, right.value)
            if sign not in ("+", "-"):
                self.no_place(left.address, right.address)
            left = Part(level, [_operand(left, level), word, _operand(right, level)], value)

    def unary(self) -> Part:
        """Take prefix operators, casts and what they apply to."""
        token = self.now
        if token.kind == "op" and token.text in ("+", "-", "!", "~", "++", "--", "*", "&"):
            if self.language.plain_c and token.text in ("*", "&"):
                self.refuse("an address", "tiles carry addresses")
            self.enter()
            word = self.word(">")
            part = self.unary()
            if token.text == "&" and part.level < _PRIMARY:
                self.refuse(
                    "the address of a value", "take the address of a variable or an element", token
                )
            self.leave()
            if token.text in ("!", "~", "-"):
                self.no_place(part.address)
                self.no_number(part.value)
            return Part(_UNARY, [word, part.tree], self.prefixed(token, part.value))
        if token.text == "(" and self._is_cast():
            return self._cast()
        return self.postfix()

    def _is_cast(self) -> bool:
        """`(type)` stands here."""
        at, self.at = self.at, self.at + 1
        try:
            if not self.starts_type():
                return False
            end = self.at
            while self.tokens[end].text in n.SCALARS or self.tokens[end].text == "const":
                end += 1
            if end == self.at or self.tokens[end].kind == "name":
                self.at = end
                end = self._after_name()
            while self.tokens[end].text in ("const", "*", "&"):
                end += 1
            return self.tokens[end].text == ")"
        finally:
            self.at = at

    def _cast(self) -> Part:
        open_, dropped = self.word(">"), self.now.text == "void"
        number = self.is_number()
        kind = self.type()
        if self.now.text in ("*", "&"):
            self.refuse("a cast to a pointer", "use the view's own element type")
        close = self.eat(")", "<")
        if self.now.text == "{":
            tree: Tree = [open_, kind, close, self.braced("-")]
            self.no_number(self.value)
            return Part(_PRIMARY, tree)
        self.enter()
        part = self.unary()
        self.leave()
        if not dropped:
            self.no_number(part.value)
        if number and not self.language.plain_c:
            return Part(_PRIMARY, _static(kind, part.tree, open_.line))
        held = part.value if self.language.plain_c else Value()
        return Part(_UNARY, [open_, kind, Word(close.text, close.line, "-"), part.tree], held)

    def declared_type(self) -> Declared:
        """Return what the type here says of what is declared, read only."""
        ahead = 0
        while self.peek(ahead).text == "const":
            ahead += 1
        at, self.at = self.at, self.at + ahead
        path, guessed = self.scopes.find(self.path())[1], self.now.text == "auto"
        constant = ahead > 0 or self.peek().text == "const"
        self.at = at
        return Declared(
            guessed=guessed,
            constant=constant,
            number=self.is_number(),
            view=path in self.language.views or self.scopes.type_of(path).view,
        )

    def is_number(self) -> bool:
        """Return whether the type here is a number's: a cast to it is printed so that it takes no address."""
        ahead = 0
        while self.peek(ahead).text == "const":
            ahead += 1
        token = self.peek(ahead)
        if token.text in n.SCALARS:
            return token.text != "void"
        at, self.at = self.at, self.at + ahead
        path, self.at = self.path(), at
        if self.scopes.own(path):
            return self.scopes.type_of(path).number
        return _NUMBER.fullmatch(path) is not None

    def postfix(self) -> Part:
        """Take a primary expression with its indices, members and calls."""
        self.value = Value()
        tree = self.primary()
        value, member = self.value, ""
        while True:
            sign = self.now.text
            if sign == "[" and self.now.kind == "op":
                if self.peek().text == "[":
                    self.refuse("[[", "attributes and lambdas do not stand here")
                tree = [tree, self.eat("[", "-"), self.expression(), self.eat("]", "<")]
                self.no_place(self.value.address)
                self.no_number(self.value)
                value = value.element()
            elif sign == "(":
                tree = [tree, self.arguments()]
                if member not in self.language.addressed:
                    self.no_number(*self.values)
                value = Value(inside=value.elements)
            elif sign == ".":
                dot, member = self.word("-"), self.now.text
                if member not in self.language.fields:
                    self.refuse(
                        f"the member .{self.now.text[:30]}",
                        f"members are {' '.join(sorted(self.language.fields))}: {self.language.members}",
                    )
                value = self.member(member, value)
                tree = [tree, dot, self.word("<")]
                continue
            elif sign in ("++", "--"):
                tree = [tree, self.word("<")]
            elif sign in ("->", "::", "->*"):
                self.refuse()
            else:
                return Part(_PRIMARY, tree, value)
            member = ""

    def primary(self) -> Tree:
        """Take a number, a name, a conversion or a parenthesis."""
        token = self.now
        if token.kind == "number":
            return self.word()
        if token.text == "(":
            return [self.word(">"), self.expression(), self.eat(")", "<")]
        if token.text in ("true", "false"):
            return self.word()
        if token.text == "static_cast" and not self.language.plain_c:
            return self._static_cast()
        if token.text == "sizeof":
            return self._size()
        if token.text in n.SCALARS:
            if self.language.plain_c or self.peek().text not in ("(", "{"):
                self.refuse(f"{token.text} as a value", "write the cast (T)x")
            return self._construct(self.word(), "", number=True)
        if token.text == "[":
            self.refuse(
                "a lambda as a value",
                "name it: `const auto f = [&](..) {..};`, or give it to a runtime function",
            )
        if token.kind != "name":
            self.refuse()
        return self._named()

    def _named(self) -> Tree:
        token = self.now
        number, path = self.is_number(), self.path()
        kind, tree = self.name(tuple(KIND_TEXT))
        if kind in (n.TYPE, n.TYPE_TEMPLATE):
            if self.language.plain_c or self.now.text not in ("(", "{"):
                self.refuse(f"{token.text} is a type", "a value is made by T(x) or T{..}", token)
            return self._construct(tree, self.scopes.find(path)[1], number=number)
        if kind in (n.FUNCTION, n.FUNCTION_TEMPLATE, n.LAMBDA):
            if self.now.text != "(":
                self.refuse(f"{token.text} is {KIND_TEXT[kind]} and is only called", "", token)
            tree = [tree, self.arguments(lambdas=kind != n.LAMBDA)]
            if kind == n.LAMBDA:
                self.value = self.called(self.scopes.called(path), self.values)
            elif not self.language.plain_c:
                self.value = self.computed(token, path, self.values)
            return tree
        self.value = self.scopes.value(path) if self.scopes.own(path) else Value()
        return tree

    def _size(self) -> Tree:
        """Take `sizeof(T)`."""
        tree: list[Tree] = [self.word(), self.eat("(", "-")]
        if self.now.text not in n.SCALARS and not _NUMBER.fullmatch(self.path()):
            self.refuse(f"sizeof({self.now.text[:20]})", "give it a number's type: sizeof(float)")
        return [*tree, self.type(), self.eat(")", "<")]

    def _construct(self, tree: Tree, path: str, *, number: bool) -> Tree:
        if self.now.text == "{":
            tree = [tree, self.braced("-")]
            self.constructed(path, [self.value])
            return tree
        if number and self.peek().text != ")":
            line = self.eat("(").line
            part = self.assignment()
            self.no_number(part.value)
            self.eat(")")
            self.value = Value()
            return _static(tree, part.tree, line)
        tree = [tree, self.arguments()]
        self.constructed(path, self.values)
        return tree

    def _static_cast(self) -> Tree:
        tree: list[Tree] = [self.word(), self.eat("<", "-"), self.type()]
        if self.now.text in ("*", "&"):
            self.refuse("a cast to a pointer", "use the view's own element type")
        tree += [self.eat(">", "<"), self.eat("(", "-"), self.expression(), self.eat(")", "<")]
        self.no_number(self.value)
        self.value = Value()
        return tree

    def arguments(self, *, lambdas: bool = False) -> Tree:
        """Take `(..)`; `values` are then what is known of the arguments. lambdas: a lambda may be given, because the runtime is called."""
        self.enter()
        tree: list[Tree] = [self.eat("(", "-")]
        values: list[Value] = []
        while self.now.text != ")":
            if lambdas and self.now.text == "[":
                tree.append(self.lambda_())
                if self.returns.levels:
                    self.refuse(*MADE_OF)
            elif (
                lambdas
                and self.now.kind == "name"
                and self.scopes.own(self.now.text) == n.LAMBDA
                and self.peek().text in (",", ")")
            ):
                if self.scopes.called(self.now.text).levels:
                    self.refuse(*MADE_OF)
                tree.append(self.word())
            elif self.now.text == "{" and not self.language.plain_c:
                self.refuse("a list as an argument", "write its type in front: T{..}")
            else:
                part = self.assignment()
                self.no_place(part.address)
                values.append(part.value)
                tree.append(part.tree)
            if self.now.text != ",":
                break
            tree.append(self.eat(",", "<"))
        tree.append(self.eat(")", "<"))
        self.leave()
        self.values = values
        self.value = Value()
        return tree

    def braced(self, style: str = " ") -> Tree:
        """Take `{..}`: values, nested lists, `.field = value`."""
        self.enter()
        open_ = self.eat("{", "-" if style == "-" else ">")
        tree: list[Tree] = [open_]
        held: Value | None = None
        while self.now.text != "}":
            if self.now.text == "{":
                tree.append(self.braced())
                held = _with(held, self.value)
            elif self.now.text == ".":
                dot = self.word(">")
                if self.now.text not in self.language.fields:
                    self.refuse(f"the member .{self.now.text[:30]}")
                field = self.now.text
                tree += [dot, self.word(), self.eat("=")]
                if self.now.text == "{":
                    tree.append(self.braced())
                else:
                    part = self.assignment()
                    self.no_place(part.address and field != "addr")
                    self.no_number(part.value)
                    tree.append(part.tree)
            else:
                part = self.assignment()
                held = _with(held, part.value)
                tree.append(part.tree)
            if self.now.text != ",":
                break
            tree.append(self.eat(",", "<"))
        tree.append(self.eat("}", "<"))
        self.leave()
        self.value = held or Value()
        return tree

    def lambda_(self) -> Tree:
        """Implemented by `Statements`: a lambda's body holds statements."""
        raise NotImplementedError


def _with(held: Value | None, value: Value) -> Value | None:
    """Return what is known of the addresses in a list, None while there is none."""
    if not value.address:
        return held
    return value if held is None else either(held, value)


def _static(kind: Tree, value: Tree, line: int) -> Tree:
    """Return a conversion to a number's type that a compiler refuses of an address: what a leaf computes may not depend on one."""
    words = [Word(text, line, style) for text, style in (("static_cast", " "), ("<", "-"))]
    after = [Word(text, line, style) for text, style in ((">", "<"), ("(", "-"))]
    return [*words, kind, *after, value, Word(")", line, "<")]


def _by_distance(left: Part, sign: Word, right: Part) -> Part:
    """Return a comparison of two addresses in one object that their distance decides.

    An address far outside the object wraps around at 0 or at 2**64, and where depends on the object's place; the distance does not.
    """
    minus, zero = Word("-", sign.line), Word("0", sign.line)
    ends = [part.tree if part.level >= _PRIMARY else _closed(part) for part in (left, right)]
    return Part(_BINARY[sign.text], [ends[0], minus, ends[1], sign, zero])


def _operand(part: Part, parent: int) -> Tree:
    """Return an operand, in parentheses where readers and compilers have been known to differ."""
    mixed = (
        part.level < _UNARY and (part.level in _BITS or parent in _BITS) and part.level != parent
    )
    chained = parent in (8, 9) and part.level in (8, 9)
    return _closed(part) if mixed or chained or part.level < parent else part.tree


def _shut(part: Part, least: int) -> Tree:
    return part.tree if part.level > least else _closed(part)


def _closed(part: Part) -> Tree:
    return [Word("(", 0, ">"), part.tree, Word(")", 0, "<")]
