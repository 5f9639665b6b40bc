"""Inputs on which a kernel's comparisons come out otherwise than on those that were drawn.

A branch that several numbers decide together (`x[0] > 3 && x[1] < -3`), a sum in a narrow band, a row that is sorted: no drawn input
meets it. A build whose comparisons say their two sides is called on many inputs, each made so that one of them comes out the other way
(septran/host/sought.c); those on which one does are judged as all others are. What the program says decides nothing: it can only
bring inputs, and lines whose comparisons nothing turned, which are then not checked.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septran.accuracy import load_policy
from septran.ir.dtypes import nbytes
from septran.kernel import Kernel, KernelParam
from septran.toolchain.built import Built
from septran.toolchain.sought import lines_of, seeking_library
from septran.verify import budget
from septran.verify.cases import Case, bounds_of, draw, gives_value, held_by, plan, tensors
from septran.verify.kept_memory import kept_memory
from septran.verify.noted import called
from septran.verify.problem import Problem
from septran.verify.sandbox import MIB, Confined, Limits, SandboxResult
from septran.verify.session import Call, Ran, Seek, Sessions, Transcript, loader_capabilities
from septran.verify.told import lines_of as told_lines
from septran.verify.verdict import Verdict
from septran.verify.verify import judged

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

Build = Callable[[Kernel, Path], Built]
_MILLISECONDS, _MOST, _CASES, _MOST_BYTES, _CPU_S = 400, 40, 24, 1 << 20, 30
# an emulated call takes milliseconds: fewer known inputs leave more time for others. In half the time (of the processor) a slope that is
# steep in a sum alone was met by one search in three
_EMULATED_MILLISECONDS, _FEW_CASES, _FEWEST = 800, 6, 24
# how often a budget holds what sqrt(n) equal terms rounded alike are off by
_ALIKE = 4.0
_CHECK = "comparisons that decide by inputs"
_KINDS = {
    name: number
    for number, name in enumerate(
        ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "bool"), 1
    )
}
_DECIDES = re.compile(
    r"\b(?:if|while|switch|constexpr)\b|\?|&&|\|\||[=!<>]=|\bbool\b"
    # what decides without a comparison: bits of a number, one that is cut to an integer, factors that make a step of a slope
    # masks of an engine that has no other way
    r"|\bvec_select\b|\b[A-Z]{2}_(?:L[TE]|G[TE]|EQ|NE|MAX|MIN)\b"
    r"|>>(?!\()|\b(?:signbit|copysign\w*|memcpy|bit_cast|\w*_as_u?int|floor\w*|ceil\w*|trunc\w*|l?l?r?int\w*|l?l?round\w*|isgreater|isless)\b"
    r"|\(\s*(?:std::)?(?:int|long|unsigned|u?int\d+_t|size_t)\s*\)|_cast<|\d[eE]\+?\d|\b\d{4,}\b"
)
_SELECTS = re.compile(r"\b(?:if|while|where|select|if_then_else|\w*cmp)\b|[=!]=|[<>]")
_TENSORS = re.compile(r"#\s*include\s*[<\"](?:torch|ATen|c10)/")
_TWO_SIDED = re.compile(r"[=!]=")
_OPEN = re.compile(r"^open ([0-9a-f]{1,16}) ([01]{3}) ([01])$", re.M)


def with_sought_inputs(
    verdict: Verdict,
    kernel: Kernel,
    built: Built,
    problem: Problem,
    how: Build | Search | None,
    folder: Path,
    sessions: Sessions,
    placed: frozenset[int] = frozenset(),
) -> Verdict:
    """Return an accurate `verdict`, or V202 where the kernel is wrong on inputs that were made for its comparisons.

    how: what makes the seeking program in `folder`, or the search that the child made which was judged; None: neither is there. A
    kernel whose leaves are all the library's, and a text that decides nothing, is not built again. placed: lines whose comparisons no input decides.
    """
    text = _theirs(kernel)
    in_child = how is None or isinstance(how, Search)
    if not verdict.passed:
        return verdict
    if kernel.leaves and not _decides(kernel).search(text):
        return verdict
    if how is None:
        return _unchecked(verdict, "nothing tells what kernels of this target compare")
    if isinstance(how, Search):
        found = how.over()
    elif large := _large(problem):
        found = large
    else:
        drawn = [draw(problem, case) for case in plan(problem, verdict.seed)[:_CASES]]
        found = _in_program(kernel, built, problem, drawn, how, sessions, folder)
    if isinstance(found, str):
        return _unchecked(verdict, found)
    counts = "\ncounts its calls\n" in found.said and not kernel.leaves
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
    verdict = _judged(verdict, found)
    if verdict.passed and not kernel.leaves:
        verdict = _judged_plain(verdict, found.plain)
    if not verdict.passed:
        return verdict
    told = re.search(r"^sought (\d+) calls, \d+ found, (\d+) open$", found.said, re.M)
    if told is None:
        last = [line for line in found.said.splitlines() if line.strip()]
        return _unchecked(
            verdict, f"the seeking program ended early: {(last or [found.why])[-1][:200]}"
        )
    if in_child and int(told[1]) < _FEWEST and told[2] != "0":
        verdict = _unchecked(verdict, f"{told[1]} calls in the time; smaller dims are sought for")
    left = _never_turned(found, kernel, text, placed)
    if left:
        verdict = _unchecked(verdict, f"no input turned those of {', '.join(left[:6])}")
    fact = f"{_CHECK}: {told[1]} calls, {len(found.problem.made or ())} inputs judged"
    return replace(verdict, enforced=(*verdict.enforced, fact))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A search that is over.

    said: what it said. why: how it ended. problem: with the inputs it made. transcript: the kernel's calls on those. lines: places
    that it names -> their lines. plain: what the seeking build, which is not optimised, computed of drawn inputs.
    """

    said: str
    why: str
    problem: Problem
    transcript: Transcript
    lines: Callable[[list[int]], Mapping[int, int]]
    plain: tuple[Problem, Transcript] | None = None


