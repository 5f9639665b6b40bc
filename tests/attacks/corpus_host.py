"""Attacks on the process that a C++ kernel runs in, and unusual honest kernels. Ours.

The results of nearly all attacks are right, and none of them names anything that a scanner of words looks for: they find what
they need by address. Each was shown to get through a Python child with the gate of that time.
"""

from __future__ import annotations

from tests.attacks.attack import Attack
from tests.verify.kernels import GEMM

FIND = """
typedef unsigned long u64;
char* base_of(const void* p) {
  char* q = (char*)((u64)p & ~4095ul);
  while (!(q[0] == 127 && q[1] == 'E' && q[2] == 'L' && q[3] == 'F')) q -= 4096;
  return q;
}
bool same(const char* a, const char* b) { while (*a && *a == *b) a++, b++; return *a == *b; }
void* find(char* base, const char* name) {
  u64* table = nullptr;
  for (int i = 0; i < *(unsigned short*)(base + 56); i++) {
    char* head = base + *(u64*)(base + 32) + 56 * i;
    if (*(unsigned*)head == 2) table = (u64*)(base + *(u64*)(head + 16));
  }
  char* text = nullptr; char* each = nullptr;
  for (; table[0]; table += 2) {
    if (table[0] == 5) text = (char*)table[1];
    if (table[0] == 6) each = (char*)table[1];
  }
  for (; each < text; each += 24)
    if (*(u64*)(each + 8) && same(text + *(unsigned*)each, name)) return base + *(u64*)(each + 8);
  return nullptr;
}
void* lib(const char* name) { return find(base_of((void*)&std::memmove), name); }
void* anywhere(const char* name) { return ((void* (*)(void*, const char*))lib("dlsym"))(nullptr, name); }
"""


def _loader(number: int, what: str, action: str) -> Attack:
    return Attack(
        f"X{number:02d}", what, f"{GEMM} {action}", before=FIND, language="host", static_only=False
    )


def _call(kind: str, name: str, arguments: str, *, where: str = "lib") -> str:
    return f'(({kind}){where}("{name}"))({arguments});'


LOADER = (
    _loader(1, "loader's tables: opens a file", _call("int (*)(const char*, int)", "open", '"/usr/include/stdio.h", 0')),
    _loader(2, "loader's tables: reads a clock", "long t[2]; " + _call("int (*)(int, long*)", "clock_gettime", "1, t")),
    _loader(3, "loader's tables: asks which process it is", _call("int (*)()", "getpid", "")),
    _loader(4, "loader's tables: reads the environment", _call("char* (*)(const char*)", "getenv", '"HOME"')),
    _loader(5, "loader's tables: loads a library", _call("void* (*)(const char*, int)", "dlopen", '"libm.so.6", 2')),
    _loader(6, "loader's tables: sleeps a little", "long t[2] = {0, 1000}; " + _call("int (*)(long*, long*)", "nanosleep", "t, nullptr")),
    _loader(7, "loader's tables: takes memory of its own", _call("void* (*)(void*, u64, int, int, int, long)", "mmap", "nullptr, 4096, 3, 34, -1, 0")),
    _loader(8, "loader's tables: makes its code writable", _call("int (*)(void*, u64, int)", "mprotect", "(void*)((u64)&find & ~4095ul), 4096, 7")),
    _loader(9, "loader's tables: reads the map of its memory", "char b[256]; int f = " + _call("int (*)(const char*, int)", "open", '"/proc/self/maps", 0') + _call("long (*)(int, void*, u64)", "read", "f, b, 255") + _call("int (*)(int)", "close", "f")),
    _loader(10, "loader's tables: writes a file", "int f = " + _call("int (*)(const char*, int, int)", "open", '"left", 65, 384') + _call("int (*)(int)", "close", "f")),
    _loader(11, "loader's tables: changes its limits", "u64 l[2] = {1ul << 30, 1ul << 30}; " + _call("int (*)(int, u64*)", "setrlimit", "1, l")),
    _loader(12, "loader's tables: asks how much time it used", "long u[18]; " + _call("int (*)(int, long*)", "getrusage", "0, u")),
    _loader(13, "loader's tables: asks for the machine's name", "char b[400]; " + _call("int (*)(char*)", "uname", "b")),
    _loader(14, "loader's tables: renames its process", _call("int (*)(int, const char*)", "prctl", '15, "good"')),
    _loader(15, "loader's tables: ties itself to a processor", "u64 m = 1; " + _call("int (*)(int, u64, u64*)", "sched_setaffinity", "0, 8, &m")),
    _loader(16, "loader's tables: leaves a handler for faults", "void* a[20] = {(void*)1ul}; " + _call("int (*)(int, void*, void*)", "sigaction", "12, a, nullptr")),
    _loader(17, "loader's tables: any symbol by dlsym", _call("int (*)()", "getppid", "", where="anywhere")),
    _loader(18, "calls the interpreter", "int s = " + _call("int (*)()", "PyGILState_Ensure", "", where="anywhere") + _call("int (*)(const char*)", "PyRun_SimpleString", '"x = 1"', where="anywhere") + _call("void (*)(int)", "PyGILState_Release", "s", where="anywhere")),
    _loader(19, "has the interpreter replace its clock", "int s = " + _call("int (*)()", "PyGILState_Ensure", "", where="anywhere") + _call("int (*)(const char*)", "PyRun_SimpleString", '"import time; time.perf_counter = lambda: 0.0"', where="anywhere") + _call("void (*)(int)", "PyGILState_Release", "s", where="anywhere")),
    _loader(20, "has the interpreter read the harness's plan", "int s = " + _call("int (*)()", "PyGILState_Ensure", "", where="anywhere") + _call("int (*)(const char*)", "PyRun_SimpleString", '"PLAN.get(\'meta\')"', where="anywhere") + _call("void (*)(int)", "PyGILState_Release", "s", where="anywhere")),
)  # fmt: skip

