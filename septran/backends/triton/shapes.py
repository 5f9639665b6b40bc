"""Element types and padded tile shapes of the Triton text we emit.

A Triton tile has power-of-two extents, so a tile of extent t is held as one of extent
`padded(t)`. Positions at or beyond the logical extent hold zero in tiles that come from GLOBAL or
SHARED memory and are undefined in REGISTER tiles; whoever reduces over an axis masks it.
"""

from __future__ import annotations

from collections.abc import Iterable

from septran.ir.expr import Bin, Const, Expr, Var

TL_DTYPE = {
    "float64": "tl.float64",
    "float32": "tl.float32",
    "float16": "tl.float16",
    "bfloat16": "tl.bfloat16",
    "int64": "tl.int64",
    "int32": "tl.int32",
    "int8": "tl.int8",
    "uint8": "tl.uint8",
    "bool": "tl.int1",
}
SIGNATURE_DTYPE = {
    "float64": "*fp64",
    "float32": "*fp32",
    "float16": "*fp16",
    "bfloat16": "*bf16",
    "int64": "*i64",
    "int32": "*i32",
    "int8": "*i8",
    "uint8": "*u8",
    "bool": "*i1",
}


def padded(extent: int) -> int:
    """Return the smallest power of two that is at least `extent`."""
    return 1 << max(0, extent - 1).bit_length()


def padded_shape(shape: Iterable[int]) -> tuple[int, ...]:
    """Return `shape` with every extent padded to a power of two."""
    return tuple(padded(t) for t in shape)


def shape_text(shape: Iterable[int]) -> str:
    """Return a Python tuple literal."""
    dims = tuple(shape)
    return f"({dims[0]},)" if len(dims) == 1 else f"({', '.join(map(str, dims))})"


def along(text: str, axis: int, rank: int) -> str:
    """Return 1-d tensor `text` placed along `axis` of a rank-`rank` tile."""
    if rank == 1:
        return text
    index = ", ".join(":" if d == axis else "None" for d in range(rank))
    return f"{text}[{index}]"


def arange(extent: int, axis: int, rank: int) -> str:
    """Return text of 0..padded(extent) along `axis` of a rank-`rank` tile."""
    return along(f"tl.arange(0, {padded(extent)})", axis, rank)


def index_text(e: Expr, names: dict[str, str] | None = None, parent: int = 0) -> str:
    """Return Python text of an index expression, with as few parentheses as safe."""
    match e:
        case Const(value):
            return str(value) if value >= 0 or parent == 0 else f"({value})"
        case Var(name):
            return (names or {}).get(name, name)
        case Bin(op, a, b) if op in ("min", "max"):
            return f"{op}({index_text(a, names)}, {index_text(b, names)})"
        case Bin(op, a, b):
            level = 1 if op in ("+", "-") else 2
            # left-associative: the right operand of - // % needs one level more
            right = level if op in ("+", "*") else level + 1
            if op == "*" and isinstance(b, Bin) and b.op != "*":
                right = 3
            left = 3 if level == 2 and isinstance(a, Bin) and a.op != op else level
            text = f"{index_text(a, names, left)} {op} {index_text(b, names, right)}"
            return f"({text})" if level < parent else text
    raise TypeError(e)
