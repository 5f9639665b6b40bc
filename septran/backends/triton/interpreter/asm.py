"""`tl.inline_asm_elementwise` in Triton's interpreter, which has none: its PTX runs as numpy on all lanes at once.

Lies beside a judged kernel as septran_triton_asm.py. What has no model (memory, branches, special registers, an instruction that is not
known) raises NotImplementedError with the instruction: such a kernel is not judged. Source: PTX ISA; Triton, "inline_asm_elementwise".
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from septran_triton_asm_conversions import converted
from septran_triton_asm_opcodes import TYPES, applied
from septran_triton_asm_text import NoPtx, instructions, registers
from septran_triton_interp import f32_to_bf16

_BITS = {"h": 16, "r": 32, "f": 32, "l": 64, "d": 64, "c": 8, "b": 1}
_NUMBER = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|\d+)[uU]?")
_VECTOR = re.compile(r"\{(.*)\}", re.S)


class Lanes:
    """The registers of all lanes: their bits, 64 of each, whatever their type."""

    def __init__(self, count: int, names: dict[str, str]) -> None:
        """names: an operand that is another one's register -> that one."""
        self.count = count
        self.held: dict[str, np.ndarray] = {}
        self._names = names

    def read(self, text: str, kind: str) -> np.ndarray:
        """Return what an operand holds, as a type."""
        text, found = self._names.get(text, text), TYPES[kind]
        if match := _VECTOR.fullmatch(text):
            return self._typed(self._joined(match.group(1).split(","), 8 * found.itemsize), found)
        if text in self.held:
            return self._typed(self.held[text], found)
        if match := re.fullmatch(r"0[fF]([0-9a-fA-F]{8})|0[dD]([0-9a-fA-F]{16})", text):
            value = np.uint64(int(match.group(1) or match.group(2), 16))
        elif _NUMBER.fullmatch(text):
            value = np.uint64(int(text.rstrip("uU"), 0) & (1 << 64) - 1)
        elif found.kind == "f" and re.fullmatch(r"[-+]?\d*\.\d+(?:[eE][-+]?\d+)?", text):
            return np.full(self.count, float(text), found)
        else:
            raise NoPtx(f"the operand {text}")
        return self._typed(np.full(self.count, value), found)

    def write(self, text: str, value: np.ndarray, where: np.ndarray | None) -> None:
        """Give a register, or the parts of a vector, a value; where: the lanes that it is written in, None for all."""
        text = self._names.get(text, text)
        if text == "_":
            return
        bits = _bits_of(np.broadcast_to(value, self.count))
        if match := _VECTOR.fullmatch(text):
            parts = [p.strip() for p in match.group(1).split(",")]
            each = 8 * value.dtype.itemsize // len(parts)
            for at, part in enumerate(parts):
                mask = np.uint64((1 << each) - 1)
                self.write(part, bits >> np.uint64(at * each) & mask, where)
            return
        if text not in self.held:
            raise NoPtx(f"the register {text}")
        self.held[text] = bits if where is None else np.where(where, bits, self.held[text])

    def _joined(self, parts: Sequence[str], bits: int) -> np.ndarray:
        each = bits // len(parts)
        found = np.zeros(self.count, np.uint64)
        for at, part in enumerate(parts):
            found |= self.read(part.strip(), f"b{each}").astype(np.uint64) << np.uint64(at * each)
        return found

    def _typed(self, bits: np.ndarray, found: np.dtype[Any]) -> np.ndarray:
        if found == np.bool_:
            true: np.ndarray = bits != 0
            return true
        typed: np.ndarray = bits.astype(f"u{found.itemsize}").view(found)
        return typed


def _bits_of(value: np.ndarray) -> np.ndarray:
    """Return a value's bits; signed integers fill the whole register."""
    if value.dtype.kind == "i":
        return value.astype(np.int64).view(np.uint64)
    if value.dtype.kind == "f":
        return np.ascontiguousarray(value).view(f"u{value.dtype.itemsize}").astype(np.uint64)
    return value.astype(np.uint64)