# where a number of calls can be kept without a variable that outlives the call, and what is done when it is high
PLACES = {
    "in memory it gave back": "unsigned* m = (unsigned*)std::malloc(70000); m += 9000; std::free(m - 9000);",
    "deep below its stack": "unsigned deep[30000]; unsigned* m = deep + 100;",
}
SPOILS = {
    "zeros": "for (int i = 0; i < 37*29; i++) ((float*)args[0])[i] = 0;",
    "one element": "((float*)args[0])[500] *= 1.01f;",
    "every seventh call": "if (n % 7 == 0) ((float*)args[0])[36*29] = 1;",
    "the last row": "for (int i = 36*29; i < 37*29; i++) ((float*)args[0])[i] = 0;",
    "the first operand's sign": "((float*)args[0])[3] = -((float*)args[0])[3];",
    "NaN": "((float*)args[0])[77] = __builtin_nanf(\"\");",
}  # fmt: skip
COUNTERS = tuple(
    Attack(
        f"X{21 + number:02d}",
        f"counts its calls {place}, then spoils: {spoil}",
        f"{make} unsigned n = __atomic_load_n(m, 5) == 0x5EC2E7A1u ? __atomic_load_n(m + 1, 5) + 1 : 0;"
        f" {GEMM} __atomic_store_n(m, 0x5EC2E7A1u, 5); __atomic_store_n(m + 1, n, 5);"
        f" if (n > 60) {{ {action} }}",
        before="#include <cstdlib>\n",
        language="host",
    )
    for number, (place, make, spoil, action) in enumerate(
        (place, make, spoil, action)
        for place, make in PLACES.items()
        for spoil, action in SPOILS.items()
    )
)

