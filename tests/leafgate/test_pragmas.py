"""Loop pragmas: spelled as each compiler has them, and refused in words that say what may be written."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from septran.leafgate import Refusal
from septran.leafgate.cleaf import print_body

LOOP = "for (int i = 0; i < 8; ++i) s += C(i, 0);"


def printed(pragma: str, of: str = "cpp", *, threads: bool = False) -> str:
    body = f"{{\nfloat s = 0, m = 0;\nlong n = 3;\n{'' if of == 'c' else 'constexpr int L = 4;'}\n#pragma {pragma}\n{LOOP}\nC(0, 0) = s + m;\n}}"
    text = print_body(body, names=("C",), of=of, threads=threads)
    assert print_body(text, names=("C",), of=of, threads=threads) == text
    return text.split("\n")[4].removeprefix("#pragma ")


@pytest.mark.parametrize(
    ("of", "given", "wanted"),
    [
        ("cpp", "unroll 4", "GCC unroll 4"),
        ("cpp", "unroll(4)", "GCC unroll 4"),
        ("cpp", "GCC unroll 16", "GCC unroll 16"),
        ("cpp", "unroll L", "GCC unroll L"),
        ("c", "unroll 2", "GCC unroll 2"),
        ("cuda", "GCC unroll 4", "unroll 4"),
        ("cuda", "unroll (8)", "unroll 8"),
        ("cuda", "unroll L", "unroll L"),
        ("hip", "unroll", "unroll"),
        ("hip", "nounroll", "nounroll"),
        ("cpp", "omp simd reduction(max : m)", "omp simd reduction(max:m)"),
        ("cpp", "omp simd reduction(+:s) reduction(max:m)", "omp simd reduction(+:s) reduction(max:m)"),
    ],
)  # fmt: skip
def test_each_compiler_has_its_spelling(of: str, given: str, wanted: str) -> None:
    assert printed(given, of) == wanted


CLAUSES = ("schedule(static)", "reduction(+:s)", "collapse(2)", "reduction(+:s) schedule(static,8)", "schedule(static) reduction(+:s,m) reduction(*:m)")  # fmt: skip


@pytest.mark.parametrize("clauses", CLAUSES)
def test_threads_are_started_with_clauses_where_the_contract_allows_them(clauses: str) -> None:
    pragma = f"omp parallel for {clauses}"
    assert printed(pragma, threads=True) == pragma
    with pytest.raises(Refusal, match="called by one thread of many"):
        printed(pragma)


@pytest.mark.parametrize("of", ["cpp", "cuda", "hip", "c"])
@pytest.mark.parametrize(
    "pragma",
    [
        "unroll 0",
        "unroll 100",
        "unroll n",
        "unroll 4 5",
        "GCC unroll",
        "GCC optimize(3)",
        "omp parallel for schedule(dynamic)",
        "omp parallel for num_threads(3)",
        "omp parallel for schedule(static) schedule(static)",
        "omp parallel for reduction(+:other)",
        "omp simd reduction(+:EOF)",
        "omp parallel",
        "omp atomic",
        "once",
    ],
)
def test_what_may_be_written_is_said_in_words(of: str, pragma: str) -> None:
    with pytest.raises(Refusal) as caught:
        printed(pragma, of, threads=True)
    told = str(caught.value)
    assert f"#pragma {pragma}" in told and "a loop may have `#pragma " in told
    assert "\\" not in told and "(?" not in told


@pytest.mark.parametrize("of", ["cuda", "hip"])
def test_a_devices_approximation_is_refused_for_its_error(of: str) -> None:
    with pytest.raises(Refusal, match=r"__expf has a larger error .* write expf\(x\)"):
        print_body("{\nC(0, 0) = __expf(C(0, 0));\n}", names=("C",), of=of)


def test_a_sum_of_threads_compiles_and_runs(tmp_path: Path) -> None:
    """What is printed means what was written: the loop is shared out, and its sum is whole."""
    pragma = printed("omp parallel for schedule(static) reduction(+:s)", threads=True)
    (tmp_path / "a.cpp").write_text(
        f"int main() {{ double s = 0;\n#pragma {pragma}\nfor (int i = 0; i < 100; ++i) s += i;\nreturn s == 4950 ? 0 : 1; }}\n"
    )
    built = ["g++", "-fopenmp", "-Werror", "-Wall", "a.cpp", "-o", "a"]
    subprocess.run(built, cwd=tmp_path, check=True, timeout=60)
    subprocess.run([str(tmp_path / "a")], check=True, timeout=60)
