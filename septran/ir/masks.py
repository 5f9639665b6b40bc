"""Where a mask changes nothing: select(a <= b, x, c) stored in x, for all elements of a tile at once.

Below the diagonal of a causal mask lie most tiles; there the select is the identity, and one comparison of two numbers says so.
"""

from __future__ import annotations

from septran.ir.scalar import Const, Index, Name, Node, Op, walk

_BELOW = {"<=": ">", "<": ">="}
_TURNED = {">=": "<=", ">": "<"}


def changes_something(tree: Node, out: str, shape: tuple[int, ...]) -> Node | None:
    """Return the condition on which a `map` of `tree` into `out` changes an element, the same for all; None where nobody can say.

    shape: of the tile. The condition is of scalars alone, and may hold where nothing changes (a ragged tile).
    """
    match tree:
        case Op("select", (Op(op, (a, b)), Name(name), _)) if name == out:
            if op in _TURNED:
                op, a, b = _TURNED[op], b, a
            if op not in _BELOW:
                return None
            high, low = _bound(a, shape, 1), _bound(b, shape, -1)
            if high is None or low is None or not any(isinstance(n, Index) for n in walk(tree)):
                return None
            return Op(_BELOW[op], (high, low), "bool")
    return None


def _bound(node: Node, shape: tuple[int, ...], sign: int) -> Node | None:
    """Return the largest (sign 1) or smallest (-1) value of a sum of positions, None where it is none."""
    match node:
        case Const(value) if isinstance(value, int) and not isinstance(value, bool):
            return node
        case Name(kind="int", tile=False):
            return node
        case Index(axis):
            return Const(shape[axis] - 1 if sign > 0 else 0)
        case Op("+" | "-" as op, (a, b), "int"):
            first = _bound(a, shape, sign)
            second = _bound(b, shape, sign if op == "+" else -sign)
            if first is None or second is None:
                return None
            if isinstance(first, Const) and isinstance(second, Const):
                value = first.value + second.value if op == "+" else first.value - second.value
                return Const(int(value))
            low, high = _range(op, first, second)
            return Op(op, (first, second), "int", low, high)
    return None


def _range(op: str, a: Node, b: Node) -> tuple[int, int]:
    if op == "+":
        return a.low + b.low, a.high + b.high
    return a.low - b.high, a.high - b.low
