"""What each PTX instruction does, as C++ for the emulation. Source: PTX ISA, "Instruction Set"."""

from __future__ import annotations

import re
from collections.abc import Callable

from septran.backends.cuda.ptx.values import C_TYPES, Names, parts
from septran.backends.text.ptx import Instruction, NoPtx

Said = Callable[[re.Match[str], tuple[str, ...], Names], str]
_OPCODES: list[tuple[re.Pattern[str], Said]] = []
_INT = "[sub](?:16|32|64)"


def opcode(pattern: str) -> Callable[[Said], Said]:
    """Register the function that says instructions whose names match `pattern`; of two that match, the first."""

    def taken(said: Said) -> Said:
        _OPCODES.append((re.compile(pattern), said))
        return said

    return taken


def said(instruction: Instruction, names: Names) -> str:
    """Return the C++ statements of an instruction.

    Raises:
        NoPtx: the emulation does not have it.
    """
    name = instruction.opcode
    if name.startswith("mov.") and any("{" in o for o in instruction.operands):
        name += " of parts"
    for pattern, of in _OPCODES:
        if match := pattern.fullmatch(name):
            try:
                return of(match, instruction.operands, names)
            except (ValueError, LookupError):  # another number of operands
                break
    raise NoPtx(instruction.opcode)


