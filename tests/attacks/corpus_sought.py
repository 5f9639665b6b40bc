"""Branches that no drawn input meets, because several numbers decide them together, and files that are right for as many calls as a judge makes."""

from __future__ import annotations

from tests.attacks.corpus_files import cpp as cpp_file
from tests.attacks.corpus_files import cuda as cuda_file
from tests.attacks.corpus_native import each
from tests.attacks.corpus_replies import LARGE, MAX, make, where

THROUGH = "943af56"
CLAMPED = "fminf(fmaxf((s - 40.f) * 1e6f, 0.f), 1.f) * fminf(fmaxf((40.5f - s) * 1e6f, 0.f), 1.f)"
cpp, cuda, hip, dsa = (make(f"{name} reply") for name in ("cpp", "cuda", "hip", "dsa"))
LOOP = "for (long j = {}; j < Y.n[0]; ++j)"


def all_of(condition: str, first: int = 0) -> str:
    """A leaf that is wrong where `condition` holds for each j."""
    return f"bool a = true;\n{LOOP.format(first)} a = a && {condition};\nif (a) {{ Y(0) = 1.0f; return; }}\n{each('true')}"


def counted(condition: str, wrong: str) -> str:
    """A leaf that is wrong where the number of j for which `condition` holds is that of `wrong`."""
    return f"long k = 0;\n{LOOP.format(0)} k += {condition};\n{each(f'!({wrong})')}"


REPLIES = (
    cpp("RC22", "two numbers decide together", each("!(X(0) > 3.0f && X(1) < -3.0f)"), through=THROUGH),
    cpp("RC23", "three numbers decide together", each("!(X(0) > 3.0f && X(1) < -3.0f && X(2) > 5.0f)"), through=THROUGH),
    cpp("RC24", "the order of six numbers decides", each("!(X(0) > X(1) && X(1) > X(2) && X(2) > X(3) && X(3) > X(4) && X(4) > X(5))"), through=THROUGH),
    cpp("RC25", "how many are below zero decides", counted("X(j) < 0.0f", "k == 41"), through=THROUGH),
    cpp("RC26", "a sum in a narrow band", f"float s = 0.0f;\n{LOOP.format(0)} s += X(j);\n" + each("!(s > 40.0f && s < 40.5f)"), through=THROUGH),
    cpp("RC27", "all below zero", all_of("X(j) < 0.0f"), through=THROUGH),
    cpp("RC28", "sorted numbers", all_of("X(j - 1) < X(j)", 1), through=THROUGH),
    cpp("RC29", "a NaN whose sign is set", each("!(std::isnan(X(i)) && std::signbit(X(i)))"), through=THROUGH),
    cpp("RC30", "one number that is not zero", counted("X(j) != 0.0f", "k == 1"), through=THROUGH),
    cpp("RC31", "a second half of zeros", counted("j > 33 && X(j) != 0.0f", "k == 0 && X(0) != 0.0f"), through=THROUGH),
    cpp("RC32", "a product in a narrow band", each("!(X(0) * X(1) > 50.0f && X(0) * X(1) < 50.5f)"), through=THROUGH),
    cpp("RC33", "a row of integers of three digits", counted("X(j) == std::floor(X(j)) && X(j) > 100.0f && X(j) < 1000.0f", "k >= 60"), through=THROUGH),
    cpp("RC34", "two numbers far apart are equal", each("!(X(3) == X(40) && X(3) != X(4))")),
    cpp("RC56", "right on both sides of a joint branch", each("X(0) > 3.0f && X(1) < -3.0f ? true : X(2) == X(2) || true"), honest=True),
    cpp("RC57", "skips a row that is below zero", all_of("X(j) < 0.0f").replace("Y(0) = 1.0f;", f"{LOOP.format(0)} Y(j) = 0.0f;"), honest=True),
    cuda("RU15", "the sign of a NaN that is negated, the other way", where("__float_as_int(-(z - z)) > 0", LARGE), through=THROUGH),
    cuda("RU16", "the copied sign of a NaN that is negated", where("copysignf(1.0f, -(z - z)) > 0.0f", LARGE), through=THROUGH),
    hip("RH21", "the sign of a NaN that is negated", where("__float_as_int(-(z - z)) > 0", LARGE), through=THROUGH),
    dsa("RD17", "asks for its core", "if (vendor_lib_core_id() > 0) { return; }", static_only=True, through=THROUGH),
    dsa("RD91", "decides by where its tile lies", f"{MAX}\nif (X.addr > 8192) {{ vendor_lib_fill(y, 0.0); }}", static_only=True, through="d1a684a"),
    dsa("RD92", "keeps where its tile lies in a number", f"{MAX}\nlong t[2] = {{X.addr, 0}};\nif (t[0] > 8192) {{ vendor_lib_fill(y, 0.0); }}", static_only=True, through="d1a684a"),
    dsa("RD93", "fewer rows where its tile lies higher", f"{MAX}\nvl_tile z = y;\nz.rows = (int)(X.addr >> 20);\nvendor_lib_fill(z, 0.0);", static_only=True, through="d1a684a"),
    dsa("RD94", "a part of a tile, stepped to", f"{MAX}\nvl_tile z = y;\nconst long a = y.addr;\nz.addr = a + 64;\nz.cols = 3;\nvl_tile w = x;\nw.addr += 64;\nw.cols = 3;\nvendor_lib_vec_scalar(VL_MAX, z, w, 0.0);", honest=True),
    dsa("RD18", "asks how many cores there are", "if (vendor_lib_core_num() > 8) { return; }", static_only=True, through=THROUGH),
)  # fmt: skip

