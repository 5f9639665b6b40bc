"""What the readers of printed C share: scopes of loops and conditions, index expressions, views."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from septran.backends.reading import c_syntax as c
from septran.backends.reading.scopes import Scopes
from septran.backends.text.cstyle import identifier
from septran.ir.expr import Const, Expr, Var, make
from septran.ir.nodes import Program, buffers
from septran.prove.printed import Loop, Number, Room, Test, Unreadable, View

FUNCTIONS = {"st::least": "min", "st::most": "max", "st::floor_div": "//", "st::floor_mod": "%"}
"""of the runtimes for C++ and CUDA C++"""
_COMPARES = frozenset(("<", "<=", ">", ">=", "=="))


def names(program: Program) -> dict[str, str]:
    """Return the text's name of each buffer."""
    return {identifier(b.name): b.name for b in buffers(program)}


class CReading(Scopes):
    """Reads one function; a target says what its calls and declarations mean."""

    functions: Mapping[str, str] = {}
    """functions of two indices -> operation of an index expression"""

    def __init__(self) -> None:
        super().__init__()
        self.scope: tuple[int, ...] = ()
        self.blocks = 0

    # ---- statements
    def read(self, lines: tuple[c.Line, ...]) -> None:
        """Read the statements of a block; what it declares ends with it."""
        saved = self.scope
        self.blocks += 1
        self.scope = (*self.scope, self.blocks)
        with self.inside():
            for line in lines:
                self.line(line)
        self.scope = saved

    def line(self, line: c.Line) -> None:
        """Read one statement."""
        match line:
            case c.ForLoop():
                self.loop(line)
            case c.If():
                self.condition(line)
            case c.Block():
                self.block(line)
            case c.Declare():
                self.declare(line)
            case c.Do(c.Call() as call):
                self.call(call, line.line)
            case _:
                raise Unreadable(f"line {line.line}: a statement that emitters do not print")

    def loop(self, line: c.ForLoop, *, parallel: bool = False) -> None:
        """Read a loop."""
        found = Loop(
            var=line.var, extent=self.index(line.extent), line=line.line, parallel=parallel
        )
        with self.inside(found):
            self.read(line.body)

    def condition(self, line: c.If) -> None:
        """Read a condition."""
        with self.inside(tests=tuple(self.test(t) for t in line.tests)):
            self.read(line.body)

    def block(self, line: c.Block) -> None:
        """Read a block of its own."""
        self.read(line.body)

    def declare(self, line: c.Declare) -> None:
        """Read a declaration."""
        raise Unreadable(f"line {line.line}: the declaration of {line.name}")

    def call(self, call: c.Call, line: int) -> None:
        """Read a call."""
        raise Unreadable(f"line {line}: a call of {call.name.text}")

    def room(self, name: str, room: Room) -> None:
        """Keep where a buffer lies."""
        if name in self.rooms and self.rooms[name] != replace(room, line=self.rooms[name].line):
            raise Unreadable(f"line {room.line}: {name} is declared twice")
        self.rooms[name] = room

    # ---- expressions
    def test(self, node: c.Node) -> Test:
        """Return a comparison."""
        match node:
            case c.Binary(op, a, b) if op in _COMPARES:
                return Test(op, self.index(a), self.index(b))
            case c.Name(text) if text.isdigit():
                return Test("<", Const(0), Const(int(text)))
        raise Unreadable(f"the condition {node}")

    def index(self, node: c.Node) -> Expr:
        """Return an index expression; C's / and % are the floor's only of what is not negative."""
        match node:
            case c.Name(text):
                if text.isdigit():
                    return Const(int(text))
                return self.numbers.get(text) or Var(text)
            case c.Binary(op, a, b) if op in "+-*/%":
                left, right = self.index(a), self.index(b)
                if op in "/%":
                    if not isinstance(left, Const):
                        self.needs.append(left)
                    if not isinstance(right, Const) or right.value <= 0:
                        raise Unreadable(f"a division by {right}")
                return make("//" if op == "/" else op, left, right)
            case c.Call(c.Name(text), (a, b)) if text in self.functions:
                return make(self.functions[text], self.index(a), self.index(b))
        raise Unreadable(f"the index {node}")

    def indices(self, node: c.Node) -> tuple[Expr, ...]:
        """Return the index expressions of `{a, b}`."""
        if not isinstance(node, c.Call) or not node.braces:
            raise Unreadable(f"{node} where braces are meant")
        return tuple(self.index(a) for a in node.args)

    def whole(self, node: c.Node) -> tuple[int, ...]:
        """Return the numbers of `{1, 2}`."""
        found = self.indices(node)
        if not all(isinstance(e, Const) for e in found):
            raise Unreadable(
                "a stride is no number: an address is then a product of two open numbers, "
                "for which there is no law"
            )
        return tuple(e.value for e in found if isinstance(e, Const))

    def number(self, node: c.Node) -> Number:
        """Return a scalar argument: an index, or a float literal."""
        match node:
            case c.Name(text) if not text.isdigit() and text[0] in "0123456789.":
                return float(text.rstrip("fFlL"))
            case c.Call(c.Name("std::numeric_limits::infinity" | "__builtin_inf"), ()):
                return math.inf
            case c.Call(c.Name("std::numeric_limits::quiet_NaN" | "__builtin_nan"), ()):
                return math.nan
            case c.Binary("-", c.Name("0"), b):
                inner = self.number(b)
                if isinstance(inner, float):
                    return -inner
        return self.index(node)

    def based(self, node: c.Node) -> tuple[str, Expr]:
        """Return (array, index) of the pointer `array` or `array + a + b`."""
        match node:
            case c.Name(text):
                return text, Const(0)
            case c.Binary("+" | "-" as op, a, b):
                base, at = self.based(a)
                return base, make(op, at, self.index(b))
        raise Unreadable(f"the address {node}")

    def typed(self, view: View, template: str, dtypes: Mapping[str, str]) -> View:
        """Return the view with the dtype and rank that `View<const float, 2>` says; "" says nothing."""
        if not template:
            return view
        kind, _, rank = template.rpartition(" , ")
        if not view.extent or rank != str(len(view.extent)):
            raise Unreadable(f"a view of rank {rank} with other extents")
        name = kind.removeprefix("const ").replace(" ", "")
        return replace(view, dtype=dtypes.get(name, name))