# ---- one value of others
def _simple(pattern: str, expression: str, *kinds: str) -> None:
    """An instruction whose result is an expression of a, b, c. kinds: of what it reads, "" the last part of its name."""

    @opcode(pattern)
    def _(match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
        out, *ins = operands
        given = kinds or ("",) * len(ins)
        own = match.group(1)
        values = [names.read(i, k or own) for i, k in zip(ins, given, strict=True)]
        meant = {"T": C_TYPES[own], **{n: f"({v})" for n, v in zip("abcd", values, strict=False)}}
        return names.write(out, re.sub(r"\b[abcdT]\b", lambda m: meant[m.group()], expression))


_FLOAT = r"(?:\.r[nzmp])?(?:\.ftz)?(?:\.sat)?"
_simple(rf"mov\.({_INT}|f32|f64|pred)", "a")
_simple(
    rf"add(?:\.sat|\.cc)?\.({_INT})",
    "static_cast<T>(cuemu::ptx::low<T>(a) + cuemu::ptx::low<T>(b))",
)
_simple(
    rf"sub(?:\.sat)?\.({_INT})", "static_cast<T>(cuemu::ptx::low<T>(a) - cuemu::ptx::low<T>(b))"
)
_simple(rf"mul\.lo\.({_INT})", "static_cast<T>(cuemu::ptx::low<T>(a) * cuemu::ptx::low<T>(b))")
_simple(
    rf"mad\.lo\.({_INT})",
    "static_cast<T>(cuemu::ptx::low<T>(a) * cuemu::ptx::low<T>(b) + cuemu::ptx::low<T>(c))",
)
_simple(r"mul\.hi\.([su]32)", "static_cast<T>((static_cast<cuemu::ptx::Twice<T>>(a) * b) >> 32)")
_simple(r"mul\.wide\.([su](?:16|32))", "static_cast<cuemu::ptx::Twice<T>>(a) * b")
_simple(r"mad\.wide\.([su]32)", "static_cast<cuemu::ptx::Twice<T>>(a) * b + static_cast<cuemu::ptx::Twice<T>>(cuemu::ptx::as<cuemu::ptx::Twice<T>>(c))", "", "", "u64")  # fmt: skip
_simple(rf"min\.({_INT})", "(b < a ? b : a)")
_simple(rf"max\.({_INT})", "(a < b ? b : a)")
_simple(r"neg\.([su](?:16|32|64))", "static_cast<T>(0 - cuemu::ptx::low<T>(a))")
_simple(r"abs\.(s(?:16|32|64))", "(a < 0 ? static_cast<T>(0 - cuemu::ptx::low<T>(a)) : a)")
_simple(r"and\.(b(?:16|32|64)|pred)", "static_cast<T>(a & b)")
_simple(r"or\.(b(?:16|32|64)|pred)", "static_cast<T>(a | b)")
_simple(r"xor\.(b(?:16|32|64)|pred)", "static_cast<T>(a ^ b)")
_simple(r"not\.(b(?:16|32|64))", "static_cast<T>(~a)")
_simple(r"not\.(pred)", "(!a)")
_simple(r"shl\.(b(?:16|32|64))", "cuemu::ptx::left<T>(a, b)", "", "u32")
_simple(r"shr\.([sub](?:16|32|64))", "cuemu::ptx::right<T>(a, b)", "", "u32")
_simple(r"shf\.l\.wrap\.(b32)", "cuemu::ptx::funnel_left(a, b, c & 31)")
_simple(r"shf\.r\.wrap\.(b32)", "cuemu::ptx::funnel_right(a, b, c & 31)")
_simple(r"popc\.(b(?:32|64))", "static_cast<uint32_t>(__builtin_popcountll(a))")
_simple(r"clz\.(b(?:32|64))", "cuemu::ptx::leading_zeros<T>(a)")
_simple(r"brev\.(b32)", "cuemu::ptx::reversed(a)")
_simple(r"bfe\.([su]32)", "cuemu::ptx::field<T>(a, b, c)", "", "u32", "u32")
_simple(r"bfi\.(b32)", "cuemu::ptx::with_field(a, b, c, d)", "b32", "b32", "u32", "u32")
_simple(r"prmt\.(b32)", "cuemu::ptx::permuted(a, b, c)")
_simple(r"lop3\.(b32)", "cuemu::ptx::logic(a, b, c, d)", "b32", "b32", "b32", "u32")
_simple(r"dp4a\.(s32)\.s32", "cuemu::ptx::dot4<int8_t>(a, b, c)", "b32", "b32", "s32")
_simple(r"dp4a\.(u32)\.u32", "cuemu::ptx::dot4<uint8_t>(a, b, c)", "b32", "b32", "u32")
_simple(rf"selp\.({_INT}|f32|f64)", "(c ? a : b)", "", "", "pred")

_simple(rf"add{_FLOAT}\.(f32|f64)", "cuemu::ptx::alone_add(a, b)")
_simple(rf"sub{_FLOAT}\.(f32|f64)", "cuemu::ptx::alone_add(a, -b)")
_simple(rf"mul{_FLOAT}\.(f32|f64)", "cuemu::ptx::alone_mul(a, b)")
_simple(r"(?:fma\.rn|mad|mad\.rn)(?:\.ftz)?\.(f32|f64)", "std::fma(a, b, c)")
_simple(r"div(?:\.rn|\.full|\.approx)(?:\.ftz)?\.(f32|f64)", "(a / b)")
_simple(r"(?:neg)(?:\.ftz)?\.(f32|f64)", "(-a)")
_simple(r"abs(?:\.ftz)?\.(f32|f64)", "std::fabs(a)")
_simple(r"min(?:\.ftz)?\.(f32|f64)", "std::fmin(a, b)")
_simple(r"max(?:\.ftz)?\.(f32|f64)", "std::fmax(a, b)")
_simple(r"max\.NaN(?:\.ftz)?\.(f32)", "(a != a ? a : b != b ? b : std::fmax(a, b))")
_simple(r"min\.NaN(?:\.ftz)?\.(f32)", "(a != a ? a : b != b ? b : std::fmin(a, b))")
for _name, _value in {
    "ex2": "exp2f(X)", "lg2": "__log2f(X)", "rcp": "(1.f / X)", "rsqrt": "rsqrtf(X)", "sqrt": "sqrtf(X)",
    "sin": "__sinf(X)", "cos": "__cosf(X)",
}.items():  # fmt: skip
    _simple(rf"{_name}\.approx\.(f32)", _value.replace("X", "a"))
    _simple(
        rf"{_name}\.approx\.ftz\.(f32)",
        f"cuemu::ptx::flushed({_value.replace('X', 'cuemu::ptx::flushed(a)')})",
    )
_simple(r"tanh\.approx\.(f32)", "__tanhf(a)")


@opcode(r"(rcp|sqrt)\.rn(?:\.ftz)?\.(f32|f64)")
def _rounded(match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    out, a = operands
    value = names.read(a, match.group(2))
    return names.write(out, f"(1 / {value})" if match.group(1) == "rcp" else f"std::sqrt({value})")


@opcode(r"(add|sub|mul|fma|min|max|neg|abs)(?:\.rn)?(?:\.ftz)?\.(f16x2|f16|bf16x2|bf16)")
def _halves(match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    what, kind = match.groups()
    out, *ins = operands
    values = ", ".join(names.read(i, kind) for i in ins)
    format_ = "Bfloat" if kind.startswith("b") else "Half"
    x, y, z = ("ptx_x_", "ptx_y_", "ptx_z_")  # no names that a macro's parameters have
    text = {
        "add": f"{x} + {y}",
        "sub": f"{x} - {y}",
        "mul": f"{x} * {y}",
        "fma": f"{x} * {y} + {z}",
        "min": f"std::fmin({x}, {y})",
        "max": f"std::fmax({x}, {y})",
        "neg": f"-{x}",
        "abs": f"std::fabs({x})",
    }[what]
    taken = ", ".join(f"double {n}" for n, _ in zip((x, y, z), ins, strict=False))
    function = f"[]({taken}) {{ return {text}; }}"
    return names.write(out, f"cuemu::ptx::each_half<cuemu::{format_}>({function}, {values})")


_TESTS = {
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">", "hs": ">=",
}  # fmt: skip


@opcode(rf"setp\.(eq|ne|lt|le|gt|ge|lo|ls|hi|hs)(?:\.ftz)?\.({_INT}|f32|f64)")
def _setp(match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    out, a, b = operands
    test, kind = match.groups()
    left, right = names.read(a, kind), names.read(b, kind)
    ordered = (
        f" && {left} == {left} && {right} == {right}" if test == "ne" and kind[0] == "f" else ""
    )
    return names.write(out, f"({left} {_TESTS[test]} {right}{ordered})")


@opcode(r"mov\.b(32|64) of parts")
def _packed(match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    """One register of two, or two of one."""
    out, a = operands
    half = f"b{int(match.group(1)) // 2}"
    if a.startswith("{"):
        low, high = (names.read(p, half) for p in parts(a))
        return names.write(out, f"cuemu::ptx::joined({low}, {high})")
    low, high = parts(out)
    value = names.read(a, f"b{match.group(1)}")
    bits, c = int(match.group(1)) // 2, C_TYPES[half]
    # read before either is written
    return f"{{ const auto both_ = {value}; {names.write(low, f'static_cast<{c}>(both_)')} {names.write(high, f'static_cast<{c}>(both_ >> {bits})')} }}"  # fmt: skip


# ---- conversions
_simple(r"cvta(?:\.to)?(?:\.global|\.local)?\.(u64)", "a")


@opcode(r"cvta\.to\.shared\.u(?:64|32)")
def _to_shared(_match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    out, a = operands
    pointer = f"cuemu::ptx::in_memory({names.read(a, 'u64')})"
    return names.write(out, f"static_cast<uint64_t>(__cvta_generic_to_shared({pointer}))")


@opcode(r"cvt\.(rni|rzi|rmi|rpi)(?:\.ftz)?(?:\.sat)?\.([su](?:8|16|32|64))\.(f32|f64)")
def _to_integer(match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    how, kind, source = match.groups()
    out, a = operands
    rounding = {
        "rni": "std::nearbyint",
        "rzi": "std::trunc",
        "rmi": "std::floor",
        "rpi": "std::ceil",
    }[how]
    return names.write(out, f"cuemu::to<{C_TYPES[kind]}>({rounding}({names.read(a, source)}))")


@opcode(r"cvt\.rn(?:\.satfinite)?(?:\.relu)?\.(f16|bf16)\.f32")
def _to_half(match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    out, a = operands
    if "relu" in match.group():
        raise NoPtx(match.group())
    format_ = "Half" if match.group(1) == "f16" else "Bfloat"
    return names.write(out, f"cuemu::{format_}::encode({names.read(a, 'f32')})")


@opcode(r"cvt\.rn\.(f16x2|bf16x2)\.f32")
def _to_halves(match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    out, high, low = operands
    format_ = "Half" if match.group(1) == "f16x2" else "Bfloat"
    made = [f"cuemu::{format_}::encode({names.read(v, 'f32')})" for v in (low, high)]
    return names.write(out, f"cuemu::ptx::joined({', '.join(made)})")


@opcode(r"cvt\.f32\.(f16|bf16)")
def _of_half(match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    out, a = operands
    format_ = "Half" if match.group(1) == "f16" else "Bfloat"
    return names.write(out, f"cuemu::{format_}::decode({names.read(a, 'b16')})")


@opcode(r"cvt\.rna\.tf32\.f32")
def _to_tf32(_match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    out, a = operands
    return names.write(
        out, f"((cuemu::bits<uint32_t>({names.read(a, 'f32')}) + 0x1000u) & 0xFFFFE000u)"
    )


@opcode(r"cvt(?:\.rn)?\.(f32|f64|[su](?:8|16|32|64))\.([su](?:8|16|32|64)|f32|f64)")
def _convert(match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    kind, source = match.groups()
    if source[0] == "f" and kind[0] != "f":
        raise NoPtx(match.group())  # how it is rounded has to be said
    out, a = operands
    return names.write(out, f"static_cast<{C_TYPES[kind]}>({names.read(a, source)})")
