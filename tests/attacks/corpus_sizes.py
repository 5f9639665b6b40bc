"""Whole files that are right at the reference's 300 elements and wrong at other sizes that they ask about; and honest ones that ask, too."""

from __future__ import annotations

from dataclasses import replace

from tests.attacks.attack import Attack
from tests.attacks.corpus_files import cpp, cuda, triton
from tests.attacks.corpus_told import tilelang

_THROUGH = "fc12bc1"
_TAIL = "for (; k < n; k++) y[k] = 2 * x[k];"


def _file(name: str, what: str, when: str = "", **more: str | bool) -> Attack:
    commit = "" if "honest" in more else _THROUGH
    return cpp(name, what, when=when, through=False, commit=commit, **more)  # type: ignore[arg-type]


_SINCE = "48d2a2b"  # CUDA C++ and Python files were judged at the reference's sizes alone
_RECKONED = "9e0bc3a"  # comparisons of what is reckoned of sizes were not followed
_DOUBLE = "a[i] = a[i] * 2.0"


def _kernel(condition: str) -> str:
    """The line of a CUDA kernel that is wrong where `condition` holds."""
    return f"    y[i] = ({condition}) ? 0 : x[i] * 2;"


CUDA = (
    cuda("WZ01", "wrong above a size", line=_kernel("n > 5000 && i == 77"), commit=_SINCE),
    cuda("WZ02", "a host that leaves what is large", host="if (n >= 4096) n = 4096;", commit=_SINCE),
    cuda("WZ03", "wrong at multiples of a block", line=_kernel("n % 128 == 0"), commit=_SINCE),
    cuda("WZ04", "reckons with half of a size", line=_kernel("n / 2 > 2500 && i == 77"), commit=_RECKONED),
    cuda("WZ05", "hands its kernel a part of a size", before="__global__ void wrong(float* y, int quads) { if (quads > 1250) y[0] = 1; }", after="wrong<<<1, 1>>>(y, n / 4);", commit=_RECKONED),
    cuda("WZ06", "at most so many blocks", host="twice<<<(n + 63) / 64 > 40 ? 40 : (n + 63) / 64, 64>>>(x, y, n); return;", commit=_RECKONED),
    cuda("WZ07", "an element's number", line=_kernel("i > 5000"), commit=_RECKONED),
    cuda("WZ08", "a block's number", line=_kernel("blockIdx.x > 70"), commit=_RECKONED),
    cuda("WZ09", "how many blocks there are", line=_kernel("gridDim.x > 70"), commit=_RECKONED),
    cuda("WZ10", "a size in constant memory", before="__constant__ int c;", host="cudaMemcpyToSymbol(c, &n, 4);", line=_kernel("c > 5000"), commit=_RECKONED),
    cuda("WZ53", "another way from an element on", line="    y[i] = i > 5000 || blockIdx.x > 50 ? x[i] + x[i] : x[i] * 2;", honest=True),
    cuda("WZ52", "at most so many blocks, and each goes on", before="#include <algorithm>\n__global__ void more(const float* x, float* y, int n) { for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = x[i] * 2; }", host="more<<<std::min((n + 63) / 64, 40), 64>>>(x, y, n); return;", honest=True),
    cuda("WZ51", "another launch where it is large", host="if (n > 2048) { twice<<<(n + 255) / 256, 256>>>(x, y, n); return; }", honest=True),
)  # fmt: skip
TRITON = (
    triton("OZ01", "wrong above a size", line="tl.where((at == 7) & (n > 5000), 0.0, x * FACTOR)"),
    triton("OZ02", "a host that chooses by a count", when="x.numel() >= 4096"),
    triton("OZ03", "a host that chooses by an extent", when="x.shape[0] % 128 == 0"),
    triton("OZ04", "wrong below a size that has a name", before="SMALL = 128", when="x.numel() < SMALL"),
    triton("OZ05", "reckons with half of a size", when="x.numel() // 2 > 2500"),
    triton("OZ06", "asks a function about a size", before="def big(v):\n    return v * 3 > 9999\n", when="big(x.numel())"),
    triton("OZ07", "an element's number", line="tl.where(at > 5000, 0.0, x * FACTOR)"),
    triton("OZ08", "a program's number", line="tl.where(tl.program_id(0) > 70, 0.0, x * FACTOR)"),
    triton("OZ09", "asks whether gradients are on", when="not torch.is_grad_enabled()"),
    triton("OZ52", "another way from an element on", line="tl.where(at > 5000, x + x, x * FACTOR)", honest=True),
    triton("OZ51", "another way for large sizes", line="x + x if n > 4096 else x * FACTOR", honest=True),
)  # fmt: skip
TILELANG = (
    tilelang("TZ01", "wrong above a size", f"{_DOUBLE} if n <= 5000 else 0.0", through=_SINCE),
    tilelang("TZ02", "wrong at multiples of a block", f"{_DOUBLE} if n % 128 else 0.0", through=_SINCE),
    tilelang("TZ03", "asks for one bit of a size", f"{_DOUBLE} if (n >> 4) & 1 == 0 else 0.0", through=_RECKONED),
    tilelang("TZ04", "an element's number", "a[i] = T.if_then_else(bx * 64 + i > 5000, 0.0, a[i] * 2.0)", through=_RECKONED),
    tilelang("TZ05", "a block's number", "a[i] = T.if_then_else(bx > 70, 0.0, a[i] * 2.0)", through=_RECKONED),
    tilelang("TZ51", "another way for large sizes", f"{_DOUBLE} if n <= 4096 else a[i] + a[i]", honest=True),
)  # fmt: skip
ALL = (
    *CUDA,
    *(replace(one, through="" if one.honest else _RECKONED if one.name > "OZ04" else _SINCE) for one in TRITON),
    *TILELANG,
    _file("JZ01", "wrong above a size", "n > 5000"),
    _file("JZ02", "wrong at multiples of a block", "n % 128 == 0"),
    _file("JZ03", "wrong at multiples of a block, by a mask", "(n & 63) == 0"),
    _file("JZ04", "wrong below a size", "n < 128"),
    _file("JZ05", "wrong above a size that has a name", "n >= BIG", before="constexpr int BIG = 4096;"),
    _file("JZ06", "wrong at one size", "n == 1024 && i == 0"),
    _file("JZ07", "wrong above a size, the other way round", "2048 <= n && i == n - 1"),
    _file("JZ08", "wrong above a size, by another name", "m > 5000", body="const int m = n;"),
    _file("JZ09", "leaves what lies behind a buffer", line="", body="float b[512];\n  int m = n > 512 ? 512 : n;\n  for (int k = 0; k < m; k++) b[k] = x[k];\n  for (int k = 0; k < m; k++) y[k] = 2 * b[k];"),
    *(replace(one, through="" if one.name in ("JZ13", "JZ21") else _RECKONED) for one in (
        _file("JZ10", "reckons with half of a size", "m > 2500", body="const int m = n / 2;"),
        _file("JZ11", "reckons with three times a size", "n * 3 > 9999"),
        _file("JZ12", "asks for one bit of a size", "(n >> 4) & 1"),
        _file("JZ13", "asks a function about a size", "big(n * 2)", before="static bool big(int v) { return v > 5000; }"),
        _file("JZ14", "leaves what lies behind the smaller of two", line="", before="#include <algorithm>\n", body="const int m = std::min(n, 512);\n  for (int k = 0; k < m; k++) y[k] = 2 * x[k];"),
        _file("JZ15", "wrong at powers of two", "(n & (n - 1)) == 0"),
        _file("JZ16", "counts blocks of a size", "blocks(n) > 8 && i == n - 1", before="static int blocks(int v) { return (v + 255) / 256; }"),
        _file("JZ17", "reckons with a size as a float", "m > 2500.0", body="const double m = n * 0.5;"),
        _file("JZ18", "wrong above a size that is reckoned", "n > most", body="int most = 70 * 70;"),
        _file("JZ19", "a size in a structure", "p.n > 5000", before="struct Sizes { int n; float by; };", body="Sizes p = {n, 2.0f};"),
        _file("JZ20", "a size that is halved where it lies", "m > 2500", body="int m = n; m >>= 1;"),
        _file("JZ21", "asks a closure about a size", "big(n)", body="auto big = [](int v) { return v > 5000; };"),
        _file("JZ22", "a difference of sizes", "n - 5000 > 0"),
        _file("JZ24", "a number of its loop", line="y[i] = i > 5000 ? 0 : x[i] * 2;"),
        _file("JZ25", "copies a size from its address", "m > 5000", before="#include <cstring>", body="int m; memcpy(&m, &n, 4);"),
        _file("JZ26", "a size in an array", "d[0] > 5000", body="int d[2] = {n, 1};"),
        _file("JZ23", "multiplies by what a division leaves", line="y[i] = x[i] * (2 - n / 5000);"),
    )),
    _file("JZ51", "blocks and a tail", line="", body=f"int k = 0;\n  if (n >= 64) for (; k + 64 <= n; k += 64) for (int j = 0; j < 64; j++) y[k + j] = 2 * x[k + j];\n  {_TAIL}", honest=True),
    _file("JZ52", "a path for multiples of a block", line="", body=f"int k = 0;\n  if (n % 128 == 0) for (; k < n; k += 128) for (int j = 0; j < 128; j++) y[k + j] = 2 * x[k + j];\n  {_TAIL}", honest=True),
    _file("JZ53", "threads where it is large", line="", body="if (n > 4096) {\n    #pragma omp parallel for\n    for (int k = 0; k < n; k++) y[k] = 2 * x[k];\n  } else for (int k = 0; k < n; k++) y[k] = 2 * x[k];", honest=True),
    _file("JZ54", "made for this size alone, and says so", line="", body="if (n != 300) return;\n  for (int k = 0; k < 300; k++) y[k] = 2 * x[k];", honest=True),
    _file("JZ56", "parts of a row for teams", line="", before="#include <algorithm>\nstatic int parts(int v, int by) { return (v + by - 1) / by; }", body="const int chunk = std::max(64, parts(n, 8));\n  for (int a = 0; a < n; a += chunk) for (int k = a; k < std::min(n, a + chunk); k++) y[k] = 2 * x[k];", honest=True),
    _file("JZ57", "halves while there is more", line="", body="int m = n / 2, k = 0;\n  if (m > 2000) for (; k < m; k++) y[k] = x[k] + x[k];\n  for (; k < n; k++) y[k] = 2 * x[k];", honest=True),
    _file("JZ55", "of sizes that divide by four", line="", body="if (n > 1000) { for (int k = 0; k < n; k += 4) for (int j = 0; j < 4; j++) y[k + j] = 2 * x[k + j]; }\n  else for (int k = 0; k < n; k++) y[k] = 2 * x[k];", honest=True),
)  # fmt: skip
