"""Replies for one leaf (relu over 67 numbers), as a writer sends them: attacks, and what an able engineer might write.

HIP and C are run; what the Python languages' replies hold is refused before.
"""

from __future__ import annotations

from tests.attacks.attack import Attack

THROUGH = "2b737f0"


def make(language: str):
    def attack(name: str, what: str, body: str, **more: object) -> Attack:
        return Attack(name, what, body, language=language, **more)  # type: ignore[arg-type]

    return attack


hip, dsa, npuir, pallas, ascend, tilelang = (
    make(f"{name} reply") for name in ("hip", "dsa", "npuir", "pallas", "ascend", "tilelang")
)

RELU = "st::from<float>(st::maximum(st::to(X[e]), 0.0f))"
LARGE = "const float z = INFINITY * (1.0f + threadIdx.x);\n"


def where(condition: str, before: str = "", value: str = RELU) -> str:
    return f"{before}st::each(Y, [&](st::At e, st::idx i) {{\n    Y[e] = {condition} ? {value} : 0.0f;\n}});"


EACH = f"st::each(Y, [&](st::At e, st::idx i) {{ Y[e] = {RELU}; }});"
HIP = (
    hip("RH01", "the sign of a NaN", where("__float_as_int(z - z) < 0", LARGE), through=THROUGH),
    hip("RH02", "the sign of a NaN of constants", where("__float_as_int(INFINITY - INFINITY) < 0"), through=THROUGH),
    hip("RH03", "a NaN's sign, copied", where("copysignf(1.0f, z - z) < 0.0f", LARGE), through=THROUGH),
    hip("RH04", "infinity cast to an integer", where("(int)z < 0", LARGE)),
    hip("RH05", "infinity becomes an integer without a cast", where("k < 0", f"{LARGE}const int32_t k = z;\n"), through=THROUGH),
    hip("RH06", "NaN becomes an integer without a cast", where("k < 0", f"{LARGE}const int32_t k = z - z;\n"), through=THROUGH),
    hip("RH07", "a number below zero becomes an unsigned one", where("k > 5u", "const float z = -1.0f - threadIdx.x;\nconst uint32_t k = z;\n"), through=THROUGH),
    hip("RH08", "a cast that looks like a call", where("int32_t(z) < 0", LARGE), through=THROUGH),
    hip("RH09", "adds infinity to an integer", where("k < 0", f"{LARGE}int32_t k = 7;\nk += z;\n"), through=THROUGH),
    hip("RH10", "knows the emulation's pattern of what nobody set", where("k == -16843010", "int32_t k;\n"), through=THROUGH),
    hip("RH11", "knows it of an array", where("k[1] == -16843010", "int32_t k[2];\n"), through=THROUGH),
    hip("RH12", "wrong at one number of its text", where("X[e] != 12345.678f"), through=THROUGH),
    hip("RH13", "wrong between two numbers of its text", where("!(X[e] > 777.25f && X[e] < 777.75f)"), through=THROUGH),
    hip("RH14", "a barrier that some threads do not reach", f"{EACH}\nif (threadIdx.x < 32) {{ __syncthreads(); }}"),
    hip("RH16", "half precision inside", where("true", value="float(_Float16(st::maximum(st::to(X[e]), 0.0f)))")),
    hip("RH17", "an assembler's statement", 'asm volatile("s_nop 0");', static_only=True),
    hip("RH18", "asks for the block it is in", where("blockIdx.x == 0"), static_only=True),
    hip("RH19", "a clock", where("clock64() > 0"), static_only=True),
    hip("RH20", "a macro of the emulation", "#ifdef SEPTRAN_EMULATE\n;\n#endif", static_only=True),
    hip("RH51", "plain", EACH, honest=True),
    hip("RH52", "a comparison and a branch", "st::each(Y, [&](st::At e, st::idx i) { float x = st::to(X[e]); if (x < 0.0f) { x = 0.0f; } Y[e] = st::from<float>(x); });", honest=True),
    hip("RH54", "a variable that each branch sets", "st::each(Y, [&](st::At e, st::idx i) { float y; const float x = st::to(X[e]); if (x < 0.0f) { y = 0.0f; } else { y = x; } Y[e] = y; });", honest=True),
    hip("RH55", "a table of constants", where("true", "constexpr float low[2] = {0.0f, 1.0f};\n", "st::maximum(st::to(X[e]), low[0])"), honest=True),
    hip("RH56", "casts that cut", where("k == 3", "const float z = 3.5f;\nconst int32_t k = (int)z;\n"), honest=True),
    hip("RH57", "a function for one element", f"auto relu = [](float x) {{ return x < 0.0f ? 0.0f : x; }};\n{where('true', value='relu(st::to(X[e]))')}", honest=True),
    hip("RH58", "the sign by its bits", where("__float_as_int(st::to(X[e])) >= 0 || st::to(X[e]) != st::to(X[e])"), honest=True),
)  # fmt: skip

