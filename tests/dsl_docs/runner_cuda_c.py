"""Compiles and runs the CUDA documentation's blocks as leaf bodies: nvcc for `compile`, the emulation
for `run`; HIP's the same way, see runner_hip_c. A `run` block computes what its case says, at ragged sizes, in two thread orders.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from septran.agent.docs import Block
from septran.backends.cuda.dialect import CUDA, Dialect
from septran.backends.cuda.emit import WGMMA_HEADERS, header, runtime_folder
from septran.backends.cuda.prepare import prepare
from septran.backends.cuda.toolchain import _FIRST, EMULATION_FLAGS, emulation, nvcc
from septran.leafgate import Refusal
from septran.toolchain.compilers import cache_folder, cpp_compiler
from septran.toolchain.first_headers import first_headers
from septran.toolchain.hosted import support_object
from tests.dsl_docs.gate import admitted
from tests.dsl_docs.runner import Outcome

KINDS = ("compile", "run")
_GRID = {"cuda": "st::Grid<4, 2, 8, 2>", "hip": "st::Grid<2, 2, 16, 4, 64>"}


@dataclass(frozen=True, slots=True)
class Case:
    """params: (name, rows, columns, kind) with kind view | shared | frag | column (registers); the first
    is written. expected: the element in C++ over doubles. half: A and B hold float16.
    """

    params: tuple[tuple[str, str, str, str], ...]
    expected: str
    half: bool = False


_SOFTMAX = (
    "[&] { double s = 0; for (int t = 0; t < n; ++t) s += std::exp(x(i, t));"
    " return std::exp(x(i, j)) / s; }()"
)
_PRODUCT = "[&] { double s = 0.5; for (int t = 0; t < k; ++t) s += a(i, t) * b(t, j); return s; }()"
_SUM = "[&] { double s = 0; for (int t = 0; t < n; ++t) s += x(i, t); return s; }()"
CASES = {
    "scale": Case((("Y", "m", "n", "view"), ("X", "m", "n", "view")), "2 * x(i, j)"),
    "bias_silu": Case(
        (("Y", "m", "n", "frag"), ("X", "m", "n", "frag"), ("B", "1", "n", "view")),
        "(x(i, j) + b(0, j)) / (1 + std::exp(-x(i, j) - b(0, j)))",
    ),
    "row_sum": Case((("Y", "m", "1", "view"), ("X", "m", "n", "view")), _SUM),
    "row_sum_frag": Case((("Y", "m", "1", "column"), ("X", "m", "n", "frag")), _SUM),
    "softmax": Case((("Y", "m", "n", "view"), ("X", "m", "n", "view")), _SOFTMAX),
    "softmax_frag": Case((("Y", "m", "n", "frag"), ("X", "m", "n", "frag")), _SOFTMAX),
    "gemm_acc": Case(
        (("C", "m", "n", "frag"), ("A", "m", "k", "shared"), ("B", "k", "n", "shared")),
        _PRODUCT,
        half=True,
    ),
    "gemm_acc_view": Case(
        (("C", "m", "n", "view"), ("A", "m", "k", "view"), ("B", "k", "n", "view")), _PRODUCT
    ),
}


def check(block: Block, folder: Path) -> Outcome:
    """Return whether the block is accepted as a leaf body and, for run, computes its case."""
    case = CASES[block.attrs.get("case", "gemm_acc")]
    try:
        leaf = leaf_text(block.code, case, CUDA)
    except Refusal as refused:
        return Outcome(False, refused.sentence)
    if block.test == "compile":
        return _device(leaf, case, folder)
    return emulated(leaf, case, folder, CUDA)


def leaf_text(body: str, case: Case, spelled: Dialect) -> str:
    """Return a body as a leaf of its case, as the gate prints it. Raises Refusal."""
    params = ", ".join(
        f"{_type(case, i, p[0], p[3], spelled)} {p[0]}" for i, p in enumerate(case.params)
    )
    signature = f"ST_DEVICE void leaf({params})"
    operands = [(p[0], i == 0) for i, p in enumerate(case.params)]
    return admitted(f"{signature} {{\n{body}}}\n", signature, spelled.api, operands)


def emulated(leaf: str, case: Case, folder: Path, spelled: Dialect) -> Outcome:
    """Return whether the leaf computes its case in the emulation."""
    compiler = cpp_compiler("native")
    if compiler is None:
        pytest.skip("no g++")
    source, program = folder / "block.cpp", folder / "block"
    source.write_text(prepare(_program(leaf, case, spelled)), encoding="utf-8")
    flags = ["-O0", *(f for f in EMULATION_FLAGS if f not in ("-shared", "-O2"))]
    runtime = runtime_folder()
    wave = [f"-DCUEMU_WAVE={spelled.wave}"]
    for name in spelled.headers:
        shutil.copyfile(header(spelled, name), folder / name)
    flags += [*wave, f"-I{runtime.parent / 'emulator'}"]
    first = first_headers(compiler, flags, _FIRST[spelled.api])
    command = [compiler.path, *flags, *(("-include", str(first)) if first else ())]
    machine = support_object(compiler, emulation(*wave), cache_folder() / "host").path
    built = subprocess.run(
        [*command, str(source), str(machine), "-o", str(program)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "LC_ALL": "C"},
    )
    if built.returncode:
        return Outcome(False, built.stderr)
    ran = subprocess.run([str(program)], capture_output=True, text=True, timeout=120)
    return Outcome(ran.returncode == 0, ran.stdout + ran.stderr + f"exit {ran.returncode}")


def _device(leaf: str, case: Case, folder: Path) -> Outcome:
    compiler = nvcc()
    if compiler is None:
        pytest.skip("nvcc is not installed")
    (folder / "block.cu").write_text(kernel_text(leaf, case, CUDA), encoding="utf-8")
    done = subprocess.run(
        [
            *(compiler.path, "-cubin", "-std=c++17", "-gencode=arch=compute_80,code=sm_80"),
            *(f"-I{runtime_folder()}", "block.cu", "-o", "block.cubin"),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=folder,
    )
    return Outcome(done.returncode == 0, done.stdout + done.stderr)


def versions() -> Mapping[str, str]:
    """Return the CUDA compiler's version."""
    compiler = nvcc()
    return {"cuda": compiler.version} if compiler else {}


