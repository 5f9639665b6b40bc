"""Leaves whose results are right, so only their text can give them away; and honest leaves that look odd.

All are bodies of one C++ leaf, C = A B on views; HONEST stands for the right statements. `through` names the version
whose gate each was shown to pass: a scanner of tokens read them differently from the compiler, or had no word for them.
"""

from __future__ import annotations

from tests.attacks.attack import Attack

OLD = "7d6a5d9"
WORK = "for (long i = 0; i < 37; ++i) for (long j = 0; j < 29; ++j) { float s = 0; for (long k = 0; k < 53; ++k) s += A(i, k) * B(k, j); C(i, j) = s; }"


def leaf(name: str, what: str, body: str, *, before: str = "") -> Attack:
    return Attack(
        name,
        what,
        body.replace("HONEST", WORK),
        before=before,
        language="leaf",
        static_only=True,
        through=OLD,
    )


def control(name: str, what: str, body: str) -> Attack:
    return Attack(name, what, body.replace("HONEST", WORK), language="leaf", honest=True)


ATTACKS = (
    # the scanner's tokens are not the compiler's
    leaf("G01", "digit separators hide an asm statement", "HONEST long a = 1'0; asm volatile(\"nop\"); long b = 2'0; (void)a; (void)b;"),
    leaf("G02", "a digit separator opens what looks like a character", "HONEST long a = 0'1; extern float kept; (void)a; long b = 1'0; (void)b;"),
    leaf("G03", "an enumeration", "enum { one = 1 }; (void)one; HONEST"),
    leaf("G04", "an encoding prefix before a raw string", 'HONEST const char* s = u8R"(" ; )"[0] ? "a" : "b"; (void)s;'),
    leaf("G05", "_Pragma says what #pragma may not", 'HONEST _Pragma("GCC diagnostic ignored \\"-Wall\\"")'),
    leaf("G06", "a pragma whose tail is not read", "HONEST\n#pragma omp parallel for schedule(dynamic) if(1)\nfor (long i = 0; i < 37; ++i) C(i, 0) = C(i, 0);"),
    leaf("G07", "an asm label between digit separators binds a declaration to another function", "HONEST long a = 1'0; int mine() asm(\"getpid\"); long b = 2'0; (void)a; (void)b;"),
    leaf("G08", "an attribute with a text: a target", '__attribute__((target("no-fma"))) auto f = [&] {}; f(); HONEST'),
    leaf("G09", "an attribute of another vendor", "HONEST [[gnu::noinline]] auto f = [] { return 1; }; (void)f;"),
    leaf("G10", "a variable that lives in a register of its choice", 'HONEST long sp = (long)__builtin_dwarf_cfa(); (void)sp;'),
    leaf("G11", "asks for the processor's maker", 'HONEST if (__builtin_cpu_is("amd")) C(0, 0) = C(0, 0);'),
    leaf("G12", "asks which processor it is", 'HONEST if (__builtin_cpu_supports("avx2")) C(0, 0) = C(0, 0);'),
    leaf("G13", "asks whether a value is a compile-time constant", "HONEST if (__builtin_constant_p(A.n[0])) C(0, 0) = C(0, 0);"),
    leaf("G14", "an undefined macro decides", "HONEST\n#ifndef __OPTIMIZE__\nC(0, 0) = 0;\n#endif"),
    leaf("G15", "a macro renames a name of the runtime", "HONEST\n#define View Look\n#undef View"),
    leaf("G16", "a macro of the compiler: a counter of lines", "HONEST constexpr long line = __LINE__; (void)line;"),
    leaf("G17", "a function's own name", "HONEST const char* who = __func__; (void)who;"),
    leaf("G18", "operators by their other names", "HONEST bool x = true and not false; (void)x;"),
    # what a leaf can reach although no word of it is on a list
    leaf("G19", "a pointer made of a number", "HONEST const float* p = (const float*)4096; (void)p;"),
    leaf("G20", "a pointer to a member", "auto member = &st::View<float, 2>::p; (void)member; HONEST"),
    leaf("G21", "a function as a value", "HONEST double (*f)(double) = std::exp; (void)f;"),
    leaf("G22", "the address of a label", "HONEST void* here = &&out; out: (void)here;"),
    leaf("G23", "a statement expression", "HONEST long x = ({ long y = 1; y; }); (void)x;"),
    leaf("G24", "a nested type with a destructor", "struct Last { float* p; ~Last() { p[0] = p[0]; } } last{C.p}; HONEST"),
    leaf("G25", "a template decides by substitution", "auto f = [](auto x) -> decltype(x.p) { return x.p; }; (void)f(A); HONEST"),
    leaf("G26", "a concept decides", "auto f = [](auto x) { if constexpr (requires { x.hidden; }) return 1; else return 0; }; (void)f(A); HONEST"),
    leaf("G27", "reads through a union", "union { float f; unsigned u; } x = {1.0f}; (void)x; HONEST"),
    leaf("G28", "keeps the heap", "float* p = new float[4]; delete[] p; HONEST"),
    leaf("G29", "takes memory from the stack", "float* p = (float*)__builtin_alloca(64); (void)p; HONEST"),
    leaf("G30", "a function that ends the process, by name", "if (C.n[0] < 0) std::abort(); HONEST"),
    leaf("G31", "waits by a builtin", "__builtin_ia32_pause(); HONEST"),
    leaf("G32", "flushes a cache line", "__builtin_ia32_clflush(C.p); HONEST"),
    leaf("G33", "stores around the cache", "__builtin_ia32_mfence(); HONEST"),
    leaf("G34", "reads the rounding mode", "unsigned m = __builtin_ia32_stmxcsr(); (void)m; HONEST"),
    leaf("G35", "a type of the compiler", "__int128 x = 1; (void)x; HONEST"),
    leaf("G36", "a prefix that names another scope", "long x = ::floor(1.0); (void)x; HONEST"),
    leaf("G37", "an alignment of its choice", "alignas(4096) float t[4] = {}; (void)t; HONEST"),
    leaf("G38", "an exception specification", "auto f = []() noexcept(true) { return 1; }; (void)f(); HONEST"),
)  # fmt: skip

