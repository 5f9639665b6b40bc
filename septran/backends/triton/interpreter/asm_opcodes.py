"""What a PTX instruction of `tl.inline_asm_elementwise` does, as numpy on the bits of all lanes. Source: PTX ISA, "Instruction Set".

Lies beside a judged kernel as septran_triton_asm_opcodes.py. Fast functions are as exact as the CUDA emulation has them: tanh to eleven bits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from septran_triton_interp import bf16_to_f32, f32_to_bf16

TYPES = {
    **{f"{c}{n}": np.dtype(f"u{n // 8}") for c in "bu" for n in (8, 16, 32, 64)},
    **{f"s{n}": np.dtype(f"i{n // 8}") for n in (8, 16, 32, 64)},
    **dict.fromkeys(("f16", "bf16"), np.dtype("u2")),
    **dict.fromkeys(("f16x2", "bf16x2"), np.dtype("u4")),
    "e4m3x2": np.dtype("u2"),
    "e5m2x2": np.dtype("u2"),
    "f32": np.dtype("f4"),
    "f64": np.dtype("f8"),
    "pred": np.dtype("?"),
}
"""PTX type -> what numpy holds of it"""
_INT = "[sub](?:8|16|32|64)"
_FTZ = r"(?:\.ftz)?"
Row = tuple[re.Pattern[str], Callable[..., Any], tuple[str, ...], str]


def _flushed(v: np.ndarray) -> np.ndarray:
    return np.where(np.abs(v) < 2.0**-126, np.copysign(v.dtype.type(0), v), v)


def _wide(v: Any) -> Any:
    """Return integers of twice the bits."""
    return v.astype(np.dtype(f"{v.dtype.kind}{2 * v.dtype.itemsize}"))


def _fma(a: Any, b: Any, c: Any) -> Any:
    return (a.astype(np.float64) * b + c).astype(a.dtype)


def _exactly(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of float64 that is rounded once."""
    return lambda *v: function(*(x.astype(np.float64) for x in v)).astype(v[0].dtype)


def _tanh(v: Any) -> Any:
    if v.dtype != np.float32:
        return np.tanh(v)
    bits = np.tanh(v.astype(np.float64)).astype(np.float32).view(np.uint32) & np.uint32(0xFFFFF000)
    return np.where(np.isnan(v), v, bits.view(np.float32))


def _shift(left: bool) -> Callable[..., Any]:
    def shifted(a: Any, by: Any) -> Any:
        bits = 8 * a.dtype.itemsize
        inside = np.minimum(by, bits - 1).astype(a.dtype)
        found = a << inside if left else a >> inside
        empty = np.where(a < 0, -1, 0).astype(a.dtype) if not left else a.dtype.type(0)
        return np.where(by >= bits, empty, found)

    return shifted


def _permuted(a: Any, b: Any, how: Any) -> Any:
    both = a.astype(np.uint64) | b.astype(np.uint64) << np.uint64(32)
    found = np.zeros_like(a)
    for at in range(4):
        pick = how >> np.uint32(4 * at) & 15
        byte = (both >> (8 * (pick & 7)).astype(np.uint64) & np.uint64(255)).astype(np.uint32)
        byte = np.where(pick & 8, np.where(byte & 128, 255, 0), byte).astype(np.uint32)
        found |= byte << np.uint32(8 * at)
    return found


def _logic(a: Any, b: Any, c: Any, table: Any) -> Any:
    found = np.zeros_like(a)
    for at in range(8):
        term = (a if at & 4 else ~a) & (b if at & 2 else ~b) & (c if at & 1 else ~c)
        found |= np.where(table >> np.uint32(at) & 1, term, 0).astype(np.uint32)
    return found


def _field(v: Any, at: Any, count: Any) -> Any:
    at, count = (at & 255).astype(np.int64), (count & 255).astype(np.int64)
    whole = v.astype(np.int64) >> np.minimum(at, 63)
    over = 64 - np.clip(count, 1, 32)
    signed = v.dtype.kind == "i"
    part = whole << over >> over if signed else whole & ((np.int64(1) << np.minimum(count, 32)) - 1)
    return np.where(count == 0, 0, part).astype(v.dtype)


