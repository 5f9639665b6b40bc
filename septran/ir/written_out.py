"""Functions of `map` expressions that a target lacks, said with those that every target has.

In the dtype that is computed in, with at most a few units in the last place of error. A whole number nearest to x >= 0 is what
x + 2**23 rounds to (the last digit there is worth 1), less 2**23; in float64 that is 2**52. log1p has Kahan's correction:
log(u) * z / (u - 1) with u = 1 + z as it is rounded. What a target's compiler may reassociate is not said like that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from septran.ir.dtypes import DTYPES
from septran.ir.scalar import RARE, Const, Node, Op

WRITTEN_OUT = ("log1p", "expm1", "floor", "ceil", "round", "trunc")
"""What `written_out` knows, for `Backend.functions` of a target."""


def written_out(tree: Node, has: Collection[str], compute: str) -> Node:
    """Return `tree` with each of WRITTEN_OUT that is not in `has` said with other operations.

    compute: dtype that is computed in.
    """
    if not isinstance(tree, Op):
        return tree
    args = tuple(written_out(a, has, compute) for a in tree.args)
    if tree.op in RARE and tree.op not in has and tree.op in _FORMS:
        return _FORMS[tree.op](args[0], float(2 ** (DTYPES[compute].digits - 1)))
    return Op(tree.op, args, tree.kind, tree.low, tree.high)


def _op(op: str, *args: Node) -> Node:
    return Op(op, args, "float")


def _chosen(test: str, a: Node, b: Node, one: Node, other: Node) -> Node:
    return Op("select", (Op(test, (a, b), "bool"), one, other), "float")


def _log1p(z: Node, unit: float) -> Node:
    one = Const(1.0)
    u = _op("+", z, one)
    near = _op("*", _op("log", u), _op("/", z, _op("-", u, one)))
    large = _chosen(">", z, Const(4 * unit), _op("log", z), near)
    return _chosen("==", u, one, z, large)


def _expm1(x: Node, unit: float) -> Node:
    return _op("*", _op("tanh", _op("*", x, Const(0.5))), _op("+", _op("exp", x), Const(1.0)))


def _round(x: Node, unit: float) -> Node:
    c = Const(unit)
    below = _op("-", c, _op("-", c, x))
    above = _op("-", _op("+", x, c), c)
    near = _chosen("<", x, Const(0.0), below, above)
    return _chosen("<", _op("abs", x), c, near, x)


def _floor(x: Node, unit: float) -> Node:
    near = _round(x, unit)
    return _chosen(">", near, x, _op("-", near, Const(1.0)), near)


def _ceil(x: Node, unit: float) -> Node:
    near = _round(x, unit)
    return _chosen("<", near, x, _op("+", near, Const(1.0)), near)


def _trunc(x: Node, unit: float) -> Node:
    # the whole part of the magnitude has one test less than a choice between ceil and floor
    whole = _floor(_op("abs", x), unit)
    return _chosen("<", x, Const(0.0), Op("neg", (whole,), "float"), whole)


_FORMS: Mapping[str, Callable[[Node, float], Node]] = {
    "log1p": _log1p,
    "expm1": _expm1,
    "floor": _floor,
    "ceil": _ceil,
    "round": _round,
    "trunc": _trunc,
}
