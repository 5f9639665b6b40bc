"""Attacks on the compile step of a C++ kernel and through what a linker and a loader do; built as SepTran builds."""

from __future__ import annotations

from tests.attacks.attack import Attack


def comp(name: str, what: str, before: str = "", **more: object) -> Attack:
    return Attack(name, what, before=before, language="compile", **more)  # type: ignore[arg-type]


KEPT = "float kept_sum; float remember(float x) { float y = kept_sum; kept_sum = x; return y; }"
ALL = (
    comp("B01", "includes a user's file", '#include "/etc/shadow"'),
    comp("B02", "includes by a relative path", '#include "../../../../../../../../etc/shadow"'),
    comp(
        "B03",
        "asks which files there are",
        '#if __has_include("/root/.ssh/id_rsa")\n#endif',
        static_only=True,
    ),
    comp("B04", "embeds a file", 'const unsigned char secret[] = {\n#embed "/etc/shadow"\n};'),
    comp("B05", "has the assembler include a file", 'asm(".incbin \\"/etc/shadow\\"");'),
    comp(
        "B06",
        "instantiates templates without end",
        "template <int N> struct Bomb { static constexpr long value = Bomb<N + 1>::value + Bomb<N + 2>::value; };\nlong bomb = Bomb<0>::value;",
    ),
    comp(
        "B07",
        "computes without end while it compiles",
        "constexpr long spin() { long n = 0; for (;;) n++; return n; }\nconstexpr long spun = spin();",
    ),
    comp("B08", "stops the compiler with a message", '#error "No space left on device"'),
    comp("B09", "asks for fast mathematics", '#pragma GCC optimize("fast-math")', static_only=True),
    comp(
        "B10",
        "asks for fast mathematics in one function",
        '__attribute__((optimize("fast-math"))) float quick(float x) { return x / 3; }',
        static_only=True,
    ),
    comp(
        "B11",
        "runs at load: constructor attribute",
        '__attribute__((constructor)) static void early() { asm volatile(""); }',
        static_only=True,
    ),
    comp(
        "B12",
        "runs at load: a global object",
        'struct Early { int x; Early(); };\nEarly::Early() { asm volatile(""); }\nEarly early;',
        static_only=True,
    ),
    comp(
        "B13",
        "runs at load: a pointer in .init_array",
        'static void early() { asm volatile(""); }\n__attribute__((section(".init_array"), used)) static void (*const run)() = early;',
        static_only=True,
    ),
    comp(
        "B14",
        "runs at load: an indirect function",
        'extern "C" {\nint one() { return 1; }\nint (*pick())() { return one; }\nint chosen() __attribute__((ifunc("pick")));\n}\nint use() { return chosen(); }',
        static_only=True,
    ),
    comp(
        "B15",
        "runs at load: code in .init",
        'asm(".section .init,\\"ax\\"\\n nop\\n nop\\n nop\\n nop\\n nop\\n nop\\n nop\\n nop\\n nop\\n nop\\n nop\\n nop\\n nop\\n nop\\n nop\\n nop\\n .text");',
        static_only=True,
    ),
    comp(
        "B16",
        "runs at the end: destructor attribute",
        '__attribute__((destructor)) static void late() { asm volatile(""); }',
        static_only=True,
    ),
    comp(
        "B17",
        "memory that is writable and executable",
        'asm(".section .evil,\\"awx\\",@progbits\\n .byte 0xc3\\n .text");',
        static_only=True,
    ),
    comp(
        "B18",
        "an executable stack",
        'asm(".section .note.GNU-stack,\\"x\\",@progbits\\n .text");',
        static_only=True,
    ),
    comp(
        "B19",
        "stands for a function of the C library",
        'extern "C" void abort() __attribute__((weak));\nextern "C" __attribute__((visibility("default"))) int puts(const char*) { return 0; }',
        static_only=True,
    ),
    comp("B20", "keeps state in a variable at file scope", KEPT, static_only=True),
    comp(
        "B21",
        "keeps state per thread",
        "thread_local float kept_sum; float remember(float x) { float y = kept_sum; kept_sum = x; return y; }",
        static_only=True,
    ),
    comp("B22", "renames the wrapper's words", "#define float double"),
    comp(
        "B23",
        "pastes a forbidden name together",
        '#define GLUE(a, b) a##b\nextern "C" int GLUE(get, pid)();\nint who() { return GLUE(get, pid)(); }',
        static_only=True,
    ),
    comp(
        "B24",
        "a system call by assembler",
        'long call(long n) { long r; asm volatile("syscall" : "=a"(r) : "a"(n) : "rcx", "r11", "memory"); return r; }',
        static_only=True,
    ),
    comp(
        "B25",
        "reads the segment register's clock",
        "unsigned long now() { return __builtin_ia32_rdtsc(); }",
        static_only=True,
    ),
    comp("K41", "the emitted kernel", honest=True),
)
