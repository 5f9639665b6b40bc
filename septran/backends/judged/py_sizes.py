"""What a Python file asks of its sizes: comparisons of a size with a number, whose other side no call at one size reaches.

A size is a count or an extent of a tensor, a number that the host function is given, what a function is handed of these, and an extent
in the annotation of a kernel's tensor.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from septran.backends.base import SizeAsked

_SIGNS = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
_COUNTS = ("numel", "nelement")
_ANNOTATIONS = re.compile(r"\b(?:Tensor|Buffer|StridedTensor)\b")
_LEAST, _MOST, _ROUNDS = 32, 16, 6
"""Small numbers are those of tails and dimensions."""


def sizes_asked(text: str) -> tuple[SizeAsked, ...]:
    """Return what a text asks of its sizes, each once, in the order of the text.

    Raises:
        SyntaxError: the text is no Python.
    """
    tree = ast.parse(text)
    numbers = dict(_numbers(tree))
    sizes = _Sizes(tree)
    found = []
    for node in ast.walk(tree):
        for value, sign, number in _compared(node, numbers):
            of = sizes.of(value)
            if of is not None and number >= _LEAST:
                asked = SizeAsked(ast.unparse(value), sign, number, of)
                found.append((value.lineno, value.col_offset, asked))
    return tuple(dict.fromkeys(asked for *_, asked in sorted(found, key=lambda one: one[:2])))[:_MOST]  # fmt: skip


def _numbers(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield the names at module level that stand for one whole number."""
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                if isinstance(value, ast.Call) and len(value.args) == 1:  # tl.constexpr(4096)
                    value = value.args[0]
                if (number := _number(value, {})) is not None:
                    yield name, number


def _number(node: ast.expr, numbers: dict[str, int]) -> int | None:
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            return value
        case ast.Name(id=name):
            return numbers.get(name)
        case ast.BinOp(left=left, op=ast.Mult() | ast.LShift() | ast.Pow() as op, right=right):
            a, b = _number(left, numbers), _number(right, numbers)
            if a is None or b is None or not (0 <= b < 64 or isinstance(op, ast.Mult)):
                return None
            return a * b if isinstance(op, ast.Mult) else a << b if isinstance(op, ast.LShift) else a**b  # fmt: skip
    return None


def _compared(
    node: ast.AST, numbers: dict[str, int]
) -> Iterator[tuple[ast.expr, str, int]]:  # fmt: skip
    """Yield what is compared with a number, how, and that number; of % and &, whatever is done with the rest."""
    if isinstance(node, ast.Compare):
        for left, op, right in zip(
            (node.left, *node.comparators), node.ops, node.comparators, strict=False
        ):
            sign = _SIGNS.get(type(op))
            if sign and (number := _number(right, numbers)) is not None:
                yield left, sign, number
            elif sign and (number := _number(left, numbers)) is not None:
                yield right, _TURNED[sign], number
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod | ast.BitAnd):
        number = _number(node.right, numbers)
        if number is not None:
            yield node.left, "%" if isinstance(node.op, ast.Mod) else "&", number


class _Sizes:
    """Names of a file that are sizes, wherever they stand, with what they are (`SizeAsked.of`)."""

    def __init__(self, tree: ast.Module) -> None:
        self._known: dict[str, str] = {}
        functions = {n.name: n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
        calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
        called = {name for call in calls if (name := _called(call))}
        for name, function in functions.items():
            args = [*function.args.posonlyargs, *function.args.args]
            plain = args[: len(args) - len(function.args.defaults)]
            if name not in called:
                self._known.update({a.arg: a.arg for a in plain})
            for arg in args:
                self._annotated(arg.annotation)
        for _ in range(_ROUNDS):
            before = len(self._known)
            for node in ast.walk(tree):
                if isinstance(node, ast.Assign):
                    self._assigned(node)
            for call in calls:
                if (called_one := functions.get(_called(call))) is not None:
                    self._handed(call, called_one)
            if len(self._known) == before:
                break

    def of(self, value: ast.expr) -> str | None:
        """Return what a value is as `SizeAsked.of`, "" where it is some size, None where it is none."""
        match value:
            case ast.Name(id=name):
                return self._known.get(name)
            case ast.Call(func=ast.Attribute(attr=name), args=[]) if name in _COUNTS:
                return "numel()"
            case ast.Call(func=ast.Attribute(attr="size"), args=[axis]):
                return _axis(axis)
            case ast.Call(func=ast.Name(id="len"), args=[_]):
                return "size(0)"
            case ast.Subscript(value=ast.Attribute(attr="shape"), slice=axis):
                return _axis(axis)
            case ast.Subscript(slice=ast.Constant(value=str() as name)):  # args["n"] of a heuristic
                return self._known.get(name)
            case ast.Call(func=ast.Name(id="int"), args=[inner]):
                return self.of(inner)
        return None

    def _annotated(self, annotation: ast.expr | None) -> None:
        """Extents in T.Tensor((M, N), ..) are sizes."""
        if not isinstance(annotation, ast.Call) or not annotation.args:
            return
        if _ANNOTATIONS.search(ast.unparse(annotation.func)):
            for node in ast.walk(annotation.args[0]):
                if isinstance(node, ast.Name):
                    self._known.setdefault(node.id, "")

    def _assigned(self, node: ast.Assign) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name) and (of := self.of(node.value)) is not None:
                self._known.setdefault(target.id, of)
            elif isinstance(target, ast.Tuple | ast.List):
                shape = isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
                values = node.value.elts if isinstance(node.value, ast.Tuple) else ()
                for axis, name in enumerate(target.elts):
                    of = f"size({axis})" if shape else self.of(values[axis]) if axis < len(values) else None  # fmt: skip
                    if isinstance(name, ast.Name) and of is not None:
                        self._known.setdefault(name.id, of)

    def _handed(self, call: ast.Call, function: ast.FunctionDef) -> None:
        args = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        handed = [(a.arg, v) for a, v in zip(args, call.args, strict=False)]
        handed += [(k.arg, k.value) for k in call.keywords if k.arg]
        for name, value in handed:
            if (of := self.of(value)) is not None:
                self._known.setdefault(name, of)


def _called(call: ast.Call) -> str:
    """Return the name of the function that a call is of: f(..), or a launch f[grid](..)."""
    func = call.func.value if isinstance(call.func, ast.Subscript) else call.func
    return func.id if isinstance(func, ast.Name) else ""


def _axis(node: ast.expr) -> str:
    return f"size({node.value})" if isinstance(node, ast.Constant) and isinstance(node.value, int) else ""  # fmt: skip
