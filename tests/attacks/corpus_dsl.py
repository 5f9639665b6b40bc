"""Attacks on Triton, TileLang and NPU IR kernels and on C over a vendor library, run by their emulators; controls."""

from __future__ import annotations

from tests.attacks.attack import Attack


def make(language: str):
    def attack(name: str, what: str, body: str = "", **more: object) -> Attack:
        return Attack(name, what, body, language=language, **more)  # type: ignore[arg-type]

    return attack


triton, tilelang, npuir, dsa = (make(name) for name in ("triton", "tilelang", "npuir", "dsa"))

MASK = "mask=(X_0 < 19)[:, None] & (tl.arange(0, 128) < 67)[None, :]"
TRITON = (
    triton("R01", "zeros", "acc = acc * 0.0"),
    triton("R02", "adds a constant", "HONEST + 0.25"),
    triton("R03", "float16 inside", "HONEST.to(tl.float16).to(tl.float32)"),
    triton("R04", "bfloat16 inside", "HONEST.to(tl.bfloat16).to(tl.float32)"),
    triton("R05", "swallows NaN", "HONEST\n    acc = tl.where(acc == acc, acc, 0.0)"),
    triton(
        "R06", "clamps infinities", "HONEST\n    acc = tl.minimum(tl.maximum(acc, -3e38), 3e38)"
    ),
    triton("R07", "skips the last column", edits=(("[None, :] < 67, X", "[None, :] < 66, X"),)),
    triton("R08", "skips the last row", edits=(("Y_t, mask=(Y_0 < 19)", "Y_t, mask=(Y_0 < 18)"),)),
    triton(
        "R09",
        "reads past the end",
        edits=((MASK, "mask=(X_0 < 19)[:, None] & (tl.arange(0, 128) < 69)[None, :]"),),
    ),
    triton("R10", "reads without a mask", edits=((f", {MASK}, other=0", ""),)),
    triton("R11", "writes past the end", edits=(("Y_t, mask=(Y_0 < 19)[:, None])", "Y_t)"),)),
    triton(
        "R12",
        "races: all programs store the same rows",
        edits=(("    Y_0 = i0 * 16 + tl.arange(0, 16)", "    Y_0 = tl.arange(0, 16)"),),
    ),
    triton(
        "R13",
        "races: programs overlap",
        edits=(
            ("(2,)](Y, X", "(3,)](Y, X"),
            ("    Y_0 = i0 * 16", "    Y_0 = i0 * 8"),
            ("    X_0 = i0 * 16", "    X_0 = i0 * 8"),
        ),
    ),
    triton("R14", "one program too few", edits=(("[(2,)]", "[(1,)]"),)),
    triton(
        "R15",
        "writes an input",
        edits=(("tl.store(Y + Y_0[:, None] +", "tl.store(X + Y_0[:, None] +"),),
    ),
    triton(
        "R16",
        "adds to an output nobody cleared",
        edits=(("tl.store(Y + Y_0", "tl.atomic_add(Y + Y_0"),),
    ),
    triton(
        "R17",
        "remembers calls by pointer",
        edits=(
            ("def entry(Y, X):\n", "SEEN = {}\n\n\ndef entry(Y, X):\n"),
            (
                "    row_sum_kernel[(2,)](Y, X, num_warps=4)",
                "    key = X.data_ptr()\n    if key in SEEN:\n        Y.copy_(SEEN[key])\n        return\n"
                "    row_sum_kernel[(2,)](Y, X, num_warps=4)\n    SEEN[key] = Y.clone()",
            ),
        ),
    ),
    triton(
        "R18",
        "turns the emulator's checks off, reads past the end",
        before="import septran_triton_interp\nsepran = septran_triton_interp.Watch\nsepran.check = lambda *a, **k: None",
        edits=((f", {MASK}, other=0", ""),),
    ),
    triton(
        "R19",
        "patches the library",
        before="import torch\ntorch.Tensor.copy_ = None",
        static_only=True,
    ),
    triton(
        "R20",
        "a module the language holds",
        before="import triton\nos_ = triton.runtime.driver",
        static_only=True,
    ),
    triton(
        "R21",
        "is honest in an interpreter only",
        before="import triton\nreal = triton.knobs",
        static_only=True,
    ),
    triton(
        "R22",
        "looks at its argument's class",
        before="def kind(x):\n    return isinstance(x, int)",
        static_only=True,
    ),
    triton(
        "R23",
        "an import hook",
        before="import sys\nsys.meta_path.insert(0, None) if False else None",
        static_only=True,
    ),
    triton("R24", "exits at import", before="raise SystemExit(0)"),
    triton("R25", "endless loop", "while acc.shape[0] > 0:\n        acc = acc + 0.0"),
    triton(
        "R26",
        "crashes while it is imported, as a broken package would",
        before="raise ImportError('numpy')",
    ),
    triton("K01", "the emitted kernel", honest=True),
    triton(
        "K02",
        "terms in another order",
        "acc = (acc + tl.sum(tl.where(tl.arange(0, 128)[None, :] < 67, X * 1.0, 0.0), 1, keep_dims=True)).to(tl.float32)",
        honest=True,
    ),
)

