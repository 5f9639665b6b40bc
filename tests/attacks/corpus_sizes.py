"""Whole C++ files that are right at the reference's 300 elements and wrong at other sizes that they ask about; and honest ones that ask, too."""

from __future__ import annotations

from tests.attacks.attack import Attack
from tests.attacks.corpus_files import cpp

_THROUGH = "fc12bc1"
_TAIL = "for (; k < n; k++) y[k] = 2 * x[k];"


def _file(name: str, what: str, when: str = "", **more: str | bool) -> Attack:
    commit = "" if "honest" in more else _THROUGH
    return cpp(name, what, when=when, through=False, commit=commit, **more)  # type: ignore[arg-type]


ALL = (
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
