"""What the readers of printed Python share: a closed subset of its syntax, as index expressions, conditions and calls.

This is no reader of Python: what emitters do not print is Unreadable, and a name that no line above binds is, too.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from septran.ir.expr import Const, Expr, make
from septran.prove.printed import Broken, Test, Unreadable

_OPERATORS: Mapping[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}
_FUNCTIONS = {
    "min": "min",
    "max": "max",
    "T.min": "min",
    "T.max": "max",
    "jnp.minimum": "min",
    "jnp.maximum": "max",
}
_TRUNCATING = {"lax.div": "//", "lax.rem": "%"}
_COMPARES: Mapping[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
}


def parse(text: str) -> ast.Module:
    """Return a file's syntax tree. Raises Unreadable: it is no Python."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as e:
        raise Unreadable(f"line {getattr(e, 'lineno', None) or 1}: {e}") from e


def wrong(node: ast.AST, what: str = "") -> Unreadable:
    """Return the error that says where, and what, no emitter prints."""
    line = getattr(node, "lineno", 1)
    return Unreadable(f"line {line}: {what or ast.unparse(node)} is not read here")


def broken(node: ast.AST, what: str) -> Broken:
    """Return the error that what stands there means nothing in its language."""
    return Broken(what, getattr(node, "lineno", 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """`name(args, key=value)`, the name with its dots; keys in the order of the text."""

    name: str
    args: tuple[ast.expr, ...]
    named: Mapping[str, ast.expr]
    line: int


def dotted(node: ast.expr) -> str:
    """Return `a.b.c` of names and attributes, "" of anything else."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            base = dotted(value)
            return f"{base}.{attr}" if base else ""
    return ""


def called(node: ast.expr) -> Call | None:
    """Return a call of a name, None of anything else. Raises Unreadable: it unpacks arguments."""
    if not isinstance(node, ast.Call) or not (name := dotted(node.func)):
        return None
    if any(isinstance(a, ast.Starred) for a in node.args) or any(not k.arg for k in node.keywords):
        raise wrong(node)
    named = {str(k.arg): k.value for k in node.keywords}
    return Call(name=name, args=tuple(node.args), named=named, line=node.lineno)


def parameters(function: ast.FunctionDef) -> tuple[str, ...]:
    """Return the names of plain parameters. Raises Unreadable: it has others, or defaults."""
    a = function.args
    if a.posonlyargs or a.vararg or a.kwonlyargs or a.kwarg or a.defaults:
        raise wrong(function, f"the head of {function.name}")
    return tuple(p.arg for p in a.args)


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield what a body does: without docstrings and `pass`."""
    for at, stmt in enumerate(body):
        match stmt:
            case ast.Pass():
                continue
            case ast.Expr(value=ast.Constant(value=str())) if at == 0:
                continue
        yield stmt


def whole(node: ast.expr) -> int | None:
    """Return a literal integer, None of anything else."""
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = whole(operand)
            return None if inner is None else -inner
    return None


def shape(node: ast.expr) -> tuple[int, ...]:
    """Return the integers of `(1, 2)` or `[1, 2]`."""
    if isinstance(node, ast.Tuple | ast.List):
        found = [whole(e) for e in node.elts]
        if None not in found:
            return tuple(n for n in found if n is not None)
    raise wrong(node)


def real(node: ast.expr) -> float | None:
    """Return a literal float: `0.5`, `-1e+30`, `float("nan")`; None of anything else."""
    match node:
        case ast.Constant(value=float(value)):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = real(operand)
            return None if inner is None else -inner
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str(text))], keywords=[]):
            if text in ("nan", "inf", "-inf"):
                return math.nan if text == "nan" else float(text)
    return None


def index(node: ast.expr, names: Mapping[str, Expr], needs: list[Expr] | None = None) -> Expr:
    """Return an index expression.

    names: what stands for each name. needs: gets what is divided, where division of this language truncates.

    Raises:
        Unreadable: it is something else.
    """
    number = whole(node)
    if number is not None:
        return Const(number)
    match node:
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return operate(
                node,
                _OPERATORS[type(op)],
                index(left, names, needs),
                index(right, names, needs),
                needs,
            )
        case ast.Call(func=f, args=[a, b], keywords=[]) if dotted(f) in _FUNCTIONS:
            return make(_FUNCTIONS[dotted(f)], index(a, names, needs), index(b, names, needs))
        case ast.Call(func=f, args=[a, b], keywords=[]) if (
            dotted(f) in _TRUNCATING and needs is not None
        ):
            quotient = _TRUNCATING[dotted(f)]
            return operate(node, quotient, index(a, names, needs), index(b, names, needs), needs)
    raise wrong(node, f"the index {ast.unparse(node)}")


def operate(node: ast.AST, op: str, a: Expr, b: Expr, needs: list[Expr] | None = None) -> Expr:
    """Return `a op b`, whose divisor is a positive number. Raises Unreadable: it is not."""
    if op in ("//", "%"):
        if not isinstance(b, Const) or b.value <= 0:
            raise wrong(node, f"a division by {b}")
        if needs is not None and not isinstance(a, Const):
            needs.append(a)
    return make(op, a, b)


def times(node: ast.expr) -> ast.expr:
    """Return `n` of `range(n)`. Raises Unreadable: it is something else."""
    match called(node):
        case Call(name="range", args=(count,), named={}):
            return count
    raise wrong(node)


def operator(node: ast.BinOp) -> str:
    """Return how index expressions call an operator. Raises Unreadable: they have none such."""
    found = _OPERATORS.get(type(node.op))
    if found is None:
        raise wrong(node)
    return found


def comparison(node: ast.expr) -> tuple[str, ast.expr, ast.expr] | None:
    """Return (op, a, b) of `a op b`, None of anything else."""
    match node:
        case ast.Compare(left=a, ops=[op], comparators=[b]) if type(op) in _COMPARES:
            return _COMPARES[type(op)], a, b
    return None


def tests(
    node: ast.expr, names: Mapping[str, Expr], needs: list[Expr] | None = None
) -> tuple[Test, ...]:
    """Return the comparisons of `(a < b) & (c >= d)` or `a < b and c >= d`. Raises Unreadable: it is something else."""
    match node:
        case ast.BinOp(left=a, op=ast.BitAnd(), right=b):
            return (*tests(a, names, needs), *tests(b, names, needs))
        case ast.BoolOp(op=ast.And(), values=values):
            return tuple(t for v in values for t in tests(v, names, needs))
    found = comparison(node)
    if found is None:
        raise wrong(node, f"the condition {ast.unparse(node)}")
    op, a, b = found
    return (Test(op, index(a, names, needs), index(b, names, needs)),)
