"""Words of C types, and the small pieces of which `c_expressions` and `c_source` build Python's `ast`."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import TypeVar

from septran.ir.brackets import split_top
from septran.leafgate.tokens import Token
from septran.prove.foreign.launch import NotRead

_Node = TypeVar("_Node", bound=ast.AST)

SIZES = {
    "float": 4, "double": 8, "int": 4, "unsigned": 4, "unsigned int": 4, "int32_t": 4, "uint32_t": 4, "half": 2, "__half": 2,
    "_Float16": 2, "__bf16": 2, "__nv_bfloat16": 2, "nv_bfloat16": 2, "char": 1, "signed char": 1, "unsigned char": 1, "int8_t": 1,
    "uint8_t": 1, "bool": 1, "long long": 8, "int64_t": 8, "long": 8, "size_t": 8, "uint64_t": 8, "short": 2, "int16_t": 2, "unsigned short": 2,
    "unsigned long": 8, "unsigned long long": 8, "float2": 8, "float4": 16, "int2": 8, "int4": 16, "uint2": 8, "uint4": 16, "double2": 16,
    "half2": 4, "__half2": 4, "__nv_bfloat162": 4,
}  # fmt: skip
"""bytes of a type"""
QUALIFIERS = frozenset(
    "const constexpr static extern __shared__ __device__ __global__ __host__ __constant__ auto".split()
)
TYPES = frozenset(
    "unsigned signed long short int float double char bool void auto dim3 cudaStream_t".split()
) | frozenset(k for k in SIZES if " " not in k)  # fmt: skip
LEVEL = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, "<=": 7, ">": 7, ">=": 7,
    "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}  # fmt: skip
COMPARE = {"==": ast.Eq, "!=": ast.NotEq, "<": ast.Lt, "<=": ast.LtE, ">": ast.Gt, ">=": ast.GtE}
BINARY: dict[str, type[ast.operator]] = {
    "+": ast.Add, "-": ast.Sub, "*": ast.Mult, "/": ast.FloorDiv, "%": ast.Mod, "<<": ast.LShift, ">>": ast.RShift,
    "&": ast.BitAnd, "|": ast.BitOr, "^": ast.BitXor,
}  # fmt: skip


def split(found: Sequence[Token], start: int, end: int) -> list[list[str]]:
    """Return the words between commas, from token `start` to `end`."""
    return split_top([token.text for token in found[start:end]], "(<[")


def bare(words: Sequence[str]) -> str:
    """Return a type without its qualifiers."""
    kept = [w for w in words if w not in QUALIFIERS or w == "auto"]
    stars = "*" * kept.count("*")
    kept = [w for w in kept if w not in ("*", "&")]
    if "::" in kept and "<" not in kept:
        kept = kept[-1:]
    return " ".join(kept) + stars


def number(text: str) -> int | float:
    """Return the value of a number."""
    bare = text.rstrip("uUlL")
    if re.fullmatch(r"0[xX][0-9a-fA-F]+|\d+", bare):
        return int(bare, 16 if bare[:2] in ("0x", "0X") else 10)
    if re.fullmatch(r"0[bB][01]+", bare):
        return int(bare, 2)
    return float.fromhex(bare) if bare[:2] in ("0x", "0X") else float(text.rstrip("fFlL"))


def at(node: _Node, line: int) -> _Node:
    """Return the node with its line."""
    node.lineno, node.col_offset = line, 0  # type: ignore[attr-defined]
    return node


def call(name: str, args: list[ast.expr], line: int) -> ast.expr:
    """Return a call of `name`."""
    return at(ast.Call(at(ast.Name(name, ast.Load()), line), args, []), line)


def stored(target: ast.expr, line: int) -> ast.Name | ast.Subscript | ast.Attribute:
    """Return the expression as one that is assigned to."""
    if not isinstance(target, ast.Name | ast.Subscript | ast.Attribute):
        raise NotRead(line, "an assignment to something that is not read")
    target.ctx = ast.Store()
    return target


def joined(op: str, left: ast.expr, right: ast.expr, line: int) -> ast.expr:
    """Return `left op right`."""
    if op in ("&&", "||"):
        return at(ast.BoolOp(ast.And() if op == "&&" else ast.Or(), [left, right]), line)
    if op in COMPARE:
        return at(ast.Compare(left, [COMPARE[op]()], [right]), line)
    return at(ast.BinOp(left, BINARY[op](), right), line)
