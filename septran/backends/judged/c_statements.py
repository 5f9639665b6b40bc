"""Statements and declarations of C++ read into Python's `ast`."""

from __future__ import annotations

import ast
import re

from septran.backends.judged.c_expressions import Expressions
from septran.backends.judged.c_functions import CParameter, CSource
from septran.backends.judged.c_ratios import rounds
from septran.backends.judged.c_words import BINARY, QUALIFIERS, at, bare, call, stored
from septran.prove.foreign.launch import NotRead


class Body(Expressions):
    """The statements of one function. file_level: they are declarations outside of any."""

    file_level = False

    def all(self) -> list[ast.stmt]:
        """Take all statements."""
        body: list[ast.stmt] = []
        while self.now.kind != "end":
            body += self.statement()
        return body

    def _clause(self, match: re.Match[str]) -> str:
        return self.resolve(match.group())

    # ---- statements
    def statement(self) -> list[ast.stmt]:
        """Take one statement."""
        line = self.now.line
        if self.now.kind == "pragma":
            text = self.take().text
            if "omp" not in text.split():
                return []
            text = re.sub(
                r"\(([^)]*)\)", lambda m: re.sub(r"[A-Za-z_]\w*", self._clause, m.group()), text
            )
            body = [] if "barrier" in text.split() else self.statement()
            call = at(
                ast.Call(
                    at(ast.Name("__omp__", ast.Load()), line), [at(ast.Constant(text), line)], []
                ),
                line,
            )
            return [at(ast.With([ast.withitem(call)], body), line)]
        match self.now.text:
            case "{":
                return self.block()
            case ";":
                self.take()
                return []
            case "if":
                return [self._if(line)]
            case "for":
                return self._for(line)
            case "while":
                self.take()
                self.take("(")
                test = self.expression()
                self.take(")")
                return [at(ast.While(test, self.statement(), []), line)]
            case "return":
                self.take()
                value = None if self.tokens[self.at].text == ";" else self.expression()
                self.take(";")
                return [at(ast.Return(value), line)]
            case "break" | "continue":
                word = self.take().text
                self.take(";")
                return [at(ast.Break() if word == "break" else ast.Continue(), line)]
            case "using" | "typedef" | "static_assert":
                while not self.take_if(";"):
                    self.take()
                return []
            case "asm" | "__asm__":
                raise self.wrong("inline PTX")
            case "do" | "switch" | "goto" | "try":
                raise self.wrong(f"a {self.now.text} statement")
        if self.declares():
            return self.declaration()
        found = self.simple()
        self.take(";")
        return found

    def block(self) -> list[ast.stmt]:
        """Take `{ .. }`."""
        self.take("{")
        self.scopes.append({})
        body: list[ast.stmt] = []
        while self.now.text != "}":
            body += self.statement()
        self.scopes.pop()
        self.take("}")
        return body

    def _if(self, line: int) -> ast.stmt:
        self.take("if")
        self.take_if("constexpr")
        self.take("(")
        test = self.expression()
        self.take(")")
        self.scopes.append({})
        body = self.statement() or [at(ast.Pass(), line)]
        orelse = self.statement() if self.take_if("else") else []
        self.scopes.pop()
        return at(ast.If(test, body, orelse), line)

    def _for(self, line: int) -> list[ast.stmt]:
        self.take("for")
        self.take("(")
        self.scopes.append({})
        first: list[ast.stmt] = []
        if not self.take_if(";"):
            first = self.declaration() if self.declares() else self._listed(";")
        test: ast.expr = at(ast.Constant(True), line) if self.now.text == ";" else self.expression()
        self.take(";")
        after = [] if self.now.text == ")" else self._several()
        self.take(")")
        body = self.statement()
        self.scopes.pop()
        counted = _counted(first, test, after, body, line)
        if counted is not None:
            return counted
        return [*first, at(ast.While(test, [*body, *after], []), line)]

    def _listed(self, end: str) -> list[ast.stmt]:
        found = self._several()
        self.take(end)
        return found

    def _several(self) -> list[ast.stmt]:
        found = self.simple()
        while self.take_if(","):
            found += self.simple()
        return found

    def simple(self) -> list[ast.stmt]:
        """Take an assignment, a step or a call."""
        line = self.now.line
        if self.now.text in ("++", "--"):
            op = self.take().text
            return [self._step(self.unary(), op, line)]
        target = self.conditional()
        word = self.now.text
        if word in ("++", "--"):
            self.take()
            return [self._step(target, word, line)]
        if word == "=":
            self.take()
            chain = [target]
            value = self.conditional()
            while self.take_if("="):
                chain.append(value)
                value = self.conditional()
            return [at(ast.Assign([stored(t, line) for t in chain], value), line)]
        if word in ("+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=") or self._shifts("="):
            op = self.take().text
            if op == ">":
                self.take()
                op = ">>="
            value = self.conditional()
            return [at(ast.AugAssign(stored(target, line), BINARY[op[:-1]](), value), line)]
        found: list[ast.stmt] = [at(ast.Expr(target), line)]
        while self.now.text == ",":
            self.take()
            found += self.simple()
        return found

    def _step(self, target: ast.expr, op: str, line: int) -> ast.stmt:
        sign: ast.operator = ast.Add() if op == "++" else ast.Sub()
        return at(ast.AugAssign(stored(target, line), sign, at(ast.Constant(1), line)), line)

    def closure(self) -> ast.expr:
        """Take `[captures](type name, ..) { .. }`."""
        line = self.take("[").line
        words: list[str] = []
        while not self.take_if("]"):
            words.append(self.take().text)
        refers = words == ["&"]
        if "&" in words and not refers:
            raise self.wrong("a lambda that captures some by reference")
        self.scopes.append({})
        params: list[CParameter] = []
        while self.now.text in ("__device__", "__host__"):
            self.take()
        if self.now.text == "(":
            params = self._parameters()
        while self.now.text != "{":
            self.take()
        body = self.block()
        self.scopes.pop()
        source = CSource("a lambda", line, frozenset(), (), tuple(params), tuple(body))
        kept = [at(ast.Constant(v), line) for v in (source, refers)]  # type: ignore[arg-type]
        return call("__lambda__", list(kept), line)

    def _parameters(self) -> list[CParameter]:
        self.take("(")
        found: list[CParameter] = []
        while not self.take_if(")"):
            end = self._type_end(self.at)
            if end is None or self.tokens[end].kind != "name":
                raise self.wrong("a parameter of a lambda")
            kind = bare([t.text for t in self.tokens[self.at : end]])
            self.at = end
            found.append(CParameter(self.declare(self.take().text), kind))
            self.take_if(",")
        return found

    # ---- declarations
    def declares(self) -> bool:
        """Whether a declaration stands here: words of a type and then a new name."""
        if self.now.text in QUALIFIERS:
            return True
        end = self._type_end(self.at)
        if end is None:
            return False
        after = self.tokens[end]
        follows = self.tokens[end + 1].text
        return after.kind == "name" and follows in ("=", ";", ",", "[", "(", "{")

    def declaration(self) -> list[ast.stmt]:
        """Take a declaration of one or several names."""
        start, line = self.at, self.now.line
        end = self._type_end(self.at)
        if (
            end is not None
            and self.tokens[end].kind != "name"
            and "auto" in [t.text for t in self.tokens[start:end]]
        ):
            raise self.wrong("a structured binding")
        if end is None or end == start:
            raise self.wrong()
        words = [t.text for t in self.tokens[start:end]]
        while words and words[-1] in ("*", "&"):
            words.pop()
            end -= 1
        self.at = end
        found: list[ast.stmt] = []
        while True:
            found += self._declarator(words, line)
            if not self.take_if(","):
                break
        self.take(";")
        return found

    def _declarator(self, words: list[str], line: int) -> list[ast.stmt]:
        stars, reference = 0, False
        while self.now.text in ("*", "&", "const"):
            stars += self.now.text == "*"
            reference = reference or self.now.text == "&"
            self.take()
        if reference:
            raise self.wrong("a reference")
        name = self.take().text
        kind = bare(words) + "*" * stars
        home = (
            "group"
            if "__shared__" in words
            else ("all" if "__device__" in words or "__constant__" in words else "own")
        )
        dims: list[ast.expr] = []
        while self.take_if("["):
            dims.append(at(ast.Constant(None), line) if self.now.text == "]" else self.expression())
            self.take("]")
        value: ast.expr | None = None
        if self.take_if("="):
            value = self.braces() if self.now.text == "{" else self.conditional()
        elif self.now.text == "(":
            value = call(
                "__new__", [at(ast.Constant(bare(words)), line), *self.arguments("(", ")")], line
            )
        elif self.now.text == "{":
            value = self.braces()
        own = self.declare(name)
        if isinstance(value, ast.Call) and rounds(value) and not dims:
            value = call("__cast__", [at(ast.Constant(kind), line), value], line)
        if dims or home == "group":
            if (
                dims
                and isinstance(dims[0], ast.Constant)
                and dims[0].value is None
                and isinstance(value, ast.Tuple)
            ):
                dims[0] = at(ast.Constant(len(value.elts)), line)
            extra = [
                at(ast.Constant(home), line),
                at(ast.Constant(kind), line),
                at(ast.Constant(name), line),
            ]
            value = call("__array__", [*extra, *(dims or [at(ast.Constant(1), line)])], line)
            if home == "group" and not dims:
                what = (
                    f"{name} is"
                    if name.isidentifier()
                    else "a variable of a type that is declared with it is"
                )
                raise NotRead(line, f"{what} shared and no array")
        kept = "static" in words and home == "own" and not self.file_level
        if kept and "constexpr" not in words and (stars or "const" not in words):
            raise NotRead(line, f"{name} is kept from call to call")
        if value is None:
            value = call(
                "__unset__", [at(ast.Constant(kind), line), at(ast.Constant(name), line)], line
            )
        return [at(ast.Assign([at(ast.Name(own, ast.Store()), line)], value), line)]


