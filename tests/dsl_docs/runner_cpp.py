"""Compiles and runs the C++ documentation's blocks as leaf bodies, with the runtime that kernels get."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from septran.agent.docs import Block
from septran.backends.cpp.emit import runtime_folder
from septran.leafgate import Refusal
from septran.toolchain.compilers import cpp_compiler, flags_for
from tests.dsl_docs.gate import admitted
from tests.dsl_docs.runner import Outcome

KINDS = ("compile", "run")
_PARTS = ("view", "vec", "vmath", "arena", "copy", "panels", "direct", "gemm", "reduce")
_ANY = (("C", True, "m", "n"), ("A", False, "m", "k"), ("B", False, "k", "n"))


@dataclass(frozen=True, slots=True)
class Case:
    """A leaf with its meaning: parameters as (name, written, rows, columns in terms of m n k), and the
    expected element in C++ over doubles.
    """

    params: tuple[tuple[str, bool, str, str], ...]
    expected: str


_XY = (("Y", True, "m", "n"), ("X", False, "m", "n"))
CASES = {
    "scale": Case(_XY, "2 * x(i, j)"),
    "relu": Case(_XY, "x(i, j) > 0 ? x(i, j) : 0"),
    "bias_silu": Case(
        (*_XY, ("B", False, "1", "n")), "(x(i, j) + b(0, j)) / (1 + std::exp(-x(i, j) - b(0, j)))"
    ),
    "row_sum": Case(
        (("Y", True, "m", "1"), ("X", False, "m", "n")),
        "[&] { double s = 0; for (long t = 0; t < n; ++t) s += x(i, t); return s; }()",
    ),
    "softmax": Case(
        _XY,
        "[&] { double s = 0; for (long t = 0; t < n; ++t) s += std::exp(x(i, t));"
        " return std::exp(x(i, j)) / s; }()",
    ),
    "gemm_acc": Case(
        (("C", True, "m", "n"), ("A", False, "m", "k"), ("B", False, "k", "n")),
        "[&] { double s = 0.5; for (long t = 0; t < k; ++t) s += a(i, t) * b(t, j); return s; }()",
    ),
}


def check(block: Block, folder: Path, arch: str = "native", launcher: str = "") -> Outcome:
    """Return whether the block compiles as a leaf body and, for run, computes what its case says."""
    compiler = cpp_compiler(arch)
    if compiler is None:
        pytest.skip(f"no C++ compiler for {arch}")
    case = CASES[block.attrs["case"]] if block.test == "run" else None
    program = folder / "block"
    source = folder / "block.cpp"
    signature = _signature(case.params if case else _ANY)
    operands = [(name, written) for name, written, *_ in (case.params if case else _ANY)]
    try:
        leaf = admitted(f"{signature} {{\n{block.code}}}\n", signature, "cpp", operands)
    except Refusal as refused:
        return Outcome(False, refused.sentence)
    source.write_text(_program(leaf, case), encoding="utf-8")
    flags = [f for f in flags_for(arch) if f not in ("-shared",)]
    extra = ["-static"] if launcher else []
    built = subprocess.run(
        [compiler.path, *flags, *extra, str(source), "-o", str(program)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "LC_ALL": "C"},
    )
    if built.returncode or case is None:
        return Outcome(built.returncode == 0, built.stderr)
    ran = subprocess.run(
        [*launcher.split(), str(program)], capture_output=True, text=True, timeout=120
    )
    return Outcome(ran.returncode == 0, built.stderr + ran.stdout + f"exit {ran.returncode}")


def versions() -> Mapping[str, str]:
    """Return the compiler's version."""
    compiler = cpp_compiler("native")
    return {"gxx": compiler.version} if compiler else {}


def unknown_names(text: str) -> set[str]:
    """Return `st::` names that the runtime does not define, and intrinsics (the docs use none)."""
    runtime = _runtime()
    found = {
        name for name in re.findall(r"\bst::(\w+)", text) if not re.search(rf"\b{name}\b", runtime)
    }
    return found | set(re.findall(r"\b_mm\w+", text))


def _runtime() -> str:
    parts = (runtime_folder() / f"{name}.h" for name in _PARTS)
    return "\n".join(path.read_text(encoding="utf-8") for path in parts if path.is_file())


def _signature(params: Sequence[tuple[str, bool, str, str]]) -> str:
    views = (f"st::View<{'' if w else 'const '}float, 2> {name}" for name, w, *_ in params)
    return f"static void leaf({', '.join(views)})"


def _program(leaf: str, case: Case | None) -> str:
    if case is None:
        return f"{_runtime()}\n{leaf}int main() {{ (void)leaf; }}\n"
    fills, call = [], []
    for name, written, rows, columns in case.params:
        low = name.lower()
        fills.append(
            f"const long {low}_r = {rows}, {low}_c = {columns}, {low}_s = {low}_c + 3;\n"
            f"float* {low}_p = make({low}_r, {low}_c, {low}_s, {int(written)});\n"
            f"auto {low} = [&](long r, long c) {{ return double({low}_p[r * {low}_s + c]); }};"
        )
        call.append(f"{{{low}_p, {{{low}_r, {low}_c}}, {{{low}_s, 1}}}}")
    out = case.params[0][0].lower()
    lines = "\n".join(fills)
    return f"""#include <cstdio>
#include <initializer_list>
{_runtime()}
{leaf}
static unsigned state = 1;
static float* make(long r, long c, long s, int written) {{
    float* p = new float[r * s];
    for (long i = 0; i < r * s; ++i) {{
        state = state * 1664525u + 1013904223u;
        p[i] = i % s >= c ? 77777.f : written ? WRITTEN : (state >> 8) / 8388608.f - 1;
    }}
    return p;
}}
static int run(long m, long n, long k) {{
    {lines}
    leaf({", ".join(call)});
    int bad = 0;
    for (long i = 0; i < {out}_r; ++i) {{
        for (long j = 0; j < {out}_c; ++j) {{
            const double want = {case.expected};
            if (!(std::fabs({out}(i, j) - want) <= 2e-5 * (1 + std::fabs(want)))) {{
                std::printf("m=%ld n=%ld k=%ld [%ld,%ld] %g expected %g\\n", m, n, k, i, j, {out}(i, j), want);
                ++bad;
            }}
        }}
        for (long j = {out}_c; j < {out}_s; ++j) bad += {out}_p[i * {out}_s + j] != 77777.f;
    }}
    return bad;
}}
int main() {{
    int bad = 0;
    for (long m : {{1, 3, 4, 17}}) for (long n : {{1, 2, 7, 16, 33, 100}}) for (long k : {{1, 5, 32}}) bad += run(m, n, k);
    return bad != 0;
}}
""".replace("WRITTEN", "0.5f" if case is CASES["gemm_acc"] else 'std::nanf("")')
