"""The syntax of the C that emitters print, read back: blocks, loops, conditions, declarations and calls.

This is no reader of C: what emitters do not print is Unreadable. A `<` that touches the name before it opens
a template's arguments, as emitters print it; one with spaces compares.
"""

from __future__ import annotations

from dataclasses import dataclass

from septran.leafgate.refusal import Refusal
from septran.leafgate.tokens import Cursor, Token, tokens
from septran.prove.printed import Unreadable


@dataclass(frozen=True, slots=True)
class Name:
    """A name or number as it stands, with its template's arguments."""

    text: str
    template: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """`f(a, b)`, `T{a, b}` (braces), `x.f(a)`; name.text is "" for `{a, b}` alone and "[]" for `a[b]`."""

    name: Name
    args: tuple[Node, ...]
    braces: bool = False


@dataclass(frozen=True, slots=True)
class Binary:
    """`a op b`; unary minus is `0 - a`."""

    op: str
    a: Node
    b: Node


Node = Name | Call | Binary


@dataclass(frozen=True, slots=True)
class ForLoop:
    """`for (kind var = 0; var < extent; ++var)`; pragmas: those in front of it."""

    var: str
    extent: Node
    body: tuple[Line, ...]
    line: int
    pragmas: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class If:
    """`if (a && b)`."""

    tests: tuple[Node, ...]
    body: tuple[Line, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Block:
    """`{ }`; pragmas: those in front of it."""

    body: tuple[Line, ...]
    line: int
    pragmas: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Declare:
    """`kind name = value;` or `kind name;`; template: of the kind."""

    kind: str
    name: str
    value: Node | None
    line: int
    template: str = ""


@dataclass(frozen=True, slots=True)
class Do:
    """An expression as a statement."""

    value: Node
    line: int


Line = ForLoop | If | Block | Declare | Do

_LEVEL = {"<": 1, "<=": 1, ">": 1, ">=": 1, "==": 1, "+": 2, "-": 2, "*": 3, "/": 3, "%": 3}
_CLOSE = {"(": ")", "{": "}", "[": "]"}


def read_body(text: str, first_line: int) -> tuple[Line, ...]:
    """Return the statements of a function's body; `text` begins on line `first_line` of its file.

    Raises:
        Unreadable: emitters do not print this.
    """
    try:
        found = tokens(text)
    except Refusal as e:
        raise Unreadable(f"line {first_line + e.line - 1}: {e}") from e
    parser = _Parser(found, first_line - 1)
    body = parser.lines()
    parser.expect_end()
    return body


def read_leaf(text: str, types: frozenset[str]) -> tuple[Line, ...]:
    """Return the statements of a leaf's body: declarations of several names of `types`, and `|`, besides what emitters print.

    Raises:
        Unreadable: anything else.
    """
    try:
        parser = _LeafParser(tokens(text), 0)
    except Refusal as e:
        raise Unreadable(f"line {e.line}: {e}") from e
    parser.types = types
    body = parser.lines()
    parser.expect_end()
    return body


class _Parser(Cursor):
    def __init__(self, found: list[Token], above: int) -> None:
        super().__init__(found)
        self.above = above

    def line(self) -> int:
        return self.now.line + self.above

    def wrong(self, what: str = "") -> Unreadable:
        return Unreadable(
            f"line {self.line()}: {what or repr(self.now.text) + ' is not read here'}"
        )

    def expect_end(self) -> None:
        if self.now.kind != "end":
            raise self.wrong()

    # ---- statements
    def lines(self) -> tuple[Line, ...]:
        found: list[Line] = []
        while self.now.kind != "end" and self.now.text != "}":
            found.append(self.statement())
        return tuple(found)

    def statement(self) -> Line:
        pragmas: list[str] = []
        while self.now.kind == "pragma":
            pragmas.append(self.take().text)
        here = self.line()
        match self.now.text:
            case "{":
                return Block(self.block(), here, tuple(pragmas))
            case "for":
                return self.loop(here, tuple(pragmas))
        if pragmas:
            raise self.wrong()
        match self.now.text:
            case "if":
                return self.condition(here)
            case "enum":
                return self.constant(here)
        end = self._end_of_statement()
        if self.now.text == "(" and self.tokens[self.at + 1].text == "void":
            self.at = end + 1  # (void)x: marks a name as used
            return Block((), here, ())
        assign = self._top_level("=", end)
        if assign is not None:
            kind, name, template = self._declared(assign)
            self.take("=")
            value = self.expression()
            self.take(";")
            return Declare(kind, name, value, here, template)
        last = self.tokens[end - 1]
        if last.kind == "name" and end - self.at > 1:
            kind, name, template = self._declared(end)
            self.take(";")
            return Declare(kind, name, None, here, template)
        if self.tokens[self.at + 1].kind == "name" and last.text == ")":
            # Type name(argument): a constructor
            kind, name, template = self._declared(self._top_level("(", end) or end)
            value = Call(Name(name), self._arguments("("))
            self.take(";")
            return Declare(kind, name, value, here, template)
        value = self.expression()
        self.take(";")
        return Do(value, here)

    def block(self) -> tuple[Line, ...]:
        self.take("{")
        body = self.lines()
        self.take("}")
        return body

    def body(self) -> tuple[Line, ...]:
        return self.block() if self.now.text == "{" else (self.statement(),)

    def loop(self, here: int, pragmas: tuple[str, ...]) -> ForLoop:
        self.take("for")
        self.take("(")
        while self.tokens[self.at + 1].text != "=":
            self.take()
        var = self.take().text
        for text in ("=", "0", ";", var, "<"):
            self.take(text)
        extent = self.expression()
        self.take(";")
        for text in ("++", var) if self.now.text == "++" else (var, "++"):
            self.take(text)
        self.take(")")
        return ForLoop(var, extent, self.body(), here, pragmas)

    def condition(self, here: int) -> If:
        self.take("if")
        self.take("(")
        tests = self.tests()
        self.take(")")
        return If(tests, self.body(), here)

    def tests(self) -> tuple[Node, ...]:
        found = [*self.test()]
        while self.take_if("&&"):
            found += self.test()
        return tuple(found)

    def test(self) -> tuple[Node, ...]:
        """Take one side of &&, which may be a conjunction in brackets."""
        mark = self.at
        if self.take_if("("):
            inner = self.tests()
            if self.take_if(")") and self.now.text in ("&&", ")"):
                return inner
            self.at = mark
        return (self.expression(),)

    def constant(self, here: int) -> Declare:
        self.take("enum")
        self.take("{")
        name = self.take().text
        self.take("=")
        value = self.expression()
        self.take("}")
        self.take(";")
        return Declare("enum", name, value, here)

    def _end_of_statement(self) -> int:
        end = self._top_level(";", len(self.tokens))
        if end is None:
            raise self.wrong()
        return end

    def _top_level(self, text: str, end: int) -> int | None:
        depth = 0
        for at in range(self.at, end):
            word = self.tokens[at].text
            if depth == 0 and word == text:
                return at
            depth += (word in _CLOSE) - (word in _CLOSE.values())
        return None

    def _declared(self, end: int) -> tuple[str, str, str]:
        """Take the type and name that stand before token `end`: (kind, name, template)."""
        words = self.tokens[self.at : end]
        if len(words) < 2 or words[-1].kind != "name":
            raise self.wrong()
        texts = [w.text for w in words[:-1] if w.text not in ("const", "*")]
        template = ""
        if "<" in texts:
            cut = texts.index("<")
            template = " ".join(texts[cut + 1 : -1])
            texts = texts[:cut]
        self.at = end
        return "".join(texts), words[-1].text, template

    # ---- expressions
    def expression(self, level: int = 1) -> Node:
        left = self.unary()
        while _LEVEL.get(self.now.text, 0) >= level and self.now.kind == "op":
            op = self.take().text
            left = Binary(op, left, self.expression(_LEVEL[op] + 1))
        return left

    def unary(self) -> Node:
        if self.take_if("-"):
            return Binary("-", Name("0"), self.unary())
        if self.take_if("&"):
            return self.unary()
        if self.now.text == "(":
            return self.bracket()
        if self.now.text == "{":
            return Call(Name(""), self._arguments("{"), braces=True)
        return self.primary()

    def bracket(self) -> Node:
        """Take `( expression )`, or `(type) value` of a compound literal or cast."""
        mark = self.at
        self.take("(")
        if self.now.kind == "name" and self.tokens[self.at + 1].text == ")":
            kind = self.take().text
            self.take(")")
            if self.now.text == "{":
                return Call(Name(kind), self._arguments("{"), braces=True)
            self.at = mark
            self.take("(")
        inner = self.expression()
        self.take(")")
        return inner

    def primary(self) -> Node:
        token = self.take()
        if token.kind not in ("name", "number"):
            self.at -= 1
            raise self.wrong()
        text, end = token.text, token.at + len(token.text)
        template = ""
        while True:
            if self.now.text in ("::", ".", "->") and self.now.at == end:
                text += self.take().text
                word = self.take()
                text, end = text + word.text, word.at + len(word.text)
            elif self.now.text == "<" and self.now.at == end and token.kind == "name":
                template, end = self._template()
            else:
                break
        name = Name(text, template)
        if self.take_if("["):
            inner = self.expression()
            self.take("]")
            return Call(Name("[]"), (name, inner))
        if self.now.text == "(" and token.kind == "name":
            return Call(name, self._arguments("("))
        if self.now.text == "{" and token.kind == "name":
            return Call(name, self._arguments("{"), braces=True)
        return name

    def _template(self) -> tuple[str, int]:
        depth, words = 0, []
        while True:
            token = self.take()
            depth += (token.text == "<") - (token.text == ">")
            words.append(token.text)
            if depth == 0:
                return " ".join(words[1:-1]), token.at + 1

    def _arguments(self, opening: str) -> tuple[Node, ...]:
        self.take(opening)
        found: list[Node] = []
        while self.now.text != _CLOSE[opening]:
            if found:
                self.take(",")
            if self.now.text == _CLOSE[opening]:
                break
            found.append(self.expression())
        self.take(_CLOSE[opening])
        return tuple(found)


class _LeafParser(_Parser):
    types: frozenset[str] = frozenset()

    def lines(self) -> tuple[Line, ...]:
        found: list[Line] = []
        while self.now.kind != "end" and self.now.text != "}":
            found += self.declared() if self.declares() else (self.statement(),)
        return tuple(found)

    def declares(self) -> bool:
        at = 1 if self.now.text == "const" else 0
        return self.peek(at).text in self.types and self.peek(at + 2).text == "="

    def declared(self) -> list[Line]:
        """Take `const type a = .., b = ..;`."""
        self.take_if("const")
        kind, found = self.take().text, list[Line]()
        while True:
            here, name = self.line(), self.take().text
            self.take("=")
            found.append(Declare(kind, name, self.expression(), here))
            if not self.take_if(","):
                self.take(";")
                return found

    def expression(self, level: int = 1) -> Node:
        left = super().expression(level)
        while level == 1 and self.take_if("|"):
            left = Binary("|", left, super().expression(level))
        return left
