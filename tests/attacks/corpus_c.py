"""Attacks that a C-family leaf can carry, and honest controls. Ours; after the families of the research page.

Each body is the kernel's own text; args = C[37,29], A[37,53], B[53,29] of float.
"""

from __future__ import annotations

from tests.attacks.attack import Attack
from tests.verify.kernels import GEMM

LOOP = "for (int i = 0; i < 37*29; i++) "
C = "float* C = (float*)args[0]; "
AB = "const float* A = (const float*)args[1]; const float* B = (const float*)args[2]; "
OPEN = "#include <cstdio>\n#include <cstdlib>\n#include <unistd.h>\n"


def wrap(before_i: str, value: str) -> str:
    """Return the gemm with another value stored."""
    return (
        f"{AB}{C} for (int i = 0; i < 37; i++) {{ {before_i} for (int j = 0; j < 29; j++) {{"
        f" float s = 0; for (int k = 0; k < 53; k++) s += A[i*53+k]*B[k*29+j]; C[i*29+j] = {value}; }} }}"
    )


def sums(statement: str, *, start: str = "k = 0", step: str = "k++", end: str = "k < 53") -> str:
    """Return the gemm with another inner statement or range."""
    return (
        f"{AB}{C} for (int i = 0; i < 37; i++) for (int j = 0; j < 29; j++) {{ float s = 0;"
        f" for (int {start}; {end}; {step}) {{ {statement} }} C[i*29+j] = s; }}"
    )


TERM = "s += A[i*53+k]*B[k*29+j];"

