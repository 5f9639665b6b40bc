"""A CUDA source without inline PTX: each `asm` statement is a block of C++ that does what its instructions do."""

from __future__ import annotations

import re
from collections.abc import Callable

from septran.backends.cuda.ptx import bulk, memory  # noqa: F401 - their instructions are among those that are known
from septran.backends.cuda.ptx.opcodes import said
from septran.backends.cuda.ptx.text import Asm, parsed, statements
from septran.backends.cuda.ptx.values import C_TYPES, CONSTRAINTS, Names
from septran.backends.text.ptx import NoPtx, instructions, registers


def translated(source: str) -> str:
    """Return the source with its `asm` statements as C++; the number of lines does not change. What has no C++ stays."""
    return _each(source, lambda _why: None)


def untranslated(source: str) -> tuple[str, ...]:
    """Return what of a source's inline PTX the emulation does not have, in words, each with its line."""
    found: list[str] = []
    _each(source, found.append)
    return tuple(dict.fromkeys(found))


def _each(source: str, told: Callable[[str], None]) -> str:
    """Return the source with its statements as C++; `told` hears of each that has none."""
    out, end = [], 0
    for begin, stop in statements(source):
        line = source.count("\n", 0, begin) + 1
        try:
            if begin < end:
                raise NoPtx("a statement inside of another")
            text = _block(parsed(source, begin, stop))
        except NoPtx as why:
            told(f"inline PTX ({why}, line {line})")
            continue
        old = source[begin:stop]
        within = "\\\n" if "\\\n" in old else "\n"
        out += [source[end:begin], text, within * old.count("\n")]
        end = stop
    return "".join([*out, source[end:]])


def _block(asm: Asm) -> str:
    """Return the block; operands are read at its start and written at its end, registers are its own."""
    variables, before, after = {}, [], []
    later = "wgmma.mma_async" in asm.template  # its accumulators are written when it is waited for
    for at, one in enumerate(asm.operands):
        name, c = f"ptx{at}_", CONSTRAINTS[one.constraint]
        variables[f"%{at}"] = name
        if later and one.reads and one.writes and one.constraint == "f":
            before.append(f"float& {name} = ({one.text});")
            continue
        if one.writes:
            before.append(f"auto& {name}at = ({one.text});")
            before.append(
                f"{c} {name}" + (f" = cuemu::ptx::given<{c}>({name}at);" if one.reads else ";")
            )
            after.append(f"cuemu::ptx::set({name}at, {name});")
        else:
            before.append(f"const {c} {name} = cuemu::ptx::given<{c}>({one.text});")
    template = asm.template.replace("%%", "%")
    for register, kind in registers(template).items():
        if kind not in C_TYPES:
            raise NoPtx(f"a register of type .{kind}")
        variables[register] = "ptx_" + re.sub(r"\W", "_", register)
        before.append(f"{C_TYPES[kind]} {variables[register]};")
    names = Names(variables)
    body, labels = [], []
    for step in instructions(template):
        if step.label:
            labels.append(step.label)
            body.append(f"ptx_{step.label}:;")
            continue
        if step.opcode in ("bra", "bra.uni") and step.operands:
            text = f"goto ptx_{step.operands[0]};"
        else:
            text = said(step, names)
        if step.guard:
            text = f"if ({'!' if step.unless else ''}{names.variable(step.guard)}) {{ {text} }}"
        body.append(text)
    declared = f"__label__ {', '.join(f'ptx_{n}' for n in labels)}; " if labels else ""
    return f"do {{ {declared}{' '.join([*before, *body, *after])} }} while (0)"
