"""Hand-written C kernels compiled for the static host, and what it takes to judge one there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from septran.backends.base import Built
from septran.backends.cpp.emit import runtime_folder
from septran.kernel import Kernel
from septran.toolchain.compilers import cpp_compiler
from septran.toolchain.hosted import compile_hosted
from septran.toolchain.processors import foreign
from septran.verify.problem import Problem
from septran.verify.session import Sessions
from septran.verify.verdict import Verdict, Where
from septran.verify.verify import Request, verify
from tests.verify import kernels

FLAGS = ("-std=c++20", "-O1", "-fopenmp", "-fPIC", "-shared", "-w", "-fvisibility=hidden")
BEFORE = '#pragma GCC visibility push(default)\nextern "C" void* st_scratch(int, size_t);\n'


def build(
    source: str, problem: Problem, folder: Path, arch: str = "native"
) -> tuple[Kernel, Built]:
    """Return a kernel around `source` for `arch` and how it was compiled and linked."""
    kernel = replace(kernels.kernel_of(problem, source), arch=arch)
    compiler = cpp_compiler(arch)
    processor = foreign(arch)
    assert compiler is not None
    support = runtime_folder() / "scratch.cpp"
    flags = FLAGS if processor is None else (*FLAGS, *processor.flags)
    if processor is not None and not processor.openmp:
        flags = tuple(f for f in flags if f != "-fopenmp")
    built = compile_hosted(
        kernel, folder, compiler=compiler, flags=flags, support=support, processor=processor
    )
    return kernel, built


def judge(
    body: str,
    folder: Path,
    *,
    problem: Problem | None = None,
    before: str = "",
    in_host: bool = True,
    sessions: Sessions | None = None,
    arch: str = "native",
) -> Verdict:
    """Return the verdict of the dynamic layer on an entry with `body`; in_host: else in a Python child."""
    problem = problem or kernels.gemm()
    source = kernels.entry(body, before=f"{BEFORE}{before}")
    kernel, built = build(source, problem, folder / "build", arch)
    assert built.ok, built.log
    assert built.host is not None, built.not_checked
    if not in_host:
        built = replace(built, host=None)
    sessions = sessions or Sessions(call_timeout_s=2.0)
    if (processor := foreign(arch)) is not None:
        sessions = replace(sessions, emulator=processor.emulator)
    where: Where = "native" if processor is None else "emulated"
    request = Request(gate=False, sessions=sessions, where=where)
    return verify(kernel, built, problem, run_dir=folder / "run", request=request)
