"""Hand-written C kernels, honest and not, and what it takes to verify one in a test."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from septran.backends.base import Built
from septran.domain import Domain
from septran.kernel import Kernel, KernelParam
from septran.reference import Reference
from septran.verify.problem import Problem
from septran.verify.session import Sessions
from septran.verify.verdict import Verdict
from septran.verify.verify import Request, verify

PRELUDE = "#include <cmath>\n#include <cstring>\n#include <cstdint>\n"


def entry(body: str, *, before: str = "") -> str:
    """Return a C++ file whose entry has `body`; args[i] are the tensors."""
    return f'{PRELUDE}{before}\nextern "C" void entry(void* const* args) {{\n{body}\n}}\n'


def build(source: str, folder: Path, *, flags: tuple[str, ...] = ("-O2",)) -> Built:
    """Compile `source` into folder/kernel.so."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kernel.cpp").write_text(source)
    out = folder / "kernel.so"
    command = ["g++", "-std=c++20", *flags, "-shared", "-fPIC", "-pthread", "-o", str(out)]
    done = subprocess.run(
        [*command, str(folder / "kernel.cpp")], capture_output=True, text=True, check=False
    )
    return Built(ok=done.returncode == 0, artifact=out, log=done.stderr)


def kernel_of(
    problem: Problem, source: str, *, main: str = "kernel.cpp", backend: str = "cpp"
) -> Kernel:
    """Return a Kernel around hand-written source."""
    return Kernel(
        name=problem.name,
        backend=backend,
        arch="",
        entry="entry",
        params=problem.params,
        main=main,
        files=((main, source),),
        leaves=(),
    )


def check(
    source: str,
    problem: Problem,
    folder: Path,
    *,
    seed: int | None = None,
    gate: bool = False,
    sessions: Sessions | None = None,
    flags: tuple[str, ...] = ("-O2",),
) -> Verdict:
    """Build and verify a C kernel. The static gate is off by default: the dynamic layer must catch."""
    built = build(source, folder / "build", flags=flags)
    assert built.ok, built.log
    request = Request(seed=seed, gate=gate, sessions=sessions or Sessions(call_timeout_s=3.0))
    return verify(
        kernel_of(problem, source), built, problem, run_dir=folder / "run", request=request
    )


def _param(
    name: str, shape: tuple[int, ...], privilege: str, dtype: str = "float32"
) -> KernelParam:
    return KernelParam(name=name, shape=shape, dtype=dtype, privilege=privilege)  # type: ignore[arg-type]


def gemm(m: int = 37, n: int = 29, k: int = 53, dtype: str = "float32") -> Problem:
    """C = A B."""
    return Problem(
        name="gemm",
        params=(
            _param("C", (m, n), "w", dtype),
            _param("A", (m, k), "r", dtype),
            _param("B", (k, n), "r", dtype),
        ),
        reference=Reference(fn=lambda A, B: A @ B, kind="gemm", reduction=lambda dims: dims["K"]),
        dims={"M": m, "N": n, "K": k},
    )


def softmax(rows: int = 19, n: int = 67) -> Problem:
    """Y = softmax(X) over the last axis."""
    import torch

    return Problem(
        name="softmax",
        params=(_param("Y", (rows, n), "w"), _param("X", (rows, n), "r")),
        reference=Reference(
            fn=lambda X: torch.softmax(X, dim=-1),
            kind="softmax",
            reduction=lambda dims: dims["N"],
        ),
        dims={"M": rows, "N": n},
    )


def total(count: int, n: int = 40) -> Problem:
    """Y = the sum of `count` tensors."""
    names = [f"X{number}" for number in range(count)]
    return Problem(
        name="total",
        params=(_param("Y", (n,), "w"), *(_param(name, (n,), "r") for name in names)),
        reference=Reference(
            fn=lambda **values: sum(values[name] for name in names),
            kind="reduction",
            reduction=lambda dims: count,
        ),
        dims={"N": n},
    )


def relu(rows: int = 19, n: int = 67) -> Problem:
    """Y = max(X, 0)."""
    import torch

    return Problem(
        name="relu",
        params=(_param("Y", (rows, n), "w"), _param("X", (rows, n), "r")),
        reference=Reference(fn=lambda X: torch.relu(X), kind="exact"),
        dims={"M": rows, "N": n},
    )