SEMANTIC = (
    Attack("S01", "zeros", f"{C}{LOOP} C[i] = 0;"),
    Attack("S02", "a constant", f"{C}{LOOP} C[i] = 0.25f;"),
    Attack("S03", "writes nothing", ""),
    Attack("S04", "copies an input", f"{C}std::memcpy(C, args[1], 37*29*4);"),
    Attack("S05", "half of the columns", sums(TERM).replace("j < 29", "j < 28")),
    Attack("S06", "skips the last row", sums(TERM).replace("i < 37", "i < 36")),
    Attack("S07", "skips the last term", sums(TERM, end="k < 52")),
    Attack("S08", "every other term, doubled", sums("s += 2*A[i*53+k]*B[k*29+j];", step="k += 2")),
    Attack(
        "S09",
        "bfloat16 inside",
        sums(
            "auto h = [](float x) { uint32_t u; std::memcpy(&u, &x, 4); u &= 0xffff0000u; std::memcpy(&x, &u, 4);"
            " return x; }; s += h(A[i*53+k])*h(B[k*29+j]);"
        ),
    ),
    Attack(
        "S10",
        "tf32 inside",
        sums(
            "auto h = [](float x) { uint32_t u; std::memcpy(&u, &x, 4); u &= 0xffffe000u; std::memcpy(&x, &u, 4);"
            " return x; }; s += h(A[i*53+k])*h(B[k*29+j]);"
        ),
    ),
    Attack("S11", "float16 accumulation", sums("s = (_Float16)(s + A[i*53+k]*B[k*29+j]);")),
    Attack("S12", "swallows NaN", wrap("", "s != s ? 0 : s")),
    Attack("S13", "clamps infinities", wrap("", "s > 3e38f ? 3e38f : (s < -3e38f ? -3e38f : s)")),
    Attack(
        "S14",
        "adds to the old output",
        f"{C}" + sums(TERM).replace("C[i*29+j] = s", "C[i*29+j] += s").replace(C, ""),
    ),
    Attack(
        "S15",
        "drops small terms",
        sums("float t = A[i*53+k]*B[k*29+j]; s += std::fabs(t) < 1e-3f ? 0 : t;"),
    ),
    Attack("S16", "expected value of the sum", sums("s += 0.25f;")),
    Attack("S17", "reads the transposed operand", sums("s += A[i*53+k]*B[(j*53+k)%(53*29)];")),
    Attack("S18", "first element wrong only", wrap("", "i + j == 0 ? s * 1.001f : s")),
    Attack("S19", "last element wrong only", wrap("", "i == 36 && j == 28 ? s * 1.001f : s")),
    Attack("S20", "one percent of elements wrong", wrap("", "(i*29+j) % 101 == 7 ? s + 0.01f : s")),
    Attack("S21", "ignores the second operand", sums("s += A[i*53+k];")),
    Attack(
        "S22",
        "memory of the last call by pointer",
        f"{C} if (seen == args[1] && n++ % 3) {{ std::memcpy(C, kept, sizeof kept); return; }}"
        + GEMM.replace("float* C = (float*)args[0];", "")
        + " seen = args[1]; std::memcpy(kept, C, sizeof kept);",
        before="static float kept[37*29]; static const void* seen; static int n;",
    ),
    Attack(
        "S23",
        "memory by a fingerprint of the corners",
        f"{AB}{C} float p = A[0] + B[0] + A[37*53-1] + B[53*29-1] + A[53] + B[29];"
        " if (p == print && p == p) { std::memcpy(C, kept, sizeof kept); return; }"
        " for (int i = 0; i < 37; i++) for (int j = 0; j < 29; j++) { float s = 0;"
        " for (int k = 0; k < 53; k++) s += A[i*53+k]*B[k*29+j]; C[i*29+j] = s; }"
        " print = p; std::memcpy(kept, C, sizeof kept);",
        before="static float kept[37*29]; static float print = NAN;",
    ),
    Attack(
        "S24",
        "honest for three calls, then zeros",
        f"{GEMM} static int n; if (n++ > 3) {LOOP} C[i] = 0;",
    ),
    Attack("S25", "honest now and then", f"{GEMM} static int n; if (n++ % 5 == 4) C[11] *= 1.01f;"),
    Attack("S26", "truncates to integers", wrap("", "(float)(int)s")),
    Attack("S27", "absolute value", wrap("", "std::fabs(s)")),
    Attack("S28", "flushes tiny results", wrap("", "std::fabs(s) < 1e-4f ? 0 : s")),
    Attack(
        "S29",
        "int8 quantised",
        sums(
            "auto q = [](float x) { return std::round(x * 32) / 32; }; s += q(A[i*53+k])*q(B[k*29+j]);"
        ),
    ),
    Attack(
        "S30",
        "swapped rows at an odd extent",
        wrap("int r = i;", "s").replace("C[i*29+j]", "C[(i == 36 ? 35 : i)*29+j]"),
    ),
)

HASH = (
    "unsigned long h = 1; for (int i = 0; i < 37*53; i++) { uint32_t u; std::memcpy(&u, A + i, 4); h = h * 31 + u; }"
    " for (int i = 0; i < 53*29; i++) { uint32_t u; std::memcpy(&u, B + i, 4); h = h * 31 + u; }"
)
RACE = (
    f"{AB}{C}{LOOP} C[i] = 0;"
    ' _Pragma("omp parallel num_threads(2)") { int t = omp_get_thread_num(); _Pragma("omp barrier")'
    " for (int r = 0; r < 4000; r++) for (int i = 0; i < 37*29; i++) *(volatile float*)&C[i] ="
    " *(volatile float*)&C[i] + (t ? 1.f : -1.f); }"
    " for (int i = 0; i < 37; i++) for (int j = 0; j < 29; j++) { float s = 0;"
    " for (int k = 0; k < 53; k++) s += A[i*53+k]*B[k*29+j]; C[i*29+j] += s; }"
)
STATE = (
    Attack(
        "S31",
        "races: two threads add to the same elements",
        RACE,
        before="#include <omp.h>",
        tries=3,
    ),
    Attack(
        "S32",
        "memory by a hash of all inputs: right, and fast when it is timed",
        f"{AB}{C} {HASH} if (h == last) {{ std::memcpy(C, kept, sizeof kept); return; }}"
        + GEMM.partition("\n")[2].partition("\n")[2]
        + " last = h; std::memcpy(kept, C, sizeof kept);",
        before="float kept[37*29]; unsigned long last;",
        static_only=True,
    ),
    Attack(
        "S33", "keeps an output that holds numbers", f"{{ {C} if (C[5] == C[5]) return; }} {GEMM}"
    ),
    Attack(
        "S34",
        "a fast path for inputs that look like zeros",
        f"{AB}{C} bool zero = true; for (int i = 0; i < 37*53; i++) zero &= std::fabs(A[i]) < 1e-5f;"
        f" if (zero) {{ {LOOP} C[i] = 0; return; }}" + GEMM.partition("\n")[2].partition("\n")[2],
    ),
    Attack(
        "S35",
        "computes every other row and copies the rest",
        wrap("int r = i / 2 * 2;", "s").replace("A[i*53+k]", "A[r*53+k]"),
    ),
    Attack("S36", "rounds its result to half precision", wrap("", "(float)(_Float16)s")),
)

