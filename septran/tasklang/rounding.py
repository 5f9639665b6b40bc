"""What rounding every node of a `map` expression may do to its value, as running error analysis has it.

In units of the unit roundoff u: a result within u of each operation's exact one is within u * `roundings` of the
expression's value, to first order. Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.3.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from typing import Any

from septran.tasklang import mapexpr
from septran.tasklang.oracle import evaluate_map


def roundings(expr: str, operands: Mapping[str, Any], y: Any) -> Any:
    """Return the bound per element of output `y`, a float64 torch tensor; operands are exact."""
    import torch

    tree = mapexpr.parse(expr, operands)
    wide = {
        name: v.to(torch.float64) if isinstance(v, torch.Tensor) and v.is_floating_point() else v
        for name, v in operands.items()
    }
    out = torch.zeros(y.shape, dtype=torch.float64)

    def value(node: ast.expr) -> Any:
        used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and n.id in wide}
        given = {name: wide[name] for name in used}
        return evaluate_map(ast.unparse(node), given, out).to(torch.float64)

    def error(node: ast.expr) -> Any:
        match node:
            case ast.Name():
                return torch.zeros((), dtype=torch.float64)
            case ast.Constant():
                return value(node).abs()  # it may be stored in a narrower type
            case ast.UnaryOp(operand=operand):
                return error(operand)
            case ast.BinOp(left=a, op=op, right=b):
                return _binary(op, value(a), value(b), error(a), error(b)) + value(node).abs()
            case ast.Call(func=ast.Name(id=name), args=args):
                return _call(name, [value(x) for x in args], [error(x) for x in args], value(node))
        return torch.zeros((), dtype=torch.float64)

    return error(tree).expand(y.shape).nan_to_num(0.0, 0.0, 0.0)


def _binary(op: ast.operator, a: Any, b: Any, ea: Any, eb: Any) -> Any:
    match op:
        case ast.Mult():
            return a.abs() * eb + b.abs() * ea
        case ast.Div():
            return ea / b.abs() + (a / b**2).abs() * eb
        case ast.Pow():
            return (b * a.abs() ** (b - 1)).abs() * ea
    return ea + eb


def _call(name: str, values: list[Any], errors: list[Any], result: Any) -> Any:
    if name in ("max", "min", "select", "abs", "index"):
        used = errors[-2:] if name == "select" else errors
        return sum(used[1:], used[0]) if used else result * 0.0
    if name == "fmod":  # exact but for a whole divisor more or less
        return errors[0] + errors[1] + values[1].abs() / 2.0**-24 * (errors[0] > 0)
    x = values[0]
    if name in ("floor", "ceil", "round", "trunc"):
        return _jump(x - 0.5 if name == "round" else x, errors[0])
    slope = {
        "exp": lambda: result,
        "exp2": lambda: result * math.log(2),
        "log": lambda: 1 / x,
        "sqrt": lambda: 0.5 / result,
        "rsqrt": lambda: 0.5 * result / x,
        "tanh": lambda: 1 - result**2,
        "sigmoid": lambda: result * (1 - result),
        "erf": lambda: 2 / math.sqrt(math.pi) * (-(x**2)).exp(),
        "sin": lambda: x.cos(),
        "cos": lambda: x.sin(),
        "atan": lambda: 1 / (1 + x**2),
        "log1p": lambda: 1 / (1 + x),
        "expm1": lambda: result + 1,
    }[name]()
    return slope.abs() * errors[0] + result.abs()


def _jump(x: Any, error: Any) -> Any:
    """Return the error of a step at the whole numbers: one whole step where the argument may cross one."""
    unit = 2.0**-24
    return ((x - x.round()).abs() <= error * unit).to(x.dtype) / unit