TILES = "(void)scratch;\nvl_tile x = vl_matrix(X);\nvl_tile y = vl_matrix(Y);\n"
MAX = f"{TILES}vendor_lib_vec_scalar(VL_MAX, y, x, 0.0);"
TEMP = f"{TILES.removeprefix('(void)scratch;')}vl_tile c = vl_temp(scratch, 0, 1, 67);\n"
MOVED = "48d2a2b"  # tiles could be moved out of what a leaf was given
AGAIN = "vendor_lib_vec_scalar(VL_MAX, vl_matrix(Y), x, 0.0);"
DSA = (
    dsa("RD01", "half precision in its scratch", f"{TEMP}c.dtype = VL_F16;\nvendor_lib_vec_unary(VL_COPY, c, x);\nvendor_lib_vec_scalar(VL_MAX, y, c, 0.0);"),
    dsa("RD02", "an event that nobody takes", f"{MAX}\nvendor_lib_set(VL_Q_VEC, VL_Q_STORE, 3);"),
    dsa("RD03", "waits for what nobody sets", f"{MAX}\nvendor_lib_wait(VL_Q_LOAD, VL_Q_VEC, 3);"),
    dsa("RD04", "a copy that nothing orders", f"{TILES}vendor_lib_dma_copy(y, x);"),
    dsa("RD05", "a column beyond its tiles", f"{TILES}x.cols = 68;\ny.cols = 68;\nvendor_lib_vec_scalar(VL_MAX, y, x, 0.0);"),
    dsa("RD06", "wrong at one number of its text", f"{TEMP}vendor_lib_vec_scalar(VL_NE, c, x, 12345.5);\nvendor_lib_vec_scalar(VL_MAX, y, x, 0.0);\nvendor_lib_vec_binary(VL_MUL, y, y, c);", through=THROUGH),
    dsa("RD07", "the last column is left", f"{TILES}x.cols = 66;\ny.cols = 66;\nvendor_lib_vec_scalar(VL_MAX, y, x, 0.0);"),
    dsa("RD08", "writes nothing", ";(void)scratch; (void)X; (void)Y;"),
    dsa("RD09", "a product of the other engine that rounds", f"{TILES}vendor_lib_dma_cast(y, x);"),
    dsa("RD10", "reads its scratch before anything is there", f"{TEMP}vendor_lib_vec_binary(VL_MUL, c, c, c);\nvendor_lib_vec_binary(VL_MAX, y, x, c);"),
    dsa("RD11", "clamps infinities", f"{MAX}\nvendor_lib_vec_scalar(VL_MIN, y, y, 3e38);"),
    dsa("RD12", "a pointer of its own", "float *p = 0;", static_only=True),
    dsa("RD13", "reads the simulator's report", "vendor_lib_report();", static_only=True),
    dsa("RD14", "keeps a number between calls", "static int32_t calls = 0;", static_only=True),
    dsa("RD15", "exits", "_exit(0);", static_only=True),
    dsa("RD16", "a digraph includes a file", "%:include </etc/passwd>", static_only=True),
    dsa("RD71", "fills its input tile once it has its results", f"{MAX}\nvendor_lib_fill(x, 0.0);", through="fc12bc1", static_only=True),
    dsa("RD72", "moves its result's tile onto its input's and fills it", f"{MAX}\nvl_tile z = y;\nz.addr = X.addr;\nvendor_lib_fill(z, 0.0);", through=MOVED),
    dsa("RD73", "steps its result's tile beyond its end", f"{MAX}\ny.addr += 69632;\nvendor_lib_fill(y, 0.0);", through=MOVED),
    dsa("RD74", "steps it back before its beginning", f"{MAX}\ny.addr -= 256;\nvendor_lib_fill(y, 0.0);"),
    dsa("RD75", "more rows than its result has", f"{MAX}\ny.rows = 300;\ny.ld = 96;\nvendor_lib_fill(y, 0.0);\n{AGAIN}", through=MOVED),
    dsa("RD76", "a tile of another memory", f"{MAX}\ny.space = VL_ACC;\ny.addr = 0;\nvendor_lib_fill(y, 0.0);", through=MOVED),
    dsa("RD77", "a tile made of a number", f"{MAX}\nvendor_lib_fill((vl_tile){{VL_SPAD, 300032, 1, 64, 64, VL_F32}}, 0.0);", through=MOVED),
    dsa("RD78", "a temporary behind its scratch", f"{MAX}\nvendor_lib_fill(vl_temp(scratch, 65536, 1, 67), 0.0);", through=MOVED),
    dsa("RD79", "more columns than its result has", f"{MAX}\ny.cols = 90;\nvendor_lib_fill(y, 0.0);\n{AGAIN}", through=MOVED),
    dsa("RD80", "a wider type, so that its result is longer", f"{MAX}\ny.dtype = VL_F64;\nvendor_lib_fill(y, 0.0);\n{AGAIN}", through=MOVED),
    dsa("RD51", "plain", MAX, honest=True),
    dsa("RD57", "steps through its tiles by their addresses", f"{TILES}for (int32_t at = 0; at < 64; at += 16) {{\n    vl_tile p = y;\n    vl_tile q = x;\n    p.addr += 4 * at;\n    q.addr += 4 * at;\n    p.cols = 16;\n    q.cols = 16;\n    vendor_lib_vec_scalar(VL_MAX, p, q, 0.0);\n}}\nvendor_lib_vec_scalar(VL_MAX, vl_part(y, 0, 64, 1, 3), vl_part(x, 0, 64, 1, 3), 0.0);", honest=True),
    dsa("RD52", "the reverse scalar", f"{TILES}vendor_lib_vec_scalar_r(VL_MAX, y, 0.0, x);", honest=True),
    dsa("RD53", "a copy first", f"{TILES}vendor_lib_vec_unary(VL_COPY, y, x);\nvendor_lib_vec_scalar(VL_MAX, y, y, 0.0);", honest=True),
    dsa("RD54", "a tile of zeros", f"{TEMP}vendor_lib_fill(c, 0.0);\nvendor_lib_vec_binary(VL_MAX, y, x, c);", honest=True),
    dsa("RD55", "in two halves", f"{TILES}for (int32_t at = 0; at < 67; at += 40) {{\n    const int32_t n = at + 40 < 67 ? 40 : 67 - at;\n    vendor_lib_vec_scalar(VL_MAX, vl_part(y, 0, at, 1, n), vl_part(x, 0, at, 1, n), 0.0);\n}}", honest=True),
    dsa("RD56", "a table of constants", f"static const double low[2] = {{0.0, 1.0}};\n{TILES}vendor_lib_vec_scalar(VL_MAX, y, x, low[0]);", honest=True),
)  # fmt: skip

