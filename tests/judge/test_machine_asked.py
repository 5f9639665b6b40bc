"""A judged C++ or CUDA file may not ask what another machine answers otherwise; a demonstration beside it may."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from septran.host.reached import reached
from septran.toolchain.built import Built
from septran.toolchain.machine_asked import kept_between_calls, machine_asked, surroundings_asked
from septran.toolchain.unset import otherwise
from tests.judge.test_hostile import CPP, CUDA, judged

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
ENTRY = "_Z5scalePKfPfi"
ASKED = {
    "cpuid by a statement": (
        'static int f() { int a = 0, b, c, d; __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "=c"(c), "=d"(d)); return a; }',
        "if (f() == 5) return;",
        "the processor (cpuid)",
    ),
    "features by name": ("", 'if (!__builtin_cpu_supports("avx2")) return;', "the processor (__cpu_model)"),
    "processors": ("#include <omp.h>", "if (omp_get_num_procs() > 64) return;", "how many processors"),
    "which processor": ("#include <sched.h>", "if (sched_getcpu() > 9) return;", "which it runs on"),
    "the last error": ("#include <cerrno>", "if (errno == 11) return;", "last error"),
    "an exit handler": ("#include <cstdlib>", "static int once = atexit([] {}); (void)once;", "end of the process"),
    "a random device": ("#include <random>", "if (std::random_device{}() % 9999 == 3) return;", "random numbers"),
    "the loader": ("#include <dlfcn.h>", 'if (dlsym(nullptr, "PyList_New")) return;', "the loader"),
    "a weak name": ('extern "C" __attribute__((weak)) void* PyList_New(long);', "if (PyList_New) return;", "in the process"),
    "a clock": ("#include <chrono>", "if (std::chrono::steady_clock::now().time_since_epoch().count() % 9 == 3) return;", "a clock"),
    "another function's clock": (
        "#include <ctime>\nstatic long now() { return clock(); }\nstruct T { virtual long t() { return now(); } };\nT* made() { return new T; }",
        "if (made()->t() == 3) return;",
        "a clock (clock)",
    ),
    "before it is called": ("#include <ctime>\nstatic long begun = time(nullptr);", "if (begun == 3) return;", "a clock (time)"),
    "its name": ("#include <cerrno>", "if (program_invocation_name[0] == 'p') return;", "what called it"),
    "the locale": ("#include <clocale>", "if (localeconv()->decimal_point[0] == 44) return;", "the locale (localeconv)"),
    "a file": ("#include <cstdio>", 'if (fopen("/proc/self/maps", "r")) return;', "files"),
}  # fmt: skip
HONEST = {
    "a demonstration": (
        "#include <chrono>\n#include <cstdlib>\n#include <iostream>\n#include <vector>\nstatic std::vector<float> kept(4, 1.0f);\n"
        "int main() { std::cout << std::chrono::steady_clock::now().time_since_epoch().count() << rand() << getenv(\"HOME\"); }",
        "kept.resize(4);",
    ),
    "names that sound like it": ("", "int time = 1, clock = 2, signal = time + clock, read = signal; if (read < 0) return;"),
    "threads": ("#include <omp.h>", "if (omp_get_max_threads() < 1) return;"),
    "mathematics": ("#include <cmath>", "if (std::exp(1.0) < 1 || std::pow(2.0, n) < 0 || std::lgamma(3.0) > 9) return;"),
    "memory": ("#include <cstdlib>\n#include <memory>", "auto p = std::make_unique<float[]>(n); void* q = aligned_alloc(64, 64); free(q);"),
}  # fmt: skip


def built(before: str, body: str, folder: Path) -> Built:
    source, made = folder / "kernel.cpp", folder / "kernel.o"
    source.write_text(CPP.format(before=before, body=body))
    flags = [
        "-std=c++20",
        "-O1",
        "-fPIC",
        "-w",
        "-fopenmp",
        "-ffunction-sections",
        "-fdata-sections",
    ]
    subprocess.run(["g++", *flags, "-c", source, "-o", made], check=True)
    return Built(ok=True, artifact=None, kernel_object=made, foreign=True)


@pytest.mark.parametrize(
    "name", [*list(ASKED)[:4], *(pytest.param(n, marks=pytest.mark.slow) for n in list(ASKED)[4:])]
)
def test_what_is_asked_of_the_machine_is_named(name: str, tmp_path: Path) -> None:
    before, body, words = ASKED[name]
    assert any(words in text for text in machine_asked(built(before, body, tmp_path), ENTRY))


@pytest.mark.parametrize(
    "name",
    [next(iter(HONEST)), *(pytest.param(n, marks=pytest.mark.slow) for n in list(HONEST)[1:])],
)
def test_honest_files_ask_nothing(name: str, tmp_path: Path) -> None:
    assert machine_asked(built(*HONEST[name], tmp_path), ENTRY) == ()


def test_variables_between_calls_are_named(tmp_path: Path) -> None:
    before = (
        "static float table[4]; static const float constant[4] = {1, 2, 3, 4}; static int unused;"
    )
    body = "static int calls; if (++calls > 1000000) return; table[n % 4] = constant[n % 4];"
    made = built(before, f"{body} y[0] = table[1];", tmp_path)
    assert kept_between_calls(made, ENTRY) == ("calls", "table")


def test_what_is_asked_of_its_caller_is_varied(tmp_path: Path) -> None:
    before = "#include <immintrin.h>\n#include <omp.h>\nint beside() { return omp_in_parallel(); }"
    body = "if (_mm_getcsr() & 0x8040 || omp_get_max_threads() > 64) return;"
    assert surroundings_asked(built(before, body, tmp_path), ENTRY) == {"unit", "teams"}
    assert surroundings_asked(built(before, "", tmp_path), ENTRY) == frozenset()


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".cpp", ".cu"])
def test_the_verdict_says_what_was_asked(suffix: str, tmp_path: Path) -> None:
    text = CUDA if suffix == ".cu" else CPP
    before, body, words = ASKED["features by name"]
    found = judged(text.format(before=before, body=body), tmp_path, suffix)
    assert (found.code, found.verdict.code) == (3, "V217")
    assert words in found.verdict.message
    counting = judged(
        text.format(before="", body="static int calls; ++calls; y += calls - calls;"),
        tmp_path,
        suffix,
    )
    assert (counting.code, counting.verdict.code) == (3, "V217")
    assert "another after each call" in counting.verdict.message
    kept = judged(
        text.format(before="", body="static int seen; y += seen > 1000000; seen = n;"),
        tmp_path,
        suffix,
    )
    assert kept.code == 0
    assert (
        "calls after those that were made: seen live from call to call" in kept.verdict.not_checked
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "suffix"),
    [
        ("y[i] = y[i] == 0 ? 0 : x[i] * 2;", ".cpp"),
        ("y[i] = y[i] == 0 ? 0 : x[i] * 2;", ".cu"),
        ("__shared__ float u[64]; y[i] = u[threadIdx.x] < 1e30f ? 0 : x[i] * 2;", ".cu"),
        ("__shared__ float u[64]; y[i] = u[threadIdx.x] > 1e30f ? 0 : x[i] * 2;", ".cu"),
        ("__shared__ int u[64]; y[i] = u[threadIdx.x] & 1 ? x[i] * 2 : 0;", ".cu"),
    ],
)
def test_memory_nobody_wrote_holds_now_this_now_that(
    line: str, suffix: str, tmp_path: Path
) -> None:
    text = (CUDA if suffix == ".cu" else CPP).format(before="", body="")
    found = judged(text.replace("y[i] = x[i] * 2;", f"{{ {line} }}"), tmp_path, suffix)
    assert found.code == 1, found.verdict.not_checked


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "line", "finding"),
    [
        ("int u;", "y[i] = u & 1 ? 0 : x[i] * 2;", "uninitialised"),
        ("float u;", "y[i] = u > 1e30f ? 0 : x[i] * 2;", "uninitialised"),
        ("long u;", "y[i] = u == 0 ? 0 : x[i] * 2;", "uninitialised"),
        ("", "int u; y[i] = u & 1 ? 0 : x[i] * 2;", "uninitialised"),
        ("", "int u; if (x[i] > 0) u = 2; y[i] = u & 1 ? 0 : x[i] * 2;", "uninitialised"),
        ("int u[300];", "y[i] = u[i] & 1 ? 0 : x[i] * 2;", "uninitialised"),
        ("float s, d;", "if (i == 0) s = x[0], d = 2; else s = x[i]; y[i] = s * d;", ""),
        ("int u; int k = n > 5 ? 2 : u;", "y[i] = x[i] * k;", ""),
    ],
)
def test_what_variables_nobody_set_may_hold(
    body: str, line: str, finding: str, tmp_path: Path
) -> None:
    found = judged(
        CPP.format(before="", body=body).replace("y[i] = x[i] * 2;", f"{{ {line} }}"), tmp_path
    )
    assert found.finding == finding, found.verdict.message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "finding"),
    [
        ("int u; y[i] = u & 1 ? 0 : x[i] * 2;", "uninitialised"),
        ("float u[4]; u[i & 1] = 2; y[i] = u[2] > 1e30f ? 0 : x[i] * 2;", "uninitialised"),
        ("float u[4]; for (int k = 0; k < 3; k++) u[k] = 2; y[i] = u[i & 1] * x[i];", ""),
    ],
)
def test_what_variables_of_a_cuda_thread_may_hold(line: str, finding: str, tmp_path: Path) -> None:
    text = CUDA.format(before="", body="").replace("y[i] = x[i] * 2;", f"{{ {line} }}")
    found = judged(text, tmp_path, ".cu")
    assert found.finding == finding, found.verdict.message


def test_odd_numbers_stand_where_the_compiler_put_its_pattern_and_nowhere_else() -> None:
    pattern = "f:\n\tmovl\t$-16843010, -8(%rbp)\n\tmovb\t$-2, -1(%rbp)\n\tmovw\t$-258, (%rax)\n\t.size\tf, .-f\n"
    zero = "f:\n\tmovl\t$0, -8(%rbp)\n\tmovb\t$-2, -1(%rbp)\n\tmovw\t$0, (%rax)\n\t.size\tf, .-f\n"
    text, changed = otherwise(pattern, zero)
    assert changed == 2
    assert "movl\t$16843009, -8(%rbp)" in text
    assert "movw\t$257, (%rax)" in text
    assert "movb\t$-2, -1(%rbp)" in text  # the file's own
    assert otherwise(pattern, pattern) == (pattern, 0)


def test_an_object_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    made = built("", "", tmp_path)
    assert made.kernel_object is not None
    whole = made.kernel_object.read_bytes()
    for raw in (b"", whole[:100], whole[:-300], b"\x7fELF" + bytes(60)):
        made.kernel_object.write_bytes(raw)
        assert "cannot be read" in machine_asked(made, ENTRY)[0]
    with pytest.raises(ValueError, match="no nowhere"):
        reached(whole, "nowhere")
