"""Integer index expressions: build, fold, bound, evaluate and print.

Division and remainder are floor division and floor modulo by a positive number, as in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Operator = Callable[["Expr", "Expr | int"], "Expr"]


def _operators(op: str) -> tuple[Operator, Operator]:
    """Return `a op b` for an expression on the left, and for one on the right of a number."""
    return lambda a, b: make(op, a, b), lambda b, a: make(op, a, b)


class Expr:
    """Base of index expressions; immutable, hashable, compared by structure."""

    __slots__ = ()
    __add__, __radd__ = _operators("+")
    __sub__, __rsub__ = _operators("-")
    __mul__, __rmul__ = _operators("*")
    __floordiv__ = _operators("//")[0]
    __mod__ = _operators("%")[0]


@dataclass(frozen=True, slots=True)
class Const(Expr):
    """An integer."""

    value: int


@dataclass(frozen=True, slots=True)
class Var(Expr):
    """A loop variable."""

    name: str


@dataclass(frozen=True, slots=True)
class Bin(Expr):
    """`a op b`, op one of + - * // % min max."""

    op: str
    a: Expr
    b: Expr


def const(value: Expr | int) -> Expr:
    """Return `value` as an expression."""
    return value if isinstance(value, Expr) else Const(int(value))


def _fold(op: str, a: int, b: int) -> int:
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "//":
            return a // b
        case "%":
            return a % b
        case "min":
            return min(a, b)
        case "max":
            return max(a, b)
    raise ValueError(op)


def make(op: str, a: Expr | int, b: Expr | int) -> Expr:
    """Return `a op b` with constants folded and neutral elements removed."""
    a, b = const(a), const(b)
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(_fold(op, a.value, b.value))
    zero, one = Const(0), Const(1)
    if op in ("+", "-") and b == zero:
        return a
    if op == "+" and a == zero:
        return b
    if op == "*":
        if zero in (a, b):
            return zero
        if a == one:
            return b
        if b == one:
            return a
    if op == "//" and b == one:
        return a
    if op == "%" and b == one:
        return zero
    if op in ("min", "max") and a == b:
        return a
    if op == "-" and a == b:
        return zero
    if op in ("+", "-") and isinstance(a, Bin) and isinstance(b, Const):
        # (x + c1) + c2 -> x + c
        if a.op == "+" and isinstance(a.b, Const):
            delta = a.b.value + (b.value if op == "+" else -b.value)
            return make("+", a.a, delta)
        if a.op == "-" and isinstance(a.b, Const):
            delta = -a.b.value + (b.value if op == "+" else -b.value)
            return make("+", a.a, delta)
    if op == "+" and isinstance(b, Const) and b.value < 0:
        return Bin("-", a, Const(-b.value))
    return Bin(op, a, b)


def minimum(a: Expr | int, b: Expr | int) -> Expr:
    """Return min(a, b)."""
    return make("min", a, b)


def maximum(a: Expr | int, b: Expr | int) -> Expr:
    """Return max(a, b)."""
    return make("max", a, b)


def cdiv(a: Expr | int, b: Expr | int) -> Expr:
    """Return ceil(a / b)."""
    return (const(a) + (const(b) - 1)) // b


def free(e: Expr) -> frozenset[str]:
    """Return the names of the variables in `e`."""
    match e:
        case Var(name):
            return frozenset((name,))
        case Bin(_, a, b):
            return free(a) | free(b)
    return frozenset()


def substitute(e: Expr, env: Mapping[str, Expr]) -> Expr:
    """Return `e` with variables replaced and refolded."""
    match e:
        case Var(name):
            return env.get(name, e)
        case Bin(op, a, b):
            return make(op, substitute(a, env), substitute(b, env))
    return e


def evaluate(e: Expr, env: Mapping[str, int]) -> int:
    """Return the value of `e`; raises KeyError for a variable missing from `env`."""
    match e:
        case Const(value):
            return value
        case Var(name):
            return env[name]
        case Bin(op, a, b):
            return _fold(op, evaluate(a, env), evaluate(b, env))
    raise TypeError(e)


def bounds(e: Expr, env: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    """Return inclusive (low, high) of `e` for variables in inclusive ranges `env` (interval arithmetic)."""
    match e:
        case Const(value):
            return value, value
        case Var(name):
            return env[name]
        case Bin(op, a, b):
            (al, ah), (bl, bh) = bounds(a, env), bounds(b, env)
            match op:
                case "+":
                    return al + bl, ah + bh
                case "-":
                    return al - bh, ah - bl
                case "*":
                    products = (al * bl, al * bh, ah * bl, ah * bh)
                    return min(products), max(products)
                case "//":
                    quotients = (al // bl, al // bh, ah // bl, ah // bh)
                    return min(quotients), max(quotients)
                case "%":
                    if al // bh == ah // bh and bl == bh:
                        return al % bh, ah % bh
                    return 0, bh - 1
                case "min":
                    return min(al, bl), min(ah, bh)
                case "max":
                    return max(al, bl), max(ah, bh)
    raise TypeError(e)


def to_text(e: Expr) -> str:
    """Return Python-like text that `septran.ir.text` parses back."""
    match e:
        case Const(value):
            return str(value)
        case Var(name):
            return name
        case Bin(op, a, b) if op in ("min", "max"):
            return f"{op}({to_text(a)}, {to_text(b)})"
        case Bin(op, a, b):
            return f"({to_text(a)} {op} {to_text(b)})"
    raise TypeError(e)