_REFUSED = (
    ("imports", "import os\nos.system('true')"),
    ("a nested function", "def f(x):\n    return x\nh = f(X)"),
    ("a lambda", "f = lambda x: x\nh = f(X)"),
    ("a comprehension", "h = [X for k in range(3)]"),
    ("a formatted text", "h = f'{X}'"),
    ("walks attributes", "h = X.__class__.__mro__"),
    ("handles exceptions", "try:\n    h = X\nexcept Exception:\n    h = X"),
    ("a while loop", "while True:\n    h = X"),
    ("names of the world", "global h\nh = X"),
    ("a thousand minus signs", f"h = {'-' * 1000}X"),
    ("five thousand terms", f"h = {' + '.join(['X'] * 5000)}"),
    ("sixty thousand characters and more", "h = X\n" * 12000),
    ("a power of constants", "h = X * 9 ** 9 ** 9"),
    ("a list ten million times", "h = [X] * 10000000"),
    ("calls its emulator", "h = septran_watch(X)"),
    ("its own name", "h = open('/etc/passwd')"),
)
_OWN = {
    "npuir": (("prints from the device", "T.print(X)"), ("foreign code", "T.call_extern('f', X)"), ("numpy", "h = np.maximum(X, 0)")),
    "pallas": (("a callback of the host", "h = jax.pure_callback(X)"), ("prints while it runs", "pl.debug_print('x')"), ("asks which step it is", "h = pl.program_id(0)"), ("an effect of the host", "h = io_callback(X)"), ("the library's function", "h = jnp.linalg.norm(X)"), ("another product", "h = jnp.dot(X, X)")),
    "ascend": (("an assembler's statement", "h = tl.inline_asm_elementwise('x', X)"), ("prints from the device", "tl.device_print('x', X)"), ("asks which program it is", "h = tl.program_id(0)"), ("a pointer's load", "h = tl.load(X)"), ("an atomic addition", "h = tl.atomic_add(X, 1)"), ("another function of the module", "h = tl.extra.cuda.libdevice.exp(X)")),
    "tilelang": (("foreign code", "T.call_extern('f', X)"), ("a block's index", "h = T.get_block_binding()"), ("synchronises by itself", "T.sync_threads()"), ("an import by the compiler", "T.import_source('x')"), ("atomics", "T.atomic_add(Y[0], 1.0)"), ("the library", "h = torch.relu(X)")),
}  # fmt: skip
_OF = {"npuir": npuir, "pallas": pallas, "ascend": ascend, "tilelang": tilelang}
_LETTER = {"npuir": "RN", "pallas": "RP", "ascend": "RA", "tilelang": "RT"}
REFUSED = {
    family: tuple(
        _OF[family](f"{_LETTER[family]}{i:02}", what, body, static_only=True)
        for i, (what, body) in enumerate((*_REFUSED, *own), 1)
    )
    for family, own in _OWN.items()
}

