"""Operators that torch has under two names: the graph holds each by the one that the table has a row for."""

from __future__ import annotations

_SAME = """
    absolute abs, arctan atan, clip clamp, concat cat, concatenate cat, divide div, fix trunc, greater gt,
    greater_equal ge, less lt, less_equal le, moveaxis movedim, multiply mul, negative neg, not_equal ne,
    special_erf erf, special_erfc erfc, special_exp2 exp2, special_expit sigmoid, special_expm1 expm1,
    special_log1p log1p, special_logsumexp logsumexp, subtract sub, true_divide div
"""
SAME = dict(pair.split() for pair in _SAME.split(","))
"""ATen operator (without namespace and overload) -> the name that the table uses; same arguments and overloads."""


def plain(op: str) -> str:
    """Return an operator such as `aten.multiply.Tensor` by the name that the table uses."""
    parts = op.split(".")
    if len(parts) != 3 or parts[0] != "aten":
        return op
    return ".".join(("aten", SAME.get(parts[1], parts[1]), parts[2]))
