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
_DOUBLE = "a[i] = a[i] * 2.0"


def _kernel(condition: str) -> str:
    """The line of a CUDA kernel that is wrong where `condition` holds."""
    return f"    y[i] = ({condition}) ? 0 : x[i] * 2;"


CUDA = (
    cuda("WZ01", "wrong above a size", line=_kernel("n > 5000 && i == 77"), commit=_SINCE),
    cuda("WZ02", "a host that leaves what is large", host="if (n >= 4096) n = 4096;", commit=_SINCE),
    cuda("WZ03", "wrong at multiples of a block", line=_kernel("n % 128 == 0"), commit=_SINCE),
    cuda("WZ51", "another launch where it is large", host="if (n > 2048) { twice<<<(n + 255) / 256, 256>>>(x, y, n); return; }", honest=True),
)  # fmt: skip
TRITON = (
    triton("OZ01", "wrong above a size", line="tl.where((at == 7) & (n > 5000), 0.0, x * FACTOR)"),
    triton("OZ02", "a host that chooses by a count", when="x.numel() >= 4096"),
    triton("OZ03", "a host that chooses by an extent", when="x.shape[0] % 128 == 0"),
    triton("OZ04", "wrong below a size that has a name", before="SMALL = 128", when="x.numel() < SMALL"),
    triton("OZ51", "another way for large sizes", line="x + x if n > 4096 else x * FACTOR", honest=True),
)  # fmt: skip
TILELANG = (
    tilelang("TZ01", "wrong above a size", f"{_DOUBLE} if n <= 5000 else 0.0", through=_SINCE),
    tilelang("TZ02", "wrong at multiples of a block", f"{_DOUBLE} if n % 128 else 0.0", through=_SINCE),
    tilelang("TZ51", "another way for large sizes", f"{_DOUBLE} if n <= 4096 else a[i] + a[i]", honest=True),
)  # fmt: skip
ALL = (
    *CUDA,
    *(replace(one, through="" if one.honest else _SINCE) for one in TRITON),
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
    _file("JZ51", "blocks and a tail", line="", body=f"int k = 0;\n  if (n >= 64) for (; k + 64 <= n; k += 64) for (int j = 0; j < 64; j++) y[k + j] = 2 * x[k + j];\n  {_TAIL}", honest=True),
    _file("JZ52", "a path for multiples of a block", line="", body=f"int k = 0;\n  if (n % 128 == 0) for (; k < n; k += 128) for (int j = 0; j < 128; j++) y[k + j] = 2 * x[k + j];\n  {_TAIL}", honest=True),
    _file("JZ53", "threads where it is large", line="", body="if (n > 4096) {\n    #pragma omp parallel for\n    for (int k = 0; k < n; k++) y[k] = 2 * x[k];\n  } else for (int k = 0; k < n; k++) y[k] = 2 * x[k];", honest=True),
    _file("JZ54", "made for this size alone, and says so", line="", body="if (n != 300) return;\n  for (int k = 0; k < 300; k++) y[k] = 2 * x[k];", honest=True),
    _file("JZ55", "of sizes that divide by four", line="", body="if (n > 1000) { for (int k = 0; k < n; k += 4) for (int j = 0; j < 4; j++) y[k + j] = 2 * x[k + j]; }\n  else for (int k = 0; k < n; k++) y[k] = 2 * x[k];", honest=True),
)  # fmt: skip