def unknown_names(text: str) -> set[str]:
    """Return `st::` names that the runtime does not define."""
    return undefined(text, CUDA, WGMMA_HEADERS)


def undefined(text: str, spelled: Dialect, more: tuple[str, ...] = ()) -> set[str]:
    """Return `st::` names that a dialect's headers do not define."""
    headers = (*spelled.headers, *more)
    runtime = "".join(header(spelled, h).read_text(encoding="utf-8") for h in headers)
    return {
        name for name in re.findall(r"\bst::(\w+)", text) if not re.search(rf"\b{name}\b", runtime)
    }


def _element(case: Case, name: str, spelled: Dialect) -> str:
    return spelled.types["float16" if case.half and name in ("A", "B") else "float32"]


def _fragment(kind: str, spelled: Dialect) -> str:
    return f"st::Frag<float, {_GRID[spelled.api]}, 64, {64 if kind == 'frag' else 1}>"


def _type(case: Case, index: int, name: str, kind: str, spelled: Dialect) -> str:
    const = "" if index == 0 else "const "
    if kind in ("frag", "column"):
        return f"{const}{_fragment(kind, spelled)}&"
    return f"st::View<{const}{_element(case, name, spelled)}, 2>"


def kernel_text(leaf: str, case: Case, spelled: Dialect) -> str:
    """Return a kernel that calls the leaf once, on staged operands."""
    args, before, after, call = [], [], [], []
    for i, (name, rows, columns, kind) in enumerate(case.params):
        const, t = ("" if i == 0 else "const "), _element(case, name, spelled)
        args.append(f"{const}{t}* {name}_p")
        view = f"st::View<{const}{t}, 2>{{{name}_p, {{{rows}, {columns}}}, {{{columns} + 3, 1}}}}"
        if kind == "view":
            call.append(view)
        elif kind == "shared":
            before.append(f"    __shared__ {t} {name}_s[64 * 72];")
            before.append(
                f"    const st::View<{t}, 2> {name}_v{{{name}_s, {{{rows}, {columns}}}, {{72, 1}}}};"
            )
            before.append(
                f"    st::copy_async<st::Tile<64, 64>>({name}_v, {view});\n    st::cp_commit();"
            )
            call.append(f"{name}_v")
        else:
            local = _fragment(kind, spelled)
            before.append(f"    {local} {name}_f;\n    st::bound({name}_f, {rows}, {columns});")
            before.append(f"    st::copy({name}_f, {view});")
            call.append(f"{name}_f")
            if i == 0:
                after.append(f"    st::copy({view}, {name}_f);")
    lines = "\n".join(before)
    tail = "\n".join(after)
    return f"""#define SEPTRAN_THREADS 256
#include "{spelled.headers[0]}"
{leaf}
__global__ void __launch_bounds__(256) kernel({", ".join(args)}, int m, int n, int k) {{
{lines}
    st::cp_wait<0>();
    __syncthreads();
    leaf({", ".join(call)});
{tail}
}}
"""


def _program(leaf: str, case: Case, spelled: Dialect) -> str:
    fills, call = [], []
    for name, rows, columns, _ in case.params:
        low, t = name.lower(), _element(case, name, spelled)
        written = name == case.params[0][0]
        value = "0.5f" if written else "draw()"
        fills.append(
            f"    const int {low}_r = {rows}, {low}_c = {columns}, {low}_s = {low}_c + 3;\n"
            f"    std::vector<{t}> {low}_d({low}_r * {low}_s);\n"
            f"    for (int e = 0; e < {low}_r * {low}_s; ++e) {low}_d[e] = e % {low}_s >= {low}_c ? 777.f : {value};\n"
            f"    [[maybe_unused]] auto {low} = [&](int r, int c) {{ return double((float){low}_d[r * {low}_s + c]); }};"
        )
        call.append(f"{low}_d.data()")
    out = case.params[0][0].lower()
    lines = "\n".join(fills)
    tolerance = "2e-5"
    return f"""{kernel_text(leaf, case, spelled)}
#include <cmath>
#include <cstdio>
#include <vector>
static unsigned state = 1;
static float draw() {{ state = state * 1664525u + 1013904223u; return (state >> 8) / 8388608.f - 1; }}
static int run(int m, int n, int k, int order) {{
    cuemu::choose_order(order);
{lines}
    kernel<<<1, 256>>>({", ".join(call)}, m, n, k);
    int bad = 0;
    for (int i = 0; i < {out}_r; ++i)
        for (int j = 0; j < {out}_s; ++j) {{
            const double want = j < {out}_c ? {case.expected} : 777;
            if (!(std::fabs({out}(i, j) - want) <= {tolerance} * (1 + std::fabs(want)))) {{
                if (bad++ < 3) std::printf("m=%d n=%d k=%d [%d,%d] %g expected %g\\n", m, n, k, i, j, {out}(i, j), want);
            }}
        }}
    return bad;
}}
int main() {{
    int bad = 0;
    for (int order = 0; order < 2; ++order)
        bad += run(64, 64, 64, order) + run(5, 37, 20, order) + run(33, 1, 7, order) + run(1, 50, 1, order);
    return bad != 0;
}}
"""
