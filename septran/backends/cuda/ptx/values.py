"""Operands of PTX instructions as C++: registers, numbers, addresses, vectors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from septran.backends.text.ptx import NoPtx

C_TYPES = {
    **dict.fromkeys(("b8", "u8"), "uint8_t"),
    **dict.fromkeys(("b16", "u16", "f16", "bf16"), "uint16_t"),
    **dict.fromkeys(("b32", "u32", "f16x2", "bf16x2", "tf32"), "uint32_t"),
    **dict.fromkeys(("b64", "u64"), "uint64_t"),
    "s8": "int8_t", "s16": "int16_t", "s32": "int32_t", "s64": "int64_t",
    "f32": "float", "f64": "double", "pred": "bool",
}  # fmt: skip
"""PTX type -> the C++ type whose bits it holds"""
CONSTRAINTS = {
    "r": "uint32_t", "l": "uint64_t", "h": "uint16_t", "f": "float", "d": "double", "n": "int64_t",
}  # fmt: skip
_SPECIAL = {
    **{f"%tid.{d}": f"threadIdx.{d}" for d in "xyz"},
    **{f"%ntid.{d}": f"blockDim.{d}" for d in "xyz"},
    **{f"%ctaid.{d}": f"blockIdx.{d}" for d in "xyz"},
    **{f"%nctaid.{d}": f"gridDim.{d}" for d in "xyz"},
    "%laneid": "cuemu::lane()",
    "%lanemask_lt": "((1u << cuemu::lane()) - 1)",
    "%lanemask_le": "((2u << cuemu::lane()) - 1)",
    "%lanemask_eq": "(1u << cuemu::lane())",
    "%lanemask_ge": "(~0u << cuemu::lane())",
    "%lanemask_gt": "(~1u << cuemu::lane())",
    "WARP_SZ": "32",
}
_NUMBER = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|\d+)[uU]?")
_DECIMAL = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?")


@dataclass(frozen=True, slots=True)
class Names:
    """What the operands of one statement are in C++. variables: `%0` or a register -> variable."""

    variables: Mapping[str, str]

    def variable(self, text: str) -> str:
        """Return the variable of a register.

        Raises:
            NoPtx: it is none that the statement declares.
        """
        if text not in self.variables:
            raise NoPtx(f"the register {text}" if text.startswith("%") else f"the operand {text}")
        return self.variables[text]

    def read(self, text: str, kind: str) -> str:
        """Return what an operand holds, as a value of a PTX type."""
        c = C_TYPES[kind]
        if text in self.variables:
            return f"cuemu::ptx::as<{c}>({self.variables[text]})"
        if text in _SPECIAL:
            return f"cuemu::ptx::as<{c}>(static_cast<uint32_t>({_SPECIAL[text]}))"
        if match := re.fullmatch(r"0[fF]([0-9a-fA-F]{8})", text):
            return f"cuemu::ptx::as<{c}>(cuemu::bits<float>(0x{match.group(1)}u))"
        if match := re.fullmatch(r"0[dD]([0-9a-fA-F]{16})", text):
            return f"cuemu::ptx::as<{c}>(cuemu::bits<double>(0x{match.group(1)}ull))"
        if _NUMBER.fullmatch(text):
            return f"static_cast<{c}>({text.rstrip('uU')}ll)"
        if _DECIMAL.fullmatch(text) and kind in ("f32", "f64"):
            return f"static_cast<{c}>({text})"
        raise NoPtx(f"the operand {text}")

    def write(self, text: str, value: str) -> str:
        """Return the statement that gives a register a value."""
        if text == "_":
            return f"(void)({value});"
        return f"cuemu::ptx::set({self.variable(text)}, {value});"

    def address(self, text: str, space: str) -> str:
        """Return a pointer to what a memory operand names. space: global, shared, or "" for what any pointer names."""
        inside = re.fullmatch(r"\[\s*(.+?)\s*\]", text)
        if inside is None:
            raise NoPtx(f"the address {text}")
        kind = "u32" if space == "shared" else "u64"
        terms = [self.read(t, kind) for t in re.split(r"\s*\+\s*", inside.group(1))]
        at = " + ".join(terms)
        return f"cuemu::ptx::{'in_shared_memory' if space == 'shared' else 'in_memory'}({at})"


def parts(text: str) -> list[str]:
    """Return the registers of a vector, or the one register."""
    inside = re.fullmatch(r"\{(.*)\}", text)
    return [p.strip() for p in inside.group(1).split(",")] if inside else [text]
