"""Expressions of the C-family subset: recursive descent with name kinds, printed as they are understood.

`a < b`, `T * x` and `T(x)` mean different things for a type, a template and a variable. Every name's kind is known
here, from the leaf's scopes or the runtime's list, so there is nothing to guess.
"""

from __future__ import annotations

import re

from septran.leafgate import names as n
from septran.leafgate.layout import Tree, Word
from septran.leafgate.type_names import KIND_TEXT, Part, TypeNames

_BINARY = {
    "||": 3, "&&": 4, "|": 5, "^": 6, "&": 7, "==": 8, "!=": 8, "<": 9, ">": 9, "<=": 9, ">=": 9,
    "<<": 10, ">>": 10, "+": 11, "-": 11, "*": 12, "/": 12, "%": 12,
}  # fmt: skip
_ASSIGN = frozenset(("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="))
_COMMA, _ASSIGNMENT, _CONDITIONAL, _UNARY, _PRIMARY = 0, 1, 2, 14, 15
_BITS = frozenset((5, 6, 7, 10))
_DISTANCE = (
    "the distance of two addresses",
    "count with an index: what a leaf computes may not depend on where tensors lie",
)
_PLACE = (
    "what is made of an address",
    "step a tile's addr by + and +=: what a leaf computes may not depend on where tiles lie",
)
_NUMBER = re.compile(r"(?:std::)?(?:u?int(?:8|16|32|64)_t|size_t|ptrdiff_t)")
"""types besides the language's own whose size a device and an emulation have alike"""


