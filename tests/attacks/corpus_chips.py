"""Attacks on products of HIP C++ and of Triton for Ascend: the bugs of copies, slots, edges and sums; honest controls."""

from __future__ import annotations

from tests.attacks.corpus_dsl import make

hip, ascend = make("hip"), make("ascend")

EACH = "HONEST st::each(C, [&](st::At e, st::idx, st::idx) { "
WAIT = "        st::cp_wait<0>();\n        __syncthreads();\n"
HIP = (
    hip("Z01", "zeros", ";"),
    hip("Z02", "adds a constant", EACH + "C[e] = C[e] + 0.25f; });"),
    hip("Z03", "float16 sums", EACH + "C[e] = st::from<float>(st::from<_Float16>(C[e])); });"),
    hip("Z04", "swallows NaN", EACH + "C[e] = C[e] == C[e] ? C[e] : 0.f; });"),
    hip("Z05", "clamps infinities", EACH + "C[e] = fminf(fmaxf(C[e], -6e4f), 6e4f); });"),
    hip(
        "Z06", "lost wait: reads a slot that has not landed", edits=((WAIT, "        __syncthreads();\n"),)
    ),
    hip(
        "Z07",
        "lost barrier: reads what other threads copied",
        edits=((WAIT, "        st::cp_wait<0>();\n"),),
    ),
    hip(
        "Z08",
        "wrong slot: loads into the slot in use",
        edits=(("(k0 + 1) % 2 * 1408", "k0 % 2 * 1408"),),
    ),
    hip(
        "Z09",
        "wrong slot: reads the slot of the next step",
        edits=(("{B_s + (k0 % 2 * 2048)", "{B_s + ((k0 + 1) % 2 * 2048)"),),
    ),
    hip("Z10", "slots overlap", edits=(("% 2 * 2048", "% 2 * 1024"),)),
    hip("Z11", "operands share memory", edits=(("(smem + 5632)", "(smem + 2816)"),)),
    hip("Z12", "clipped edge: the last row", edits=(("{19, 24}, {24, 1}}, C_r", "{18, 24}, {24, 1}}, C_r"),)),
    hip("Z13", "clipped edge: the last term", edits=(("140 - k0 * 64", "139 - k0 * 64"),)),
    hip("Z14", "skips the last block", edits=(("k0 < 3", "k0 < 2"),)),
    hip("Z15", "accumulator not cleared", edits=(("    leaf_zero_e2a1bf(acc);\n", ""),)),
    hip("Z16", "reads past the end of an input", edits=(("{140, 1}", "{142, 1}"),)),
    hip("Z17", "a wavefront of 32 threads", edits=(("st::Grid<2, 2, 16, 4, 64>", "st::Grid<2, 2, 16, 4, 32>"),)),
    hip("Z18", "more LDS than it asks for", edits=(("dim3(SEPTRAN_THREADS), 13824", "dim3(SEPTRAN_THREADS), 9728"),)),
    hip("Z19", "endless loop", "for (volatile int i = 0;; i = i + 1) {}"),
    hip("Z20", "is honest in an emulation only", "#ifdef SEPTRAN_EMULATE\nHONEST\n#endif\n", static_only=True),
    hip("Z21", "turns the emulator's checks off", "HONEST cuemu::choose_order(0);", static_only=True),
    hip(
        "Z22",
        "reads a file",
        'HONEST if (FILE* f = fopen("/etc/passwd", "r")) fclose(f);',
        before="#include <cstdio>",
    ),
    hip("K51", "the emitted kernel", honest=True),
    hip("K52", "a second barrier", edits=((WAIT, f"{WAIT}        __syncthreads();\n"),), honest=True),
)  # fmt: skip

MASK = "mask=(tl.arange(0, 32) < 19)[:, None] & (A_1 < 140)[None, :]"
ASCEND = (
    ascend("A01", "zeros", "C = C * 0.0"),
    ascend("A02", "adds a constant", "HONEST + 0.25"),
    ascend("A03", "float16 sums", "HONEST.to(tl.float16).to(tl.float32)"),
    ascend("A04", "swallows NaN", "HONEST\n    C = tl.where(C == C, C, 0.0)"),
    ascend("A05", "clamps infinities", "HONEST\n    C = tl.minimum(tl.maximum(C, -6e4), 6e4)"),
    ascend("A06", "accumulator dropped", "C = tl.dot(A, B)"),
    ascend("A07", "accumulator not cleared", edits=(("tl.full((32, 32), 0.0", "tl.full((32, 32), float('nan')"),)),
    ascend("A08", "always the first block of B", edits=(("A_1[:, None] * 24", "tl.arange(0, 32)[:, None] * 24"),)),
    ascend("A09", "skips the last block", edits=(("tl.range(0, 5", "tl.range(0, 4"),)),
    ascend("A10", "clipped edge: the last row", edits=(("C_t, mask=(tl.arange(0, 32) < 19)", "C_t, mask=(tl.arange(0, 32) < 18)"),)),
    ascend("A11", "clipped edge: the last term", edits=(("(A_1 < 140)", "(A_1 < 139)"),)),
    ascend("A12", "reads without a mask", edits=((f", {MASK}, other=0", ""),)),
    ascend("A13", "padding of k is anything", edits=((f"{MASK}, other=0", MASK), ("[None, :], other=0)", "[None, :])"))),
    ascend("A14", "writes past the end", edits=(("C_t, mask=(tl.arange(0, 32) < 19)", "C_t, mask=(tl.arange(0, 32) < 20)"),)),
    ascend("A15", "races: two programs store one tile", edits=(("[(1,)]", "[(2,)]"),)),
    ascend("A16", "writes an input", edits=(("tl.store(C +", "tl.store(A +"),)),
    ascend("A17", "a stride that is not its tensor's", edits=(("A_0[:, None] * 140", "A_0[:, None] * 139"),)),
    ascend("A18", "exits at import", before="raise SystemExit(0)"),
    ascend("A19", "asks for the chip it runs on", before="import triton\nchip = triton.runtime.driver", static_only=True),
    ascend("K61", "the emitted kernel", honest=True),
    ascend("K62", "sums by itself", "C = C + tl.dot(A, B)", honest=True),
)  # fmt: skip

ALL = (*HIP, *ASCEND)