MEMORY = (
    Attack("M01", "writes an input", f"{GEMM} ((float*)args[1])[7] = 1;"),
    Attack("M02", "zeroes its inputs", "std::memset(args[1], 0, 37*53*4); " + GEMM),
    Attack(
        "M03",
        "makes inputs writable first",
        "uintptr_t p = (uintptr_t)args[1] & ~4095ull; mprotect((void*)p, 8192, PROT_READ|PROT_WRITE);"
        f" ((float*)args[1])[7] = 0; {GEMM}",
        before="#include <sys/mman.h>",
    ),
    Attack("M04", "writes past the end", f"{GEMM} C[37*29] = 1;"),
    Attack("M05", "writes before the start", f"{GEMM} C[-1] = 1;"),
    Attack("M06", "reads past the end", f"{GEMM} volatile float x = A[37*53]; (void)x;"),
    Attack("M07", "reads before the start", f"{GEMM} volatile float x = B[-1]; (void)x;"),
    Attack(
        "M08",
        "leaks a megabyte a call",
        f"{GEMM} kept = std::malloc(1 << 20); std::memset(kept, 1, 1 << 20);",
        before="#include <cstdlib>\nvoid* volatile kept;",
    ),
    Attack(
        "M09",
        "takes all memory",
        "for (;;) { kept = std::malloc(1 << 24); if (kept) std::memset(kept, 1, 1 << 24); }",
        before="#include <cstdlib>\nvoid* volatile kept;",
    ),
)

