"""A leaf in a Python-embedded language: one function of assignments, loops and calls that are listed.

Python's own parser is what the languages read with, so the reading is theirs; what is listed decides the rest. An
attribute or a call that is not listed could tell an emulator from a device (scopes, data, dtype objects), or reach
the module behind it.
"""

from __future__ import annotations

import ast
import functools
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from septran import assets, spanyaml
from septran.leafgate.refusal import Refusal

MAX_CHARS, MAX_DEPTH = 60_000, 60
_NODES = (
    ast.Expr, ast.Assign, ast.AugAssign, ast.For, ast.If, ast.Return, ast.Pass, ast.BinOp, ast.UnaryOp, ast.Compare,
    ast.BoolOp, ast.IfExp, ast.Call, ast.keyword, ast.Attribute, ast.Name, ast.Constant, ast.Tuple, ast.List, ast.Subscript,
    ast.Slice, ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop,
)  # fmt: skip
_NEVER = (ast.MatMult, ast.In, ast.NotIn, ast.Is, ast.IsNot)
_BITS, _ANY_BITS = 64, 8
"""of the widest integer, and of each"""
_INSTEAD = {
    "FunctionDef": "write its body in place",
    "Lambda": "write the expression in place",
    "ListComp": "use a loop",
    "JoinedStr": "a leaf holds no text",
    "While": "use for over a range",
    "Try": "a leaf does not raise",
    "With": "",
    "MatMult": "call the language's product",
    "AnnAssign": "leave the annotation out",
    "Assert": "leave it out",
    "Starred": "write the arguments",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dsl:
    """The subset of one language; all names are those of its module `module`, unless said otherwise."""

    module: str
    calls: frozenset[str]
    values: frozenset[str]
    """attributes of the module that are passed on and not called."""
    methods: frozenset[str]
    """called on a value: x.to(..)."""
    attributes: frozenset[str]
    """read of a value: x.shape."""
    functions: frozenset[str]
    """called without the module: the generated helpers and range."""
    passed: frozenset[str]
    """functions that may be arguments."""
    loops: frozenset[str]
    texts: frozenset[str]
    """what a string may say: names of dtypes and modes."""
    returns: bool
    elements: bool
    """`...` in an index and `@` are part of the language."""
    plain_shifts: bool
    """a shift is by a number that every integer has bits for: nobody sees here what the device makes of another."""


@functools.cache
def dsl(name: str) -> Dsl:
    """Return the subset "triton", "tilelang" or "npuir" of configs/leaves/."""
    value = spanyaml.load(assets.find(f"configs/leaves/{name}.yaml").path).value

    def listed(key: str) -> frozenset[str]:
        return frozenset(str(value.get(key) or "").split())

    return Dsl(
        module=str(value["module"]),
        calls=listed("calls"),
        values=listed("values"),
        methods=listed("methods"),
        attributes=listed("attributes"),
        functions=listed("functions"),
        passed=listed("passed"),
        loops=listed("loops"),
        texts=listed("texts"),
        returns=bool(value.get("returns")),
        elements=bool(value.get("elements")),
        plain_shifts=bool(value.get("plain_shifts")),
    )


def print_python_leaf(source: str, *, signature: str, of: str) -> str:
    """Return the leaf as it may be lowered: the generated signature and the body printed from its tree.

    Raises:
        Refusal: with the line in `source`.
    """
    rules = dsl(of)
    if len(source) > MAX_CHARS:
        raise Refusal(1, f"{len(source)} characters", f"at most {MAX_CHARS}")
    given = _function(source)
    wanted = _function(signature.rstrip() + "\n    pass\n")
    head = ast.dump(ast.Module([_without_body(given)], []))
    if head != ast.dump(ast.Module([_without_body(wanted)], [])):
        raise Refusal(
            given.lineno, "the leaf does not have its generated signature", "return the body only"
        )
    body = given.body
    if (
        isinstance(body[0], ast.Expr)
        and isinstance(body[0].value, ast.Constant)
        and isinstance(body[0].value.value, str)
    ):
        body = body[1:] or [ast.Pass()]  # the docstring
    Checker(rules, given, body).check()
    text = "\n".join(ast.unparse(s) for s in body)
    return f"{signature.rstrip()}\n{textwrap.indent(text, '    ')}\n"


def _function(source: str) -> ast.FunctionDef:
    try:
        tree = ast.parse(source)
    except SyntaxError as e:
        raise Refusal(e.lineno or 1, f"Python syntax: {e.msg}") from None
    except (ValueError, RecursionError, MemoryError) as e:
        raise Refusal(1, f"Python syntax: {e}"[:120]) from None
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        raise Refusal(1, "a leaf is one function", "return the body only")
    return tree.body[0]


def _without_body(function: ast.FunctionDef) -> ast.FunctionDef:
    return ast.FunctionDef(
        name=function.name,
        args=function.args,
        body=[ast.Pass()],
        decorator_list=function.decorator_list,
        returns=function.returns,
    )


class Checker:
    """Walks a leaf's body once, without recursion into what is too deep."""

    def __init__(self, rules: Dsl, function: ast.FunctionDef, body: list[ast.stmt]) -> None:
        """The names that the leaf assigns are its own from the first line on."""
        self.rules = rules
        self.body = body
        self.known = {a.arg for a in function.args.args}
        assigned = [
            n
            for s in body
            for n in _walk(s)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        ]
        for name in assigned:
            why = self._objection(name.id)
            if why:
                self.no(name, f"the name {name.id}: {why}", "choose another")
            self.known.add(name.id)

    def _objection(self, name: str) -> str:
        rules = self.rules
        if not name.isascii() or (name.startswith("_") and name != "_") or "__" in name:
            return "names are plain ASCII and do not begin with _"
        if name in rules.functions or name in (rules.module, "triton", "tilelang", "tl", "T"):
            return "it is the language's"
        return ""

    def no(self, node: ast.AST, what: str, instead: str = "") -> NoReturn:
        """Raise Refusal at `node`."""
        raise Refusal(getattr(node, "lineno", 1), what, instead)

    def check(self) -> None:
        """Raise Refusal for the first thing that is no part of a leaf."""
        for statement in self.body:
            self._visit(statement, 1)

    def _visit(self, node: ast.AST, depth: int, *, callee: bool = False) -> None:
        kind = type(node)
        matmul = isinstance(node, ast.MatMult) and self.rules.elements
        if not isinstance(node, _NODES) or (isinstance(node, _NEVER) and not matmul):
            self.no(node, f"{kind.__name__} is not part of a leaf", _INSTEAD.get(kind.__name__, ""))
        if depth > MAX_DEPTH:
            self.no(node, f"more than {MAX_DEPTH} levels of nesting", "use statements and names")
        match node:
            case ast.Return(value=value) if value is not None and not self.rules.returns:
                self.no(node, "a leaf returns no value", "store it")
            case ast.Constant():
                self._constant(node)
            case ast.BinOp():
                self._operator(node)
                self._shift(node, node.op, node.right)
            case ast.AugAssign():
                self._shift(node, node.op, node.value)
            case ast.Name():
                self._name(node, callee)
            case ast.Attribute():
                self._attribute(node, callee)
                if self._is_module(node.value):
                    return
            case ast.Call():
                self._call(node)
            case ast.For():
                self._loop(node)
            case _:
                pass
        for field, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    called = isinstance(node, ast.Call) and field == "func"
                    self._visit(child, depth + 1, callee=called)

    def _is_module(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id == self.rules.module

    def _constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, str) and value not in self.rules.texts:
            self.no(node, f"the text {value[:20]!r}", "only names of dtypes and modes")
        if not isinstance(value, str | int | float | bool | None) and not (
            value is ... and self.rules.elements
        ):
            self.no(node, f"a constant of type {type(value).__name__}")
        if isinstance(value, int) and abs(value) >= 2**63:
            self.no(node, "a number beyond 64 bits")

    def _operator(self, node: ast.BinOp) -> None:
        sides = (node.left, node.right)
        named = any(isinstance(n, ast.Name | ast.Attribute) for n in _walk(node))
        if isinstance(node.op, ast.Pow | ast.LShift) and not named:
            self.no(node, "a power of constants", "write the number")
        if any(
            isinstance(s, ast.List | ast.Tuple | ast.Constant) and not _is_number(s) for s in sides
        ):
            self.no(node, "arithmetic with text or a list")

    def _shift(self, node: ast.AST, op: ast.operator, amount: ast.expr) -> None:
        if not isinstance(op, ast.LShift | ast.RShift):
            return
        by = amount.value if isinstance(amount, ast.Constant) else None
        most = _ANY_BITS if self.rules.plain_shifts else _BITS
        if (by is None and self.rules.plain_shifts) or (isinstance(by, int) and not 0 <= by < most):
            self.no(
                node,
                f"a shift by {ast.unparse(amount)[:30]}: what is more than a number has bits is left open",
                f"shift by a number from 0 to {most - 1}"
                + ", or multiply" * self.rules.plain_shifts,
            )

    def _name(self, node: ast.Name, callee: bool) -> None:
        rules = self.rules
        if node.id in rules.functions:
            if not callee and node.id not in rules.passed:
                self.no(node, f"{node.id} is only called")
        elif node.id not in self.known:
            self.no(node, f"{node.id} is neither assigned in the leaf nor part of the language")

    def _attribute(self, node: ast.Attribute, callee: bool) -> None:
        rules = self.rules
        if not isinstance(node.ctx, ast.Load):
            self.no(node, "an attribute is assigned")
        module = self._is_module(node.value)
        if module:
            allowed = rules.calls if callee else rules.values
        else:
            allowed = rules.methods if callee else rules.attributes
        if node.attr not in allowed:
            where = f"{rules.module}." if module else "."
            known = ", ".join(sorted(allowed)[:40]) or "none"
            self.no(
                node,
                f"{where}{node.attr[:40]} is not part of a leaf",
                f"{where}* known here: {known}",
            )

    def _call(self, node: ast.Call) -> None:
        if not isinstance(node.func, ast.Name | ast.Attribute):
            self.no(node, "a call of an expression")
        if isinstance(node.func, ast.Name) and node.func.id not in self.rules.functions:
            self.no(node, f"{node.func.id} is not a function of the language")
        if any(k.arg is None for k in node.keywords):
            self.no(node, "unpacked arguments", "write the arguments")

    def _loop(self, node: ast.For) -> None:
        called = ast.unparse(node.iter.func) if isinstance(node.iter, ast.Call) else ""
        if called not in self.rules.loops:
            self.no(
                node,
                f"a loop over {ast.unparse(node.iter)[:30]}",
                f"loop over {', '.join(sorted(self.rules.loops))}",
            )
        if node.orelse:
            self.no(node, "else after a loop")


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    todo = [node]
    while todo:
        top = todo.pop()
        yield top
        todo += ast.iter_child_nodes(top)