def _with_field(part: Any, v: Any, at: Any, count: Any) -> Any:
    at, count = np.minimum(at & 255, 32).astype(np.uint64), np.minimum(count & 255, 32)
    mask = ((np.uint64(1) << count.astype(np.uint64)) - np.uint64(1)) << at
    found = v.astype(np.uint64) & ~mask | part.astype(np.uint64) << at & mask
    return (found & np.uint64(0xFFFFFFFF)).astype(np.uint32)


def _bits(v: Any) -> Any:
    return np.unpackbits(v.astype(v.dtype.newbyteorder(">")).view(np.uint8).reshape(v.size, -1), axis=1)  # fmt: skip


def _leading_zeros(v: Any) -> Any:
    return np.where(v == 0, 8 * v.dtype.itemsize, _bits(v).argmax(axis=1)).astype(np.uint32)


def _reversed(v: Any) -> Any:
    return np.packbits(_bits(v)[:, ::-1], axis=1).view(">u4").astype(np.uint32).ravel()


def _funnel(left: bool) -> Callable[..., Any]:
    def shifted(a: Any, b: Any, by: Any) -> Any:
        both = b.astype(np.uint64) << np.uint64(32) | a
        by = (by & 31).astype(np.uint64)
        found = both << by >> np.uint64(32) if left else both >> by
        return (found & np.uint64(0xFFFFFFFF)).astype(np.uint32)

    return shifted