def _unchecked(verdict: Verdict, why: str) -> Verdict:
    return verdict.without(f"{_CHECK}: {why}")


def _in_program(
    kernel: Kernel,
    built: Built,
    problem: Problem,
    drawn: list[dict[str, Array]],
    build: Build,
    sessions: Sessions,
    folder: Path,
) -> _Found | str:
    """Return what a build of the kernel found that tells its comparisons, or why there is none."""
    made = build(kernel, folder)
    if made.artifact is None:
        return (made.log.splitlines() or ["it could not be built"])[0][:200]
    program = made.artifact
    result, brought, left = _sought(program, problem, drawn, folder)
    asked, calls = _asked(problem, brought, drawn)
    transcript = Transcript()
    if calls:
        transcript = called(kernel, built, asked, calls, sessions, folder, burst=False)
    return _Found(
        said=result.stdout_tail,
        why=result.why or f"status {result.rc}",
        problem=asked,
        transcript=transcript,
        lines=lambda places: lines_of(program, places, kernel.main, folder),
        plain=_computed(problem, left, drawn),
    )


class Search:
    """A search that the child of a Python kernel makes after the calls that judge it; one for each verdict."""

    def __init__(self) -> None:
        self._missing = "the child that was judged sought none"
        self._seek: Seek | None = None
        self._asked: Problem | None = None

    def begin(self, problem: Problem, seed: int, work: Path) -> Seek | None:
        """Return what the child in the folder `work` seeks with; None where it cannot."""
        if large := _large(problem):
            self._missing = large
            return None
        library = seeking_library()
        if library.path is None:
            self._missing = library.missing
            return None
        drawn = [draw(problem, case) for case in plan(problem, seed)[:_FEW_CASES]]
        work.mkdir(parents=True, exist_ok=True)
        (work / "sought.plan").write_bytes(_plan(problem, drawn, _EMULATED_MILLISECONDS))

        def found() -> tuple[Problem, tuple[Call, ...]]:
            self._asked, calls = _asked(problem, _brought(work / "sought.found"), drawn)
            return self._asked, calls

        self._seek = Seek(library=library.path, seconds=_CPU_S, found=found)
        return self._seek

    def over(self) -> _Found | str:
        """Return what was found, or why there is nothing."""
        if self._seek is None:
            return self._missing
        transcript = self._seek.transcript
        if self._asked is None:
            return f"the search ended early: {transcript.message or transcript.failure}"[:200]
        result = transcript.result
        return _Found(
            said=result.stdout_tail if result is not None else "",
            why=transcript.message or "no word",
            problem=self._asked,
            transcript=transcript,
            lines=told_lines,
        )


