"""The syntax of `map` expressions: restricted Python over operands and scalars (typed in `ir.scalar`)."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import lru_cache

from septran.errors import Span, TaskLangError, closest
from septran.ir.scalar import FUNCTIONS

_ALLOWED = (
    ast.Expression,
    ast.BinOp,
    ast.UnaryOp,
    ast.Call,
    ast.Name,
    ast.Constant,
    ast.Load,
    ast.Add,
    ast.Sub,
    ast.Mult,
    ast.Div,
    ast.Pow,
    ast.Mod,
    ast.FloorDiv,
    ast.BoolOp,
    ast.And,
    ast.Or,
    ast.Not,
    ast.USub,
    ast.UAdd,
    ast.Compare,
    ast.Lt,
    ast.LtE,
    ast.Gt,
    ast.GtE,
    ast.Eq,
    ast.NotEq,
)


@lru_cache(maxsize=512)
def _parse(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def parse(text: str, names: Iterable[str], span: Span | None = None) -> ast.expr:
    """Return the checked expression tree of `text` over operand `names`.

    Raises:
        TaskLangError: E120 (syntax or a construct that is not allowed), E121 (unknown name),
            E122 (wrong number of arguments).
    """
    known = sorted(names)
    try:
        tree = _parse(text)
    except SyntaxError as e:
        raise TaskLangError.of(
            "E120", f"map expression {text!r}: {e.msg} at column {e.offset}", span
        ) from None
    called = set()
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED):
            raise TaskLangError.of(
                "E120",
                f"map expression {text!r}: {type(node).__name__} is not allowed"
                + ("; a power is **" if isinstance(node, ast.BitXor) else ""),
                span,
                help="allowed: + - * / // % ** comparisons, and, or, not, numbers, operands and "
                + ", ".join(FUNCTIONS),
            )
        if isinstance(node, ast.Compare) and len(node.ops) != 1:
            raise TaskLangError.of(
                "E120", f"map expression {text!r}: chained comparisons are not allowed", span
            )
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod | ast.FloorDiv):
            right = node.right
            if not (
                isinstance(right, ast.Constant) and type(right.value) is int and right.value > 0
            ):
                raise TaskLangError.of(
                    "E120",
                    f"map expression {text!r}: // and % take a positive whole constant on the right",
                    span,
                )
        if isinstance(node, ast.Constant) and not isinstance(node.value, int | float):
            raise TaskLangError.of(
                "E120", f"map expression {text!r}: constant {node.value!r} is not a number", span
            )
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            if name not in FUNCTIONS:
                raise TaskLangError.of(
                    "E121",
                    f"map expression {text!r}: unknown function {name or 'expression'!r}; "
                    f"functions are {sorted(FUNCTIONS)}{closest(name, FUNCTIONS)}",
                    span,
                )
            if len(node.args) != FUNCTIONS[name] or node.keywords:
                raise TaskLangError.of(
                    "E122",
                    f"map expression {text!r}: {name} takes {FUNCTIONS[name]} arguments, "
                    f"got {len(node.args)}",
                    span,
                )
            if name == "index" and not (
                isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, int)
            ):
                raise TaskLangError.of(
                    "E122", f"map expression {text!r}: index takes a literal axis number", span
                )
            called.add(node.func)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node not in called and node.id not in known:
            raise TaskLangError.of(
                "E121",
                f"map expression {text!r}: unknown name {node.id!r}; operands are "
                f"{known}{closest(node.id, known)}",
                span,
            )
    return tree
