"""Inputs on which a kernel's comparisons come out otherwise than on those that were drawn.

A branch that several numbers decide together (`x[0] > 3 && x[1] < -3`), a sum in a narrow band, a row that is sorted: no drawn input
meets it. A build whose comparisons say their two sides is called on many inputs, each made so that one of them comes out the other way
(septran/host/sought.c); those on which one does are judged as all others are. What the program says decides nothing: it can only
bring inputs, and lines whose comparisons nothing turned, which are then not checked.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septran.accuracy import load_policy
from septran.ir.dtypes import nbytes
from septran.kernel import Kernel, KernelParam
from septran.toolchain.built import Built
from septran.toolchain.sought import lines_of
from septran.verify import budget
from septran.verify.cases import Case, bounds_of, draw, gives_value, held_by, plan, tensors
from septran.verify.kept_memory import kept_memory
from septran.verify.noted import called
from septran.verify.problem import Problem
from septran.verify.sandbox import MIB, Confined, Limits, SandboxResult
from septran.verify.session import Call, Sessions
from septran.verify.verdict import Verdict
from septran.verify.verify import judged

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

Build = Callable[[Kernel, Path], Built]
_MILLISECONDS, _MOST, _CASES, _MOST_BYTES, _CPU_S = 400, 32, 24, 1 << 20, 30
_CHECK = "comparisons that decide by inputs"
_KINDS = {
    name: number
    for number, name in enumerate(
        ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "bool"), 1
    )
}
_DECIDES = re.compile(r"\b(?:if|while|switch|constexpr)\b|\?|&&|\|\||[=!<>]=|\bbool\b")
_TENSORS = re.compile(r"#\s*include\s*[<\"](?:torch|ATen|c10)/")
_TWO_SIDED = re.compile(r"[=!]=")
_OPEN = re.compile(r"^open ([0-9a-f]{1,16}) ([01]{3}) ([01])$", re.M)


def with_sought_inputs(
    verdict: Verdict,
    kernel: Kernel,
    built: Built,
    problem: Problem,
    build: Build,
    folder: Path,
    sessions: Sessions,
) -> Verdict:
    """Return an accurate `verdict`, or V202 where the kernel is wrong on inputs that were made for its comparisons.

    build: what makes the seeking program in `folder`. A kernel whose leaves are all the library's, and a text that decides nothing,
    is not built again.
    """
    theirs = [leaf.source for leaf in kernel.leaves if leaf.writer != "library"]
    text = "\n".join(theirs) if kernel.leaves else kernel.source
    if not verdict.passed or (kernel.leaves and not theirs):
        return verdict
    if kernel.leaves and not _DECIDES.search(text):
        return verdict
    size = sum(math.prod(p.shape) * nbytes(p.dtype) for p in problem.inputs)
    if problem.within is not None or not problem.meant or size > _MOST_BYTES:
        return _unchecked(verdict, "its inputs are large; smaller dims are sought for")
    made = build(kernel, folder)
    if made.artifact is None:
        return _unchecked(verdict, (made.log.splitlines() or ["it could not be built"])[0][:200])
    drawn = [draw(problem, case) for case in plan(problem, verdict.seed)[:_CASES]]
    result, brought = _sought(made.artifact, problem, drawn, folder)
    counts = "\ncounts its calls\n" in result.stdout_tail and not kernel.leaves
    if counts and _TENSORS.search(text):
        # the emulation's own tensors lie in the heap, one after another
        verdict = verdict.without(
            "what it keeps from call to call: its host function makes torch's tensors"
        )
    elif counts:
        return verdict.unavailable(
            "V217",
            "it keeps what is another after each call on the same inputs: nothing is known of the calls after those that were made",
            "a count of calls, also of a cache that never ends to grow, is kept outside of the kernel",
        )
    sets = _with_value(problem, _read(problem, brought, drawn))
    if sets:
        verdict = _judged(verdict, kernel, built, problem, sets, folder, sessions)
    if not verdict.passed:
        return verdict
    told = re.search(r"^sought (\d+) calls", result.stdout_tail, re.M)
    if told is None:
        last = [line for line in result.stdout_tail.splitlines() if line.strip()]
        why = (last or [result.why or f"status {result.rc}"])[-1][:200]
        return _unchecked(verdict, f"the seeking program ended early: {why}")
    left = _never_turned(made.artifact, result.stdout_tail, kernel, text, folder)
    if left:
        verdict = _unchecked(verdict, f"no input turned those of {', '.join(left[:6])}")
    fact = f"{_CHECK}: {told[1]} calls, {len(sets)} inputs judged"
    return replace(verdict, enforced=(*verdict.enforced, fact))


def _unchecked(verdict: Verdict, why: str) -> Verdict:
    return verdict.without(f"{_CHECK}: {why}")


def _sought(
    program: Path, problem: Problem, drawn: list[dict[str, Array]], folder: Path
) -> tuple[SandboxResult, bytes]:
    """Return what the program said, and the inputs that it brings."""
    asked, brought = folder / "sought.plan", folder / "sought.found"
    asked.write_bytes(_plan(problem, drawn))
    limits = Limits(
        timeout_s=4.0 * _CPU_S, cpu_s=_CPU_S, memory_bytes=4096 * MIB, forks=False, address_space=False
    )  # fmt: skip
    environment = {"OMP_NUM_THREADS": "1", "OMP_DYNAMIC": "false"}
    command = [program, asked, brought]
    result = Confined(command, rw_dir=folder, limits=limits, env=environment).wait()
    raw = b""
    if brought.is_file() and not brought.is_symlink():
        with brought.open("rb") as file:
            raw = file.read(_MOST * (_MOST_BYTES + 4096))
    return result, raw


def _plan(problem: Problem, drawn: list[dict[str, Array]]) -> bytes:
    import numpy as np

    parts = [np.array([len(problem.params), len(drawn), _MILLISECONDS, _MOST], np.uint64).tobytes()]
    for param in problem.params:
        size = math.prod(param.shape) * nbytes(param.dtype)
        read = param.privilege != "w"
        kind, low, high = _kind(problem, param) if read else (0, 0.0, 0.0)
        parts += [
            np.array([size, int(read), kind], np.uint64).tobytes(),
            np.array([low, high], np.float64).tobytes(),
        ]
    for arrays in drawn:
        parts += [arrays[p.name].tobytes() for p in problem.inputs]
    return b"".join(parts)


def _kind(problem: Problem, param: KernelParam) -> tuple[int, float, float]:
    """Return how elements of an input are changed, and the least and the largest they become; 0: they are not."""
    domain = problem.domain(param.name)
    fixed = param.name in problem.sizes or domain.sentinel is not None
    kind = _KINDS.get(param.dtype, 0)
    if fixed or not kind:
        return 0, 0.0, 0.0
    low, high = bounds_of(problem, param)
    return kind, low, high


def _read(problem: Problem, raw: bytes, drawn: list[dict[str, Array]]) -> list[dict[str, Array]]:
    """Return the sets of inputs in `raw` that the operator may be given."""
    import numpy as np

    like = drawn[0]
    size = sum(like[p.name].nbytes for p in problem.inputs)
    found = []
    for start in range(0, min(len(raw) - size + 1, _MOST * size), size):
        at, arrays = start, {}
        for param in problem.inputs:
            array = like[param.name]
            part = raw[at : at + array.nbytes]
            arrays[param.name] = np.frombuffer(part, array.dtype).reshape(array.shape).copy()
            at += array.nbytes
        if all(_allowed(problem, p, arrays[p.name], drawn) for p in problem.inputs):
            found.append(arrays)
    return found


def _allowed(
    problem: Problem, param: KernelParam, array: Array, drawn: list[dict[str, Array]]
) -> bool:
    """Whether an input that came from a child is one that the operator may be given."""
    import numpy as np

    if not _kind(problem, param)[0]:
        return any(array.tobytes() == given[param.name].tobytes() for given in drawn)
    wide = array.astype(np.float64)
    finite = np.isfinite(wide)
    if not finite.all() and not problem.domain(param.name).specials:
        return False
    low, high = held_by(problem, param)
    return bool(((wide >= low) & (wide <= high) | ~finite).all())


def _with_value(problem: Problem, sets: list[dict[str, Array]]) -> list[dict[str, Array]]:
    return [arrays for arrays in sets if gives_value(problem, tensors(arrays))]


def _judged(
    verdict: Verdict,
    kernel: Kernel,
    built: Built,
    problem: Problem,
    sets: list[dict[str, Array]],
    folder: Path,
    sessions: Sessions,
) -> Verdict:
    """Return the verdict, or that on the inputs `sets` where the kernel is wrong on one."""
    made = {f"sought_{number}": arrays for number, arrays in enumerate(sets, 1)}
    asked = replace(problem, made=made)
    calls = tuple(
        Call(case=Case(name=name, family="sought", seed=number), placement="end")
        for number, name in enumerate(made)
    )
    transcript = called(kernel, built, asked, calls, sessions, folder, burst=False)
    if transcript.failure:
        return _unchecked(verdict, f"calls on such inputs ended early: {transcript.message}"[:200])
    with budget.threads(1), kept_memory():
        found = judged(verdict, asked, transcript, load_policy(), unordered=False)
    if found.passed or not _another_number(found):
        return verdict
    return replace(
        found,
        message=f"{found.message}; these inputs were made so that a comparison of its text comes out otherwise",
        hint="a branch on the values of inputs must be right on both sides",
    )


def _another_number(found: Verdict) -> bool:
    """Whether the result that is furthest out is another number, and not one that many equal terms rounded: made inputs have those."""
    if found.worst is None:
        return True
    got, expected = float(found.worst.got), float(found.worst.expected)
    return not abs(got - expected) <= 1e-2 * max(abs(got), abs(expected))


def _never_turned(program: Path, said: str, kernel: Kernel, text: str, folder: Path) -> list[str]:
    """Return the lines of somebody's text whose comparisons came out one way in every call, in words."""
    opens = [(int(m[1], 16), m[2], m[3] == "1") for m in _OPEN.finditer(said)][:64]
    lines = lines_of(program, [place for place, _, _ in opens], kernel.main, folder)
    source, theirs = kernel.source.splitlines(), set(text.splitlines())
    found = {}
    for place, met, whole in opens:
        number = lines.get(place, 0)
        line = source[number - 1] if 0 < number <= len(source) else ""
        equal = whole and met[1] == "0" and _TWO_SIDED.search(line)
        if line.strip() and line in theirs and (met.count("1") == 1 or equal):
            found[number] = f"line {number} (`{line.strip()[:60]}`)"
    return [found[number] for number in sorted(found)]
