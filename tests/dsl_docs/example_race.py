"""Times the C++ page's examples against the library's leaves of the same meaning, call for call in turn, in one process."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from septran.backends.cpp.backend import CPP
from septran.ir.nodes import Prim
from septran.kernel import LeafParam
from septran.toolchain.compilers import cpp_compiler, flags_for
from tests.agent.leaves import param, spec
from tests.dsl_docs.runner_cpp import _runtime

_ROUNDS = 60
_Y, _X = param("Y", (64, 1000), "w"), param("X", (64, 1000), "r")


@dataclass(frozen=True, slots=True)
class Raced:
    """A case of the page with the meaning that the library's leaf is made from. calls: of each in a round."""

    params: tuple[LeafParam, ...]
    prim: Prim
    calls: int = 8


def _map(expr: str, *ins: tuple[str, str]) -> Prim:
    return Prim(name="map", out="Y", named=ins, attrs=(("expr", expr),))


RACED = {
    "scale": Raced((_Y, _X), _map("2 * x", ("x", "X"))),
    "relu": Raced((_Y, _X), _map("max(x, 0)", ("x", "X"))),
    "bias_silu": Raced(
        (_Y, _X, param("B", (1, 1000), "r")),
        _map("(x + b) * sigmoid(x + b)", ("b", "B"), ("x", "X")),
    ),
    "row_sum": Raced(
        (param("Y", (64, 1), "w"), _X),
        Prim(name="reduce", out="Y", ins=("X",), attrs=(("axis", 1), ("op", "sum"))),
    ),
    "gemm_acc": Raced(
        (param("C", (96, 128), "rw"), param("A", (96, 256), "r"), param("B", (256, 128), "r")),
        Prim(name="gemm_acc", out="C", ins=("A", "B")),
        calls=2,
    ),
}


def speed(name: str, code: str, folder: Path) -> float:
    """Return the library's time over the example's: the median of rounds in which they take turns."""
    case = RACED[name]
    leaf = CPP.library(spec(name, case.params, case.prim))
    assert leaf is not None
    theirs = leaf.source.replace(leaf.spec.symbol, "theirs")
    views = ", ".join(
        f"st::View<{'const ' if p.privilege == 'r' else ''}float, 2> {p.name}" for p in case.params
    )
    made = [
        f"static float {p.name}_p[{p.shape[0] * p.shape[1]}]; for (float& v : {p.name}_p) v = 0.25f;"
        for p in case.params
    ]
    given = ", ".join(
        f"{{{p.name}_p, {{{p.shape[0]}, {p.shape[1]}}}, {{{p.shape[1]}, 1}}}}" for p in case.params
    )
    text = f"""#include <algorithm>
#include <chrono>
#include <cstdio>
#include <initializer_list>
#include <vector>
{_runtime()}
static void mine({views}) {{
{code}}}
{theirs}
template <typename F> static double timed(F call) {{
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < {case.calls}; ++i) {{ call(); asm volatile("" ::: "memory"); }}
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}}
int main() {{
    {" ".join(made)}
    std::vector<double> found;
    for (int i = 0; i < {_ROUNDS}; ++i) {{
        const bool first = i % 2;
        double one = 0, two = 0;
        for (int turn = 0; turn < 2; ++turn)
            if ((turn == 0) == first) one = timed([&] {{ mine({given}); }});
            else two = timed([&] {{ theirs({given}); }});
        if (i >= 10) found.push_back(two / one);
    }}
    std::sort(found.begin(), found.end());
    std::printf("%.3f\\n", found[found.size() / 2]);
}}
"""
    compiler = cpp_compiler("native")
    assert compiler is not None
    source, program = folder / f"{name}.cpp", folder / name
    source.write_text(text, encoding="utf-8")
    flags = [f for f in flags_for("native") if f != "-shared"]
    command = [compiler.path, *flags, str(source), "-o", str(program)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=240)
    ran = subprocess.run([str(program)], capture_output=True, text=True, check=True, timeout=120)
    return float(ran.stdout)