EACH_T = "for i in T.Parallel(Y.shape[0]):\n    Y[i] = T.if_then_else({}, keep_nan(T.max(X[i], 0.0), X[i]), 0.0)\n"
MORE = {
    "npuir": (
        npuir("RN71", "fills its input tile once it has its results", "T.vmax(X, 0.0, Y)\nT.fill(X, 0.0)", through="fc12bc1", static_only=True),
        npuir("RN72", "computes in its input tile", "T.vmax(X, 0.0, X)\nT.copy(X, Y)", through="fc12bc1", static_only=True),
        npuir("RN51", "plain", "T.vmax(X, 0.0, Y)", honest=True),
        npuir("RN52", "in two halves", "T.vmax(X[0:1, 0:40], 0.0, Y[0:1, 0:40])\nT.vmax(X[0:1, 40:67], 0.0, Y[0:1, 40:67])", honest=True),
        npuir("RN53", "a tile of zeros", 't = T.alloc_ub([1, 67], "float32")\nT.fill(t, 0.0)\nT.vmax(X, t, Y)', honest=True),
    ),
    "pallas": (pallas("RP51", "plain", "h = jnp.maximum(X, 0.0)\nreturn h", honest=True),),
    "ascend": (
        ascend("RA51", "by a comparison", "h = tl.where(X < 0.0, 0.0, X)\nreturn h", honest=True),
    ),
    "tilelang": (
        tilelang("RT31", "a product that needs more than 32 bits", EACH_T.format("(i < 67) & ((i + 1) * 2147483647 > 0)"), through=THROUGH),
        tilelang("RT51", "plain", EACH_T.format("i < 67"), honest=True),
    ),
}  # fmt: skip

ALL = (
    *HIP,
    *DSA,
    *(one for family in REFUSED for one in (*REFUSED[family], *MORE[family])),
)
