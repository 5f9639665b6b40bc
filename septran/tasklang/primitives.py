"""The primitives as data: what each reads and writes, how its dimensions relate, what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Privilege = Literal["r", "w", "rw"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Primitive:
    """One row.

    args: positional operands, the output first. privileges: per operand.
    index: per operand the index letters of its dimensions, right aligned; "*" = any leading dims
        (flattened). Equal letters mean equal extents. Empty = pointwise with broadcasting.
    reduced: letters summed over. stream: (initial primitive, accumulating primitive) when the
        reduced dimension may be cut into blocks. attrs: allowed attributes, required ones True.
    pad: operand -> value that leaves the result unchanged when padding is read.
    `extern` reads as many operands as its graph has inputs; all others take just `args`.
    flops: per index point, counting one multiply-add as 2. meaning: for people and prompts.
    """

    name: str
    args: tuple[str, ...]
    privileges: tuple[Privilege, ...]
    index: tuple[str, ...] = ()
    reduced: str = ""
    stream: tuple[str, str] | None = None
    attrs: Mapping[str, bool]
    pad: Mapping[str, float]
    flops: int
    meaning: str


_GEMM_ATTRS = {"trans_a": False, "trans_b": False}

PRIMITIVES: Mapping[str, Primitive] = {
    p.name: p
    for p in (
        Primitive(
            name="fill",
            args=("Y",),
            privileges=("w",),
            attrs={"value": True},
            pad={},
            flops=0,
            meaning="Y[...] = value",
        ),
        Primitive(
            name="copy",
            args=("Y", "X"),
            privileges=("w", "r"),
            attrs={},
            pad={},
            flops=0,
            meaning="Y[...] = cast(X[...])",
        ),
        Primitive(
            name="transpose",
            args=("Y", "X"),
            privileges=("w", "r"),
            attrs={"perm": True},
            pad={},
            flops=0,
            meaning="Y = X with axes permuted: Y.shape[d] = X.shape[perm[d]]",
        ),
        Primitive(
            name="gemm",
            args=("C", "A", "B"),
            privileges=("w", "r", "r"),
            index=("*mn", "*mk", "kn"),
            reduced="k",
            stream=("fill", "gemm_acc"),
            attrs=_GEMM_ATTRS,
            pad={"A": 0.0, "B": 0.0},
            flops=2,
            meaning="C[.., n] = sum_k A[.., k] * B[k, n]; leading dims flattened; "
            "leading size-1 dims of B dropped; trans_a/trans_b swap the last two dims",
        ),
        Primitive(
            name="gemm_acc",
            args=("C", "A", "B"),
            privileges=("rw", "r", "r"),
            index=("*mn", "*mk", "kn"),
            reduced="k",
            stream=("", "gemm_acc"),
            attrs=_GEMM_ATTRS,
            pad={"A": 0.0, "B": 0.0},
            flops=2,
            meaning="C[.., n] += sum_k A[.., k] * B[k, n]",
        ),
        Primitive(
            name="map",
            args=("Y",),
            privileges=("w",),
            attrs={"expr": True},
            pad={},
            flops=1,
            meaning="Y[i] = expr(operands[i]); broadcasting through size-1 dims; index(d) is the "
            "position along axis d of Y's tile",
        ),
        Primitive(
            name="reduce",
            args=("Y", "X"),
            privileges=("w", "r"),
            stream=("fill", "reduce_acc"),
            attrs={"op": True, "axis": True},
            pad={},
            flops=1,
            meaning="Y = op over axis of X (one, or a tuple of several), each kept with size 1; op sum max min prod",
        ),
        Primitive(
            name="reduce_acc",
            args=("Y", "X"),
            privileges=("rw", "r"),
            stream=("", "reduce_acc"),
            attrs={"op": True, "axis": True},
            pad={},
            flops=1,
            meaning="Y = op(Y, op over axis of X)",
        ),
        Primitive(
            name="scan",
            args=("Y", "X"),
            privileges=("w", "r"),
            attrs={"op": True, "axis": True, "reverse": False},
            pad={},
            flops=1,
            meaning="Y[.., j] = op over X[.., 0..j] along axis (reverse: X[.., j..end]); op sum max min "
            "prod; NaN stays",
        ),
        Primitive(
            name="argreduce",
            args=("I", "X"),
            privileges=("w", "r"),
            attrs={"op": True, "axis": True},
            pad={},
            flops=1,
            meaning="I = position of the first max or min along axis of X, the axis kept with size 1; NaN "
            "counts as the extreme",
        ),
        Primitive(
            name="gather",
            args=("Y", "X", "I"),
            privileges=("w", "r", "r"),
            attrs={"axis": True},
            pad={},
            flops=0,
            meaning="Y[.., j, ..] = X[.., I[.., j, ..], ..] along axis; dims of size 1 of X and I broadcast; "
            "0 where I is outside X",
        ),
        Primitive(
            name="scatter_acc",
            args=("Y", "X", "I"),
            privileges=("rw", "r", "r"),
            attrs={"op": True, "axis": True},
            pad={},
            flops=1,
            meaning="Y[.., I[.., j, ..], ..] = op(Y[..], X[.., j, ..]) along axis, in the order of j; op sum "
            "max min prod, or last: the value itself; dims of size 1 of I broadcast; an I outside Y counts nothing",
        ),
        Primitive(
            name="extern",
            args=("Y",),
            privileges=("w",),
            attrs={"graph": True, "result": False},
            pad={},
            flops=0,
            meaning="Y = one result of a torch graph of the operands, which are its inputs in order; whole tensors",
        ),
    )
}

DTYPE_ALIASES: Mapping[str, str] = {
    "acc": "accumulate",
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "i64": "int64",
    "i32": "int32",
    "i8": "int8",
    "u8": "uint8",
    **{n: n for n in "float64 float32 float16 bfloat16 int64 int32 int8 uint8 bool".split()},
}
"""Dtype names users write -> canonical names. `acc` is the accumulator's: float32, or float64 when the
kernel has a float64 tensor."""