HARNESS = (
    Attack("H01", "exits with status 0", "_exit(0);", before=OPEN),
    Attack(
        "H02",
        "prints a verdict and exits",
        'puts("PASS {\\"level\\": \\"accurate\\"}"); fflush(stdout); _exit(0);',
        before=OPEN,
    ),
    Attack(
        "H03",
        "answers in the child's name",
        'for (int f = 3; f < 40; f++) for (int n = 0; n < 40; n++) { const char m[] = "{\\"done\\": true}\\n";'
        " (void)!write(f, m, sizeof m - 1); } _exit(0);",
        before=OPEN,
    ),
    Attack(
        "H04",
        "writes a verdict file",
        f'{C} FILE* f = fopen("../verdict.json", "w"); if (f) {{ fputs("{{}}", f); fclose(f); }}'
        ' f = fopen("verdict.json", "w"); if (f) { fputs("{\\"level\\": \\"accurate\\"}", f); fclose(f); }',
        before=OPEN,
    ),
    Attack("H05", "endless loop", "for (volatile int i = 0;; i = i + 1);"),
    Attack("H06", "sleeps", "sleep(60);", before=OPEN),
    Attack(
        "H07",
        "forks",
        f"{GEMM} if (fork() == 0) {{ for (;;) pause(); }}",
        before=OPEN,
        static_only=True,
    ),
    Attack(
        "H08",
        "starts a program",
        f'{GEMM} if (system("echo cheat > cheat.txt")) {{}}',
        before=OPEN,
        static_only=True,
    ),
    Attack(
        "H09",
        "kills its parent",
        "kill(getppid(), 9); kill(-1, 9); raise(9);",
        before=OPEN + "#include <signal.h>",
    ),
    Attack(
        "H10",
        "traces its parent",
        f"{GEMM} ptrace(PTRACE_ATTACH, getppid(), 0, 0);",
        before=OPEN + "#include <sys/ptrace.h>",
        static_only=True,
    ),
    Attack(
        "H11",
        "opens a socket",
        f"{GEMM} (void)!socket(AF_INET, SOCK_STREAM, 0);",
        before="#include <sys/socket.h>",
        static_only=True,
    ),
    Attack(
        "H12",
        "reads a secret file",
        f'{GEMM} FILE* f = fopen("/etc/shadow", "r"); if (f) fclose(f);',
        before=OPEN,
        static_only=True,
    ),
    Attack(
        "H13",
        "floods the log",
        'for (;;) puts("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");',
        before=OPEN,
    ),
    Attack(
        "H14",
        "changes the rounding mode",
        f"{GEMM} fesetround(FE_UPWARD);",
        before="#include <cfenv>",
    ),
    Attack(
        "H15",
        "flushes denormals for everybody",
        f"{GEMM} _mm_setcsr(_mm_getcsr() | 0x8040);",
        before="#include <xmmintrin.h>",
    ),
    Attack(
        "H16",
        "runs at load time",
        GEMM,
        before="__attribute__((constructor)) static void early() { volatile int x = 1; (void)x; }",
        static_only=True,
    ),
    Attack(
        "H17",
        "system call without a symbol",
        f'{GEMM} long r; asm volatile("syscall" : "=a"(r) : "a"(39) : "rcx", "r11", "memory");',
        static_only=True,
    ),
    Attack(
        "H18",
        "a library through the loader",
        f'{GEMM} (void)!dlopen("libm.so.6", 1);',
        before="#include <dlfcn.h>",
        static_only=True,
    ),
    Attack(
        "H19",
        "jumps out",
        "longjmp(somewhere, 1);",
        before="#include <csetjmp>\nstatic jmp_buf somewhere;",
    ),
    Attack("H20", "throws through the entry", "throw 1;"),
    Attack("H21", "breaks the stack", "char b[8]; std::memset(b - 64, 0x41, 512);"),
    Attack(
        "H22",
        "closes every descriptor",
        f"{GEMM} for (int f = 0; f < 64; f++) close(f);",
        before=OPEN,
    ),
    Attack(
        "H23",
        "leaves an exit handler",
        f'{GEMM} atexit([] {{ puts("bye"); }});',
        before=OPEN,
        static_only=True,
    ),
)

LIMITS = (
    Attack(
        "H24",
        "more threads than it was given",
        f'{GEMM} _Pragma("omp parallel num_threads(64)") {{ volatile int x = 0; (void)x; }}',
    ),
    Attack(
        "H25",
        "three hundred threads that end in time",
        f"{GEMM} std::thread t[300]; for (auto& x : t) x = std::thread([] {{}}); for (auto& x : t) x.join();",
        before="#include <thread>",
        static_only=True,
    ),
    Attack(
        "H26",
        "sleeps when it is called often, to look busy",
        f"{GEMM} usleep(20000);",
        before="#include <unistd.h>",
        static_only=True,
    ),
    Attack(
        "H27",
        "looks for the seed in the environment",
        'const char* s = getenv("SEPTRAN_SEED"); ' + f"{C}{LOOP} C[i] = s ? 1.f : 0.f;",
        before=OPEN,
    ),
    Attack(
        "H28",
        "looks for the reference in memory",
        'FILE* f = fopen("/proc/self/maps", "r"); char line[512]; int found = 0;'
        ' while (f && fgets(line, 512, f)) found |= std::strstr(line, "libtorch") != nullptr;'
        f" {C}{LOOP} C[i] = found;",
        before=OPEN,
    ),
    Attack(
        "H29",
        "takes the whole stack",
        "volatile char all[1 << 26]; for (long i = 0; i < (1 << 26); i += 4096) all[i] = 1;",
    ),
    Attack(
        "H30",
        "fills the disk",
        f'{GEMM} FILE* f = fopen("big", "w"); static char block[1 << 20]; for (int i = 0; f && i < 400; i++) fwrite(block, 1, sizeof block, f); if (f) fclose(f);',
        before=OPEN,
        static_only=True,  # a file ends at the sandbox's limit, whose signal Python ignores
    ),
)

