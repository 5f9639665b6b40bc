"""PTX instructions of memory, of threads that meet, and of tensor cores. Source: PTX ISA, "Instruction Set"."""

from __future__ import annotations

import re

from septran.backends.cuda.ptx.opcodes import opcode
from septran.backends.cuda.ptx.values import C_TYPES, Names, parts
from septran.backends.text.ptx import NoPtx

_HINTS = r"(?:\.(?:ca|cg|cs|lu|cv|wb|wt|L1::\w+|L2::\w+))*"
_SPACE = r"(?:\.(global|shared(?:::cta)?))?"
_SCALAR = r"[sub](?:8|16|32|64)|f32|f64|f16|bf16"


def _space(text: str | None) -> str:
    return (text or "").partition("::")[0]


@opcode(rf"ld(?:\.volatile)?{_SPACE}(\.nc)?{_HINTS}(?:\.v([248]))?\.({_SCALAR})")
def _load(match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    space, constant, wide, kind = match.groups()
    out, at = operands[:2]
    c, count = C_TYPES[kind], int(wide or 1)
    registers = parts(out)
    if len(registers) != count:
        raise NoPtx(f"{match.group()} into {len(registers)} registers")
    function = "load_constant" if constant else "load"
    values = f"const volatile auto* from_ = cuemu::ptx::{function}<{c}, {count}>({names.address(at, _space(space))}); "
    # all are read, whether used or not, before one is written: the address may be one of them
    values += f"{c} all_[{count}]; for (int i_ = 0; i_ < {count}; i_++) all_[i_] = from_[i_]; "
    return (
        "{ "
        + values
        + " ".join(names.write(r, f"all_[{i}]") for i, r in enumerate(registers))
        + " }"
    )


@opcode(rf"st(?:\.volatile)?{_SPACE}{_HINTS}(?:\.v([248]))?\.({_SCALAR})")
def _store(match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    space, wide, kind = match.groups()
    at, given = operands[:2]
    c, count = C_TYPES[kind], int(wide or 1)
    registers = parts(given)
    if len(registers) != count:
        raise NoPtx(f"{match.group()} of {len(registers)} registers")
    text = f"auto* to_ = cuemu::ptx::place<{c}, {count}>({names.address(at, _space(space))}); "
    text += " ".join(f"to_[{i}] = {names.read(r, kind)};" for i, r in enumerate(registers))
    return "{ " + text + " }"


_ATOMIC = {
    "add": "atomicAdd", "min": "atomicMin", "max": "atomicMax", "exch": "atomicExch", "and": "atomicAnd",
    "or": "atomicOr", "xor": "atomicXor", "cas": "atomicCAS",
}  # fmt: skip


@opcode(
    rf"(?:atom|red)(?:\.relaxed)?(?:\.(?:cta|gpu|sys))?{_SPACE}(?:\.(?:cta|gpu|sys))?\.(add|min|max|exch|cas|and|or|xor)"
    r"(?:\.noftz)?\.([sub]32|[ub]64|f32|f64)"
)
def _atomic(match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    space, what, kind = match.groups()
    out, rest = ("_", operands) if match.group().startswith("red") else (operands[0], operands[1:])
    c = C_TYPES[kind]
    at = f"cuemu::ptx::place<{c}, 1>({names.address(rest[0], _space(space))})"
    return names.write(
        out, f"{_ATOMIC[what]}({', '.join([at, *(names.read(v, kind) for v in rest[1:])])})"
    )


@opcode(
    r"prefetch(?:u)?(?:\.\w+|::\w+)*|griddepcontrol\.\w+|nanosleep\.u32|setmaxnreg(?:\.\w+)*|membar\.\w+|fence(?:\.[\w:]+)+|mbarrier\.inval\.\S+|discard\S*|applypriority\S*"
)
def _nothing(match: re.Match[str], _operands: tuple[str, ...], _names: Names) -> str:
    if "proxy" in match.group() and "tensormap" in match.group():
        raise NoPtx(match.group())
    if match.group().startswith("fence.mbarrier_init"):
        return "cuemu::mbarrier_fence_init();"
    return "cuemu::proxy_fence();" if match.group().startswith("fence.proxy") else "(void)0;"


# ---- copies
@opcode(r"cp\.async\.(ca|cg)\.shared(?:::cta|::cluster)?\.global(?:\.L2::\w+)*")
def _copy(match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    to, source, size, *valid = operands
    if "cache_hint" in match.group():
        valid = valid[:-1]
    if len(valid) > 1:
        raise NoPtx("cp.async that ignores its source")
    bytes_ = names.read(size, "s32")
    count = names.read(valid[0], "s32") if valid else bytes_
    kind = "16" if match.group(1) == "cg" else "0"
    pointers = f"{names.address(to, 'shared')}, {names.address(source, '')}"
    return f"cuemu::ptx::copy_async({pointers}, {bytes_}, {count}, {kind});"


@opcode(r"createpolicy\.\S+\.b64")
def _policy(_match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    return names.write(operands[0], "uint64_t{0}")


@opcode(r"cp\.async\.(commit_group|wait_group|wait_all)")
def _groups(match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    if match.group(1) == "wait_group":
        return f"cuemu::async_wait({names.read(operands[0], 's32')});"
    return (
        "cuemu::async_commit();"
        if match.group(1) == "commit_group"
        else "cuemu::async_commit(), cuemu::async_wait(0);"
    )


@opcode(
    r"ldmatrix\.sync\.aligned(?=.*\.m8n8)(?=.*\.x([124]))(\.(?:m8n8|x[124]|trans|shared(?:::cta)?|b16))+"
)
def _load_matrix(match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    out, at = operands
    registers, count = parts(out), int(match.group(1))
    if len(registers) != count:
        raise NoPtx(f"{match.group()} into {len(registers)} registers")
    text = (
        f"uint32_t all_[{count}]; cuemu::load_matrix(all_, {names.address(at, 'shared')}, {count}, "
    )
    text += f'{str(".trans" in match.group()).lower()}, CUEMU_HERE("ldmatrix")); '
    return (
        "{ " + text + " ".join(names.write(r, f"all_[{i}]") for i, r in enumerate(registers)) + " }"
    )


@opcode(
    r"stmatrix\.sync\.aligned(?=.*\.m8n8)(?=.*\.x([124]))(\.(?:m8n8|x[124]|trans|shared(?:::cta)?|b16))+"
)
def _store_matrix(match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    at, given = operands
    registers, count = parts(given), int(match.group(1))
    if len(registers) != count:
        raise NoPtx(f"{match.group()} of {len(registers)} registers")
    values = ", ".join(names.read(r, "b32") for r in registers)
    transposed = str(".trans" in match.group()).lower()
    return f'cuemu::ptx::store_matrix<{count}>({names.address(at, "shared")}, {{{values}}}, {transposed}, CUEMU_HERE("stmatrix"));'


# ---- threads that meet
@opcode(r"(?:bar|barrier)(?:\.cta)?\.(sync|arrive)(?:\.aligned)?")
def _barrier(match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    if operands == ("0",) and match.group(1) == "sync":
        return "__syncthreads();"
    number, *count = (names.read(o, "s32") for o in operands)
    threads = "static_cast<int>(blockDim.x * blockDim.y * blockDim.z + 31) / 32 * 32"
    waits = "true" if match.group(1) == "sync" else "false"
    return f"cuemu::named_barrier({number}, {count[0] if count else threads}, {waits});"


@opcode(r"bar\.warp\.sync")
def _warp_barrier(_match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    return f"__syncwarp({names.read(operands[0], 'u32')});"


@opcode(r"activemask\.b32")
def _active(_match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    return names.write(operands[0], "__activemask()")


@opcode(r"shfl\.sync\.(bfly|down|up|idx)\.b32")
def _shuffle(match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    out, value, lane, clamp, mask = operands
    if clamp not in ("0x1f", "31", "0x1F") and not (
        match.group(1) == "up" and clamp in ("0", "0x0")
    ):
        raise NoPtx(f"{match.group()} within a part of a warp")
    name = {"bfly": "xor", "down": "down", "up": "up", "idx": ""}[match.group(1)]
    function = f"__shfl_{name}_sync" if name else "__shfl_sync"
    return names.write(
        out,
        f"{function}({names.read(mask, 'u32')}, {names.read(value, 'u32')}, {names.read(lane, 'u32')})",
    )


@opcode(r"vote\.sync\.(ballot\.b32|any\.pred|all\.pred)")
def _vote(match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    out, given, mask = operands
    function = f"__{match.group(1).partition('.')[0]}_sync"
    return names.write(out, f"{function}({names.read(mask, 'u32')}, {names.read(given, 'pred')})")


@opcode(r"mbarrier\.init(?:\.shared(?:::cta)?)?\.b64")
def _init(_match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    return f"cuemu::mbarrier_init({names.address(operands[0], 'shared')}, {names.read(operands[1], 's32')});"


@opcode(r"mbarrier\.arrive(\.expect_tx)?(?:\.release\.cta)?(?:\.shared(?:::cta)?)?\.b64")
def _arrive(match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    out, at, *more = operands
    given = names.read(more[0], "s32") if more else ""
    bytes_, times = (given, "1") if match.group(1) else ("0", given or "1")
    call = f"cuemu::ptx::arrive({names.address(at, 'shared')}, {bytes_}, {times})"
    return names.write(out, call) if out != "_" else f"{call};"


@opcode(r"cp\.async\.mbarrier\.arrive(\.noinc)?(?:\.shared(?:::cta)?)?\.b64")
def _arrive_with_copies(match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    """The copies before it land at once; without noinc the arrival was added to those that are awaited."""
    landed = "cuemu::async_commit(), cuemu::async_wait(0);"
    if not match.group(1):
        return landed
    return f"{landed} cuemu::ptx::arrive({names.address(operands[0], 'shared')}, 0, 1);"


@opcode(
    r"mbarrier\.(?:try_wait|test_wait)(\.parity)?(?:\.acquire\.cta)?(?:\.shared(?:::cta)?)?\.b64"
)
def _wait(match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    """It may give up once; whoever asks again waits as long as it takes."""
    out, at, phase = operands[:3]
    parity = names.read(phase, "u32") if match.group(1) else f"{names.read(phase, 'u64')} >> 63"
    call = f"cuemu::mbarrier_try({names.address(at, 'shared')}, static_cast<unsigned>({parity}))"
    return names.write(out, call)


# ---- tensor cores
@opcode(r"mma\.sync\.aligned\.m16n8k(16|8)\.row\.col\.(f32|f16)\.(f16|bf16)\.\3\.\2")
def _mma_half(match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    deep, result, kind = match.groups()
    if result == "f16" and kind == "bf16":
        raise NoPtx(match.group())
    out, a, b, c = (parts(o) for o in operands)
    lacking = ["0u"] * (4 - len(a)), ["0u"] * (2 - len(b))
    held = 4 if result == "f32" else 2
    if (len(out), len(a), len(b), len(c)) != (held, int(deep) // 4, int(deep) // 8, held):
        raise NoPtx(f"{match.group()} with other registers")
    text = _operands(names, [*a], [*b], "b32", lacking)
    product = "product_half" if kind == "f16" else "product_bfloat"
    call = f'cuemu::mma_16816(d_, a_, b_, cuemu::{product}, CUEMU_HERE("mma.sync"));'
    if result == "f32":
        given = ", ".join(names.read(r, "f32") for r in c)
        return f"{{ float d_[4] = {{{given}}}; {text} {call} {_results(names, out)} }}"
    given = ", ".join(
        f"cuemu::Half::decode(static_cast<uint16_t>({names.read(r, 'b32')} >> {s}))"
        for r in c
        for s in (0, 16)
    )
    stored = " ".join(
        names.write(
            r,
            f"cuemu::ptx::joined(cuemu::Half::encode(d_[{2 * i}]), cuemu::Half::encode(d_[{2 * i + 1}]))",
        )
        for i, r in enumerate(out)
    )
    return f"{{ float d_[4] = {{{given}}}; {text} {call} {stored} }}"


@opcode(r"mma\.sync\.aligned\.m16n8k(8|4)\.row\.col\.f32\.tf32\.tf32\.f32")
def _mma_tf32(match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    out, a, b, c = (parts(o) for o in operands)
    deep = int(match.group(1))
    if (len(out), len(a), len(b), len(c)) != (4, deep // 2, deep // 4, 4):
        raise NoPtx(f"{match.group()} with other registers")
    lacking = ["0u"] * (4 - len(a)), ["0u"] * (2 - len(b))
    given = ", ".join(names.read(r, "f32") for r in c)
    call = 'cuemu::mma_1688_tf32(d_, a_, b_, CUEMU_HERE("mma.sync"));'
    return f"{{ float d_[4] = {{{given}}}; {_operands(names, a, b, 'b32', lacking)} {call} {_results(names, out)} }}"


@opcode(r"mma\.sync\.aligned\.m16n8k(32|16)\.row\.col(?:\.satfinite)?\.s32\.([su])8\.([su])8\.s32")
def _mma_int8(match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    deep, left, right = int(match.group(1)), *match.groups()[1:]
    out, a, b, c = (parts(o) for o in operands)
    if (len(out), len(a), len(b), len(c)) != (
        4,
        deep // 8,
        deep // 16,
        4,
    ) or "satfinite" in match.group():
        raise NoPtx(match.group())
    lacking = ["0u"] * (4 - len(a)), ["0u"] * (2 - len(b))
    given = ", ".join(names.read(r, "s32") for r in c)
    kinds = ", ".join("int8_t" if k == "s" else "uint8_t" for k in (left, right))
    call = f'cuemu::ptx::multiply_bytes<{kinds}>(d_, a_, b_, CUEMU_HERE("mma.sync"));'
    return f"{{ int d_[4] = {{{given}}}; {_operands(names, a, b, 'b32', lacking)} {call} {_results(names, out)} }}"


def _operands(
    names: Names, a: list[str], b: list[str], kind: str, lacking: tuple[list[str], list[str]]
) -> str:
    left = ", ".join([*(names.read(r, kind) for r in a), *lacking[0]])
    right = ", ".join([*(names.read(r, kind) for r in b), *lacking[1]])
    return f"const uint32_t a_[4] = {{{left}}}, b_[2] = {{{right}}};"


def _results(names: Names, out: list[str]) -> str:
    return " ".join(names.write(r, f"d_[{i}]") for i, r in enumerate(out))
