"""Figures of a built kernel that need no clock: what the device compiler says, or what the machine code of a CPU shows.

They order leaves where nothing can be timed, and tell an optimizer what a time alone does not (spills, vector width).
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from septran.backends.base import Built

_COMPILER = (
    *("registers", "spill_bytes", "stack_bytes", "shared_bytes", "static_shared_bytes"),
    *("bundles", "spill_bundles"),
)
_MOST_TEXT = 40_000_000
_VECTOR = re.compile(r"%([xyz])mm\d+|\b(?:v\d+\.\d+[bhsd]|q\d+)\b")
_STACK = re.compile(r"-?(?:0x)?[0-9a-f]*\(%[re][sb]p[,)]|\[(?:sp|x29)[,\]]")
_BYTES = {"x": 16, "y": 32, "z": 64}


def static_figures(built: Built, where: str | None) -> dict[str, float]:
    """Return the figures of `built`, {} when there are none. where: of its verdict; machine code counts only "native".

    registers, spill_bytes, stack_bytes, shared_bytes: of the device compiler, the worst kernel function's; bundles,
    spill_bundles: instruction words of a TPU's schedule, each once however often its loop runs. On a CPU:
    instructions of the library, vector_bytes (the width most arithmetic uses), stack_vectors (vectors to or from the stack).
    """
    facts = dict(built.facts)
    found = {
        name: float(value)
        for name in _COMPILER
        if isinstance(value := facts.get(name), int | float) and not isinstance(value, bool)
    }
    if found or where != "native" or built.artifact is None:
        return found
    return machine_code(built.artifact)


def machine_code(path: Path) -> dict[str, float]:
    """Return what the disassembly of a shared library says; {} where it cannot be had."""
    from septran.errors import SeptranError
    from septran.toolchain.confined import run_confined

    try:
        done = run_confined(
            ["objdump", "-d", "--no-show-raw-insn", path.name], path.parent.resolve(), 60.0
        )
    except (SeptranError, OSError):
        return {}
    return summary(done.output) if done.code == 0 and len(done.output) < _MOST_TEXT else {}


def summary(text: str) -> dict[str, float]:
    """Return instructions, vector_bytes and stack_vectors of an `objdump -d` listing."""
    total = stack = 0
    widths = Counter[int]()
    for line in text.splitlines():
        address, _, rest = line.partition(":\t")
        if not rest or not re.fullmatch(r"\s*[0-9a-f]+", address):
            continue
        total += 1
        name, _, operands = rest.partition(" ")
        vector = _VECTOR.search(operands)
        if vector is None:
            continue
        if _STACK.search(operands):
            stack += 1
        if re.match(r"v?(?:f?n?m?add|mul|sub|fm|div|max|min|sqrt)", name) and not name.endswith(("ss", "sd")):  # fmt: skip
            widths[max(_BYTES[m] for m in re.findall(r"%([xyz])mm", operands)) if "mm" in operands else 16] += 1  # fmt: skip
    if not total:
        return {}
    width = widths.most_common(1)[0][0] if widths else 0
    return {
        "instructions": float(total),
        "vector_bytes": float(width),
        "stack_vectors": float(stack),
    }
