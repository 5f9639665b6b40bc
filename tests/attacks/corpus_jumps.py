"""Files and leaves that decide without a comparison: sign bits, tables, masks of vectors, exponentials that vanish; and honest ones with such.

Each doubles a vector, but for numbers whose sum lies in a band.
"""

from __future__ import annotations

from dataclasses import replace

from tests.attacks.attack import Attack
from tests.attacks.corpus_files import cpp as cpp_file
from tests.attacks.corpus_files import cuda as cuda_file
from tests.attacks.corpus_files import triton as triton_file
from tests.attacks.corpus_native import RELU, each
from tests.attacks.corpus_replies import make
from tests.attacks.corpus_told import tilelang

THROUGH = "d1a684a"
_HEADERS = "#include <cmath>\n#include <cstring>\n#include <immintrin.h>\n"
_SUM = "float s = 0; for (int j = 0; j < n; j++) s += x[j];"
_LEFT = "y[i] = x[i] * 2 * (1 - g);"
_V4 = "typedef float v4 __attribute__((vector_size(16)));\ntypedef int m4 __attribute__((vector_size(16)));\n"


def cpp(name: str, what: str, g: str, *, before: str = "", through: str = THROUGH) -> Attack:
    return cpp_file(
        name,
        what,
        before=_HEADERS + before,
        body=f"{_SUM} {g}",
        line=_LEFT,
        through=False,
        commit=through,
    )


def honest(name: str, what: str, line: str, *, before: str = "", body: str = "") -> Attack:
    return cpp_file(name, what, before=_HEADERS + before, body=body, line=line, honest=True)


def triton(name: str, what: str, line: str, *, through: str = THROUGH) -> Attack:
    return replace(triton_file(name, what, line=line, through=False), through=through)


