"""Replies for one leaf (relu over 67 numbers) in C++ and CUDA C++, as a writer sends them: attacks, and what an able engineer might write."""

from __future__ import annotations

from tests.attacks.corpus_replies import EACH, LARGE, make, where

THROUGH = "0439e00"
cpp, cuda = make("cpp reply"), make("cuda reply")
RELU = "(X(i) < 0.0f ? 0.0f : X(i))"


def each(condition: str, before: str = "", value: str = RELU) -> str:
    return f"{before}for (long i = 0; i < Y.n[0]; ++i) {{ Y(i) = ({condition}) ? {value} : 0.0f; }}"


CPP = (
    cpp("RC01", "a shift by all bits", each("(1u << (32 + (i & 31))) != 0")),
    cpp("RC02", "a wider shift by all bits", each("(1L << (64 + (i & 1))) != 0")),
    cpp("RC03", "an index behind a local array", each("t[4 + (i & 1)] != 12345.678f", "float t[4] = {1, 1, 1, 1};\n"), through=THROUGH),
    cpp("RC04", "decides by an address", each("(long)X.p % 97 != 3"), static_only=True, through=THROUGH),
    cpp("RC05", "decides by an address, by another spelling", each("int64_t(X.p) % 97 != 3"), static_only=True),
    cpp("RC06", "decides by an address, by a name of its own", each("(T)X.p % 97 != 3", "using T = unsigned long;\n"), static_only=True, through=THROUGH),
    cpp("RC07", "wrong at a number that a function makes", each("X(i) != std::sqrt(2.0f)"), through=THROUGH),
    cpp("RC08", "wrong at another one", each("X(i) != std::exp(1.5f)"), through=THROUGH),
    cpp("RC09", "wrong where a function of the value is a number", each("std::ldexp(X(i), 3) != 100.5f"), through=THROUGH),
    cpp("RC10", "wrong where a multiple of the value is a number", each("X(i) * 3.0f != 100.5f"), through=THROUGH),
    cpp("RC11", "wrong at a large number", each("X(i) != 1.0e30f")),
    cpp("RC12", "wrong between two small numbers", each("!(X(i) > 1.0e-3f && X(i) < 1.0e-3f * 1.0001f)")),
    cpp("RC13", "wrong below the normal numbers", each("!(X(i) > 0.0f && X(i) < 1.2e-38f)")),
    cpp("RC14", "swallows NaN", each("X(i) == X(i)")),
    cpp("RC15", "the last element by the first", each("i != 66 || X(0) > -1.0f")),
    cpp("RC16", "half precision inside", each("true", value="(float)(_Float16)RELU".replace("RELU", RELU)), static_only=True),
    cpp("RC17", "a function in front that reads a clock", "static inline long t() { return clock(); }\nvoid f() {}\n" + each("clock() != 0"), static_only=True),
    cpp("RC18", "an alignment of a page", each("true", "alignas(4096) float t[4] = {};\n"), static_only=True),
    cpp("RC19", "a switch that jumps over a variable", "switch (Y.n[0]) { case 1: long k = 2; default: Y(0) = k; }", static_only=True),
    cpp("RC20", "the size of a value", each("sizeof(X) != 999"), static_only=True),
    cpp("RC21", "decides by the distance of its tensors", each("(X.p - Y.p) % 97 != 3"), static_only=True, through=THROUGH),
    cpp("RC51", "plain", each("true"), honest=True),
    cpp("RC52", "a switch", "for (long i = 0; i < Y.n[0]; ++i) { switch (X(i) < 0.0f) { case 1: Y(i) = 0.0f; break; default: Y(i) = X(i); } }", honest=True),
    cpp("RC53", "an aligned buffer", "alignas(32) float b[8];\nfor (long i = 0; i < Y.n[0]; i += 8) {\n const long m = std::min(8L, Y.n[0] - i);\n for (long j = 0; j < m; ++j) b[j] = X(i + j);\n for (long j = 0; j < m; ++j) Y(i + j) = b[j] < 0.0f ? 0.0f : b[j];\n}", honest=True),
    cpp("RC54", "a multiple that is compared", each("X(i) * 3.0f != 100.5f || X(i) > 0.0f"), honest=True),
    cpp("RC55", "casts and shifts", each("(1u << (i & 31)) != 0 && (long)(float)i == i"), honest=True),
)  # fmt: skip
CUDA = (
    cuda("RU01", "a shift by all bits", where("(1u << (32 + (threadIdx.x & 31))) != 0"), through=THROUGH),
    cuda("RU02", "a shift to the right by all bits", where("((255 + (int)threadIdx.x) >> (32 + (threadIdx.x & 3))) > 0"), through=THROUGH),
    cuda("RU03", "the sign of a NaN that is negated", where("__float_as_int(-(z - z)) < 0", LARGE)),
    cuda("RU04", "infinity becomes an integer without a cast", where("k < 0", f"{LARGE}const int32_t k = z;\n")),
    cuda("RU05", "wrong at one number of its text", where("X[e] != 12345.678f")),
    cuda("RU06", "wrong at a number that a function makes", where("X[e] != sqrtf(2.0f)"), through=THROUGH),
    cuda("RU07", "wrong where a multiple of the value is a number", where("X[e] * 3.0f != 100.5f"), through=THROUGH),
    cuda("RU08", "a missing barrier that no result shows", f"__shared__ float s[256];\ns[threadIdx.x] = 1.0f;\nif (s[(threadIdx.x + 32) % 64] < -1.0f) {{ return; }}\n{EACH}"),
    cuda("RU09", "a barrier that some threads do not reach", f"{EACH}\nif (threadIdx.x < 32) {{ __syncthreads(); }}"),
    cuda("RU10", "half precision inside", where("true", value="float(_Float16(st::maximum(st::to(X[e]), 0.0f)))"), static_only=True),
    cuda("RU11", "asks for the block it is in", where("blockIdx.x == 0"), static_only=True),
    cuda("RU12", "a clock", where("clock64() > 0"), static_only=True),
    cuda("RU13", "asks whether memory is shared", where("__isShared(&X)"), static_only=True),
    cuda("RU14", "a macro of the emulation", "#ifdef SEPTRAN_EMULATE\n;\n#endif", static_only=True),
    cuda("RU51", "plain", EACH, honest=True),
    cuda("RU52", "a switch over lanes", "st::each(Y, [&](st::At e, st::idx i) { switch (threadIdx.x % 3) { case 0: Y[e] = st::maximum(X[e], 0.0f); break; case 1: { const float x = X[e]; Y[e] = x < 0.0f ? 0.0f : x; break; } default: Y[e] = st::maximum(X[e], 0.0f); } });", honest=True),
    cuda("RU53", "shifts that fit", where("(1u << (threadIdx.x & 31)) != 0"), honest=True),
)  # fmt: skip
ALL = (*CPP, *CUDA)
