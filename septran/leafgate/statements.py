"""Statements and declarations of the C-family subset; bodies are always printed in braces."""

from __future__ import annotations

from dataclasses import replace

from septran.leafgate import names as n
from septran.leafgate.address_rules import MADE_OF, Declared
from septran.leafgate.addresses import SOMEWHERE, Called, Param, Type, Value
from septran.leafgate.expressions import Expressions
from septran.leafgate.layout import Tree, Word
from septran.leafgate.names import Language, Scopes
from septran.leafgate.pragmas import spelled
from septran.leafgate.tokens import Token
from septran.leafgate.type_names import INSTEAD

_LOOPS = ("for", "while", "do")
_REFUSED = frozenset(INSTEAD) - {
    "auto",
    "static",
    "->",
    "::",
    "->*",
    ".*",
    "char",
    "alignas",
    "sizeof",
}


class Statements(Expressions):
    """A leaf's body. threads: the contract lets it start threads."""

    def __init__(
        self, tokens: list[Token], language: Language, scopes: Scopes, *, threads: bool
    ) -> None:
        """As `Expressions`."""
        super().__init__(tokens, language, scopes)
        self.threads = threads
        self.returned = 0
        """how many levels the address has that the lambda here returns"""
        self.declared = ("", Declared())
        """the name that was declared last, and how"""
        self.constants: set[str] = set()
        """names that were declared constexpr"""
        self.fills_arrays = language.plain_c or bool(language.storage)
        """of a CPU's kernel a build with a pattern in locals is judged, too (V223), and stores into arrays take time"""

    def block(self) -> Tree:
        """Take `{ .. }` with a scope of its own."""
        tree: list[Tree] = [self.eat("{")]
        self.scopes.enter()
        while self.now.text != "}" and self.now.kind != "end":
            tree.append(self.statement())
        self.scopes.leave()
        tree.append(self.eat("}"))
        return tree

    def statement(self) -> Tree:
        """Take one statement."""
        self.enter()
        try:
            return self._statement()
        finally:
            self.leave()

    def _statement(self) -> Tree:
        token = self.now
        if token.kind == "pragma":
            return self._pragma()
        match token.text:
            case "{":
                return self.block()
            case ";":
                return self.word("<")
            case "if":
                return self._if()
            case "switch":
                return self._switch()
            case "for":
                return self._for()
            case "while":
                return [self.word(), self._condition(), self._body()]
            case "do":
                return [
                    self.word(),
                    self._body(),
                    self.eat("while"),
                    self._condition(),
                    self.eat(";", "<"),
                ]
            case "break" | "continue":
                return [self.word(), self.eat(";", "<")]
            case "return":
                return self._return()
            case "using":
                return self._using()
            case _ if token.text in self.language.arrays:
                return self._array_macro()
            case _ if token.text in _REFUSED and token.kind == "name":
                self.refuse()
        if token.kind == "name" and self.peek().text == ":" and not self.scopes.own(token.text):
            self.refuse(f"the label {token.text}", "use a loop and break")
        if self.starts_declaration():
            return self.declaration()
        if self.kind_here() in (n.TYPE, n.TYPE_TEMPLATE) or (token.text in n.SCALARS):
            self.refuse(f"a statement that begins with the type {token.text} and declares nothing")
        return [self.expression(), self.eat(";", "<")]

    def starts_declaration(self) -> bool:
        """Return whether a declaration stands here."""
        token = self.now
        words = ("static", "constexpr", "const", "auto", "alignas", *self.language.storage)
        if token.text in words or (token.text == "[" and self.peek().text == "["):
            return True
        return self.starts_type()

    # ---- control
    def _pragma(self) -> Tree:
        token = self.now
        text = token.text.removeprefix("#").strip()
        words = text.removeprefix("pragma").strip()
        if not text.startswith("pragma "):
            self.refuse(
                f"{token.text[:40]}",
                "headers and macros are generated; a leaf has #pragma before loops",
            )
        if self.language.threads.fullmatch(words) and not self.threads:
            self.refuse(
                f"#pragma {words[:40]}", "this leaf is called by one thread of many and starts none"
            )
        said = spelled(
            words, self.language, self.constants, lambda name: self.scopes.own(name) == n.VARIABLE
        )
        if not said:
            self.refuse(f"#pragma {words[:60]}", self.language.loops)
        self.next()
        if self.now.text not in _LOOPS and self.now.kind != "pragma":
            self.refuse("a pragma that stands before no loop")
        return [Word(f"#pragma {said}", token.line), self._statement()]

    def _body(self) -> Tree:
        """Take what a loop or an if governs; braces are added where there are none."""
        if self.now.text == "{":
            return self.block()
        if self.starts_declaration() or self.now.text == "using":
            self.refuse("a declaration as a loop's body")
        self.scopes.enter()
        tree: Tree = [Word("{", 0), self.statement(), Word("}", 0)]
        self.scopes.leave()
        return tree

    def _condition(self) -> Tree:
        open_ = self.eat("(", ">")
        if self.starts_declaration():
            self.refuse(
                "a declaration inside `if (..)` or `while (..)`", "declare before the statement"
            )
        tree: Tree = [open_, self.expression(), self.eat(")", "<")]
        self.no_place(self.value.address)
        self.no_number(self.value)
        return tree

    def _if(self) -> Tree:
        tree: list[Tree] = [self.word()]
        if self.now.text == "constexpr" and not self.language.plain_c:
            tree.append(self.word())
        tree += [self._condition(), self._body()]
        if self.now.text == "else":
            tree.append(self.word())
            tree.append(self.statement() if self.now.text == "if" else self._body())
        return tree

    def _switch(self) -> Tree:
        """Take a switch; its cases fall through as they are written.

        Declarations stand in braces of their own: no jump passes one.
        """
        tree: list[Tree] = [self.word(), self._condition(), self.eat("{")]
        self.scopes.enter()
        if self.now.text not in ("case", "default"):
            self.refuse("a statement before the first case")
        while self.now.text != "}" and self.now.kind != "end":
            if self.now.text == "case":
                tree += [self.word(), self.binary(3).tree, self.eat(":", "<")]
            elif self.now.text == "default":
                tree += [self.word(), self.eat(":", "<")]
            elif self.now.text == "[" and self.peek().text == "[":
                tree += [self._attribute("[[fallthrough]]"), self.eat(";", "<")]
            elif self.starts_declaration() or self.now.text == "using":
                self.refuse("a declaration between cases", "put the case's statements in braces")
            else:
                tree.append(self.statement())
        self.scopes.leave()
        tree.append(self.eat("}"))
        return tree

    def _for(self) -> Tree:
        self.scopes.enter()
        tree: list[Tree] = [self.word(), self.eat("(", ">")]
        if self.starts_declaration():
            tree.append(self.declaration(loop=True))
        else:
            tree += [self.expression() if self.now.text != ";" else [], self.eat(";", "<")]
        if self.tokens[self.at - 1].text != ":":
            self.value = Value()
            tree += [self.expression() if self.now.text != ";" else [], self.eat(";", "<")]
            self.no_place(self.value.address)
            self.no_number(self.value)
            tree.append(self.expression() if self.now.text != ")" else [])
        else:
            part = self.assignment()
            tree.append(part.tree)
            self._each_of(part.value)
        tree += [self.eat(")", "<"), self._body()]
        self.scopes.leave()
        return tree

    def _return(self) -> Tree:
        word = self.word()
        if self.now.text == ";":
            return [word, self.eat(";", "<")]
        if not self.lambdas:
            self.refuse("a leaf returns no value", "store it")
        tree: Tree = [word, self.expression(), self.eat(";", "<")]
        self.returned = max(self.returned, len(self.value.levels))
        return tree

    # ---- declarations
    def _using(self) -> Tree:
        word = self.next()
        if self.language.plain_c:
            self.refuse("using is C++", "name the type", word)
        if self.now.text == "namespace":
            self.next()
            known = self.language.namespaces
            if self.now.text not in known or self.peek().text != ";":
                said = " and ".join(f"`using namespace {name};`" for name in known)
                self.refuse(f"using namespace {self.now.text}", f"only {said}")
            space = self.next()
            line = space.line
            self.next()
            self.scopes.using += (space.text,)  # names are printed with their st:: instead
            return Word("", line, "-")
        name = self._new_name()
        equals = self.eat("=")
        kind = self.declared_type()
        tree: Tree = [Word("using", word.line), name, equals, self.type(), self.eat(";", "<")]
        self.scopes.declare(name.text, n.TYPE, Type(number=kind.number, view=kind.view))
        return tree

    def _new_name(self, style: str = " ") -> Word:
        token = self.now
        if token.kind != "name":
            self.refuse(f"expected a name before {token.text[:30]!r}")
        why = n.objection(token.text)
        if why:
            self.refuse(f"the name {token.text}: {why}", "choose another")
        return self.word(style)

    def _array_macro(self) -> Tree:
        tree: list[Tree] = [self.word(), self.eat("(", "-"), self.type(), self.eat(",", "<")]
        name = self._new_name()
        own = self.scopes.origins.object()
        self.scopes.declare(name.text, n.VARIABLE, Value((own,), inside=own))
        tree += [
            name,
            self.eat(",", "<"),
            self.assignment().tree,
            self.eat(")", "<"),
            self.eat(";", "<"),
        ]
        return tree

    def _attribute(self, only: str = "[[maybe_unused]]") -> Tree:
        line = self.now.line
        text = "".join(self.next().text for _ in range(5))
        if text != only:
            self.refuse("an attribute", f"only {only}")
        return Word("" if self.language.plain_c else text, line)

    def _alignment(self) -> Tree:
        """Take `alignas(N)` of a local array or variable."""
        tree: list[Tree] = [self.word(), self.eat("(", "-")]
        if self.now.text not in ("1", "2", "4", "8", "16", "32", "64"):
            self.refuse(f"alignas({self.now.text[:20]})", "a power of two up to 64")
        return [*tree, self.word("-"), self.eat(")", "<")]

    def declaration(self, *, loop: bool = False) -> Tree:
        """Take a declaration with its `;`, or in a `for` the head of a loop over a range with its `:`."""
        tree: list[Tree] = []
        seen: list[str] = []
        start = self.now
        while True:
            if self.now.text == "[" and self.peek().text == "[":
                tree.append(self._attribute())
            elif self.now.text == "alignas" and not self.language.plain_c:
                tree.append(self._alignment())
            elif self.now.text in ("static", "constexpr", *self.language.storage):
                seen.append(self.now.text)
                tree.append(self.word())
            else:
                break
        if "static" in seen and "constexpr" not in seen and not self._const_in_c(seen):
            self.refuse(
                "static without constexpr keeps a value between calls",
                "write static constexpr, or no static",
                start,
            )
        if len(set(seen)) != len(seen) or (self.language.plain_c and "constexpr" in seen):
            self.refuse(token=start)
        guessed, kind = self._holds_auto(), self.declared_type()
        tree.append(self.type(auto=True))
        while True:
            tree.append(self._declarator(guessed, loop, seen, kind))
            if loop and self.now.text == ":":
                tree.append(self.eat(":"))
                return tree
            if self.now.text != ",":
                break
            tree.append(self.eat(",", "<"))
        tree.append(self.eat(";", "<"))
        return tree

    def _is_constant_extent(self) -> bool:
        """Return whether what stands up to `]` is known when the leaf is compiled: numbers, and this leaf's constexpr names."""
        ahead = 0
        while (token := self.peek(ahead)).text != "]" and token.kind != "end":
            if token.kind == "name" and token.text not in self.constants:
                return False
            ahead += 1
        return True

    def _const_in_c(self, seen: list[str]) -> bool:
        return self.language.plain_c and seen == ["static"] and self.now.text == "const"

    def _holds_auto(self) -> bool:
        ahead = 0
        while self.peek(ahead).text == "const":
            ahead += 1
        return self.peek(ahead).text == "auto"

    def _declarator(self, guessed: bool, loop: bool, seen: list[str], kind: Declared) -> Tree:
        """Take a name with its value; one without a value is zero, where each thread has its own.

        What a variable holds that nobody set is another thing in a test, in an emulation and on a device.
        """
        tree: list[Tree] = []
        if self.now.text == "(":
            self.refuse("a declaration with parentheses", "initialise with `= value`")
        pointer, reference = self.now.text in ("*", "&"), self.now.text == "&"
        shared, counted = any(word in self.language.storage for word in seen), True
        if pointer:
            tree.append(self.pointer())
        if self.now.text == "[" and guessed:
            self.refuse("a structured binding", "name each value")
        name = self._new_name(
            "<" if pointer and self.tokens[self.at - 1].text in ("*", "&") else " "
        )
        tree.append(name)
        # a lambda is no value: it cannot be copied, returned or called by itself
        is_lambda = guessed and not pointer and self.now.text == "=" and self.peek().text == "["
        self.scopes.declare(name.text, n.LAMBDA if is_lambda else n.VARIABLE)
        (self.constants.add if "constexpr" in seen else self.constants.discard)(name.text)
        rows = 0
        while self.now.text == "[":
            tree.append(self.eat("[", "-"))
            rows += 1
            if self.now.text != "]":
                counted = self.fills_arrays and counted and self._is_constant_extent()
                tree.append(self.conditional().tree)
            tree.append(self.eat("]", "<"))
        kind = replace(kind, pointer=pointer and not reference, reference=reference, rows=rows)
        self.value = Value()
        if self.now.text == "=":
            tree.append(self.word())
            if is_lambda:
                tree.append(self.lambda_())
                self.scopes.declare(name.text, n.LAMBDA, self.returns)
                return tree
            if guessed and self.now.text == "{":
                self.refuse("a list of a guessed type", "name the array's type")
            listed = self.now.text == "{"
            tree.append(self.braced() if listed else self._first_value())
            if listed and self.language.plain_c and not rows:
                self.value = Value()  # a tile, which is more than its address
        elif self.now.text == "{" and not self.language.plain_c:
            tree.append(self.braced("-"))
        elif self.now.text == "(":
            self.refuse("a declaration with parentheses", "initialise with `= value`")
        elif guessed and not (loop and self.now.text == ":"):
            self.refuse("auto without a value")
        elif counted and not (reference or shared or (loop and self.now.text == ":")):
            tree.append(Word("= {0}", 0) if self.language.plain_c else Word("{}", 0, "-"))
        self.declared = (name.text, kind)
        if not (loop and self.now.text == ":"):
            self.declare(name.text, kind, self.value)
        return tree

    def _first_value(self) -> Tree:
        part = self.assignment()
        self.value = part.value
        return part.tree

    def _each_of(self, value: Value) -> None:
        """Declare the variable of a loop over a range."""
        name, kind = self.declared
        self.declare(name, kind, value.element())

    def pointer(self) -> Tree:
        """Take `*` or `&` of a declaration, one level."""
        if self.language.plain_c:
            self.refuse("a pointer", "views and tiles carry addresses")
        tree: list[Tree] = [self.word("<")]
        if self.now.text in ("*", "&"):
            self.refuse("a pointer to a pointer", "one * at most")
        while self.now.text in ("const", "__restrict__", "__restrict"):
            tree.append(self.word())
        return tree

    # ---- lambdas
    def lambda_(self) -> Tree:
        """Take `[&](..) -> T { .. }`."""
        self.enter()
        open_ = self.next()
        capture = "" if self.now.text == "]" else self.next().text
        if capture not in ("", "&", "=") or self.now.text != "]":
            self.refuse(f"the capture {capture}", "write [&], [=] or []")
        self.next()
        tree: list[Tree] = [Word(f"[{capture}]", open_.line, ">")]
        self.scopes.enter()
        if self.now.text == "<":
            self.refuse("template parameters", "use auto parameters")
        tree.append(self.eat("(", ">"))
        params: list[Param] = []
        while self.now.text != ")":
            tree.append(self._parameter(params))
            if self.now.text != ",":
                break
            tree.append(self.eat(",", "<"))
        tree.append(self.eat(")", "<"))
        told = self.now.text == "->"
        if told:
            tree += [self.word(), self.type()]
        if self.now.text != "{":
            self.refuse()
        self.lambdas += 1
        before, self.returned = self.returned, 0
        tree.append(self.block())
        if told and self.returned:
            self.refuse(*MADE_OF)
        self.returns, self.returned = Called(tuple(params), self.returned), before
        self.lambdas -= 1
        self.scopes.leave()
        self.leave()
        return tree

    def _parameter(self, params: list[Param]) -> Tree:
        tree: list[Tree] = []
        if self.now.text == "[" and self.peek().text == "[":
            tree.append(self._attribute())
        kind = self.declared_type()
        tree.append(self.type(auto=True))
        pointer, held = self.now.text in ("*", "&"), self.now.text == "*"
        if pointer:
            tree.append(self.pointer())
        changes = pointer and not held and not kind.constant
        params.append(Param(pointer=held, changes=changes and not kind.number))
        if self.now.kind == "name":
            name = self._new_name("<" if self.tokens[self.at - 1].text in ("*", "&") else " ")
            own = self.scopes.origins
            value = Value(inside=own.object())
            if held:
                value = Value((own.holder(own.object()),), inside=own.object())
            elif not kind.number:
                value = replace(value, data=SOMEWHERE if pointer else own.holder(own.object()))
            self.scopes.declare(name.text, n.VARIABLE, value)
            tree.append(name)
        return tree
