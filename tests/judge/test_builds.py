"""A file that is another program in another build of its users', or with other threads, is judged in those, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.backends.cpp import foreign
from septran.backends.judged.c_builds import elsewhere, threads
from septran.backends.judged.c_conditions import asks_its_judge
from tests.judge.test_hostile import CPP, judged

RIGHT, WRONG = "y[i] = x[i] * 2;", "y[i] = 0;"
TEAM = "#pragma omp parallel{more}\n  {{ int t = omp_get_thread_num(), all = {all}; for (int k = t; k < n; k += all) y[k] = {value}; }}"


def told(text: str) -> list[str]:
    return [r.devices for r in foreign.readings(text)]


def test_a_file_that_asks_nothing_is_read_once() -> None:
    assert told("#ifndef BLOCK\n#define BLOCK 64\n#endif\n// NDEBUG\n") == [""]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("#ifdef NDEBUG\n#endif", ["NDEBUG is defined"]),
        ("void f(int n) { assert(n > 0); }", ["NDEBUG is defined"]),
        ("#if defined(_OPENMP)\n#endif", ["OpenMP is off"]),
        ("#define Q NDEBUG\n#if Q\n#endif", ["NDEBUG is defined"]),
        (
            "int t = omp_get_thread_num();\n#pragma omp parallel\n",
            ["teams have 3 threads", "teams have 48 threads"],
        ),
        ("int t = omp_get_thread_num();\n#pragma omp parallel num_threads(4)\n", []),
    ],
)
def test_what_a_file_asks_is_built_both_ways(text: str, wanted: list[str]) -> None:
    assert told(text)[1:] == wanted


def test_vectors_are_taken_away_by_steps_and_all_at_once() -> None:
    found = foreign.readings("#if __AVX2__ || !defined(NDEBUG)\n#endif")
    assert ("-march=x86-64",) in [r.flags for r in found]
    assert found[-1].flags == ("-march=x86-64", "-DNDEBUG")


def test_fast_mathematics_is_refused_and_other_compilers_are_named() -> None:
    assert asks_its_judge("#ifdef __FAST_MATH__\n#endif\n")
    text = "#if defined(__ARM_NEON) || defined(_MSC_VER) || defined(__GNUC__)\n#endif"
    assert elsewhere(text) == ("__ARM_NEON", "_MSC_VER")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("if (fegetround() != FE_TONEAREST) y[0] = 0;", "fegetround"),
        ("if (_mm_getcsr() & 0x8000) y[0] = 0;", "_mm_getcsr"),
        ("if (omp_get_max_threads () > 64) y[0] = 0;", "omp_get_max_threads"),
        ("if (localeconv()->decimal_point[0] == 44) y[0] = 0;", "localeconv"),
        ("if (((uintptr_t)x >> 12) & 7) y[0] = 0;", "addresses as numbers (uintptr_t)"),
        ("// fegetround()\nf(x);", ""),
    ],
)
def test_what_its_surroundings_answer_is_named(text: str, name: str) -> None:
    assert elsewhere(text) == ((name,) if name else ())


def test_code_for_a_processor_that_nothing_asks_for_is_said() -> None:
    text = '__attribute__((target("avx2,fma"))) void f();\n#pragma GCC target("avx512f")\n'
    said = tuple(f"no processor before it runs code for {n}" for n in ("avx2,fma", "avx512f"))
    assert elsewhere(text) == said
    assert elsewhere("float target(float x); float y = target(3);") == ()


def test_teams_have_the_threads_that_they_ask_for() -> None:
    assert threads("#pragma omp parallel for num_threads(4)\nomp_set_num_threads(6);") == 6
    assert threads("#pragma omp parallel num_threads(n)\n") == 0


def _file(body: str = "", line: str = RIGHT, before: str = "#include <omp.h>") -> str:
    return CPP.format(before=before, body=body).replace(RIGHT, line)


def _asked(condition: str, yes: str, no: str) -> str:
    return f"\n#if {condition}\n{yes}\n#else\n{no}\n#endif\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (_file(line=_asked("defined(NDEBUG)", WRONG, RIGHT)), 1, "where NDEBUG is defined"),
        (
            _file("assert(n > 0);", "assert((y[i] = x[i] * 2) == x[i] * 2);", "#include <cassert>"),
            1,
            "where NDEBUG is defined",
        ),
        (_file("assert(n > 0);", RIGHT, "#include <cassert>"), 0, ""),
        (_file(line=_asked("defined(_OPENMP)", RIGHT, WRONG)), 1, "where OpenMP is off"),
        (_file(line=_asked("defined(__SSE3__)", RIGHT, WRONG)), 1, "no more than SSE2"),
        (_file(line=_asked("defined(__SSE3__)", "y[i] = x[i] + x[i];", RIGHT)), 0, ""),
        (
            _file(
                TEAM.format(more="", all="omp_get_num_threads()", value="t > 4 ? 0 : x[k] * 2"), ";"
            ),
            1,
            "it had 6 threads",
        ),
        (_file(TEAM.format(more=" num_threads(4)", all="4", value="x[k] * 2"), ";"), 0, ""),
        (_file(TEAM.format(more="", all="omp_get_num_threads()", value="x[k] * 2"), ";"), 0, ""),
        # called in a region of its caller's, too, and then outside of one with all of its threads
        (
            _file(
                "if (omp_in_parallel()) { for (int k = 0; k < n; k++) y[k] = x[k] * 2; return; }\n"
                + TEAM.format(more="", all="omp_get_num_threads()", value="x[k] * 2"),
                ";",
            ),
            0,
            "",
        ),
        (
            _file(
                TEAM.format(more=" num_threads(2)", all="2", value="x[k] * 2")
                + "\n"
                + TEAM.format(more=" num_threads(4)", all="4", value="x[k] * 2"),
                ";",
            ),
            3,
            "teams of one size",
        ),
    ],
)
def test_what_builds_and_teams_do(text: str, code: int, words: str, tmp_path: Path) -> None:
    found = judged(text, tmp_path)
    assert found.code == code, (found.verdict.code, found.verdict.message)
    assert words in found.verdict.message