def _counted(
    first: list[ast.stmt], test: ast.expr, after: list[ast.stmt], body: list[ast.stmt], line: int
) -> list[ast.stmt] | None:
    """Return `for (i = a; i < b; i += c)` as a loop over a range, None where it is something else."""
    if not first or len(after) != 1 or not isinstance(test, ast.Compare):
        return None
    begin, step = first[-1], after[0]
    if not (isinstance(begin, ast.Assign) and isinstance(begin.targets[0], ast.Name)):
        return None
    name = begin.targets[0].id
    if not (
        isinstance(step, ast.AugAssign)
        and isinstance(step.target, ast.Name)
        and step.target.id == name
    ):
        return None
    if (
        not isinstance(step.op, ast.Add | ast.Sub)
        or not isinstance(test.left, ast.Name)
        or test.left.id != name
    ):
        return None
    written = {
        n.id
        for s in body
        for n in ast.walk(s)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    if name in written:
        return None
    sign = type(test.ops[0])
    bound = test.comparators[0]
    if sign in (ast.LtE, ast.GtE):
        one = at(ast.Constant(1), line)
        bound = at(ast.BinOp(bound, ast.Add() if sign is ast.LtE else ast.Sub(), one), line)
    elif sign not in (ast.Lt, ast.Gt, ast.NotEq):
        return None
    size = step.value
    if isinstance(step.op, ast.Sub):
        size = at(ast.UnaryOp(ast.USub(), size), line)
    span = call("range", [begin.value, bound, size], line)
    loop = ast.For(at(ast.Name(name, ast.Store()), line), span, body or [at(ast.Pass(), line)], [])
    return [*first[:-1], at(loop, line)]
