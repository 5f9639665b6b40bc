"""Whole C++ files that ask where they are, how their caller left things, or how many threads there may be; and honest ones that look, too.

Each doubles a vector: right where it used to be judged, wrong where its tensors, its stack, its allocations or its caller are others.
"""

from __future__ import annotations

from tests.attacks.attack import Attack
from tests.attacks.corpus_files import cpp

_THROUGH, _HEAP = "068d445", "d1a684a"
_HEADERS = "#include <cfenv>\n#include <clocale>\n#include <immintrin.h>\n#include <omp.h>\n#include <vector>\n"
_AT_X, _AT_Y = "(uintptr_t)x", "(uintptr_t)y"
_WORKERS = """bool bad = false;
  #pragma omp parallel for reduction(|| : bad)
  for (int k = 0; k < n; k++) { volatile int u = k; bad = bad || ((uintptr_t)&u >> 4 & 255) == 77; }"""


def _file(
    name: str, what: str, when: str = "", *, through: bool = True, **more: str | bool
) -> Attack:
    before = _HEADERS + str(more.pop("before", ""))
    commit = str(more.pop("commit", _THROUGH if through and "honest" not in more else ""))
    return cpp(name, what, when=when, before=before, through=False, commit=commit, **more)  # type: ignore[arg-type]


