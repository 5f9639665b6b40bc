"""Bundles that somebody signed (`F` and controls from F51) and mappings with leaves (`E`): wrong for who runs the kernel, or for who reads the file."""

from __future__ import annotations

from typing import Any

from tests.attacks.attack import Attack

THROUGH = "fc2f431"


def make(language: str):
    def attack(name: str, what: str, *, through: bool = True, honest: bool = False, **more: Any) -> Attack:  # fmt: skip
        return Attack(
            name, what, language=language, honest=honest, static_only=not honest,
            through=THROUGH if through and not honest else "", **more,
        )  # fmt: skip

    return attack


cpp, cuda, mapping = make("cpp bundle"), make("cuda bundle"), make("mapping")

ENTRY = "row_sum_entry(void* const* args) {\n"
CPP = (
    cpp("F01", "honest where the judge builds it only", edits=((ENTRY, f"{ENTRY}#ifndef SEPTRAN_HOSTED\n    return;\n#endif\n"),)),
    cpp("F02", "a macro that the judge's build alone defines, as a value", through=False, edits=((ENTRY, f"{ENTRY}    if (SEPTRAN_HOSTED == 0) return;\n"),)),
    cpp("F03", "a comment hides a condition's end", through=False, edits=(("// ---- hierarchy", "// ---- hierarchy\n/* x */ #ifndef SEPTRAN_HOSTED\n#define FIRST return;\n/**/ #else\n#define FIRST\n#endif"), (ENTRY, f"{ENTRY}    FIRST\n"))),
    cpp("F04", "the vectors of its runtime are others on other processors", through=False, edits=(("// ---- runtime: arena", "#ifndef __x86_64__\n#define memcpy(a, b, c)\n#endif\n// ---- runtime: arena"),)),
    cpp("F05", "a line behind a comment that ends in a backslash and a blank", edits=((ENTRY, f"{ENTRY}// spliced \\ \n    if (args == nullptr) return;\n"),)),
    cpp("F06", "a second part that is called leaves", through=False, edits=(("// ---- hierarchy", "// ---- leaves\nstatic int calls() { return 1; }\n\n// ---- hierarchy"),)),
    cpp("F07", "a header of its own beside the kernel", through=False, beside=(("immintrin.h", "#pragma once\n"),)),
    cpp("F08", "what a build makes, beside the kernel", beside=(("support.o", "\n"), ("kernel.so", "\n"), ("kernel.host", "\n"))),
    cpp("F09", "a name of the compiler's choosing", through=False, edits=((ENTRY, f"{ENTRY}    if (__builtin_constant_p(args)) return;\n"),)),
    cpp("F10", "another text for where it lies", through=False, edits=((ENTRY, f"{ENTRY}    if (__FILE__[0] == '/') return;\n"),)),
    cpp("F11", "its sizes are a text", fields='{"verdict": {"dims": {"M": "many"}}}'),
    cpp("F12", "its sizes are a list", fields='{"verdict": {"dims": [19, 67]}}'),
    cpp("F13", "its files are a number", fields='{"kernel": {"files": 3}}'),
    cpp("F14", "its files are no pairs", fields='{"kernel": {"files": [["row_sum.cpp"]]}}'),
    cpp("F15", "half a character in its text", fields='{"kernel": {"files": [["row_sum.cpp", "\\ud800"]]}}'),
    cpp("F16", "it asks for nothing that can be asked for", fields='{"request": [1]}'),
    cpp("F17", "its operator is a list", fields='{"request": {"op": ["row_sum"]}}'),
    cpp("F18", "it names no target", fields='{"kernel": {"backend": null}}'),
    cpp("F19", "a file that is a folder of another", through=False, beside=(("a", "x"), ("a/b.h", "y"))),
    cpp("F20", "a file name of three hundred characters", through=False, beside=(("x" * 300, "y"),)),
    cpp("F21", "a file outside of its folder", through=False, beside=(("../../outside.h", "y"),)),
    cpp("F22", "a file that is an option", through=False, beside=(("-wrapper", "y"),)),
    cpp("F23", "evidence for another kernel", through=False, fields='{"verdict": {"kernel_sha": "0123456789abcdef"}}'),
    cpp("F51", "the emitted kernel", honest=True),
    cpp("F52", "a statement more in its hierarchy", honest=True, edits=((ENTRY, f"{ENTRY}    args = args + 0;\n"),)),
    cpp("F53", "comments of other versions and writers", honest=True, edits=((ENTRY, f"{ENTRY}// signed by me\n    /* a: 'quote' \\ */ // b \"\n"),)),
    cpp("F54", "a pragma for the compiler", honest=True, edits=((ENTRY, f"{ENTRY}#pragma GCC unroll 2\n    for (int z = 0; z < 1; ++z) {{}}\n"),)),
    cpp("F55", "a name that looks like another's", honest=True, edits=((ENTRY, f"{ENTRY}    const long SEPTRAN = 1, hosted = SEPTRAN, __builtin = hosted; (void)__builtin;\n"),)),
    cpp("F56", "fields that nobody knows", honest=True, fields='{"note": {"by": "me"}, "request": {"why": [1]}}'),
)  # fmt: skip

