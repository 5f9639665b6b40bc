"""PTX instructions of the tensor memory accelerator and of warpgroups (sm_90). Source: PTX ISA, "Instruction Set"."""

from __future__ import annotations

import re

from septran.backends.cuda.ptx.opcodes import opcode
from septran.backends.cuda.ptx.values import Names, parts
from septran.backends.text.ptx import NoPtx

_HINT = r"(?:\.L2::cache_hint)?"
_HERE = r"shared::(?:cluster|cta)"


@opcode(
    rf"cp\.async\.bulk\.tensor\.([1-5])d\.{_HERE}\.global(?:\.tile)?\.mbarrier::complete_tx::bytes{_HINT}"
)
def _load_tensor(match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    to, source, barrier = operands[:3]
    pointers = names.address(to, "shared"), names.address(barrier, "shared")
    return _with_place(source, int(match.group(1)), names, f"cuemu::bulk_load_tensor({pointers[0]}, {{}}, {pointers[1]});")  # fmt: skip


@opcode(rf"cp\.async\.bulk\.tensor\.([1-5])d\.global\.shared::cta(?:\.tile)?\.bulk_group{_HINT}")
def _store_tensor(match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    to, source = operands[:2]
    pointer = names.address(source, "shared")
    return _with_place(to, int(match.group(1)), names, f"cuemu::bulk_store_tensor({{}}, {pointer});")  # fmt: skip


def _with_place(text: str, rank: int, names: Names, call: str) -> str:
    """Return a call with the map, coordinates and rank of `[map, {x, y}]` put in."""
    inside = re.fullmatch(r"\[\s*(\S+?)\s*,\s*\{(.*)\}\s*\]", text)
    if inside is None:
        raise NoPtx(f"the address {text}")
    at = [names.read(one.strip(), "s32") for one in inside.group(2).split(",")]
    if len(at) != rank:
        raise NoPtx(f"{len(at)} coordinates of {rank} dims")
    place = f"cuemu::ptx::in_memory({names.read(inside.group(1), 'u64')}), at_, {rank}"
    return f"{{ const int at_[{rank}] = {{{', '.join(at)}}}; {call.format(place)} }}"


@opcode(rf"cp\.async\.bulk\.{_HERE}\.global\.mbarrier::complete_tx::bytes{_HINT}")
def _load(_match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    to, source, size, barrier = operands[:4]
    given = [
        names.address(to, "shared"),
        names.address(source, "global"),
        names.read(size, "u32"),
        names.address(barrier, "shared"),
    ]
    return f"cuemu::bulk_load({', '.join(given)});"


@opcode(rf"cp\.async\.bulk\.global\.shared::cta\.bulk_group{_HINT}")
def _store(_match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    to, source, size = operands[:3]
    given = [names.address(to, "global"), names.address(source, "shared"), names.read(size, "u32")]
    return f"cuemu::bulk_store({', '.join(given)});"


@opcode(r"cp\.async\.bulk\.(commit_group|wait_group)(?:\.read)?")
def _groups(match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    if match.group(1) == "commit_group":
        return "cuemu::bulk_commit();"
    return f"cuemu::bulk_wait({names.read(operands[0], 's32')});"


@opcode(r"mbarrier\.expect_tx(?:\.relaxed)?(?:\.cta)?(?:\.shared(?:::cta)?)?\.b64")
def _expect(_match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    at, size = operands
    return f"cuemu::mbarrier_expect({names.address(at, 'shared')}, {names.read(size, 's32')});"


@opcode(r"elect\.sync")
def _elect(_match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    out, mask = operands
    leader, _, chosen = (part.strip() for part in out.partition("|"))
    first = f"__builtin_ctz({names.read(mask, 'u32')})"
    taken = names.write(chosen, f"(cuemu::lane() == {first})")
    met = f"__syncwarp({names.read(mask, 'u32')});"
    return f"{met} {taken}" if leader == "_" else f"{met} {taken} {names.write(leader, f'static_cast<uint32_t>({first})')}"  # fmt: skip


@opcode(r"wgmma\.(fence|commit_group|wait_group)\.sync\.aligned")
def _ordered(match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    if match.group(1) == "wait_group":
        return f"cuemu::wgmma_wait({names.read(operands[0], 's32')});"
    return {"fence": "cuemu::wgmma_fence();", "commit_group": "cuemu::wgmma_commit();"}[
        match.group(1)
    ]


@opcode(r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k16\.f32\.(f16|bf16)\.\2")
def _wgmma(match: re.Match[str], operands: tuple[str, ...], names: Names) -> str:
    """Accumulators are named where they lie: the instruction is not over when the statement is."""
    out, a, b, keeps, *how = operands
    columns, sums = int(match.group(1)), parts(out)
    if columns % 8 or not 8 <= columns <= 256 or len(sums) != columns // 2:
        raise NoPtx(f"{match.group()} into {len(sums)} registers")
    held = parts(a) if a.startswith("{") else []
    turned = [names.read(one, "s32") for one in how]
    if len(turned) != (3 if held else 4) or (held and len(held) != 4):
        raise NoPtx(f"{match.group()} with other operands")
    mn_a = "false" if held else f"{turned[2]} != 0"
    fragment = f"const uint32_t held_[4] = {{{', '.join(names.read(r, 'b32') for r in held)}}}; "
    said = ", ".join(
        (
            f"d_, {columns}",
            "0" if held else names.read(a, "u64"),
            names.read(b, "u64"),
            "held_" if held else "nullptr",
            names.read(keeps, "pred"),
            mn_a,
            f"{turned[-1]} != 0",
            f"static_cast<int>({turned[0]} * {turned[1]})",
            f"cuemu::product_{'half' if match.group(2) == 'f16' else 'bfloat'}",
        )
    )
    places = ", ".join(f"&{names.variable(r)}" for r in sums)
    return f"{{ float* const d_[{columns // 2}] = {{{places}}}; {fragment if held else ''}cuemu::wgmma_said({{{said}}}); }}"