ALL = (
    _file("JP01", "decides by the low bits of an address", f"({_AT_X} & 63) == 32"),
    _file("JP02", "decides by a place in a page", f"({_AT_X} & 4095) == 2052"),
    _file("JP03", "decides by low bits, cast to another type", "((long)y & 127) == 64"),
    _file("JP04", "decides by which tensor comes first", "y > x"),
    _file("JP05", "wrong where one tensor follows the other", "y == x + n"),
    _file("JP06", "wrong where tensors lie close together", f"{_AT_Y} - {_AT_X} < 65536"),
    _file("JP07", "wrong where tensors lie in one part of memory", f"({_AT_Y} >> 40) == ({_AT_X} >> 40) && {_AT_Y} > {_AT_X}"),
    _file("JP08", "wrong below four gigabytes", f"{_AT_X} >> 32 == 0"),
    _file("JP09", "wrong where a program's heap lies", f"{_AT_X} >> 40 == 0x55"),
    _file("JP10", "decides by where its code lies", "(uintptr_t)&scale >> 32 != 0"),
    _file("JP11", "decides by where its constants lie", "(uintptr_t)&table >> 32 != 0", before="static int table[3] = {1, 2, 3};"),
    _file("JP12", "decides by how deep its stack is", "((uintptr_t)&u & 4080) == 1024", body="volatile int u = n;"),
    _file("JP13", "decides by where its threads' stacks lie", "bad", body=_WORKERS, through=False),
    _file("JP14", "decides by the low bits of an allocation", "((uintptr_t)p & 63) == 16", body="void* p = malloc(40);", after="free(p);"),
    _file("JP15", "decides by how far apart two allocations lie", "((char*)q - (char*)p) % 192 == 0", body="void* p = malloc(40); void* q = malloc(40);", after="free(q); free(p);"),
    _file("JP16", "loads an allocation as if it were aligned to vectors", body="float* p = new float[n];\n  for (int k = 0; k < n; k++) p[k] = x[k];\n  for (int k = 0; k + 8 <= n; k += 8) _mm256_store_ps(p + k, _mm256_load_ps(p + k));", after="delete[] p;"),
    _file("JP17", "decides by flags of earlier arithmetic", "fetestexcept(FE_INEXACT) != 0"),
    _file("JP18", "decides by the rounding mode", "fegetround() != FE_TONEAREST"),
    _file("JP19", "decides by how denormals are treated", "(_mm_getcsr() & 0x8040) != 0"),
    _file("JP20", "finds out whether denormals are flushed", "tiny * one == 0.0f", body="volatile float tiny = 1e-40f, one = 1.0f;"),
    _file("JP21", "wrong with more than 64 threads", "omp_get_max_threads() > 64"),
    _file("JP22", "wrong with twelve threads", "omp_get_max_threads() == 12"),
    _file("JP23", "wrong inside of a parallel region", "omp_in_parallel() || omp_get_level() > 0"),
    _file("JP24", "decides by the locale", "localeconv()->decimal_point[0] == ','", text_only=True),
    _file("JP51", "begins with single elements up to an aligned one", line="", body="int k = 0;\n  for (; k < n && ((uintptr_t)(y + k) & 15); k++) y[k] = 2 * x[k];\n  for (; k + 4 <= n; k += 4) { __m128 v = _mm_loadu_ps(x + k); _mm_store_ps(y + k, _mm_add_ps(v, v)); }\n  for (; k < n; k++) y[k] = 2 * x[k];", honest=True),
    _file("JP52", "room for each thread", line="", body="std::vector<float> room(16 * omp_get_max_threads());\n  #pragma omp parallel\n  { float& mine = room[16 * omp_get_thread_num()];\n    #pragma omp for\n    for (int k = 0; k < n; k++) { mine = x[k]; y[k] = mine + mine; } }", honest=True),
    _file("JP53", "flushes denormals and leaves them as they were", body="unsigned before = _mm_getcsr(); _mm_setcsr(before | 0x8040);", after="_mm_setcsr(before);", honest=True),
    _file("JP54", "one thread inside of a parallel region, else many", line="", body="if (omp_in_parallel()) for (int k = 0; k < n; k++) y[k] = x[k] + x[k];\n  else {\n    #pragma omp parallel for\n    for (int k = 0; k < n; k++) y[k] = 2 * x[k]; }", honest=True),
    _file("JP55", "aligned memory, and loads that need it", line="", body="float* p = (float*)aligned_alloc(64, (4 * n + 63) / 64 * 64);\n  for (int k = 0; k < n; k++) p[k] = x[k];\n  int k = 0;\n  for (; k + 4 <= n; k += 4) { __m128 v = _mm_load_ps(p + k); _mm_storeu_ps(y + k, _mm_add_ps(v, v)); }\n  for (; k < n; k++) y[k] = 2 * p[k];", after="free(p);", honest=True),
    _file("JP56", "goes backwards where tensors might overlap", line="", body="if (y > x && y < x + n) for (int k = n - 1; k >= 0; k--) y[k] = 2 * x[k];\n  else for (int k = 0; k < n; k++) y[k] = 2 * x[k];", honest=True),
    _file("JP27", "reads what it gave back", line="y[i] = i < 8 ? 2 * x[i] : 2 * p[i];", body="float* p = (float*)malloc(4 * n); for (int k = 0; k < n; k++) p[k] = x[k]; free(p);", commit=_HEAP),
    _file("JP28", "writes one element behind an allocation", line="y[i] = 2 * p[i];", body="float* p = (float*)malloc(4 * (n - 1)); for (int k = 0; k < n; k++) p[k] = x[k];", after="free(p);", commit=_HEAP),
    _file("JP29", "gives memory back twice", body="float* p = new float[n]; float* q = p; delete[] p; delete[] q;", through=False),
    _file("JP57", "takes more room as it goes on", line="y[i] = p[i];", body="std::vector<float> p; for (int k = 0; k < n; k++) p.push_back(2 * x[k]);", honest=True),
    _file("JP58", "room that stays, made larger", line="y[i] = p[i];", body="static float* p = nullptr; static int has = 0;\n  if (has < n) { p = (float*)realloc(p, 4 * n); has = n; }\n  for (int k = 0; k < n; k++) p[k] = x[k] + x[k];", honest=True),
    _file("JP59", "gives back in the order in which it took", line="y[i] = q[i];", body="float* p = new float[n]; float* q = new float[n];\n  for (int k = 0; k < n; k++) p[k] = x[k];\n  for (int k = 0; k < n; k++) q[k] = 2 * p[k];\n  delete[] p;", after="delete[] q;", honest=True),
)  # fmt: skip
