"""C++ files that SepTran did not write: their host function, and a build in which mistakes show."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from septran.backends.base import Built, Foreign, Host, HostCall, Reading
from septran.backends.cpp.emit import runtime_folder
from septran.backends.judged.c_builds import Build, builds, elsewhere, more, threads
from septran.backends.judged.c_foreign import judged, of_torch, read_launches
from septran.backends.judged.c_host import functions
from septran.backends.judged.c_hosts import hosts_of, likely, named, of_host
from septran.backends.judged.c_places import lines_of_places
from septran.backends.judged.c_sizes import sizes_asked
from septran.backends.judged.c_unlaunched import unlaunched
from septran.kernel import Kernel, KernelParam
from septran.toolchain.compilers import cpp_compiler, fills_locals, host_features
from septran.toolchain.hosted import compile_hosted
from septran.toolchain.sought import compile_sought
from septran.toolchain.unset import unset_otherwise
from septran.toolchain.watched import compile_aligned, compile_watched

FLAGS = (
    "-std=c++20",
    "-O2",
    "-g1",
    "-march=native",
    "-fopenmp",
    "-shared",
    "-fPIC",
    "-w",
    "-fno-strict-aliasing",
    "-fsanitize=bounds,bounds-strict,integer-divide-by-zero,null,return,shift-exponent,unreachable,vla-bound",
    "-fsanitize-undefined-trap-on-error",
    "-fstack-protector-strong",
    "-D_GLIBCXX_ASSERTIONS",
    # what the host function can come to is read from the object, section by section
    "-ffunction-sections",
    "-fdata-sections",
)
"""An index outside an array of known size is SIGILL. What gives variables nobody set a pattern depends on the compiler (fills_locals)."""
_ALONE = ("-DSEPTRAN_WATCHED",)
"""of programs without the static host"""
FAILS = (Path(__file__).resolve().parent / "vectors_fail.h").read_text(encoding="utf-8")
"""behind which the judge's entry of a function on vectors stands"""


def readings(text: str) -> tuple[Reading, ...]:
    """Return the file as the judge builds it, and as other builds that its text tells from that one read it."""
    return builds((Reading("", text),), text, native=True, processors=processors())


def processors() -> tuple[Build, ...]:
    """Return builds for processors with fewer vectors that this one runs."""
    if platform.machine() != "x86_64":
        return ()
    least = ("the processor has no more than SSE2", ("-march=x86-64",))
    if "avx2" not in host_features():
        return (least,)
    return (("the processor has no more than AVX2", ("-march=x86-64-v3",)), least)


def _device(before: str) -> bool:
    return "static inline" in before or "__global__" in before


def hosts(text: str) -> tuple[Host, ...]:
    """Return the functions on pointers, vectors and numbers that no other such function calls."""
    return hosts_of(likely(functions(text, _device)))


def host(text: str, name: str) -> Host | None:
    """Return the function `name`, None when the file has none on pointers and numbers."""
    return named(hosts_of(functions(text, lambda before: False)), name)


def kernel(
    text: str, call: HostCall, params: tuple[KernelParam, ...], arch: str
) -> tuple[Kernel, tuple[str, ...]]:
    """Return the file with the judge's entry after it."""
    function = of_host(functions(text, lambda before: False), call.host)
    found = judged(
        text, function, call, params, backend="cpp", arch=arch, suffix=".cpp", fails=FAILS
    )
    return found, ()


def build(kernel: Kernel, folder: Path) -> Built:
    """Compile the file with what makes mistakes show, and link it with the static host."""
    compiler = cpp_compiler("native")
    if compiler is None:
        return Built(ok=False, artifact=None, log="no g++ on PATH; apt-get install g++")
    support = runtime_folder() / "scratch.cpp"
    flags = (*FLAGS, *fills_locals(compiler), *more(kernel))
    return compile_hosted(
        kernel, folder, compiler=compiler, flags=flags, support=support, foreign=True
    )


def unset(kernel: Kernel, folder: Path) -> Iterator[Built]:
    """Yield builds whose variables that nobody set hold something else than in `build`'s; none where none is read."""
    compiler = cpp_compiler("native")
    if compiler is None:
        return
    support = runtime_folder() / "scratch.cpp"
    flags = (*FLAGS, *more(kernel))

    def compiled(changed: Kernel, own: Path, last: tuple[str, ...]) -> Built:
        return compile_hosted(
            changed, own, compiler=compiler, flags=(*flags, *last), support=support, foreign=True
        )

    yield from unset_otherwise(kernel, folder, compiler, flags, compiled)


def watched(kernel: Kernel, folder: Path) -> Built:
    """Compile the file into a program in which ThreadSanitizer sees its threads."""
    compiler = cpp_compiler("native")
    if compiler is None:
        return Built(ok=False, artifact=None, log="no g++ on PATH")
    return compile_watched(
        kernel, folder, compiler=compiler, flags=(*FLAGS, *more(kernel), *_ALONE)
    )


def aligned(kernel: Kernel, folder: Path) -> Built:
    """Compile the file into a program that tells of vectors that are loaded or stored where none may lie."""
    compiler = cpp_compiler("native")
    if compiler is None:
        return Built(ok=False, artifact=None, log="no g++ on PATH")
    return compile_aligned(
        kernel, folder, compiler=compiler, flags=(*FLAGS, *more(kernel), *_ALONE)
    )


def sought(kernel: Kernel, folder: Path) -> Built:
    """Compile the file into a program that seeks inputs on which its comparisons come out otherwise."""
    compiler = cpp_compiler("native")
    if compiler is None:
        return Built(ok=False, artifact=None, log="no g++ on PATH")
    flags = (*FLAGS, *fills_locals(compiler), *more(kernel), *_ALONE)
    support = (runtime_folder() / "scratch.cpp",)
    return compile_sought(kernel, folder, compiler=compiler, flags=flags, support=support)


FOREIGN = Foreign(
    suffixes=(".cpp", ".cc", ".cxx", ".c"),
    marks=(),
    hosts=hosts,
    host=host,
    kernel=kernel,
    build=build,
    watched=watched,
    aligned=aligned,
    sought=sought,
    unset=unset,
    readings=readings,
    threads=threads,
    elsewhere=elsewhere,
    placed=lines_of_places,
    sizes=sizes_asked,
    loader="c_abi.py.j2",
    session=(("env", (("MALLOC_PERTURB_", "1"),)),),
    unsupported=of_torch,
    launches=read_launches,
    unlaunched=partial(unlaunched, skip=_device),
    unchecked=("time: nothing was measured",),
)
