"""Print a typed expression: one printer, a table per language.

A table's entry is a format: "{0}" is the first operand's text, "{0:w}" the same in brackets where it needs them,
"{0:a}" as a function's argument, "{0:t}" the same, also of a constant. "{dtype}" is the compute dtype as the language calls it.
Entries are looked up from the special to the general: "max:float:const" (the last operand is a constant), "max:scalar" (the
same value for all elements), "max:float64" (compute dtype), "max:float" (kind of the last operand), "max". Powers have "**2" (that exponent), "**n" (any whole one up to 16; "{n}" is it) and "**".
Operators stand without outer brackets; every other entry has to be safe as an operand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from septran.errors import InternalError
from septran.ir.dtypes import Kind
from septran.ir.scalar import Const, Index, Name, Node, Op, has_tile

OPERATORS: Mapping[str, str] = {
    **{
        op: f"{{0:w}} {op} {{1:w}}" for op in ("+", "-", "*", "/", "<", "<=", ">", ">=", "==", "!=")
    },
    "neg": "-{0:w}",
}
"""What C and Python spell alike."""
Operand = Callable[[Name | Index, str], str]
"""(operand, wanted kind: its own, float, int or int64) -> text that is safe as an operand."""
_LARGEST_POWER = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """How a language spells expressions.

    formats: of operations, on top of OPERATORS. real: (value, dtype) -> literal; integer: value -> literal.
    constant, whole, scalar: formats of a float and an integer constant, and of a float that is the same for all
        elements, as an argument of a function ("{0:a}").
    dtypes: dtype -> the language's word.
    """

    language: str
    formats: Mapping[str, str]
    real: Callable[[float, str], str]
    integer: Callable[[int], str] = str
    constant: str = "{0}"
    whole: str = "{0}"
    scalar: str = "{0}"
    dtypes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Text of a node; `wrap`: it needs brackets as an operand; formats as an argument and as a tensor."""

    text: str
    wrap: bool
    argument: str
    tensor: str

    def __format__(self, spec: str) -> str:
        match spec:
            case "w":
                return f"({self.text})" if self.wrap else self.text
            case "a":
                return self.argument.format(self.text)
            case "t":
                return self.tensor.format(self.text)
        return self.text


def spell(node: Node, spelling: Spelling, operand: Operand, dtype: str = "float32") -> str:
    """Return the text of a typed expression computed in `dtype`, not in brackets."""
    return f"{_piece(node, spelling, operand, dtype)}"


def argument(node: Node, spelling: Spelling, operand: Operand, dtype: str = "float32") -> str:
    """Return the text as a function's argument."""
    return f"{_piece(node, spelling, operand, dtype):a}"


def _piece(node: Node, spelling: Spelling, operand: Operand, dtype: str) -> _Piece:
    named = spelling.dtypes.get(dtype, dtype)
    as_argument = as_tensor = "{0}"
    if not has_tile(node) and node.kind == "float":
        as_argument = as_tensor = spelling.scalar.replace("{dtype}", named)
    if isinstance(node, Const):
        as_argument = spelling.constant if node.kind == "float" else spelling.whole
        as_argument = as_argument.replace("{dtype}", named)
    match node:
        case Const(value):
            text = (
                spelling.real(value, dtype)
                if isinstance(value, float)
                else spelling.integer(int(value))
            )
            return _Piece(text, text.startswith("-"), as_argument, as_tensor)
        case Name() | Index():
            return _Piece(operand(node, node.kind), False, as_argument, as_tensor)
        case Op(op="float" | "int" | "int64" as op, args=(Name() | Index() as inner,)):
            return _Piece(operand(inner, op), False, as_argument, as_tensor)
    parts = [_piece(a, spelling, operand, dtype) for a in node.args]
    text = _format(node, spelling, dtype).format(*parts, dtype=named, n=_exponent(node))
    return _Piece(text, node.op in OPERATORS, as_argument, as_tensor)


def _exponent(node: Op) -> int | None:
    """Return the exponent of a power by a small whole constant."""
    power = node.args[-1]
    if node.op != "**" or not isinstance(power, Const) or abs(power.value) > _LARGEST_POWER:
        return None
    return int(power.value) if power.value == int(power.value) else None


def _format(node: Op, spelling: Spelling, dtype: str) -> str:
    kind: Kind = node.args[-1].kind
    keys = [f"{node.op}:{kind}", node.op]
    if kind == "float":
        keys.insert(0, f"{node.op}:{dtype}")
    if not has_tile(node):
        keys.insert(0, f"{node.op}:scalar")
    if isinstance(node.args[-1], Const):
        keys.insert(0, f"{node.op}:{kind}:const")
    whole = _exponent(node)
    if whole is not None:
        keys = [f"**{whole}", "**n", *keys]
    for key in keys:
        if key in spelling.formats:
            return spelling.formats[key]
    if node.op in OPERATORS:
        return OPERATORS[node.op]
    raise InternalError(f"{spelling.language} has no spelling for {keys[0]!r}")
