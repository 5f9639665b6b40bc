"""Dtypes, tile shapes and index text of the Pallas files we emit.

A TPU's vector memory holds tiles of rows and columns, so a tensor of fewer dims is held with leading dims of 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from septran.backends.text.names import Names
from septran.ir.expr import Bin, Const, Expr, Var

LANGUAGE = "pallas"
JNP_DTYPE: Mapping[str, str] = {
    "float32": "jnp.float32",
    "bfloat16": "jnp.bfloat16",
    "int32": "jnp.int32",
    "int8": "jnp.int8",
    "uint8": "jnp.uint8",
    "bool": "jnp.bool_",
}
"""What a kernel may hold. float16, float64 and int64 have no vector loads on any generation."""


def held(shape: Iterable[int]) -> tuple[int, ...]:
    """Return `shape` with leading 1s up to two dims."""
    dims = tuple(shape)
    return (1,) * (2 - len(dims)) + dims


def lead(rank: int) -> int:
    """Return how many dims of 1 a tensor of `rank` dims gets in front."""
    return max(0, 2 - rank)


def shape_text(shape: Iterable[int | str]) -> str:
    """Return a Python tuple."""
    dims = tuple(map(str, shape))
    return f"({dims[0]},)" if len(dims) == 1 else f"({', '.join(dims)})"


def index_text(e: Expr, names: Mapping[str, str], parent: int = 0, *, host: bool = False) -> str:
    """Return an index expression as JAX text, of numbers of the kernel, which are traced, or of the host's own.

    Of traced numbers `min` and `max` are jnp's, and quotients lax's, which truncate: jnp's `//` asks for signs, which the lowering
    only knows on a TPU, and no index is negative (the rule `text` proves it of every quotient).
    """
    match e:
        case Const(value):
            return str(value) if value >= 0 or parent == 0 else f"({value})"
        case Var(name):
            return names.get(name, name)
        case Bin("min" | "max" as op, a, b):
            found = ", ".join(index_text(x, names, host=host) for x in (a, b))
            return f"jnp.{op}imum({found})"
        case Bin("//" | "%" as op, a, b) if not host:
            found = ", ".join(index_text(x, names) for x in (a, b))
            return f"lax.{'div' if op == '//' else 'rem'}({found})"
        case Bin(op, a, b):
            level = 1 if op in ("+", "-") else 2
            # left-associative: the right operand of - // % needs one level more
            right = level if op == "+" else level + 1
            left = 3 if level == 2 and isinstance(a, Bin) and a.op != op else level
            text = f"{index_text(a, names, left, host=host)} {op} {index_text(b, names, right, host=host)}"
            return f"({text})" if level < parent else text
    raise TypeError(e)


def is_multiple(e: Expr, unit: int) -> bool:
    """Return whether an index is a multiple of `unit` whatever its variables are."""
    match e:
        case Const(value):
            return value % unit == 0
        case Bin("*", a, b):
            return is_multiple(a, unit) or is_multiple(b, unit)
        case Bin("+" | "-", a, b):
            return is_multiple(a, unit) and is_multiple(b, unit)
    return unit == 1


def iota(shape: Iterable[int], axis: int) -> str:
    """Return the text of 0, 1, .. along `axis` of a tile."""
    return f"st_index({shape_text(shape)}, {axis})"


def free_names() -> Names:
    """Return an empty set of names in which the file's own are taken."""
    names = Names()
    names.taken |= {
        "functools",
        "jax",
        "jnp",
        "lax",
        "pl",
        "pltpu",
        "interpret",
        "carry",
        "TAKES",
        "GIVES",
    }
    return names
