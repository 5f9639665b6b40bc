"""`map` expressions as C++ on vectors: F is a vector of floats, I of integers of the same width."""

from __future__ import annotations

import math

from septran.backends.text.spell import Spelling
from septran.ir.scalar import ARITHMETIC, COMPARISONS, FUNCTIONS, RARE, Const, Node, Op, bits, walk

REDUCTIONS = {"sum": "Sum", "prod": "Prod", "max": "Max", "min": "Min"}
"""Operation of a reduction -> its class in runtime/vmath.h."""


def literal(value: float, dtype: str) -> str:
    """Return a C++ floating literal of `value` in the compute type."""
    double = dtype == "float64"
    kind = "double" if double else "float"
    if math.isnan(value):
        return f"std::numeric_limits<{kind}>::quiet_NaN()"
    if math.isinf(value) or (not double and abs(value) > 3.4028235677973366e38):
        return f"{'-' if value < 0 else ''}std::numeric_limits<{kind}>::infinity()"
    text = repr(float(value))
    return text if double else f"{text}f"


SPELLING = Spelling(
    language="C++",
    formats={
        "exp": "vexp({0:a})",
        "exp2": "vexp2({0:a})",
        "log": "vlog({0:a})",
        "sqrt": "vsqrt({0:a})",
        "rsqrt": "vrsqrt({0:a})",
        "tanh": "vtanh({0:a})",
        "sigmoid": "vsigmoid({0:a})",
        "erf": "verf({0:a})",
        "abs": "vabs({0:a})",
        "fmod": "vfmod({0:a}, {1:a})",
        **{name: f"v{name}({{0:a}})" for name in RARE if FUNCTIONS.get(name) == 1},
        "%": "(({0:w} % {1:a} + {1:a}) % {1:a})",
        "//": "(({0:w} - ({0:w} % {1:a} + {1:a}) % {1:a}) / {1:a})",
        "abs:int": "({0:w} < 0 ? -{0:w} : {0:w})",
        "max": "vmax({0:a}, {1:a})",
        "min": "vmin({0:a}, {1:a})",
        "max:int": "({0:w} > {1:w} ? {0:a} : {1:a})",
        "min:int": "({0:w} < {1:w} ? {0:a} : {1:a})",
        "select": "({0} ? {1:a} : {2:a})",
        "**n": "power<{n}>({0:a})",
        "**": "vpow({0:a}, {1:a})",
        "float": "convert<F>({0})",
        "float:bool": "({0} ? splat<F>(1) : splat<F>(0))",
        "int": "(-({0}))",  # true is -1 in every bit of a mask
        "int64": "{0:w}",  # all lanes are wide then, see wide_lanes
    },
    real=literal,
    constant="splat<F>({0})",
    whole="splat<I>({0})",
)


def wide_lanes(tree: Node) -> bool:
    """Return whether the integers of an expression need lanes of 64 bits.

    A 64-bit integer that is read into a 32-bit lane saturates, which is exact where it is only compared with
    something that is less than the ends.
    """
    return (tree.kind == "int" and bits(tree) == 64) or any(
        _needs_wide(node) for node in walk(tree) if isinstance(node, Op)
    )


def _needs_wide(node: Op) -> bool:
    if node.op in COMPARISONS and node.args[0].kind == "int":
        a, b = (_narrow(arg) for arg in node.args)
        return bits(a) == bits(b) == 64 or any(
            isinstance(v, Const) and not -(2**31) < v.low < 2**31 - 1 for v in (a, b)
        )
    computed = (*ARITHMETIC, "%", "//", "select", "max", "min", "abs")
    return node.op in computed and node.kind == "int" and bits(node) == 64


def _narrow(node: Node) -> Node:
    return node.args[0] if isinstance(node, Op) and node.op == "int64" else node