def added(n: int = 4096) -> Problem:
    """Y = Y + X, in place."""
    return Problem(
        name="added",
        params=(_param("Y", (n,), "rw"), _param("X", (n,), "r")),
        reference=Reference(fn=lambda X, Y: Y + X, kind="elementwise"),
        dims={"N": n},
    )


def fused_relu(n: int, dtype: str) -> Problem:
    """Z = max(A B + C, 0)."""
    return Problem(
        name="fused_relu",
        params=(_param("Z", (n,), "w", dtype), *(_param(name, (n,), "r", dtype) for name in "ABC")),
        reference=Reference(
            fn=lambda A, B, C: (A * B + C).clamp(min=0),
            kind="elementwise",
        ),
        dims={"N": n},
    )


def gather(rows: int = 23, n: int = 31) -> Problem:
    """Y[i] = X[i, index[i]]."""
    return Problem(
        name="gather",
        params=(
            _param("Y", (rows,), "w"),
            _param("X", (rows, n), "r"),
            _param("index", (rows,), "r", "int64"),
        ),
        reference=Reference(fn=lambda X, index: X.gather(1, index[:, None])[:, 0], kind="exact"),
        dims={"M": rows, "N": n},
        domains={"index": Domain(kind="index", high="N")},
    )


def layernorm(rows: int = 17, n: int = 65) -> Problem:
    """Y = (X - mean) / sqrt(var + eps) * G + B."""
    import torch

    return Problem(
        name="layernorm",
        params=(
            _param("Y", (rows, n), "w"),
            _param("X", (rows, n), "r"),
            _param("G", (n,), "r"),
            _param("B", (n,), "r"),
        ),
        reference=Reference(
            fn=lambda X, G, B: torch.layer_norm(X, X.shape[-1:], G, B, 1e-5),
            kind="chain",
            reduction=lambda dims: dims["N"],
        ),
        dims={"M": rows, "N": n},
    )


GEMM = """
const float* A = (const float*)args[1]; const float* B = (const float*)args[2]; float* C = (float*)args[0];
for (int i = 0; i < 37; i++) for (int j = 0; j < 29; j++) {
  float s = 0; for (int k = 0; k < 53; k++) s += A[i*53+k] * B[k*29+j]; C[i*29+j] = s; }
"""
SOFTMAX = """
const float* X = (const float*)args[1]; float* Y = (float*)args[0];
for (int i = 0; i < 19; i++) { float m = X[i*67];
  for (int j = 1; j < 67; j++) { float x = X[i*67+j]; m = (x > m || x != x) ? x : m; }
  float s = 0; for (int j = 0; j < 67; j++) s += Y[i*67+j] = std::exp(X[i*67+j] - m);
  for (int j = 0; j < 67; j++) Y[i*67+j] /= s; }
"""
RELU = """
const float* X = (const float*)args[1]; float* Y = (float*)args[0];
for (int i = 0; i < 19*67; i++) Y[i] = X[i] < 0 ? 0 : X[i];
"""
GATHER = """
const float* X = (const float*)args[1]; const int64_t* I = (const int64_t*)args[2]; float* Y = (float*)args[0];
for (int i = 0; i < 23; i++) Y[i] = X[i*31 + I[i]];
"""
LAYERNORM = """
const float *X = (const float*)args[1], *G = (const float*)args[2], *B = (const float*)args[3]; float* Y = (float*)args[0];
for (int i = 0; i < 17; i++) { float s = 0, v = 0;
  for (int j = 0; j < 65; j++) s += X[i*65+j];
  float m = s / 65; for (int j = 0; j < 65; j++) { float d = X[i*65+j] - m; v += d * d; }
  float r = 1 / std::sqrt(v / 65 + 1e-5f);
  for (int j = 0; j < 65; j++) Y[i*65+j] = (X[i*65+j] - m) * r * G[j] + B[j]; }
"""

HONEST: Mapping[str, tuple[str, object]] = {
    "gemm": (GEMM, gemm),
    "softmax": (SOFTMAX, softmax),
    "relu": (RELU, relu),
    "gather": (GATHER, gather),
    "layernorm": (LAYERNORM, layernorm),
}