def run(template: str, lanes: Lanes) -> None:
    """Run the instructions of a template.

    Raises:
        NoPtx: one that has no model here.
    """
    lanes.held |= {name: np.zeros(lanes.count, np.uint64) for name in registers(template)}
    for step in instructions(template):
        if step.label or not step.operands:
            raise NoPtx(step.label or step.opcode)
        out, *ins = step.operands
        where = None
        if step.guard:
            where = lanes.read(step.guard, "pred") != step.unless
        if any("{" in o for o in step.operands) and not step.opcode.startswith("mov.b"):
            raise NoPtx(step.opcode)

        def read(at: int, kind: str, ins: list[str] = ins) -> np.ndarray:
            return lanes.read(ins[at], kind)

        try:
            found = converted(step.opcode, read) or applied(step.opcode, read)
        except (IndexError, KeyError):  # another number of operands
            found = None
        if found is None:
            raise NoPtx(step.opcode)
        lanes.write(out, found[0].astype(TYPES[found[1]], copy=False), where)


def packed(count: int, bits: int) -> int:
    """Return how many elements of so many bits one register holds of a group of `count`."""
    return min(count, max(1, 32 // bits))


def into_registers(raw: np.ndarray, count: int, bits: int) -> list[np.ndarray]:
    """Return the registers of groups [lanes, count] of elements' bits."""
    each = packed(count, bits)
    groups = raw.astype(np.uint64).reshape(len(raw), count // each, each)
    shifts = (np.arange(each) * bits).astype(np.uint64)
    return list(np.bitwise_or.reduce(groups << shifts, axis=2).T)


def out_of_registers(held: Sequence[np.ndarray], count: int, bits: int) -> np.ndarray:
    """Return the elements' bits [lanes, count] of registers."""
    each = packed(count, bits)
    shifts = (np.arange(each) * bits).astype(np.uint64)
    parts = np.stack(held, axis=1)[:, :, None] >> shifts & np.uint64((1 << bits) - 1)
    return parts.reshape(len(parts), count)


def constraints_of(text: str) -> tuple[list[str], list[str]]:
    """Return the outputs' and the inputs' constraints; what is overwritten besides is left out."""
    words = [w.strip() for w in text.split(",") if w.strip() and not w.strip().startswith("~")]
    return [w.lstrip("=&") for w in words if "=" in w], [w for w in words if "=" not in w]


def install_asm(tl: Any, it: Any) -> None:
    """Put the function into the module that kernels call it from."""

    def inline_asm_elementwise(
        asm: Any, constraints: Any, args: Any, dtype: Any, is_pure: Any, pack: Any, **_: Any
    ) -> Any:
        asm, constraints, count = (getattr(v, "value", v) for v in (asm, constraints, pack))
        kinds = list(dtype) if isinstance(dtype, (tuple, list, tl.tuple)) else [dtype]
        kinds = [getattr(k, "value", k) for k in kinds]
        given = [_tensor(a, tl) for a in args]
        shapes = [list(t.type.shape) if t.type.is_block() else [] for t in given]
        shape = list(np.broadcast_shapes(*shapes)) if shapes else []
        raws = [_raw(t, s, shape, tl) for t, s in zip(given, shapes, strict=True)]
        ahead = np.broadcast_shapes(*(r.shape for r in raws))
        try:
            found = _lanes(asm, constraints, [np.broadcast_to(r, ahead) for r in raws], given, kinds, count, len(shape))  # fmt: skip
        except NoPtx as why:
            raise NotImplementedError(f"inline PTX ({why}, line {_line()})") from None
        out = []
        for kind, bits in zip(kinds, found, strict=True):
            data = _of_raw(bits, kind, it)
            of = tl.block_type(kind, shape) if shape else kind
            out.append(tl.tensor(it.TensorHandle(data, kind), of))
        return tuple(out) if isinstance(dtype, (tuple, list, tl.tuple)) else out[0]

    tl.inline_asm_elementwise = inline_asm_elementwise
    tl.core.inline_asm_elementwise = inline_asm_elementwise


def _lanes(
    asm: str, constraints: str, raws: list[np.ndarray], given: list[Any], kinds: list[Any], count: int, rank: int
) -> list[np.ndarray]:  # fmt: skip
    """Return the bits of the results of blocks whose last `rank` axes are the tensor's."""
    ahead = raws[0].shape if raws else (1,)
    lead = ahead[: len(ahead) - rank]
    size = int(np.prod(ahead[len(lead) :], dtype=np.int64))
    groups = -(-size // count)
    outs, ins = constraints_of(constraints)
    taken: list[np.ndarray] = []
    for raw, tensor in zip(raws, given, strict=True):
        flat = raw.reshape(-1, size)
        # a block that is smaller than a group: its last element fills the rest
        flat = np.pad(flat, ((0, 0), (0, groups * count - size)), mode="edge")
        taken += into_registers(flat.reshape(-1, count), count, _width(tensor.dtype.scalar))
    widths = [_width(kind) for kind in kinds]
    made = [count // packed(count, bits) for bits in widths]
    if len(ins) != len(taken) or len(outs) != sum(made):
        words = f"{sum(made)} results and {len(taken)} operands in registers"
        raise ValueError(f"inline_asm_elementwise has {words}, and constraints {constraints!r}")
    tied = {f"${len(outs) + at}": f"${word}" for at, word in enumerate(ins) if word.isdigit()}
    lanes = Lanes(len(taken[0]) if taken else groups, tied)
    lanes.held |= {f"${at}": np.zeros(lanes.count, np.uint64) for at in range(len(outs))}
    for at, (word, value) in enumerate(zip(ins, taken, strict=True)):
        if not word.isdigit() and word not in _BITS:
            raise NoPtx(f"the constraint {word}")
        lanes.held[tied.get(f"${len(outs) + at}", f"${len(outs) + at}")] = value
    with np.errstate(all="ignore"):
        run(asm.replace("%%", "%"), lanes)
    found, first = [], 0
    for bits, registers_ in zip(widths, made, strict=True):
        held = [lanes.held[f"${at}"] for at in range(first, first + registers_)]
        flat = out_of_registers(held, count, bits).reshape(-1, groups * count)[:, :size]
        found.append(flat.reshape(ahead))
        first += registers_
    return found


def _width(kind: Any) -> int:
    bits = int(kind.primitive_bitwidth)
    if kind.is_ptr() or bits < 8:
        raise NoPtx(f"elements of type {kind}")
    return bits


def _tensor(value: Any, tl: Any) -> Any:
    """Return a tensor of a number as Triton makes one."""
    value = getattr(value, "value", value) if not isinstance(value, tl.tensor) else value
    return value if isinstance(value, tl.tensor) else tl.to_tensor(value)


def _raw(tensor: Any, own: list[int], shape: list[int], tl: Any) -> np.ndarray:
    """Return an operand's bits as uint64; before the tensor's axes may be one of programs."""
    data = tensor.handle.data
    if tensor.dtype.scalar == tl.bfloat16 and data.dtype.kind == "f":
        data = f32_to_bf16(data)
    data = np.asarray(data)
    if data.dtype == np.bool_ or data.dtype.itemsize * 8 != tensor.dtype.scalar.primitive_bitwidth:
        raise NoPtx(f"elements of type {tensor.dtype.scalar}")
    lead = data.shape[: max(0, data.ndim - len(own))]
    if own:
        data = data.reshape(*lead, *(1,) * (len(shape) - len(own)), *data.shape[len(lead) :])
    return np.ascontiguousarray(data).view(f"u{data.dtype.itemsize}").astype(np.uint64)


def _of_raw(bits: np.ndarray, kind: Any, it: Any) -> np.ndarray:
    of = np.dtype(it._get_np_dtype(kind))
    return np.ascontiguousarray(bits.astype(f"u{_width(kind) // 8}")).view(of)


def _line() -> int:
    """Return the line of the judged file that asks for it."""
    frame = sys._getframe(1)
    while frame.f_back is not None and "septran_triton_" in frame.f_code.co_filename:
        frame = frame.f_back
    return frame.f_lineno
