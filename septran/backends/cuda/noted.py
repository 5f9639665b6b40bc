"""Builds whose emulation knows which threads store and load each byte of shared memory: their flags, and when there is none.

g++ puts a call before each access, as it does for a thread sanitizer; `emulator/accesses.cpp` is what it calls.
"""

from __future__ import annotations

import re
import struct
from dataclasses import replace

from septran.backends.judged.c_host import blank
from septran.host import object_gate
from septran.kernel import Kernel
from septran.toolchain.built import Built

NOTES = "-DCUEMU_NOTES_ACCESSES"
"""of the emulation's machine"""
NOTED = (
    "-fsanitize=thread",
    "--param=tsan-instrument-func-entry-exit=0",
    # an access of a thread stays one access, and its place in the text is known
    "-fno-tree-vectorize",
    "-fno-tree-loop-distribute-patterns",
    "-fno-store-merging",
    "-g1",
    # as a device's compiler does unless it is told not to
    "-ffp-contract=fast",
    "-fexpensive-optimizations",
    # a kernel neither asks whether its accesses are noted nor has them left out
    "-U__SANITIZE_THREAD__",
    "-Dno_sanitize(...)=unused",
    "-D__no_sanitize__(...)=unused",
    "-Dno_sanitize_thread=unused",
    "-D__no_sanitize_thread__=unused",
)
"""of the kernel"""
STARTS = (".init_array.00099", ".rela.init_array.00099")
"""sections of a noted object that would start a sanitizer's own library"""
_SIZES = (1, 2, 4, 8, 16)
NOTED_CALLS = frozenset(
    f"__tsan_{name}"
    for kind in ("read", "write")
    for name in (f"{kind}_range", *(f"{a}{kind}{n}" for a in ("", "unaligned_") for n in _SIZES))
) | {"__tsan_init", "__tsan_vptr_read", "__tsan_vptr_update"}
NOTED_CALLS |= {
    f"__tsan_atomic{bits}_{name}"
    for bits in (8, 32, 64)
    for name in ("load", "store", "fetch_add", "fetch_sub")
}
_NOT_NOTED = (
    (
        r"\b__(?:atomic|sync)_\w+|\b(?:std|cuda)\s*::\s*atomic|<\s*(?:cuda/)?atomic\s*>|\b_Atomic\b",
        "it uses atomic operations of C++, which order what no barrier does",
    ),
    (r"no_?_?sanitize|__tsan", "it speaks of sanitizers, which note accesses"),
)


_ATOMIC = re.compile(r"\batomic[A-Z]\w*\s*\(")


def not_noted(kernel: Kernel) -> str:
    """Return why the accesses of a kernel are not noted, "" when they are."""
    text = blank(kernel.source)
    return next((why for pattern, why in _NOT_NOTED if re.search(pattern, text)), "")


def believable(built: Built, kernel: Kernel) -> Built:
    """Return a noted build, or none where the kernel has functions of its own in place of those that note.

    not_checked: also launches that nothing is noted of.
    """
    if not built.ok or built.kernel_object is None:
        return built
    try:
        _, symbols = object_gate.read(built.kernel_object.read_bytes())
    except (OSError, ValueError, IndexError, struct.error):
        return Built(ok=False, artifact=None, log="its object cannot be read")
    if any(s.defined and s.name in NOTED_CALLS for s in symbols):
        return Built(ok=False, artifact=None, log="it has functions in place of those that note")
    if _ATOMIC.search(blank(kernel.source)):
        return replace(built, not_checked=(*built.not_checked, "launches with atomic operations"))
    return built