def search_for(kernel: Kernel, sessions: Sessions) -> Search | None:
    """Return what `Request.search` is for a kernel that somebody else may have written; None where nothing is to be sought so."""
    if "tells" not in loader_capabilities(sessions.loader):
        return None
    return None if kernel.leaves and not _decides(kernel).search(_theirs(kernel)) else Search()


def _decides(kernel: Kernel) -> re.Pattern[str]:
    """Return what a leaf has that decides: in Python a mask, too, beside what is said to hold."""
    return _SELECTS if kernel.main.endswith(".py") else _DECIDES


def _theirs(kernel: Kernel) -> str:
    """Return what somebody else may have written of it."""
    theirs = [leaf.source for leaf in kernel.leaves if leaf.writer != "library"]
    return "\n".join(theirs) if kernel.leaves else kernel.source


def _large(problem: Problem) -> str:
    size = sum(math.prod(p.shape) * nbytes(p.dtype) for p in problem.inputs)
    large = problem.within is not None or not problem.meant or size > _MOST_BYTES
    return "its inputs are large; smaller dims are sought for" if large else ""


def _asked(
    problem: Problem, brought: bytes, drawn: list[dict[str, Array]]
) -> tuple[Problem, tuple[Call, ...]]:
    """Return the problem with the inputs that a search brought, as far as it has a value for them, and one call for each."""
    sets = [a for a in _read(problem, brought, drawn) if gives_value(problem, tensors(a))]
    made = {f"sought_{number}": arrays for number, arrays in enumerate(sets, 1)}
    calls = tuple(
        Call(case=Case(name=name, family="sought", seed=number), placement="end")
        for number, name in enumerate(made)
    )
    return replace(problem, made=made), calls


def _sought(
    program: Path, problem: Problem, drawn: list[dict[str, Array]], folder: Path
) -> tuple[SandboxResult, bytes, bytes]:
    """Return what the program said, the inputs that it brings, and the outputs of its first calls."""
    asked, brought, left = (folder / f"sought.{name}" for name in ("plan", "found", "outputs"))
    asked.write_bytes(_plan(problem, drawn, _MILLISECONDS))
    limits = Limits(
        timeout_s=4.0 * _CPU_S, cpu_s=_CPU_S, memory_bytes=4096 * MIB, forks=False, address_space=False
    )  # fmt: skip
    environment = {"OMP_NUM_THREADS": "1", "OMP_DYNAMIC": "false"}
    command = [program, asked, brought, left]
    result = Confined(command, rw_dir=folder, limits=limits, env=environment).wait()
    return result, _brought(brought), _brought(left)


def _brought(file: Path) -> bytes:
    if not file.is_file() or file.is_symlink():
        return b""
    with file.open("rb") as stream:
        return stream.read(_MOST * (_MOST_BYTES + 4096))


def _plan(problem: Problem, drawn: list[dict[str, Array]], milliseconds: int) -> bytes:
    import numpy as np

    head = [len(problem.params), len(drawn), milliseconds, _MOST]
    parts = [np.array(head, np.uint64).tobytes()]
    for param in problem.params:
        size = math.prod(param.shape) * nbytes(param.dtype)
        read = param.privilege != "w"
        kind, low, high = _kind(problem, param) if read else (_KINDS.get(param.dtype, 0), 0.0, 0.0)
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
    drawn = domain.sentinel is None and domain.value is None
    fixed = (
        param.name in problem.sizes
        or not drawn
        or domain.nonzero
        or domain.rising
        or domain.distinct
        or bool(domain.paired)
    )
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


