"""What a C++ or CUDA file asks its compiler or its judge: then the judged text is not the one that users' compilers read.

A file is judged in another build than its users': for CUDA by another compiler. A condition on what differs between the two
keeps the branch that runs elsewhere from the judge, so such a file is not judged (C173), whoever meant what by it.
"""

from __future__ import annotations

import re

from septran.backends.judged.c_messages import asks_its_file

_COMMENT = r"/\*[\s\S]*?\*/"
# wherever it stands, also where it may be in a comment or a string: who hides it there from us is not judged either
_DIRECTIVE = re.compile(
    rf"(?:#|%:|\?\?=)(?:\s|{_COMMENT})*(if|ifdef|ifndef|elif|elifdef|elifndef|define)\b((?:{_COMMENT}|[^\n])*)"
)
_SPLICE = re.compile(r"(?:\\|\?\?/)[ \t]*\r?\n")
_JUDGE = re.compile(r"\b(?:cuemu|CUEMU|SEPTRAN_|septran_|judged_kernel|st_scratch|st_tiles)\w*|\b__BASE_FILE__\b|\b__INCLUDE_LEVEL__\b")  # fmt: skip
_HEADER = re.compile(r"__has_include(?:_next)?\s*\(\s*\"")
_OF_BUILDS = ("NDEBUG", "_OPENMP")
_BUILD = re.compile(r"(?:__SANITIZE|__SSP|__OPTIMIZE|__NO_INLINE|__FAST_MATH|__FINITE_MATH|__STRICT_ANSI|_GLIBCXX_ASSERT|__pi[ce]__|__PI[CE]__)\w*|main")  # fmt: skip
_RESERVED = re.compile(r"(?:__|_[A-Z]|CUDA|cuda|hip[A-Z])\w*")
# the same with nvcc and here: what both define (nvcc's host compiler is this one), or both leave out
_ON_BOTH = frozenset(
    """
    __CUDACC__ __NVCC__ CUDART_VERSION CUDA_VERSION __cplusplus __GNUC__ __GNUC_MINOR__ __clang__ __linux__ _WIN32 _WIN64
    _MSC_VER __APPLE__ __HIPCC__ __HIP_PLATFORM_AMD__ __HIP_DEVICE_COMPILE__ __INTELLISENSE__ __CUDACC_RTC__ _OPENMP
    __STDC_VERSION__ __has_cpp_attribute __has_include __FILE__ __LINE__ __VA_ARGS__ __VA_OPT__
    """.split()
)


_MACRO = re.compile(r"__[A-Z0-9_]+__")
"""what a definition may hand on to a condition; other reserved names there are functions and marks"""


def asks_its_judge(text: str) -> tuple[str, ...]:
    """Return what a C++ file's text asks that differs between its users' build and the judge's."""
    conditions, defined, found = _asked(text)
    named = [n for n in (*conditions, *defined) if _BUILD.fullmatch(n)]
    return (*_told([*found, *named]), *asks_its_file(text))


def asks_its_compiler(text: str) -> tuple[str, ...]:
    """Return the same of a CUDA file, which a GPU's compiler reads with other macros (`__CUDA_ARCH__`) than a processor's."""
    conditions, defined, found = _asked(text)
    named = [n for n in conditions if _RESERVED.fullmatch(n)]
    named += [n for n in defined if _MACRO.fullmatch(n)]
    return (*_told([*found, *(n for n in named if n not in _ON_BOTH)]), *asks_its_file(text))


def asked(text: str) -> tuple[str, ...]:
    """Return the names in a text's conditions, and of macros in the definitions that it may hand on to them."""
    conditions, defined, _ = _asked(text)
    return tuple(
        dict.fromkeys(
            (*conditions, *(n for n in defined if _MACRO.fullmatch(n) or n in _OF_BUILDS))
        )
    )


def _asked(text: str) -> tuple[list[str], list[str], list[str]]:
    """Return the names in a text's conditions, those in its definitions, and the judge's own that it holds anywhere."""
    plain = _SPLICE.sub("", text)
    conditions: list[str] = []
    defined: list[str] = []
    found = [m.group() for m in _JUDGE.finditer(plain)]
    for directive, rest in _DIRECTIVE.findall(plain):
        words = re.findall(r"[A-Za-z_]\w*", re.sub(rf"{_COMMENT}|//.*|<[\w./]*>", " ", rest))
        if directive == "define":
            defined += words[1:]
            continue
        conditions += words
        if _HEADER.search(rest):
            found.append("__has_include of a file")
    return conditions, defined, found


def _told(names: list[str]) -> tuple[str, ...]:
    return tuple(f"{name} (its users' compiler answers otherwise)" for name in dict.fromkeys(names))
