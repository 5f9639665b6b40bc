"""Integer expressions in mapping files: `min(extent, 512)`, `block_size_M * 2 <= 98304`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping

from septran.errors import MappingError, Span, closest


def _pow2(n: int) -> int:
    return 1 << max(0, n.bit_length() - 1)


FUNCTIONS: Mapping[str, Callable[..., int]] = {
    "min": min,
    "max": max,
    "cdiv": lambda a, b: -(-a // b),
    "pow2": _pow2,
    "pow2_up": lambda n: 1 << max(0, (n - 1).bit_length()),
    "round_up": lambda a, b: -(-a // b) * b,
    "select": lambda c, a, b: a if c else b,
}
"""pow2: largest power of two not above; pow2_up: smallest not below; round_up(a, b): to a multiple."""

_BINARY: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}
_COMPARE: Mapping[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
}


def check_names(text: str, names: Iterable[str], span: Span | None = None) -> None:
    """Raise MappingError M062 for a syntax error or a name that is none of `names`."""
    known = (*names, *FUNCTIONS)
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError as e:
        raise MappingError.of("M062", f"expression {text!r}: {e.msg}", span) from None
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in known:
            raise MappingError.of(
                "M062",
                f"expression {text!r}: unknown name {node.id!r}; known: "
                f"{', '.join(known)}{closest(node.id, known)}",
                span,
            )


def evaluate(text: str, names: Mapping[str, int], span: Span | None = None) -> int:
    """Return the value of an integer or boolean expression (bool as 0/1).

    Raises:
        MappingError: M062 syntax, a construct that is not allowed, an unknown name, division by 0.
    """

    def wrong(message: str) -> MappingError:
        return MappingError.of("M062", f"expression {text!r}: {message}", span)

    def visit(node: ast.expr) -> int:
        match node:
            case ast.Constant(value=int(value)):
                return int(value)
            case ast.Name(id=name):
                if name not in names:
                    raise wrong(
                        f"unknown name {name!r}; known: {sorted(names)}{closest(name, names)}"
                    )
                return names[name]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return _BINARY[type(op)](visit(left), visit(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
                return int(_COMPARE[type(op)](visit(left), visit(right)))
            case ast.BoolOp(op=ast.And(), values=values):
                return int(all(visit(v) for v in values))
            case ast.BoolOp(values=values):
                return int(any(visit(v) for v in values))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -visit(operand)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return int(not visit(operand))
            case ast.Call(func=ast.Name(id=name), args=args) if name in FUNCTIONS:
                return int(FUNCTIONS[name](*(visit(a) for a in args)))
        raise wrong(
            f"{type(node).__name__} is not allowed; use + - * // % comparisons and "
            + ", ".join(FUNCTIONS)
        )

    try:
        return visit(ast.parse(text, mode="eval").body)
    except SyntaxError as e:
        raise wrong(e.msg) from None
    except ZeroDivisionError:
        raise wrong("division by zero") from None
    except TypeError as e:
        raise wrong(str(e)) from None