class Expressions(TypeNames):
    """Expressions over names and types; `Statements` builds on it."""

    # ---- expressions, loosest first
    def expression(self) -> Tree:
        """Take an expression, commas included."""
        part = self.assignment()
        tree: list[Tree] = [part.tree]
        while self.now.text == ",":
            comma, part = self.eat(",", "<"), self.assignment()
            tree += [comma, part.tree]
        self.is_address = part.address
        return tree

    def no_place(self, *addresses: bool) -> None:
        """Refuse what makes a number or a choice of an address, where addresses are numbers: in C."""
        if self.language.plain_c and any(addresses):
            self.refuse(*_PLACE)

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
                self.refuse(*_DISTANCE)
            self.no_place(right.address and not left.address)
            self.no_place(left.address and sign not in ("=", "+=", "-="))
            address = left.address or (sign == "=" and right.address)
            left = Part(_ASSIGNMENT, [left.tree, word, right.tree], address)
        self.leave()
        return left

    def conditional(self) -> Part:
        """Take `a ? b : c` or what binds more tightly."""
        first = self.binary(3)
        if self.now.text != "?":
            return first
        self.no_place(first.address)
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
            middle.address or last.address,
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
            sign = self.operator()
            level = _BINARY.get(sign, -1)
            if level < least:
                return left
            word = self.operator_word(sign)
            self.enter()
            right = self.binary(level + 1)
            self.leave()
            if sign == "-" and right.address:
                self.refuse(*_DISTANCE)
            if sign not in ("+", "-"):
                self.no_place(left.address, right.address)
            address = sign in ("+", "-") and (left.address or right.address)
            left = Part(level, [_operand(left, level), word, _operand(right, level)], address)

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
            address = token.text == "&" or (part.address and token.text in ("++", "--", "+"))
            return Part(_UNARY, [word, part.tree], address)
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
        open_ = self.word(">")
        number = self.is_number()
        kind = self.type()
        if self.now.text in ("*", "&"):
            self.refuse("a cast to a pointer", "use the view's own element type")
        close = self.eat(")", "<")
        if self.now.text == "{":
            return Part(_PRIMARY, [open_, kind, close, self.braced("-")])
        self.enter()
        part = self.unary()
        self.leave()
        if number and not self.language.plain_c:
            return Part(_PRIMARY, _static(kind, part.tree, open_.line))
        held = self.language.plain_c and part.address
        return Part(_UNARY, [open_, kind, Word(close.text, close.line, "-"), part.tree], held)

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
        return path in self.numbers or _NUMBER.fullmatch(path) is not None

    def postfix(self) -> Part:
        """Take a primary expression with its indices, members and calls."""
        self.is_address = False
        tree = self.primary()
        address = self.is_address
        while True:
            sign = self.now.text
            if sign == "[" and self.now.kind == "op":
                if self.peek().text == "[":
                    self.refuse("[[", "attributes and lambdas do not stand here")
                tree = [tree, self.eat("[", "-"), self.expression(), self.eat("]", "<")]
                self.no_place(self.is_address)
                address = False
            elif sign == "(":
                tree = [tree, self.arguments()]
                address = False
            elif sign == ".":
                dot = self.word("-")
                if self.now.text not in self.language.fields:
                    self.refuse(
                        f"the member .{self.now.text[:30]}",
                        f"members are {' '.join(sorted(self.language.fields))}: {self.language.members}",
                    )
                address = self.now.text in ("p", "addr")
                tree = [tree, dot, self.word("<")]
            elif sign in ("++", "--"):
                tree = [tree, self.word("<")]
            elif sign in ("->", "::", "->*"):
                self.refuse()
            else:
                return Part(_PRIMARY, tree, address)

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
            return self._construct(self.word(), number=True)
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
            return self._construct(tree, number=number)
        if kind in (n.FUNCTION, n.FUNCTION_TEMPLATE, n.LAMBDA):
            if self.now.text != "(":
                self.refuse(f"{token.text} is {KIND_TEXT[kind]} and is only called", "", token)
            tree = [tree, self.arguments(lambdas=kind != n.LAMBDA)]
            given = self.is_address and token.text in ("std", "min", "max")
            self.is_address = given or self._is_pointer(path)
            return tree
        self.is_address = self._is_pointer(path)
        return tree

    def _is_pointer(self, path: str) -> bool:
        return path in self.addresses if self.scopes.own(path) else path.split("::")[-1] == "row"

    def _size(self) -> Tree:
        """Take `sizeof(T)`."""
        tree: list[Tree] = [self.word(), self.eat("(", "-")]
        if self.now.text not in n.SCALARS and not _NUMBER.fullmatch(self.path()):
            self.refuse(f"sizeof({self.now.text[:20]})", "give it a number's type: sizeof(float)")
        return [*tree, self.type(), self.eat(")", "<")]

    def _construct(self, tree: Tree, *, number: bool) -> Tree:
        if self.now.text == "{":
            return [tree, self.braced("-")]
        if number and self.peek().text != ")":
            line = self.eat("(").line
            value = self.assignment().tree
            self.eat(")")
            return _static(tree, value, line)
        return [tree, self.arguments()]

    def _static_cast(self) -> Tree:
        tree: list[Tree] = [self.word(), self.eat("<", "-"), self.type()]
        if self.now.text in ("*", "&"):
            self.refuse("a cast to a pointer", "use the view's own element type")
        tree += [self.eat(">", "<"), self.eat("(", "-"), self.expression(), self.eat(")", "<")]
        return tree

    def arguments(self, *, lambdas: bool = False) -> Tree:
        """Take `(..)`. lambdas: a lambda may be given, because the runtime is called."""
        self.enter()
        tree: list[Tree] = [self.eat("(", "-")]
        address = False
        while self.now.text != ")":
            if lambdas and self.now.text == "[":
                tree.append(self.lambda_())
            elif (
                lambdas
                and self.now.kind == "name"
                and self.scopes.own(self.now.text) == n.LAMBDA
                and self.peek().text in (",", ")")
            ):
                tree.append(self.word())
            elif self.now.text == "{" and not self.language.plain_c:
                self.refuse("a list as an argument", "write its type in front: T{..}")
            else:
                part = self.assignment()
                self.no_place(part.address)
                address = address or part.address
                tree.append(part.tree)
            if self.now.text != ",":
                break
            tree.append(self.eat(",", "<"))
        tree.append(self.eat(")", "<"))
        self.leave()
        self.is_address = address
        return tree

    def braced(self, style: str = " ") -> Tree:
        """Take `{..}`: values, nested lists, `.field = value`."""
        self.enter()
        open_ = self.eat("{", "-" if style == "-" else ">")
        tree: list[Tree] = [open_]
        held = False
        while self.now.text != "}":
            if self.now.text == "{":
                tree.append(self.braced())
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
                    tree.append(part.tree)
            else:
                part = self.assignment()
                held = held or part.address
                tree.append(part.tree)
            if self.now.text != ",":
                break
            tree.append(self.eat(",", "<"))
        tree.append(self.eat("}", "<"))
        self.leave()
        self.is_address = held
        return tree

    def lambda_(self) -> Tree:
        """Implemented by `Statements`: a lambda's body holds statements."""
        raise NotImplementedError


def _static(kind: Tree, value: Tree, line: int) -> Tree:
    """Return a conversion to a number's type that a compiler refuses of an address: what a leaf computes may not depend on one."""
    words = [Word(text, line, style) for text, style in (("static_cast", " "), ("<", "-"))]
    after = [Word(text, line, style) for text, style in ((">", "<"), ("(", "-"))]
    return [*words, kind, *after, value, Word(")", line, "<")]


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