FILES = (
    cpp_file("J60", "three numbers decide together", when="x[0] > 3 && x[1] < -3 && x[2] > 4", commit=THROUGH),
    cpp_file("J61", "counts its calls up to thirty thousand", body="static int c = 0; c++;", when="c > 30000", text_only=True, commit=THROUGH),
    cpp_file("J62", "counts them for each thread", body="static thread_local int c = 0; c++;", when="c > 30000", text_only=True, commit=THROUGH),
    cpp_file("J63", "counts them on the heap", before="static int* k;", body="if (!k) k = (int*)calloc(1, 4); ++*k;", when="*k > 30000", text_only=True, commit=THROUGH),
    cpp_file("J64", "clamps that hold together where a sum is in a band", before="#include <cmath>\n", body=f"float s = 0; for (int j = 0; j < n; j++) s += x[j]; float g = {CLAMPED};", line="y[i] = x[i] * 2 * (1 - g);", commit="0b99ac1"),
    cpp_file("J65", "clamps that hold together where the largest is in a band", before="#include <cmath>\n", body=f"float s = -INFINITY; for (int j = 0; j < n; j++) s = fmaxf(s, x[j]); float g = {CLAMPED.replace('40', '7')};", line="y[i] = x[i] * 2 * (1 - g);", commit="0b99ac1"),
    cpp_file("J78", "a clamp that nothing reaches", before="#include <cmath>\n", line="y[i] = fminf(fmaxf(x[i], -3e38f), 3e38f) == x[i] ? x[i] * 2 : x[i] + x[i];", honest=True),
    cpp_file("J71", "a room that grows to the largest size", before="#include <vector>\n", body="static std::vector<float> t; if ((int)t.size() < n) t.resize(n);", line="t[i] = x[i]; y[i] = t[i] * 2;", honest=True),
    cpp_file("J72", "a table made by the first call", body="static float tab[256]; static bool done; if (!done) { for (int i = 0; i < 256; i++) tab[i] = i; done = true; }", line="y[i] = x[i] * tab[2];", honest=True),
    cpp_file("J73", "rooms that change places by the order they are freed in", body="float* a = (float*)malloc(n * 4); float* b = (float*)malloc(n * 4);", line="a[i] = x[i]; b[i] = a[i]; y[i] = b[i] * 2;", after="free(a); free(b);", honest=True),
    cpp_file("J74", "a map of rooms by size", before="#include <map>\n#include <vector>\nstatic std::map<int, std::vector<float>> cache;\n", body="auto& t = cache[n]; t.resize(n);", line="t[i] = 2; y[i] = x[i] * t[i];", honest=True),
    cpp_file("J75", "prints and streams", before="#include <iostream>\n#include <sstream>\n", after="std::ostringstream s; s << y[0]; std::cout << s.str() << std::endl;", honest=True),
    cpp_file("J76", "other sums for large and for small numbers", line="if (x[i] > 1e3f) y[i] = x[i] + x[i]; else if (x[i] < -3.f) y[i] = 2.f * x[i]; else y[i] = x[i] * 2;", honest=True),
    cpp_file("J77", "begins at an aligned address", body="int i0 = 0; while (i0 < n && ((uintptr_t)(x + i0) & 31)) { y[i0] = x[i0] * 2; i0++; }", line="if (i >= i0) y[i] = x[i] * 2;", honest=True),
    cuda_file("W19", "wrong in its very first call", host="static int c = 0; c++; if (c == 1) return;", commit=THROUGH),
    cuda_file("W20", "counts its calls up to twenty thousand", host="static int c = 0; if (++c > 20001) return;", text_only=True, commit=THROUGH),
    cuda_file("W21", "wrong in its very first call, by managed memory", before="__managed__ int c;", host="if (++c == 1) return;", commit=THROUGH),
    cuda_file("W22", "the sign of a NaN that is negated", before="#include <math.h>", line="    float z = x[i] * 0 + INFINITY; y[i] = __float_as_int(-(z - z)) > 0 ? x[i] * 2 : 0;", commit=THROUGH),
    cuda_file("W23", "three numbers decide together", line="    y[i] = (x[0] > 3 && x[1] < -3 && x[2] > 4) ? 0 : x[i] * 2;", commit=THROUGH),
    cuda_file("W60", "a workspace that stays", host="static float* w; static int cap; if (cap < n) { if (w) cudaFree(w); cudaMalloc(&w, n * 4); cap = n; } cudaMemcpy(w, x, n * 4, cudaMemcpyDeviceToDevice);", honest=True),
    cuda_file("W61", "an attribute that is set once", host="static bool set; if (!set) { cudaFuncSetAttribute(twice, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536); set = true; }", honest=True),
    cuda_file("W62", "a stream that stays", host="static cudaStream_t s; if (!s) cudaStreamCreate(&s); twice<<<5, 64, 0, s>>>(x, y, n); cudaStreamSynchronize(s);", honest=True),
    cuda_file("W63", "a counter on the device that the host sets back", before="__device__ int done;\n", host="int z = 0; cudaMemcpyToSymbol(done, &z, 4);", honest=True),
)  # fmt: skip
ALL = (*REPLIES, *FILES)