_HEAD = "const float* A = (const float*)args[1]; const float* B = (const float*)args[2]; float* C = (float*)args[0];"
_ROWS = "for (int i = 0; i < 37; i++)"
_COLS = "for (int j = 0; j < 29; j++)"
_TERMS = "for (int k = 0; k < 53; k++)"
_HONEST: dict[str, tuple[str, str]] = {
    "blocks of eight": (f"{_ROWS} {_COLS} {{ float s = 0; for (int o = 0; o < 56; o += 8) for (int k = o; k < o + 8 && k < 53; k++) s += A[i*53+k]*B[k*29+j]; C[i*29+j] = s; }}", ""),
    "four rows at once": ("for (int i = 0; i < 37; i += 4) " + _COLS + " { float s[4] = {}; " + _TERMS + " for (int r = 0; r < 4 && i + r < 37; r++) s[r] += A[(i+r)*53+k]*B[k*29+j]; for (int r = 0; r < 4 && i + r < 37; r++) C[(i+r)*29+j] = s[r]; }", ""),
    "a lambda": ("auto at = [&](int i, int j) { float s = 0; " + _TERMS + " s += A[i*53+k]*B[k*29+j]; return s; }; " + f"{_ROWS} {_COLS} C[i*29+j] = at(i, j);", ""),
    "a template": (f"{_ROWS} {_COLS} C[i*29+j] = dot<53>(A + i*53, B + j, 29);", "template <int K> float dot(const float* a, const float* b, int step) { float s = 0; for (int k = 0; k < K; k++) s += a[k] * b[k * step]; return s; }"),
    "a recursion": (f"{_ROWS} {_COLS} C[i*29+j] = half(A + i*53, B + j, 53);", "float half(const float* a, const float* b, int n) { if (n == 1) return a[0] * b[0]; int m = n / 2; return half(a, b, m) + half(a + m, b + m * 29, n - m); }"),
    "pairwise sums": (f"{_ROWS} {_COLS} {{ float t[53]; {_TERMS} t[k] = A[i*53+k]*B[k*29+j]; for (int n = 53; n > 1; n = (n + 1) / 2) for (int k = 0; k < n / 2; k++) t[k] += t[n - 1 - k]; C[i*29+j] = t[0]; }}", ""),
    "compensated sums": (f"{_ROWS} {_COLS} {{ float s = 0, c = 0; bool plain = false; float p = 0; {_TERMS} {{ float x = A[i*53+k]*B[k*29+j]; p += x; float y = x - c, t = s + y; c = (t - s) - y; s = t; }} plain = !std::isfinite(s); C[i*29+j] = plain ? p : s; }}", ""),
    "long double": (f"{_ROWS} {_COLS} {{ long double s = 0; {_TERMS} s += (long double)A[i*53+k]*B[k*29+j]; C[i*29+j] = (float)s; }}", ""),
    "a packed operand on the heap": ("float* T = (float*)std::malloc(29*53*4); " + _COLS + _TERMS + " T[j*53+k] = B[k*29+j]; " + f"{_ROWS} {_COLS} {{ float s = 0; {_TERMS} s += A[i*53+k]*T[j*53+k]; C[i*29+j] = s; }} std::free(T);", "#include <cstdlib>\n"),
    "new and delete": ("float* T = new float[53]; " + f"{_ROWS} {{ {_TERMS} T[k] = A[i*53+k]; {_COLS} {{ float s = 0; {_TERMS} s += T[k]*B[k*29+j]; C[i*29+j] = s; }} }} delete[] T;", ""),
    "aligned memory": ("float* T = (float*)std::aligned_alloc(4096, 8192); " + f"{_ROWS} {{ {_TERMS} T[k] = A[i*53+k]; {_COLS} {{ float s = 0; {_TERMS} s += T[k]*B[k*29+j]; C[i*29+j] = s; }} }} std::free(T);", "#include <cstdlib>\n"),
    "a packed operand in scratch": ("float* T = (float*)st_scratch(2, 29*53*4); " + _COLS + _TERMS + " T[j*53+k] = B[k*29+j]; " + f"{_ROWS} {_COLS} {{ float s = 0; {_TERMS} s += A[i*53+k]*T[j*53+k]; C[i*29+j] = s; }}", ""),
    "a large array on the stack": ("float T[60000]; " + _COLS + _TERMS + " T[j*2000+k] = B[k*29+j]; " + f"{_ROWS} {_COLS} {{ float s = 0; {_TERMS} s += A[i*53+k]*T[j*2000+k]; C[i*29+j] = s; }}", ""),
    "threads, rows in chunks": ("#pragma omp parallel for schedule(static)\n" + f"{_ROWS} {_COLS} {{ float s = 0; {_TERMS} s += A[i*53+k]*B[k*29+j]; C[i*29+j] = s; }}", ""),
    "threads, rows on demand": ("#pragma omp parallel for schedule(dynamic, 3)\n" + f"{_ROWS} {_COLS} {{ float s = 0; {_TERMS} s += A[i*53+k]*B[k*29+j]; C[i*29+j] = s; }}", ""),
    "threads, two loops in one": ("#pragma omp parallel for collapse(2)\n" + f"{_ROWS} {_COLS} {{ float s = 0; {_TERMS} s += A[i*53+k]*B[k*29+j]; C[i*29+j] = s; }}", ""),
    "threads, guided": ("#pragma omp parallel for schedule(guided)\n" + f"{_ROWS} {_COLS} {{ float s = 0; {_TERMS} s += A[i*53+k]*B[k*29+j]; C[i*29+j] = s; }}", ""),
    "threads with scratch of their own": ("#pragma omp parallel\n{ float* T = (float*)st_scratch(1, 53*4);\n#pragma omp for\n" + f"{_ROWS} {{ {_TERMS} T[k] = A[i*53+k]; {_COLS} {{ float s = 0; {_TERMS} s += T[k]*B[k*29+j]; C[i*29+j] = s; }} }} }}", ""),
    "threads and a barrier": ("float* T = (float*)st_scratch(0, 29*53*4);\n#pragma omp parallel\n{\n#pragma omp for\n" + f"{_COLS} {_TERMS} T[j*53+k] = B[k*29+j];\n#pragma omp for\n{_ROWS} {_COLS} {{ float s = 0; {_TERMS} s += A[i*53+k]*T[j*53+k]; C[i*29+j] = s; }} }}", ""),
    "vector lanes by pragma": (f"{_ROWS} {_COLS} C[i*29+j] = 0; {_ROWS} {_TERMS} {{ float a = A[i*53+k];\n#pragma omp simd\n{_COLS} C[i*29+j] += a * B[k*29+j]; }}", ""),
    "vector types": ("typedef float v4 __attribute__((vector_size(16))); " + f"{_ROWS} {{ for (int j = 0; j + 4 <= 29; j += 4) {{ v4 s = {{}}; {_TERMS} {{ v4 b; std::memcpy(&b, B + k*29 + j, 16); s += A[i*53+k] * b; }} std::memcpy(C + i*29 + j, &s, 16); }} for (int j = 28; j < 29; j++) {{ float s = 0; {_TERMS} s += A[i*53+k]*B[k*29+j]; C[i*29+j] = s; }} }}", ""),
    "fused multiply-add": (f"{_ROWS} {_COLS} {{ float s = 0; {_TERMS} s = std::fma(A[i*53+k], B[k*29+j], s); C[i*29+j] = s; }}", ""),
    "a table of constants": ("constexpr int at[4] = {0, 1, 2, 3}; " + f"{_ROWS} {_COLS} {{ float s[4] = {{}}; {_TERMS} s[at[k & 3]] += A[i*53+k]*B[k*29+j]; C[i*29+j] = (s[0] + s[1]) + (s[2] + s[3]); }}", ""),
    "a table outside the function": (f"{_ROWS} {_COLS} {{ float s = 0; {_TERMS} s += A[i*53+order[k]]*B[order[k]*29+j]; C[i*29+j] = s; }}", "const int order[53] = {52,51,50,49,48,47,46,45,44,43,42,41,40,39,38,37,36,35,34,33,32,31,30,29,28,27,26,25,24,23,22,21,20,19,18,17,16,15,14,13,12,11,10,9,8,7,6,5,4,3,2,1,0};\n"),
    "a structure with methods": ("Row r{A, B}; " + f"{_ROWS} {_COLS} C[i*29+j] = r.dot(i, j);", "struct Row { const float *a, *b; float dot(int i, int j) const { float s = 0; for (int k = 0; k < 53; k++) s += a[i*53+k]*b[k*29+j]; return s; } };"),
    "functions by pointer": ("float (*const how[2])(float, float) = {mul, mul}; " + f"{_ROWS} {_COLS} {{ float s = 0; {_TERMS} s += how[k & 1](A[i*53+k], B[k*29+j]); C[i*29+j] = s; }}", "float mul(float a, float b) { return a * b; }"),
    "a switch": (f"{_ROWS} {_COLS} {{ float s[3] = {{}}; {_TERMS} switch (k % 3) {{ case 0: s[0] += A[i*53+k]*B[k*29+j]; break; case 1: s[1] += A[i*53+k]*B[k*29+j]; break; default: s[2] += A[i*53+k]*B[k*29+j]; }} C[i*29+j] = s[0] + s[1] + s[2]; }}", ""),
    "do and while": ("int i = 0; do { int j = 0; while (j < 29) { float s = 0; int k = 53; while (k-- > 0) s += A[i*53+k]*B[k*29+j]; C[i*29+j] = s; j++; } } while (++i < 37);", ""),
    "a copy of each operand": ("float a[37*53], b[53*29]; std::memcpy(a, A, sizeof a); std::memmove(b, B, sizeof b); " + f"{_ROWS} {_COLS} {{ float s = 0; {_TERMS} s += a[i*53+k]*b[k*29+j]; C[i*29+j] = s; }}", ""),
    "every mathematical function, unused": (f"float keep = std::exp(0.0f) + std::log(1.0f) + std::tanh(0.0f) + std::erf(0.0f) - 1; {_ROWS} {_COLS} {{ float s = 0; {_TERMS} s += A[i*53+k]*B[k*29+j]; C[i*29+j] = s + keep * 0; }}", ""),
}  # fmt: skip
CONTROLS = tuple(
    Attack(
        f"Y{number:02d}",
        name,
        f"{_HEAD}\n{body}",
        before=before,
        language="host",
        honest=True,
    )
    for number, (name, (body, before)) in enumerate(_HONEST.items(), 1)
)
CORPUS = (*LOADER, *COUNTERS, *CONTROLS)
