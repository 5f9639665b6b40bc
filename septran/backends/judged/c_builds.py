"""The builds of a C++ or CUDA file that its users may make, where its text says that it is another program in some of them.

A condition on vectors, on NDEBUG or on OpenMP keeps code from the judge that users compile: the file is judged in those builds,
too. What another compiler, system or processor answers cannot be built here; the card says so. Code that depends on how
many threads there are is judged with few and with many.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from septran.backends.base import Reading
from septran.backends.judged.c_conditions import asked
from septran.backends.judged.c_host import blank
from septran.kernel import Kernel

MOST_THREADS = 64
_FEW, _MANY = 3, 48
_VECTORS = re.compile(
    r"__(?:SSE\w*|SSSE3|AVX\w*|FMA\w*|F16C|BMI2?|LZCNT|POPCNT|ABM|ADX|MOVBE|VAES|VPCLMULQDQ|GFNI|AES|PCLMUL|SHA)__|__VEC\w*"
)
_ASSERTS = re.compile(r"\bassert\s*\(")
_OF_TEAMS = re.compile(
    r"\b(?:omp_get_(?:thread_num|num_threads|max_threads|team_size|thread_limit)|get_thread_num|get_num_threads)\s*\("
)
_PARALLEL = re.compile(r"#\s*pragma\s+omp\b[^\n]*\bparallel\b(?:\\\n|[^\n])*")
_TEAM = re.compile(r"\b(?:num_threads|omp_set_num_threads)\s*\(\s*(\d+)\s*\)")
# what the judge answers as all its users' builds do, or what only names the language
_ALIKE = frozenset(
    "_OPENMP NDEBUG __cplusplus __GNUC__ __GNUC_MINOR__ __linux__ __x86_64__ __CUDACC__ __NVCC__ __CUDA_ARCH__ __VA_ARGS__ __VA_OPT__"
    " __FILE__ __LINE__ __has_include __has_cpp_attribute CUDART_VERSION CUDA_VERSION __func__".split()
)
_OTHERS = re.compile(r"(?:__|_[A-Z])\w*")


Build = tuple[str, tuple[str, ...]]
"""what is so in it, in words, and the compiler's flags"""


def builds(
    first: tuple[Reading, ...], text: str, *, native: bool, processors: Sequence[Build] = ()
) -> tuple[Reading, ...]:
    """Return the readings `first` of a file, and after them the other builds of its first one that are judged.

    native: whether the file's code is the processor's. processors: builds with fewer of its vectors.
    """
    names = asked(text)
    plain = blank(text)
    found: list[Build] = []
    if any(map(_VECTORS.fullmatch, names)):
        found += processors
    if "NDEBUG" in names or _ASSERTS.search(plain):
        found.append(("NDEBUG is defined", ("-DNDEBUG",)))
    if native and "_OPENMP" in names:
        found.append(("OpenMP is off", ("-fno-openmp",)))
    if len(found) > 1:
        last = {flags[0][:4]: (what, flags) for what, flags in found}  # the least of each kind
        if len(last) > 1:
            whats = " and ".join(what for what, _ in last.values())
            found.append((whats, tuple(f for _, flags in last.values() for f in flags)))
    more = [replace(first[0], devices=what, flags=flags) for what, flags in found]
    if native and _OF_TEAMS.search(plain) and not _of_one_size(plain):
        more += [
            replace(first[0], devices=f"teams have {count} threads", threads=count)
            for count in (max(_FEW, threads(text)), _MANY)
        ]
    if more and not first[0].devices:
        first = (replace(first[0], devices="it is built as the judge builds it"), *first[1:])
    return (*first, *more)


def more(kernel: Kernel) -> tuple[str, ...]:
    """Return the compiler's flags of the build that a kernel stands for, beside the judge's own."""
    flags = dict(kernel.options).get("flags", ())
    assert isinstance(flags, tuple)
    return flags


def threads(text: str) -> int:
    """Return how many threads a file's teams ask for by a number, 0 where none does; more than the judge has count as none."""
    counts = [int(n) for n in _TEAM.findall(blank(text))]
    return max((n for n in counts if n <= MOST_THREADS), default=0)


def _of_one_size(plain: str) -> bool:
    """Whether all teams of a file have one number of threads that the file says."""
    teams = _PARALLEL.findall(plain)
    asked_for = {_TEAM.search(team)[1] if _TEAM.search(team) else "" for team in teams}  # type: ignore[index]
    return len(asked_for) == 1 and "" not in asked_for


# what its caller or its place in memory decides: some answers are given here
_SURROUNDINGS = re.compile(
    r"\b(fegetround|fegetenv|fegetexceptflag|fetestexcept|_mm_getcsr|_MM_GET_\w+|setlocale|localeconv|omp_get_max_threads|omp_in_parallel"
    r"|omp_get_(?:level|active_level|thread_limit|dynamic|max_active_levels|schedule))\s*\("
)
_TARGET = re.compile(r"\btarget(?:__)?\s*\(\s*\"([\w.,=+ -]{1,60})\"")
_ADDRESS = re.compile(r"\b(?:std::)?(u?intptr_t)\b")


def elsewhere(text: str) -> tuple[str, ...]:
    """Return the names of compilers, systems and processors in a text's conditions whose code is not built here.

    And those of its caller's surroundings, and of addresses as numbers: not all that they can be is tried here.
    """
    found = [n for n in asked(text) if _OTHERS.fullmatch(n) and n not in _ALIKE]
    names = [n for n in found if not _VECTORS.fullmatch(n)]
    plain = blank(text)
    names += _SURROUNDINGS.findall(plain)
    names += [f"no processor before it runs code for {n}" for n in _TARGET.findall(text)]
    names += [f"addresses as numbers ({n})" for n in _ADDRESS.findall(plain)]
    return tuple(dict.fromkeys(names))
