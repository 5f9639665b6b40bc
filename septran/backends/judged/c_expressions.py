"""Expressions of C++ read into Python's `ast`: recursive descent, with types told apart by how they stand."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from septran.backends.judged.c_words import (
    LEVEL,
    QUALIFIERS,
    SIZES,
    TYPES,
    at,
    bare,
    call,
    joined,
    number,
    split,
)
from septran.leafgate.tokens import Cursor, Token
from septran.prove.foreign.launch import NotRead


class Expressions(Cursor):
    """Tokens of one function; `c_source` adds its statements."""

    def __init__(self, found: Sequence[Token]) -> None:
        line = found[-1].line if found else 0
        super().__init__([*found, *[Token("end", "the end", line, -1)] * 2])
        self.scopes: list[dict[str, str]] = [{}]

    def wrong(self, what: str = "") -> NotRead:
        """Return the error that what stands here is not read."""
        return NotRead(self.now.line, what or f"{self.now.text!r} is not read here")

    # ---- names
    def declare(self, name: str) -> str:
        """Return the name of a new variable: its own where it hides another."""
        seen = sum(name in scope for scope in self.scopes[:-1])
        own = f"{name}__{seen + 1}" if seen else name
        self.scopes[-1][name] = own
        return own

    def resolve(self, name: str) -> str:
        """Return the variable that a name means here."""
        return next((s[name] for s in reversed(self.scopes) if name in s), name)

    def _type_end(self, at: int) -> int | None:
        """Return where a type that starts at token `at` ends, None where none stands."""
        start = at
        while self.tokens[at].text in QUALIFIERS:
            at += 1
        if "auto" in [t.text for t in self.tokens[start:at]]:
            while self.tokens[at].text in ("*", "&"):
                at += 1
            return at
        if self.tokens[at].kind != "name":
            return None
        if self.tokens[at].text in ("unsigned", "signed", "long", "short"):
            while self.tokens[at].text in ("unsigned", "signed", "long", "short", "int", "char"):
                at += 1
        else:
            at += 1
            while self.tokens[at].text == "::" and self.tokens[at + 1].kind == "name":
                at += 2
            if self.tokens[at].text == "<":
                end = self._template_end(at)
                if end is None:
                    return None
                at = end
        while self.tokens[at].text in ("const", "*", "&"):
            at += 1
        return at

    def _template_end(self, at: int) -> int | None:
        depth = 0
        for k in range(at, min(at + 60, len(self.tokens))):
            token = self.tokens[k]
            depth += (token.text == "<") - (token.text == ">")
            if depth == 0:
                return k + 1
            plain = token.kind in ("name", "number") or token.text in (
                "<",
                ">",
                ",",
                "::",
                "*",
                "&",
            )
            if not plain:
                return None
        return None

    # ---- expressions
    def expression(self) -> ast.expr:
        """Take an expression without commas."""
        return self.conditional()

    def conditional(self) -> ast.expr:
        """Take `a ? b : c` or what binds more tightly."""
        line = self.now.line
        test = self.binary(1)
        if not self.take_if("?"):
            return test
        yes = self.conditional()
        self.take(":")
        return at(ast.IfExp(test, yes, self.conditional()), line)

    def binary(self, least: int) -> ast.expr:
        """Take operators that bind at least as tightly as `least`."""
        left = self.unary()
        while True:
            op = ">>" if self._shifts("") else self.now.text
            if self.now.kind != "op" or self._shifts("="):
                return left
            level = LEVEL.get(op, 0)
            if level < least or (op == "<" and self.peek().text == "<"):
                return left
            line = self.take().line
            if op == ">>":
                self.take()
            right = self.binary(level + 1)
            left = joined(op, left, right, line)

    def unary(self) -> ast.expr:
        """Take prefix operators and casts."""
        line = self.now.line
        match self.now.text:
            case "-" | "+" | "!" | "~":
                op = self.take().text
                kinds: dict[str, type[ast.unaryop]] = {
                    "-": ast.USub,
                    "+": ast.UAdd,
                    "!": ast.Not,
                    "~": ast.Invert,
                }
                return at(ast.UnaryOp(kinds[op](), self.unary()), line)
            case "*":
                self.take()
                return at(ast.Subscript(self.unary(), at(ast.Constant(0), line), ast.Load()), line)
            case "&":
                self.take()
                return call("__address__", [self.unary()], line)
            case "++" | "--":
                raise self.wrong("a step inside an expression")
            case "[":
                return self.closure()
            case "(":
                if (end := self._cast_end()) is not None:
                    kind = bare([t.text for t in self.tokens[self.at + 1 : end]])
                    self.at = end + 1
                    return call("__cast__", [at(ast.Constant(kind), line), self.unary()], line)
        return self.postfix()

    def closure(self) -> ast.expr:
        """Take a lambda; statements are read elsewhere."""
        raise self.wrong("a lambda")

    def _cast_end(self) -> int | None:
        """Return where `(type)` that stands here closes, None where it is no cast."""
        end = self._type_end(self.at + 1)
        if end is None or self.tokens[end].text != ")":
            return None
        words = [t.text for t in self.tokens[self.at + 1 : end]]
        if words[-1] == "*" or any(w in TYPES for w in words):
            return end
        return None

    def postfix(self) -> ast.expr:
        """Take elements, members, calls and launches."""
        line = self.now.line
        found = self.primary()
        while True:
            match self.now.text:
                case "[":
                    self.take()
                    index = self.expression()
                    self.take("]")
                    found = at(ast.Subscript(found, index, ast.Load()), line)
                case "." | "->":
                    self.take()
                    found = at(ast.Attribute(found, self.take().text, ast.Load()), line)
                case "(":
                    found = at(ast.Call(found, self.arguments("(", ")"), []), line)
                case "<" if self._launches():
                    found = self._launch(found, (), line)
                case _:
                    return found

    def _launches(self) -> bool:
        return self.now.text == "<<" and self.peek().text == "<"

    def primary(self) -> ast.expr:
        """Take a number, a name or an expression in brackets."""
        token = self.take()
        line = token.line
        if token.kind == "number":
            return at(ast.Constant(number(token.text)), line)
        if token.text == "(":
            found = self.expression()
            self.take(")")
            return found
        if token.kind != "name":
            self.at -= 1
            raise self.wrong()
        name = token.text
        while self.now.text == "::" and self.peek().kind == "name":
            self.take()
            name = self.take().text
        if name in ("true", "false"):
            return at(ast.Constant(name == "true"), line)
        if name == "sizeof":
            self.take("(")
            end = self._type_end(self.at)
            words = [t.text for t in self.tokens[self.at : end]]
            if end is None or self.tokens[end].text != ")" or bare(words) not in SIZES:
                raise self.wrong("a sizeof that is not read")
            self.at = end + 1
            return at(ast.Constant(SIZES[bare(words)]), line)
        templates: list[ast.expr] = []
        if self.now.text == "<" and (end := self._template_end(self.at)) is not None:
            after = self.tokens[end].text
            if after in ("(", "::") or (after == "<<" and self.tokens[end + 1].text == "<"):
                templates = self._template_arguments(end)
        if name == "numeric_limits" and self.take_if("::"):
            self.take()  # which of them: data, not an address
            return call(name, self.arguments("(", ")"), line)
        if name in ("static_cast", "reinterpret_cast", "const_cast"):
            known = bool(templates) and isinstance(templates[0], ast.Constant)
            kind = templates[0].value if known else ""  # type: ignore[attr-defined]
            return call("__cast__", [at(ast.Constant(kind), line), *self.arguments("(", ")")], line)
        if self._launches():
            return self._launch(at(ast.Name(name, ast.Load()), line), templates, line)
        found = at(ast.Name(self.resolve(name), ast.Load()), line)
        if templates:
            called = at(ast.Call(found, self.arguments("(", ")"), []), line)
            called.keywords = [
                ast.keyword("__templates__", at(ast.Tuple(templates, ast.Load()), line))
            ]
            return called
        if self.now.text == "{" and name in SIZES:
            return call(name, self.arguments("{", "}"), line)
        return found

    def _template_arguments(self, end: int) -> list[ast.expr]:
        line = self.now.line
        found: list[ast.expr] = []
        for words in split(self.tokens, self.at + 1, end - 1):
            if len(words) == 1 and re.fullmatch(r"\d+[uUlL]*", words[0]):
                found.append(at(ast.Constant(number(words[0])), line))
            elif len(words) == 1 and words[0] in ("true", "false"):
                found.append(at(ast.Constant(words[0] == "true"), line))
            elif len(words) == 1 and words[0] not in TYPES:
                found.append(at(ast.Name(self.resolve(words[0]), ast.Load()), line))
            else:
                found.append(at(ast.Constant(bare(words)), line))
        self.at = end
        return found

    def _launch(self, kernel: ast.expr, templates: Sequence[ast.expr], line: int) -> ast.expr:
        self.take("<<")
        self.take("<")
        config = [self.conditional_without_shift()]
        while self.take_if(","):
            config.append(self.conditional_without_shift())
        for _ in range(3):
            self.take(">")
        args = self.arguments("(", ")")
        parts: list[ast.expr] = [kernel]
        parts += [at(ast.Tuple(list(p), ast.Load()), line) for p in (templates, config, args)]
        return call("__launch__", parts, line)

    def conditional_without_shift(self) -> ast.expr:
        """Take a launch's argument: `>>>` ends it."""
        return self.binary(9)

    def arguments(self, opening: str, closing: str) -> list[ast.expr]:
        """Take expressions between brackets."""
        self.take(opening)
        found: list[ast.expr] = []
        while not self.take_if(closing):
            if found:
                self.take(",")
                if self.take_if(closing):
                    break
            found.append(self.braces() if self.now.text == "{" else self.conditional())
        return found

    def braces(self) -> ast.expr:
        """Take `{a, b}`."""
        line = self.now.line
        return at(ast.Tuple(self.arguments("{", "}"), ast.Load()), line)

    def _shifts(self, tail: str) -> bool:
        """Whether `>>` or `>>=` stands here."""
        after = self.peek()
        return (
            self.now.text == ">"
            and after.at == self.now.at + 1
            and after.text == (">" + tail if tail else ">")
        )