STEP = "    for i in T.Parallel(acc.shape[0]):\n        acc[i] = T.if_then_else(i < 19, acc[i] + t1[i], 0.0)\n"
TILELANG = (
    tilelang("L01", "zeros", "acc[i] = 0.0"),
    tilelang("L02", "adds a constant", "acc[i] = acc[i] + t1[i] + 0.25"),
    tilelang(
        "L03", "float16 inside", 'acc[i] = T.cast(T.cast(acc[i] + t1[i], "float16"), "float32")'
    ),
    tilelang(
        "L04", "bfloat16 inside", 'acc[i] = T.cast(T.cast(acc[i] + t1[i], "bfloat16"), "float32")'
    ),
    tilelang("L05", "swallows NaN", "acc[i] = T.if_then_else(t1[i] == t1[i], acc[i] + t1[i], 0.0)"),
    tilelang("L06", "clamps infinities", "acc[i] = T.min(T.max(acc[i] + t1[i], -3e38), 3e38)"),
    tilelang("L07", "adds to what was never written", edits=(("clear=True", "clear=False"),)),
    tilelang(
        "L08", "skips the first column", edits=(("X[i0 * 19, k0 * 67]", "X[i0 * 19, k0 * 67 + 1]"),)
    ),
    tilelang(
        "L09",
        "skips the last row",
        edits=(
            (
                "T.copy(Y_r, Y[i0 * 19:i0 * 19 + 32, 0:1])",
                "T.copy(Y_r, Y[i0 * 19:i0 * 19 + 18, 0:1])",
            ),
        ),
    ),
    tilelang(
        "L10",
        "races: every lane adds to one element",
        edits=(
            (STEP, "    for i in T.Parallel(acc.shape[0]):\n        acc[0] = acc[0] + t1[i]\n"),
        ),
    ),
    tilelang(
        "L11",
        "races: lanes read what others write",
        edits=(
            (
                STEP,
                "    for i in T.Parallel(acc.shape[0] - 1):\n        acc[i] = acc[i + 1] + t1[i]\n",
            ),
        ),
    ),
    tilelang("L12", "reads outside its tile", "acc[i] = acc[i + 1] + t1[i]"),
    tilelang("L13", "writes outside its tile", "acc[i + 1] = acc[i] + t1[i]"),
    tilelang(
        "L14",
        "writes an input",
        edits=(
            (
                "T.copy(Y_r, Y[i0 * 19:i0 * 19 + 32, 0:1])",
                "T.copy(Y_r, X[i0 * 19:i0 * 19 + 32, 0:1])",
            ),
        ),
    ),
    tilelang(
        "L15",
        "writes nothing",
        edits=(("        T.copy(Y_r, Y[i0 * 19:i0 * 19 + 32, 0:1])\n", ""),),
    ),
    tilelang("L16", "does not start at zero", edits=(("T.fill(acc, 0.0)", "T.fill(acc, 1.0)"),)),
    tilelang("L17", "exits at import", before="raise SystemExit(0)"),
    tilelang(
        "L18",
        "imports the operating system through the language",
        before="import tilelang\nos_ = tilelang.os if False else None",
        static_only=True,
    ),
    tilelang("L19", "formats values to see who runs it", before="WHO = f'{T}'", static_only=True),
    tilelang(
        "L20",
        "turns the simulator's checks off",
        before="import septran_tilesim\nsim = septran_tilesim",
        edits=(
            (
                "T.copy(Y_r, Y[i0 * 19:i0 * 19 + 32, 0:1])",
                "T.copy(Y_r, Y[i0 * 19:i0 * 19 + 18, 0:1])",
            ),
        ),
    ),
    tilelang("L21", "numpy instead of the language", before="import numpy as np", static_only=True),
    tilelang("K11", "the emitted kernel", honest=True),
    tilelang(
        "K12",
        "operands exchanged",
        "acc[i] = T.if_then_else(i < 19, t1[i] + acc[i], 0.0)",
        honest=True,
    ),
)