BOUND = "    st::bound(acc, 19, 1);\n"
CUDA = (
    cuda("F31", "honest in an emulation only", edits=((BOUND, f"{BOUND}#ifndef SEPTRAN_EMULATE\n    return;\n#endif\n"),)),
    cuda("F32", "honest for the host compiler only", through=False, edits=((BOUND, f"{BOUND}#ifdef __CUDA_ARCH__\n    return;\n#endif\n"),)),
    cuda("F33", "another launch on a device", edits=(("#else\n    if (const char* error", "#else\n    return;\n    if (const char* error"),)),
    cuda("F34", "another entry for a stream, which no emulation calls", through=False, edits=(("    return row_sum_entry_launch(args, static_cast<cudaStream_t>(stream));", "    return nullptr;"),)),
    cuda("F35", "one order of its blocks instead of all", through=False, edits=(("cuemu::in_every_order({{args[0], 76}}, [&] { row_sum_entry_launch(args, nullptr); });", "row_sum_entry_launch(args, nullptr);"),)),
    cuda("F36", "headers that are others on a device", edits=(("#pragma once\n", "#pragma once\n#ifndef SEPTRAN_EMULATE\n#define fmaxf(a, b) (a)\n#endif\n"),)),
    cuda("F37", "the emulator's checks taken out of a header", through=False, edits=(("#ifdef SEPTRAN_EMULATE\n  // A staged tile", "#if 0\n  // A staged tile"),)),
    cuda("F38", "a header of the emulation's name", beside=(("cuda_runtime.h", "#include_next <cuda_runtime.h>\n"),)),
    cuda("F39", "decides by a clock of the device", edits=((BOUND, f"{BOUND}    if (clock64() % 99991 == 3) return;\n"),)),
    cuda("F40", "an interpreter of its own beside a Triton kernel that races", source="triton", beside=(("septran_triton_interp.py", "def install(watch):\n    pass\n"), ("septran_triton_selftest.py", "def check(watch):\n    pass\n")), edits=(("(2,)](Y, X", "(3,)](Y, X"), ("    Y_0 = i0 * 16", "    Y_0 = i0 * 8"), ("    X_0 = i0 * 16", "    X_0 = i0 * 8"))),
    cuda("F41", "a vendor's header with waits of its own beside C", through=False, source="dsa", edits=(("      vendor_lib_wait(VL_Q_LOAD, VL_Q_VEC, 0);\n", ""), ("#define VENDOR_LIB_H\n", "#define VENDOR_LIB_H\n#define VL_WAITS vendor_lib_wait(VL_Q_LOAD, VL_Q_VEC, 0)\n"))),
    cuda("F42", "HIP that is honest in an emulation only", through=False, source="hip", edits=(("    leaf_zero_e2a1bf(acc);\n", "#ifdef SEPTRAN_EMULATE\n    leaf_zero_e2a1bf(acc);\n#endif\n"),), fields='{"request": {"dtype": "float16"}}'),
    cuda("F61", "the emitted kernel", honest=True),
    cuda("F62", "a comment and a barrier more", honest=True, edits=((BOUND, f"{BOUND}    __syncthreads(); /* all */ // of them\n"),)),
    cuda("F63", "a variable called clock and one called arch", honest=True, edits=((BOUND, f"{BOUND}    const int clock = 1, arch = clock; (void)arch;\n"),)),
    cuda("F64", "Triton as emitted", honest=True, source="triton"),
    cuda("F65", "C over a vendor's library as emitted", honest=True, source="dsa"),
)  # fmt: skip

MAP = """target: cpp
entrypoint: host
task_mappings:
  host: {task_name: gemm, proc: HOST, tunables: {block_size_K: 512, block_size_M: 24, block_size_N: 32}, calls: {gemm_tile: tile}}
  tile: {task_name: gemm_tile, proc: CORE, mems: {acc: REGISTER}, leaf_task_bindings: {zero: auto, mma: {kernel: mine}, store: auto}}
leaf_kernels:
  mine: {dsl: cpp, symbol: mine, source: leaf.cpp}
"""
HEAD = "static void mine(st::View<float, 2> C, st::View<const float, 2> A, st::View<const float, 2> B) {\n"
LOOPS = "for (long i = 0; i < C.n[0]; ++i) for (long j = 0; j < C.n[1]; ++j) { float s = 0; for (long k = 0; k < A.n[1]; ++k) s += A(i, k) * B(k, j); C(i, j) = s; }\n"


