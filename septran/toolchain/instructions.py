"""What an instruction of a listing reads, writes and needs, for the processors whose listings are priced."""

from __future__ import annotations

import re
from dataclasses import dataclass

_AT_WORD = re.compile(r"%([a-z]+[0-9]*[a-z]?)(?![\w(])")
_AT_MEMORY = re.compile(r"[-\w.+@]*\([^)]*\)")
_ARM_WORD = re.compile(r"(?<![\w.#])([xwvqdsbh]\d+|sp|xzr|wzr)\b")
_WIDE = {"x": 16, "y": 32, "z": 64}

# mnemonic -> kind, the first that matches; x86 names come without the `v` of AVX
_X86 = (
    ("call", r"call"),
    ("jump", r"j[a-z]+|ret"),
    ("free", r"nop|prefetch|zeroupper|endbr|leave"),
    ("fma", r"fn?m(?:add|sub)\d|dpbf16"),
    ("divide", r"div[ps]|idiv|div[lq]?$"),
    ("root", r"sqrt"),
    ("multiply", r"mul[ps]|pmull|pmuldq|imul|mul[lq]?$|pmaddwd"),
    ("add", r"(?:add|sub|hadd|addsub)[ps]|(?:u?comis|rcp|rsqrt|round|getexp|scalef|rndscale)"),
    ("compare", r"(?:max|min|cmp)[a-z]*[ps][sdh]$"),
    ("convert", r"cvt"),
    ("gather", r"p?gather"),
    ("cross", r"perm|pperm|broadcast|pbroadcast|extract[fi]|insert[fi]|pmovzx|pmovsx|pextr|pinsr|movmsk|pmovmsk|mov[dq]$"),
    ("shuffle", r"shuf|pshuf|unpck|punpck|pack|psrldq|pslldq|palignr|movh?l|movlps|movhps|insertps|blendv|pblendv"),
    ("move", r"movs|mov[au]|mov[lqwb]?$|movdq|movabs|cmov|lddqu"),
    ("vector", r"p[a-z]|and[np]|or[ps]|xor[ps]|blend|ternlog|test[ps]"),
    ("integer", r"."),
)  # fmt: skip
_ARM = (
    ("call", r"bl$|blr$"),
    ("jump", r"b$|b\.|cb|tb|ret"),
    ("free", r"nop|prfm|hint"),
    ("fma", r"fml|fmadd|fmsub|fnm|mla|mls|bfdot|bfmmla"),
    ("divide", r"fdiv|sdiv|udiv"),
    ("root", r"fsqrt"),
    ("multiply", r"fmul|mul|smull|umull|madd"),
    ("add", r"fadd|fsub|fcmp|fccmp|fabd|faddp|frecp|frsqrt|frint|fabs|fneg"),
    ("compare", r"fmax|fmin|fcm"),
    ("convert", r"fcvt|scvtf|ucvtf|bfcvt"),
    ("cross", r"umov|smov|fmov|dup|ins$|addv|maxv|fmaxnmv"),
    ("shuffle", r"ext$|zip|uzp|trn|rev|tbl|tbx|xtn|shll|bif|bit|bsl"),
    ("load", r"ld"),
    ("store", r"st"),
    ("vector", r"movi|mvni|cm|ushl|sshl|shl$|sshr|ushr|orr v|and v|eor v|mov v"),
    ("integer", r"."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """kind: of its operation, "" for a plain load or store. loads, stores: memory it touches. bytes: of its widest register.

    reads, writes: registers, and "[text]" for a place on the stack. calls: the function.
    """

    kind: str
    loads: bool = False
    stores: bool = False
    bytes: int = 8
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    calls: str = ""


def instruction(line: str, machine: str) -> Instruction:
    """Return the instruction of a line; machine: "x86_64" or "aarch64"."""
    name, _, operands = line.partition("\t")
    operands = operands.split("#")[0] if machine == "x86_64" else operands.split("//")[0]
    return _at_t(name, operands) if machine == "x86_64" else _arm(name, operands)


def _kind(name: str, table: tuple[tuple[str, str], ...]) -> str:
    return next(kind for kind, pattern in table if re.match(pattern, name))


def _at_t(name: str, operands: str) -> Instruction:
    short = name[1:] if name.startswith("v") and "%" in operands else name
    kind = _kind(short, _X86)
    if kind == "call":
        return Instruction(kind=kind, calls=operands.strip().removesuffix("@PLT").lstrip("*"))
    if kind == "jump" and name == "jmp" and not operands.startswith((".", "*")):
        return Instruction(kind="call", calls=operands.strip().removesuffix("@PLT"))
    parts = [p.strip() for p in re.split(r",(?![^(]*\))", operands)] if operands.strip() else []
    memory = [p for p in parts if _AT_MEMORY.search(p)]
    address = tuple(_register(r) for p in memory for r in re.findall(r"%(\w+)", p))
    target = parts[-1] if parts else ""
    plain = [_register(r) for p in parts if p not in memory for r in _AT_WORD.findall(p)]
    stores = bool(memory) and target in memory and kind not in ("compare", "jump", "free") and not short.startswith(("cmp", "test"))  # fmt: skip
    loads = bool(memory) and not (stores and kind == "move") and not short.startswith("lea")
    writes: list[str] = []
    reads = [*address, *plain]
    if stores:
        writes += [f"[{target}]"] if "%rsp" in target else []
    elif parts and kind != "jump" and not short.startswith(("cmp", "test", "ucomis", "comis")):
        writes = [_register(r) for r in _AT_WORD.findall(target)]
        fresh = kind in ("move", "cross", "convert") or short.startswith("lea") or (name != short and kind != "fma")  # fmt: skip
        zeroed = "xor" in short and len(set(plain)) == 1
        if zeroed:
            reads = []
        elif fresh:
            others = [_register(r) for p in parts[:-1] if p not in memory for r in _AT_WORD.findall(p)]  # fmt: skip
            reads = [*address, *others]
    reads += [f"[{p}]" for p in memory if loads and "%rsp" in p]
    wide = max((_WIDE[m] for m in re.findall(r"%([xyz])mm", operands)), default=8)
    if short.endswith(("ss", "sd")) and kind not in ("move",):
        wide = 8
    plain_access = kind == "move" and (loads or stores)
    return Instruction(
        kind="" if plain_access else ("integer" if kind == "move" and wide == 8 else kind),
        loads=loads,
        stores=stores,
        bytes=wide,
        reads=tuple(reads),
        writes=tuple(writes),
    )


def _register(name: str) -> str:
    """Return one name for the parts of a register."""
    vector = re.fullmatch(r"[xyz]mm(\d+)", name)
    if vector:
        return f"v{vector[1]}"
    numbered = re.fullmatch(r"(r\d+)[dwb]?", name)
    if numbered:
        return numbered[1]
    bare = re.sub(r"^[re](?=[a-z]{2}$)|l$(?<=[sd]il|[sb]pl)", "", name)
    return bare[0] if re.fullmatch(r"[abcd][xlh]", bare) else bare


def _arm(name: str, operands: str) -> Instruction:
    vector = bool(re.search(r"\bv\d+\.|\bq\d+\b", operands))
    kind = _kind(f"{name} v" if vector else name, _ARM)
    if kind == "call":
        return Instruction(kind=kind, calls=operands.strip())
    if name == "b" and not operands.startswith("."):
        return Instruction(kind="call", calls=operands.strip())
    words = [_arm_register(w) for w in _ARM_WORD.findall(operands)]
    place = re.search(r"\[([^]]*)\]", operands)
    address = [_arm_register(w) for w in _ARM_WORD.findall(place[1])] if place else []
    wide = 16 if vector else 8
    loads, stores = kind == "load", kind == "store"
    pair = name in ("ldp", "stp")
    stack = f"[{place[1]}]" if place and place[1].startswith("sp") else ""
    if loads or stores:
        data = [w for w in words if w not in address][: 2 if pair else 4]
        moved = address[:1] if re.search(r"\]!|\],", operands) else []
        return Instruction(
            kind="",
            loads=loads,
            stores=stores,
            bytes=2 * wide if pair else wide,
            reads=(*address, *(data if stores else []), *([stack] if loads and stack else [])),
            writes=(*moved, *(data if loads else []), *([stack] if stores and stack else [])),
        )
    if kind == "jump" or name in ("cmp", "cmn", "tst", "fcmp", "fcmpe"):
        return Instruction(kind=kind, bytes=wide, reads=tuple(words))
    writes = words[:1]
    sums = kind == "fma" and name.startswith(("fmla", "fmls", "mla", "mls", "bf"))
    updates = sums or name in ("ins", "bif", "bit", "bsl")
    return Instruction(
        kind=kind,
        bytes=wide,
        reads=tuple(words if updates else words[1:]),
        writes=tuple(writes),
    )


def _arm_register(name: str) -> str:
    if name[0] in "vqdsbh" and name != "sp":
        return f"v{name[1:]}"
    return f"x{name[1:]}" if name[0] == "w" else name
