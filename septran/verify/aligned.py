"""Whether a C++ file loads and stores its vectors where they may lie, though the build that is judged would not mind.

A compiler makes of an aligned load an operand of the next instruction, which with AVX takes any address, or a load that ends the
process elsewhere: which of the two is the build's business. The file, compiled anew for UndefinedBehaviorSanitizer, is called on
tensors that lie at multiples of a page, as the most generous allocator places them. What the program says is a claim, as from any child.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from septran.kernel import Kernel
from septran.toolchain.built import Built
from septran.verify.problem import Problem
from septran.verify.races import plan_of
from septran.verify.sandbox import MIB, Confined, Limits
from septran.verify.verdict import Verdict

Build = Callable[[Kernel, Path], Built]
_VECTORS = re.compile(
    r"\b(?:_mm\d*_\w+|__m\d+\w*|vector_size|ext_vector_type|alignas|aligned|v?float\d*x\d+_t)\b"
)
_SECONDS, _LEAST = 20, 16
_CHECK = "vectors at addresses where none may lie"
_SAID = re.compile(
    r"runtime error: (load|store) (?:of|to) misaligned address 0x\w+ for type '(.*?)', which requires (\d+) byte alignment"
)


def with_alignment(
    verdict: Verdict, kernel: Kernel, problem: Problem, build: Build, folder: Path
) -> Verdict:
    """Return an accurate `verdict`, or V205 where a load or store of 16 bytes and more is at an address that its type does not allow.

    build: what makes the program in `folder`; only a file that speaks of vectors is built.
    """
    if not verdict.passed or not _VECTORS.search(kernel.source):
        return verdict
    built = build(kernel, folder)
    if built.artifact is None:
        return verdict.without(f"{_CHECK}: the file could not be built for it")
    plan_file = folder / "aligned.plan"
    plan_file.write_bytes(plan_of(kernel, problem, verdict.seed, bursts=1, threads=2))
    limits = Limits(timeout_s=6.0 * _SECONDS, cpu_s=_SECONDS, memory_bytes=4096 * MIB, forks=False)
    env = {"UBSAN_OPTIONS": "print_stacktrace=1"}
    done = Confined([built.artifact, plan_file], rw_dir=folder, limits=limits, env=env).wait()
    found = _first(done.stdout_tail, kernel.main)
    if found is not None:
        return verdict.rejected(
            "V205",
            found,
            "where a compiler keeps the load it ends the process; _mm256_loadu_ps and its kin take any address",
            log=done.stdout_tail[-4000:],
        )
    if not re.search(r"^watched \d+ calls$", done.stdout_tail, re.M):
        return verdict.without(f"{_CHECK}: the program ended early")
    return verdict


def _first(text: str, main: str) -> str | None:
    """Return what the first such report says, with the file's line, None where there is none."""
    reports = list(_SAID.finditer(text))
    for number, report in enumerate(reports):
        what, kind, least = report[1], report[2].replace("const ", ""), int(report[3])
        if least < _LEAST:
            continue  # processors take scalars at any address
        rest = text[
            report.end() : reports[number + 1].start() if number + 1 < len(reports) else None
        ]
        frame = re.search(rf"^ +#\d+ 0x\w+ in .*\b{re.escape(main)}:(\d+)", rest, re.M)
        where = f"{main}:{frame[1]}" if frame else "a function of the file"
        side = "stored to" if what == "store" else "loaded from"
        return f"{where}: {kind} is {side} an address that is no multiple of {least}, where it has to lie"
    return None