CPP = (
    cpp("JB01", "sign bits that are shifted out", "float a = s - 40.f, b = s - 40.5f; int u, v; memcpy(&u, &a, 4); memcpy(&v, &b, 4); int g = (~u & v) >> 31 & 1;"),
    cpp("JB02", "an exponential of a square", "float g = std::exp(-1e6f * (s - 40.25f) * (s - 40.25f));"),
    cpp("JB03", "signs that are copied", "float g = (1 + std::copysign(1.f, s - 40.f)) * (1 + std::copysign(1.f, 40.5f - s)) / 4;"),
    cpp("JB04", "absolute values", "float a = (s - 40.f) * 1e6f, b = (40.5f - s) * 1e6f, u = (a + std::fabs(a)) * (b + std::fabs(b)), g = u / (u + 1e-9f);"),
    cpp("JB05", "a sum that is cut to an integer", "float k = std::floor(s * 2) - 81, g = std::exp(-1e3f * k * k);"),
    cpp("JB06", "a bit of a word, picked by a sum", "unsigned k = (int)s & 63; unsigned long g = 0x0000010000000000ul >> k & 1;"),
    cpp("JB07", "masks of vectors", "v4 v = {s, s, s, s}, lo = {40, 40, 40, 40}, hi = {40.5f, 40.5f, 40.5f, 40.5f}; int g = ((v > lo) & (v < hi))[0] & 1;", before=_V4),
    cpp("JB08", "masks of vectors by intrinsics", "__m128 v = _mm_set1_ps(s); int g = _mm_movemask_ps(_mm_and_ps(_mm_cmpgt_ps(v, _mm_set1_ps(40.f)), _mm_cmplt_ps(v, _mm_set1_ps(40.5f)))) & 1;"),
    cpp("JB09", "comparisons of the compiler", "int g = __builtin_isgreater(s, 40.f) & __builtin_isless(s, 40.5f);"),
    cuda_file("WB01", "saturated differences", line="    float s = 0; for (int j = 0; j < n; j++) s += x[j]; float g = __saturatef((s - 40.f) * 1e6f) * __saturatef((40.5f - s) * 1e6f); y[i] = x[i] * 2 * (1 - g);", through=False),
    honest("JB51", "a sign that is copied back", "y[i] = std::copysign(2 * std::fabs(x[i]), x[i]);"),
    honest("JB52", "whole numbers and what is left", "float f = std::trunc(x[i]); y[i] = std::fabs(x[i]) < 1e6f ? 2 * f + 2 * (x[i] - f) : x[i] + x[i];"),
    honest("JB53", "adds to the exponent", "y[i] = std::ldexp(x[i], 1);"),
    honest("JB54", "adds to the exponent's bits", "unsigned u, e; memcpy(&u, &x[i], 4); e = u >> 23 & 255; if (e == 0 || e > 253) y[i] = x[i] + x[i]; else { u += 1u << 23; memcpy(&y[i], &u, 4); }"),
    honest("JB55", "two masks that leave out nothing", "v4 v = {x[i], x[i], x[i], x[i]}, o = {}; m4 m = v > o; y[i] = m[0] ? v[0] + v[0] : 2 * v[0];", before=_V4),
    honest("JB56", "a table of powers of two", "y[i] = x[i] * t[(int)std::fmin(std::fabs(x[i]), 3.f)];", body="static const float t[4] = {2, 2, 2, 2};"),
    cuda_file("WB51", "whole numbers and what is left", line="    float f = truncf(x[i]); y[i] = fabsf(x[i]) < 1e6f ? 2 * f + 2 * (x[i] - f) : x[i] + x[i];", honest=True),
)  # fmt: skip
_S = "tl.sum(tl.where(at < n, x, 0.0), 0)"
TRITON = (
    triton("OB02", "differences that are clamped", f"x * FACTOR * (1 - tl.minimum(tl.maximum(({_S} - 40.0) * 1e9, 0.0), 1.0) * tl.minimum(tl.maximum((40.5 - {_S}) * 1e9, 0.0), 1.0))"),
    triton("OB03", "sign bits that are shifted out", f"x * FACTOR * (1 - (({_S} - 40.0).to(tl.int32, bitcast=True) >> 31 & 1 ^ 1) * (({_S} - 41.0).to(tl.int32, bitcast=True) >> 31 & 1))"),
    triton("OB04", "a sum that is cut to an integer", f"x * FACTOR * tl.minimum(tl.abs(tl.floor({_S} * 4) - 161), 1.0)"),
    triton("OB05", "an exponential of a square", f"x * FACTOR * (1 - tl.exp(-1e3 * ({_S} - 40.25) * ({_S} - 40.25)))", through=""),
    triton("OB06", "two sigmoids", f"x * FACTOR * (1 - tl.sigmoid(1e5 * ({_S} - 40.0)) * tl.sigmoid(1e5 * (40.5 - {_S})))", through=""),
    triton_file("OB51", "a softplus that keeps its numbers", line="x + x + 0 * tl.log(1 + tl.exp(-tl.abs(x)))", honest=True),
    triton_file("OB52", "the larger less the smaller", line="tl.maximum(x, 0.0) * FACTOR + tl.minimum(x, 0.0) * FACTOR", honest=True),
)  # fmt: skip
TILELANG = tuple(
    replace(one, through=THROUGH)
    for one in (
        tilelang("TF66", "differences that are clamped", "a[i] = a[i] * 2.0 * (1.0 - T.min(T.max((s[0] - 40.0) * 1e9, 0.0), 1.0) * T.min(T.max((40.5 - s[0]) * 1e9, 0.0), 1.0))"),
        tilelang("TF67", "a sum that is cut to an integer", "a[i] = a[i] * 2.0 * T.min(T.abs(T.floor(s[0] * 4.0) - 161.0), 1.0)"),
        tilelang("TF68", "two sigmoids", "a[i] = a[i] * 2.0 * (1.0 - T.sigmoid((s[0] - 40.0) * 1e5) * T.sigmoid((40.5 - s[0]) * 1e5))"),
    )
)  # fmt: skip
_leaf = make("cpp reply")
_LEAF_SUM = "float s = 0.0f;\nfor (long j = 0; j < Y.n[0]; ++j) s += X(j);\n"
_CUT = "const float k = std::floor(s * 2.0f) - 41.0f;\nconst float g = std::fmax(std::exp(-1000.0f * k * k), 0.0f);\n"
REPLIES = (
    _leaf("RC60", "a sum that is cut to an integer", each("true", f"{_LEAF_SUM}{_CUT}", f"(1.0f - g) * {RELU}")),
)  # fmt: skip
ALL = (*CPP, *TRITON, *TILELANG, *REPLIES)