def leaf(body: str = LOOPS, head: str = HEAD) -> tuple[tuple[str, str], ...]:
    return (("leaf.cpp", f"{head}{body}}}\n"),)


def mapped(name: str, what: str, *, text: str = MAP, beside: tuple[tuple[str, str], ...] = (), **more: Any) -> Attack:  # fmt: skip
    return mapping(name, what, source=text, beside=beside or leaf(), **more)


_ALIASES = "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]\n" for i in range(20)
)
MAPPINGS = (
    mapped("E01", "a leaf's file that is no text", beside=(("leaf.cpp", "mine \xff\xfe"),)),
    mapped("E02", "a leaf's file of a name that no system takes", through=False, text=MAP.replace("leaf.cpp", "x" * 300)),
    mapped("E03", "a leaf's file of megabytes", beside=(("leaf.cpp", "// mine\n" + "x" * (2 << 20)),), through=False),
    mapped("E04", "a leaf's types are a number", text=MAP.replace("symbol: mine", "symbol: mine, dtypes: 3")),
    mapped("E05", "a leaf's conditions are a number", text=MAP.replace("symbol: mine", "symbol: mine, requires: 3.5")),
    mapped("E06", "a leaf's file is a secret of the system", text=MAP.replace("leaf.cpp", "/etc/passwd"), through=False),
    mapped("E07", "a leaf's file is a device", text=MAP.replace("leaf.cpp", "/dev/zero"), through=False),
    mapped("E08", "a leaf that includes a file", beside=leaf(head=f'#include "/etc/passwd"\n{HEAD}'), through=False),
    mapped("E09", "a leaf with an assembler's statement", beside=leaf(f'asm volatile("nop");\n{LOOPS}'), through=False),
    mapped("E10", "a leaf that counts its calls", beside=leaf(f"static int calls; if (++calls > 30000) return;\n{LOOPS}"), through=False),
    mapped("E11", "a leaf that counts its calls in a thread", beside=leaf(f"static thread_local long calls = 0; calls += 1;\n{LOOPS}"), through=False),
    mapped("E12", "a leaf that decides by an address", beside=leaf(f"if ((uintptr_t)C.p % 4096 == 64) return;\n{LOOPS}"), through=False),
    mapped("E13", "a name that brings a line of its own", text=MAP.replace("kernel: mine", 'kernel: "m\\n#define EVIL 1"').replace("  mine: {", '  "m\\n#define EVIL 1": {').replace("symbol: mine", "symbol: gone"), through=False),
    mapped("E14", "a value that contains itself", text=f"{MAP}constraints: &a [*a]\n", through=False),
    mapped("E15", "aliases that double twenty times", text=f"a: &a [x]\n{_ALIASES}{MAP}", through=False),
    mapped("E16", "a tag that calls Python", text=MAP.replace("proc: HOST", "proc: !!python/object/apply:os.system [id]"), through=False),
    mapped("E17", "a constraint of a tower of powers", text=f"{MAP}constraints: ['9**9**9**9 > 1']\n", through=False),
    mapped("E18", "a constraint that walks attributes", text=f"{MAP}constraints: ['().__class__']\n", through=False),
    mapped("E19", "a tile below nothing", text=MAP.replace("24,", "-24,"), through=False),
    mapped("E20", "instances that call each other", text=MAP.replace("mems: {acc: REGISTER}", "calls: {gemm_tile: host}"), through=False),
    mapped("E51", "a leaf of plain loops", honest=True),
    mapped("E52", "a leaf with local names of its own", honest=True, beside=leaf("const long time = C.n[0], clock = C.n[1];\nfor (long i = 0; i < time; ++i) for (long j = 0; j < clock; ++j) { float signal = 0; for (long k = 0; k < A.n[1]; ++k) signal += A(i, k) * B(k, j); C(i, j) = signal; }\n")),
    mapped("E53", "types and conditions that are lists", honest=True, text=MAP.replace("symbol: mine", "symbol: mine, dtypes: [float32], requires: []")),
    mapped("E54", "an alias used twice", honest=True, text=MAP.replace("{acc: REGISTER}", "&m {acc: REGISTER}").replace("{kernel: mine}", "{kernel: &k mine}")),
    mapped("E55", "a tile beyond all numbers, which is cut to the size", honest=True, text=MAP.replace("24,", f"{10**40},")),
)  # fmt: skip

ALL = (*CPP, *CUDA, *MAPPINGS)
