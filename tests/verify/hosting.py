"""Hand-written C kernels compiled for the static host, and what it takes to judge one there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from septran.backends.base import Built
from septran.backends.cpp.emit import runtime_folder
from septran.kernel import Kernel
from septran.toolchain.compilers import cpp_compiler
from septran.toolchain.hosted import compile_hosted
from septran.verify.problem import Problem
from septran.verify.session import Sessions
from septran.verify.verdict import Verdict
from septran.verify.verify import Request, verify
from tests.verify import kernels

FLAGS = ("-std=c++20", "-O1", "-fopenmp", "-fPIC", "-shared", "-w", "-fvisibility=hidden")
BEFORE = '#pragma GCC visibility push(default)\nextern "C" void* st_scratch(int, size_t);\n'


def build(source: str, problem: Problem, folder: Path) -> tuple[Kernel, Built]:
    """Return a kernel around `source` and how it was compiled and linked."""
    kernel = kernels.kernel_of(problem, source)
    compiler = cpp_compiler("native")
    assert compiler is not None
    support = runtime_folder() / "scratch.cpp"
    built = compile_hosted(kernel, folder, compiler=compiler, flags=FLAGS, support=support)
    return kernel, built


def judge(
    body: str,
    folder: Path,
    *,
    problem: Problem | None = None,
    before: str = "",
    in_host: bool = True,
    sessions: Sessions | None = None,
) -> Verdict:
    """Return the verdict of the dynamic layer on an entry with `body`; in_host: else in a Python child."""
    problem = problem or kernels.gemm()
    source = kernels.entry(body, before=f"{BEFORE}{before}")
    kernel, built = build(source, problem, folder / "build")
    assert built.ok, built.log
    assert built.host is not None, built.not_checked
    if not in_host:
        built = replace(built, host=None)
    request = Request(gate=False, sessions=sessions or Sessions(call_timeout_s=2.0))
    return verify(kernel, built, problem, run_dir=folder / "run", request=request)