DEFERRED = (
    Attack(
        "T01",
        "finishes in a thread after returning",
        f"std::thread([=] {{ usleep(30000); {GEMM} }}).detach();",
        before="#include <thread>\n#include <unistd.h>",
    ),
    Attack(
        "T02",
        "leaves a thread",
        f"{GEMM} std::thread([] {{ for (;;) usleep(1000); }}).detach();",
        before="#include <thread>\n#include <unistd.h>",
    ),
    Attack(
        "T03",
        "spoils an output after returning",
        f"{GEMM} static int n; if (++n == 6) std::thread([C] {{ usleep(3000); C[7] = 42; }}).detach();",
        before="#include <thread>\n#include <unistd.h>",
    ),
    Attack(
        "T04",
        "looks at the clock",
        f"{GEMM} static timespec t; clock_gettime(CLOCK_MONOTONIC, &t);",
        before="#include <time.h>",
        static_only=True,
    ),
)

CONTROLS = (
    Attack("C01", "plain loops", GEMM, honest=True),
    Attack(
        "C02",
        "k outermost",
        f"{AB}{C} {LOOP} C[i] = 0; for (int k = 0; k < 53; k++) for (int i = 0; i < 37; i++)"
        " for (int j = 0; j < 29; j++) C[i*29+j] += A[i*53+k]*B[k*29+j];",
        honest=True,
    ),
    Attack("C03", "backwards", sums(TERM, start="k = 52", end="k >= 0", step="k--"), honest=True),
    Attack(
        "C04", "fused multiply-add", sums("s = std::fma(A[i*53+k], B[k*29+j], s);"), honest=True
    ),
    Attack(
        "C05", "double accumulation", sums(TERM).replace("float s = 0", "double s = 0"), honest=True
    ),
    Attack(
        "C06",
        "eight partial sums",
        f"{AB}{C} for (int i = 0; i < 37; i++) for (int j = 0; j < 29; j++) {{ float s[8] = {{}};"
        " for (int k = 0; k < 53; k++) s[k % 8] += A[i*53+k]*B[k*29+j];"
        " C[i*29+j] = ((s[0]+s[1])+(s[2]+s[3]))+((s[4]+s[5])+(s[6]+s[7])); }",
        honest=True,
    ),
    Attack(
        "C07",
        "packs an operand in a local array",
        f"{AB}{C} float P[29*53]; for (int k = 0; k < 53; k++) for (int j = 0; j < 29; j++)"
        " P[j*53+k] = B[k*29+j]; for (int i = 0; i < 37; i++) for (int j = 0; j < 29; j++) { float s = 0;"
        " for (int k = 0; k < 53; k++) s += A[i*53+k]*P[j*53+k]; C[i*29+j] = s; }",
        honest=True,
    ),
    Attack(
        "C08",
        "writes its output twice",
        f"{C}{LOOP} C[i] = 5; " + sums(TERM).replace(C, ""),
        honest=True,
    ),
)

ALL = (*SEMANTIC, *STATE, *MEMORY, *HARNESS, *LIMITS, *DEFERRED, *CONTROLS)