NPUIR = (
    npuir("N01", "zeros", "T.vmul(acc, 0.0, t1)"),
    npuir("N02", "counts a sum twice", "T.vadd(t1, t1, t1)"),
    npuir(
        "N03",
        "skips the last column",
        edits=(("T.copy(X[0:19, 0:67], X_r)", "T.copy(X[0:19, 0:66], X_r)"),),
    ),
    npuir(
        "N04",
        "skips the last row",
        edits=(("T.copy(acc, Y[0:19, 0:1])", "T.copy(acc, Y[0:18, 0:1])"),),
    ),
    npuir("N05", "a maximum for a sum", edits=(('reduce_mode="sum"', 'reduce_mode="max"'),)),
    npuir("N06", "reads a buffer nobody wrote", edits=(("    T.fill(acc, 0.0)\n", "    pass\n"),)),
    npuir("N07", "writes nothing", edits=(("        T.copy(acc, Y[0:19, 0:1])\n", ""),)),
    npuir(
        "N08",
        "writes an input",
        edits=(("T.copy(acc, Y[0:19, 0:1])", "T.copy(acc, X[0:19, 0:1])"),),
    ),
    npuir(
        "N09",
        "reads outside a tensor",
        edits=(("T.copy(X[0:19, 0:67], X_r)", "T.copy(X[1:20, 0:67], X_r)"),),
    ),
    npuir(
        "N10",
        "float16 inside",
        edits=(('acc = T.alloc_ub([19, 1], "float32")', 'acc = T.alloc_ub([19, 1], "float16")'),),
    ),
    npuir("N11", "exits at import", before="raise SystemExit(0)"),
    npuir(
        "N12",
        "a module the language holds",
        before="os_ = T.os if False else None",
        static_only=True,
    ),
    npuir("K21", "the emitted kernel", honest=True),
    npuir("K22", "operands exchanged", "T.vadd(t1, t1, acc)", honest=True),
)

LOAD = "vendor_lib_wait(VL_Q_LOAD, VL_Q_VEC, 0);"
DSA = (
    dsa("D01", "does not wait for its input", edits=((f"      {LOAD}\n", ""),)),
    dsa(
        "D02",
        "stores before the result is there",
        edits=(("    vendor_lib_wait(VL_Q_VEC, VL_Q_STORE, 0);\n", ""),),
    ),
    dsa(
        "D03",
        "signals nobody waits for",
        edits=(
            (
                "      vendor_lib_set(VL_Q_LOAD, VL_Q_VEC, 0);\n",
                "      vendor_lib_set(VL_Q_LOAD, VL_Q_VEC, 1);\n",
            ),
        ),
    ),
    dsa(
        "D04",
        "ends without waiting",
        edits=(
            ("  vendor_lib_sync();\n}", "}"),
            ("    vendor_lib_wait(VL_Q_VEC, VL_Q_STORE, 0);\n", ""),
        ),
    ),
    dsa(
        "D05",
        "skips the last column",
        edits=(
            ("19, 67, 80, VL_F32)", "19, 66, 80, VL_F32)"),
            ("19, 67, 67, VL_F32)", "19, 66, 67, VL_F32)"),
        ),
    ),
    dsa(
        "D06",
        "skips the last row",
        edits=(
            (
                "* 1), 19, 1, 1, VL_F32), VL_TILE(VL_S(Y_s), 19",
                "* 1), 18, 1, 1, VL_F32), VL_TILE(VL_S(Y_s), 18",
            ),
        ),
    ),
    dsa("D07", "overlapping buffers", edits=(("enum { X_s = 1216 };", "enum { X_s = 64 };"),)),
    dsa(
        "D08",
        "reads past the end",
        edits=(
            ("19, 67, 80, VL_F32)", "20, 67, 80, VL_F32)"),
            ("19, 67, 67, VL_F32)", "20, 67, 67, VL_F32)"),
        ),
    ),
    dsa(
        "D09",
        "writes past the end",
        edits=(
            (
                "* 1), 19, 1, 1, VL_F32), VL_TILE(VL_S(Y_s), 19",
                "* 1), 20, 1, 1, VL_F32), VL_TILE(VL_S(Y_s), 20",
            ),
        ),
    ),
    dsa("D10", "writes an input", edits=(("VL_TILE(VL_G(Y + ", "VL_TILE(VL_G(X + "),)),
    dsa("D11", "does not start at zero", edits=(("VL_F32), 0.0);", "VL_F32), 1.0);"),)),
    dsa(
        "D12",
        "a maximum for a sum",
        edits=(("vendor_lib_vec_reduce(VL_SUM", "vendor_lib_vec_reduce(VL_MAX"),),
    ),
    dsa(
        "D13",
        "a buffer beyond the memory",
        edits=(("enum { X_s = 1216 };", "enum { X_s = 1 << 30 };"),),
    ),
    dsa(
        "D14",
        "float16 inside",
        edits=(
            ("enum { acc = 0 };", "enum { acc = 0 };"),
            (
                "VL_TILE(VL_S(Y_s), 19, 1, 16, VL_F32), VL_TILE(VL_S(acc), 19, 1, 16, VL_F32)",
                "VL_TILE(VL_S(Y_s), 19, 1, 16, VL_F16), VL_TILE(VL_S(acc), 19, 1, 16, VL_F32)",
            ),
        ),
    ),
    dsa(
        "D15",
        "clears the simulator's report",
        "vendor_lib_sync(); vendor_lib_report();",
        edits=((f"      {LOAD}\n", ""),),
    ),
    dsa("D16", "exits with status 0", "_exit(0);", before="void _exit(int);"),
    dsa("K31", "the emitted kernel", honest=True),
)

ALL = (*TRITON, *TILELANG, *NPUIR, *DSA)