CONTROLS = (
    control("C11", "plain loops over views", "HONEST"),
    control("C12", "variables named time, signal, read, section, thread", "long time = 37, signal = 29, read = 53; float section = 0, thread = 1; for (long i = 0; i < time; ++i) for (long j = 0; j < signal; ++j) { section = 0; for (long k = 0; k < read; ++k) section += A(i, k) * B(k, j); C(i, j) = section * thread; }"),
    control("C13", "compensated sums that keep infinities", "for (long i = 0; i < 37; ++i) for (long j = 0; j < 29; ++j) { float s = 0, c = 0; for (long k = 0; k < 53; ++k) { const float y = A(i, k) * B(k, j) - c, t = s + y; const float e = (t - s) - y; c = e == e ? e : 0; s = t; } C(i, j) = s; }"),
    control("C14", "a table of constants", "static constexpr long step[4] = {1, 1, 1, 1}; for (long i = 0; i < 37; i += step[i % 4]) for (long j = 0; j < 29; ++j) { float s = 0; for (long k = 0; k < 53; ++k) s += A(i, k) * B(k, j); C(i, j) = s; }"),
    control("C15", "a lambda for the product", "const auto dot = [&](long i, long j) { float s = 0; for (long k = 0; k < 53; ++k) s += A(i, k) * B(k, j); return s; }; for (long i = 0; i < 37; ++i) for (long j = 0; j < 29; ++j) C(i, j) = dot(i, j);"),
    control("C16", "the runtime's product", "using namespace st; gemm<float, false, false, false, false, false>(C, A, B);"),
    control("C17", "pointers that walk", "for (long i = 0; i < 37; ++i) { const float* a = A.p + i * A.s[0]; float* c = C.p + i * C.s[0]; for (long j = 0; j < 29; ++j) { float s = 0; for (long k = 0; k < 53; ++k) s += a[k] * B(k, j); *c++ = s; } }"),
    control("C18", "comparisons that look like templates", "const long n = 29, m = 37, z = 53; for (long i = 0; i < m && z > (1); ++i) for (long j = 0; j < n; ++j) { float s = 0; for (long k = 0; k < z; ++k) s += A(i, k) * B(k, j); C(i, j) = s; }"),
    control("C19", "digit separators", "for (long i = 0; i < 0'37 + 6; ++i) for (long j = 0; j < 2'9; ++j) { float s = 0; for (long k = 0; k < 5'3; ++k) s += A(i, k) * B(k, j); C(i, j) = s; }"),
    control("C20", "comments with quotes", "/* the row's */ HONEST // don't \"stop\" here"),
    control("C21", "vectors with a tail", "using V = st::f32v; constexpr long L = st::lanes<V>; for (long i = 0; i < 37; ++i) for (long j = 0; j < 29; j += L) { V s = {}; for (long k = 0; k < 53; ++k) s += A(i, k) * st::load_n<V>(B.p + k * B.s[0] + j, 29 - j); st::store_n(C.p + i * C.s[0] + j, s, 29 - j); }"),
    control("C22", "blocks in a local array", "for (long i = 0; i < 37; ++i) { float row[29] = {}; for (long k = 0; k < 53; ++k) for (long j = 0; j < 29; ++j) row[j] += A(i, k) * B(k, j); for (long j = 0; j < 29; ++j) C(i, j) = row[j]; }"),
    control("C23", "while loops and early ends", "long i = 0; while (true) { if (i == 37) break; for (long j = 0; j < 29; ++j) { float s = 0; long k = 0; do { s += A(i, k) * B(k, j); ++k; } while (k < 53); C(i, j) = s; } ++i; }"),
    control("C24", "two accumulators of doubles", "for (long i = 0; i < 37; ++i) for (long j = 0; j < 29; ++j) { double s[2] = {0, 0}; for (long k = 0; k < 53; ++k) s[k & 1] += (double)A(i, k) * static_cast<double>(B(k, j)); C(i, j) = (float)(s[0] + s[1]); }"),
    control("C25", "fused multiply-add by name", "for (long i = 0; i < 37; ++i) for (long j = 0; j < 29; ++j) { float s = 0; for (long k = 0; k < 53; ++k) s = std::fma(A(i, k), B(k, j), s); C(i, j) = s; }"),
    control("C26", "a hint for the compiler", "for (long i = 0; i < 37; ++i) for (long j = 0; j < 29; ++j) { float s = 0;\n#pragma GCC unroll 4\nfor (long k = 0; k < 53; ++k) s += A(i, k) * B(k, j);\nC(i, j) = s; }"),
    control("C27", "prefetches the next row", "for (long i = 0; i < 37; ++i) { st::prefetch(A.p + (i + 1) * A.s[0]); for (long j = 0; j < 29; ++j) { float s = 0; for (long k = 0; k < 53; ++k) s += A(i, k) * B(k, j); C(i, j) = s; } }"),
    control("C28", "references to elements", "for (long i = 0; i < 37; ++i) for (long j = 0; j < 29; ++j) { float& c = C(i, j); c = 0; for (long k = 0; k < 53; ++k) c += A(i, k) * B(k, j); }"),
    control("C29", "a conditional of conditionals", "for (long i = 0; i < 37; ++i) for (long j = 0; j < 29; ++j) { float s = 0; for (long k = 0; k < 53; ++k) s += i < 0 ? 0 : j < 0 ? 1 : A(i, k) * B(k, j); C(i, j) = s; }"),
    control("C31", "a switch for the tail of an unrolled loop", "for (long i = 0; i < 37; ++i) for (long j = 0; j < 29; ++j) { float s = 0; long k = 0; for (; k + 4 <= 53; k += 4) s += A(i, k) * B(k, j) + A(i, k + 1) * B(k + 1, j) + A(i, k + 2) * B(k + 2, j) + A(i, k + 3) * B(k + 3, j); switch (53 - k) { case 3: s += A(i, k + 2) * B(k + 2, j); [[fallthrough]]; case 2: s += A(i, k + 1) * B(k + 1, j); [[fallthrough]]; case 1: s += A(i, k) * B(k, j); break; default: break; } C(i, j) = s; }"),
    control("C32", "an aligned array and sizes of types", "alignas(64) float row[32] = {}; const long bytes = sizeof(float) * 29; for (long i = 0; i < 37; ++i) { for (long j = 0; j < bytes / (long)sizeof(float); ++j) { float s = 0; for (long k = 0; k < 53; ++k) s += A(i, k) * B(k, j); row[j] = s; } for (long j = 0; j < 29; ++j) C(i, j) = row[j]; }"),
    control("C30", "backwards, with unsigned counters", "for (size_t i = 37; i-- > 0;) for (size_t j = 29; j-- > 0;) { float s = 0; for (size_t k = 53; k-- > 0;) s += A(i, k) * B(k, j); C(i, j) = s; }"),
)  # fmt: skip

ALL = (*ATTACKS, *CONTROLS)