_TESTS: dict[str, Callable[..., Any]] = {
    "eq": np.equal, "ne": lambda a, b: (a < b) | (a > b), "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip


Of = Callable[..., Any]


def _rows() -> Iterator[tuple[str, Callable[..., Any], tuple[str, ...], str]]:
    """Yield (name, function, kinds of what it reads, kind of its result); "" is the type in the name's first group, "2" twice its bits."""
    yield rf"mov\.({_INT}|f32|f64|pred)", lambda a: a, ("",), ""
    of: Of
    for name, of in {"add": np.add, "sub": np.subtract, r"mul\.lo": np.multiply}.items():
        yield rf"{name}\.({_INT})", of, ("", ""), ""
    yield rf"mad\.lo\.({_INT})", lambda a, b, c: a * b + c, ("", "", ""), ""
    yield r"mul\.hi\.([su]32)", lambda a, b: (_wide(a) * b >> 32).astype(a.dtype), ("", ""), ""
    yield r"mul\.wide\.([su](?:16|32))", lambda a, b: _wide(a) * b, ("", ""), "2"
    for name, of in {"min": np.minimum, "max": np.maximum}.items():
        yield rf"{name}\.({_INT})", of, ("", ""), ""
    yield rf"neg\.({_INT})", np.negative, ("",), ""
    yield rf"abs\.({_INT})", np.abs, ("",), ""
    for name, of in {
        "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert,
    }.items():  # fmt: skip
        yield rf"{name}\.(b(?:16|32|64)|pred)", of, ("",) * (1 + (name != "not")), ""
    yield r"shl\.(b(?:16|32|64))", _shift(True), ("", "u32"), ""
    yield r"shr\.([sub](?:16|32|64))", _shift(False), ("", "u32"), ""
    yield r"shf\.l\.wrap\.(b32)", _funnel(True), ("", "", "u32"), ""
    yield r"shf\.r\.wrap\.(b32)", _funnel(False), ("", "", "u32"), ""
    yield r"popc\.(b(?:32|64))", lambda a: _bits(a).sum(axis=1), ("",), "u32"
    yield r"clz\.(b(?:32|64))", _leading_zeros, ("",), "u32"
    yield r"brev\.(b32)", _reversed, ("",), ""
    yield r"bfe\.([su]32)", _field, ("", "u32", "u32"), ""
    yield r"bfi\.(b32)", _with_field, ("", "", "u32", "u32"), ""
    yield r"prmt\.(b32)", _permuted, ("", "", ""), ""
    yield r"lop3\.(b32)", _logic, ("", "", "", "u32"), ""
    yield rf"selp\.({_INT}|f32|f64)", lambda a, b, c: np.where(c, a, b), ("", "", "pred"), ""
    for name, of in _TESTS.items():
        yield rf"setp\.{name}{_FTZ}\.({_INT}|f32|f64)", of, ("", ""), "pred"
    yield from _float_rows()


def _float_rows() -> Iterator[tuple[str, Callable[..., Any], tuple[str, ...], str]]:
    both = r"(f32|f64|f16x2|f16|bf16x2|bf16)"
    of: Of
    for name, of in {"add": np.add, "sub": np.subtract, "mul": np.multiply}.items():
        yield rf"{name}(?:\.rn)?(?:\.ftz)?(?:\.sat)?\.{both}", of, ("", ""), ""
    yield rf"(?:fma\.rn|mad\.rn|mad)(?:\.ftz)?(?:\.sat)?\.{both}", _fma, ("", "", ""), ""
    for name, of in {"min": np.fmin, "max": np.fmax}.items():
        yield rf"{name}{_FTZ}\.{both}", of, ("", ""), ""
    for name, of in {r"min\.NaN": np.minimum, r"max\.NaN": np.maximum}.items():
        yield rf"{name}{_FTZ}\.{both}", of, ("", ""), ""
    yield rf"neg{_FTZ}\.{both}", np.negative, ("",), ""
    yield rf"abs{_FTZ}\.{both}", np.abs, ("",), ""
    yield rf"div\.(?:rn|full|approx){_FTZ}\.(f32|f64)", np.divide, ("", ""), ""
    yield rf"rcp\.(?:rn|approx){_FTZ}\.(f32|f64)", np.reciprocal, ("",), ""
    yield rf"sqrt\.(?:rn|approx){_FTZ}\.(f32|f64)", np.sqrt, ("",), ""
    fast: dict[str, Of] = {
        "rsqrt": lambda v: 1 / np.sqrt(v), "ex2": np.exp2, "lg2": np.log2, "sin": np.sin, "cos": np.cos,
    }  # fmt: skip
    for name, of in fast.items():
        also = "|f16x2|f16|bf16x2|bf16" if name == "ex2" else ""
        yield rf"{name}\.approx{_FTZ}\.(f32{also})", _exactly(of), ("",), ""
    yield r"tanh\.approx\.(f32|f16x2|f16|bf16x2|bf16)", _tanh, ("",), ""


_TABLE: list[Row] = [(re.compile(name), of, ins, out) for name, of, ins, out in _rows()]


def halves(kind: str, bits: np.ndarray) -> np.ndarray:
    """Return the numbers of registers of a 16-bit type, one or two in each, as float32 [lanes, numbers]."""
    parts = bits.view(np.uint16).reshape(bits.size, -1)
    if kind.startswith("b"):
        wide: np.ndarray = bf16_to_f32(parts)
        return wide
    numbers: np.ndarray = parts.view(np.float16).astype(np.float32)
    return numbers


def of_halves(kind: str, values: np.ndarray) -> np.ndarray:
    """Return the bits of `halves`."""
    parts = f32_to_bf16(values) if kind.startswith("b") else values.astype(np.float16)
    return np.ascontiguousarray(parts).view(TYPES[kind]).ravel()


def applied(name: str, read: Callable[[int, str], np.ndarray]) -> tuple[np.ndarray, str] | None:
    """Return the result of an instruction with one, and its kind; None: it is none of these. read: operand number, kind -> lanes."""
    for pattern, function, kinds, result in _TABLE:
        if not (match := pattern.fullmatch(name)):
            continue
        own = match.group(1)
        given = [read(at, kind or own) for at, kind in enumerate(kinds)]
        half = own in ("f16", "bf16", "f16x2", "bf16x2")
        if half:
            given = [halves(own, v) for v in given]
        if ".ftz" in name and own == "f32":
            given = [_flushed(v) for v in given]
        found = function(*given)
        if ".ftz" in name and own == "f32" and result != "pred":
            found = _flushed(found)
        if ".sat" in name:
            found = np.nan_to_num(np.clip(found, 0, 1), nan=0.0)
        if half and result != "pred":
            found = of_halves(own, found)
        return found, own if not result else f"{own[0]}{2 * int(own[1:])}" if result == "2" else result  # fmt: skip
    return None