def _judged(verdict: Verdict, found: _Found) -> Verdict:
    """Return the verdict, or that on the inputs that were made where the kernel is wrong on one."""
    transcript = found.transcript
    if transcript.failure and found.problem.made:
        return _unchecked(verdict, f"calls on such inputs ended early: {transcript.message}"[:200])
    if not transcript.ran:
        return verdict
    with budget.threads(1), kept_memory():
        now = judged(verdict, found.problem, transcript, load_policy(), unordered=False)
    if now.passed or not _another_number(now, found.problem):
        return verdict
    return replace(
        now,
        message=f"{now.message}; these inputs were made so that a comparison of its text comes out otherwise",
        hint="a branch on the values of inputs must be right on both sides",
    )


def _computed(
    problem: Problem, left: bytes, drawn: list[dict[str, Array]]
) -> tuple[Problem, Transcript] | None:
    """Return what the first calls left as calls that can be judged; None where an output was an input, too."""
    sizes = {p.name: math.prod(p.shape) * nbytes(p.dtype) for p in problem.outputs}
    if any(p.privilege != "w" for p in problem.outputs) or not sum(sizes.values()):
        return None
    made, transcript, at = {}, Transcript(), 0
    for number, arrays in enumerate(drawn[: len(left) // sum(sizes.values())], 1):
        outputs = {}
        for name, size in sizes.items():
            outputs[name], at = left[at : at + size], at + size
        made[f"drawn_{number}"] = arrays
        case = Case(name=f"drawn_{number}", family="sought", seed=number)
        call = Call(case=case, placement="end")
        transcript.ran.append(Ran(call=call, outputs=outputs, beside=(), seconds=0.0, claims={}))
    return replace(problem, made=made), transcript


def _judged_plain(verdict: Verdict, plain: tuple[Problem, Transcript] | None) -> Verdict:
    """Return the verdict, or V202 where a build that is not optimised is wrong: users build a file as they like."""
    if plain is None or not plain[1].ran:
        return verdict
    with budget.threads(1), kept_memory():
        now = judged(verdict, *plain, load_policy(), unordered=True)
    if now.code != "V202" or not _another_number(now, plain[0]):
        return verdict
    return replace(
        now,
        message=f"built without optimisation: {now.message}",
        hint="the language leaves something open here, such as a signed sum that overflows; an optimiser and others take it differently",
    )


def _another_number(found: Verdict, problem: Problem) -> bool:
    """Whether the result that is furthest out is another number, and not one that many equal terms rounded: made inputs have those.

    A budget is for roundings of both signs, about sqrt(n) of n; where all are alike there are n of them.
    """
    if found.worst is None:
        return True
    got, expected = float(found.worst.got), float(found.worst.expected)
    off = abs(got - expected)
    reduction = problem.reference.reduction
    terms = (
        reduction(problem.dims) if reduction else sum(math.prod(p.shape) for p in problem.inputs)
    )
    alike = _ALIKE * math.sqrt(max(terms, 1)) * float(found.worst.budget)
    return not (off <= alike and off <= 1e-2 * max(abs(got), abs(expected)))


def _never_turned(search: _Found, kernel: Kernel, text: str, placed: frozenset[int]) -> list[str]:
    """Return the lines of somebody's text whose comparisons came out one way in every call, in words."""
    opens = [(int(m[1], 16), m[2], m[3] == "1") for m in _OPEN.finditer(search.said)][:64]
    lines = search.lines([place for place, _, _ in opens])
    source, theirs = kernel.source.splitlines(), set(text.splitlines())
    found = {}
    for place, met, whole in opens:
        number = lines.get(place, 0)
        if number in placed:
            continue
        line = source[number - 1] if 0 < number <= len(source) else ""
        equal = whole and met[1] == "0" and _TWO_SIDED.search(line)
        if line.strip() and line in theirs and (met.count("1") == 1 or equal):
            found[number] = f"line {number} (`{line.strip()[:60]}`)"
    return [found[number] for number in sorted(found)]
