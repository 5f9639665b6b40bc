"""C++ files that SepTran did not write: their host function, and a build in which mistakes show."""

from __future__ import annotations

import os
import re
from pathlib import Path

from septran.backends.base import Built, Foreign, Host, HostCall
from septran.backends.cpp.emit import runtime_folder
from septran.backends.judged.c_foreign import judged, of_torch, read_launches
from septran.backends.judged.c_host import functions, outermost
from septran.backends.judged.c_hosts import hosts_of, named
from septran.kernel import Kernel, KernelParam
from septran.toolchain.compilers import Compiler, cpp_compiler, fills_locals
from septran.toolchain.confined import run_confined, toolchain_folders
from septran.toolchain.hosted import compile_hosted
from septran.toolchain.watched import compile_watched

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
    "-fsanitize=bounds,bounds-strict,integer-divide-by-zero,null,return,unreachable,vla-bound",
    "-fsanitize-undefined-trap-on-error",
    "-fstack-protector-strong",
    "-D_GLIBCXX_ASSERTIONS",
    # what the host function can come to is read from the object, section by section
    "-ffunction-sections",
    "-fdata-sections",
)
"""An index outside an array of known size is SIGILL. What gives variables nobody set a pattern depends on the compiler (fills_locals)."""


def _device(before: str) -> bool:
    return "static inline" in before or "__global__" in before


def hosts(text: str) -> tuple[Host, ...]:
    """Return the functions on pointers and numbers that no other such function calls."""
    return hosts_of(outermost(functions(text, _device)))


def host(text: str, name: str) -> Host | None:
    """Return the function `name`, None when the file has none on pointers and numbers."""
    return named(hosts_of(functions(text, lambda before: False)), name)


def kernel(
    text: str, call: HostCall, params: tuple[KernelParam, ...], arch: str
) -> tuple[Kernel, tuple[str, ...]]:
    """Return the file with the judge's entry after it."""
    function = {f.name: f for f in functions(text, lambda before: False)}[call.host.name]
    return judged(text, function, call, params, backend="cpp", arch=arch, suffix=".cpp"), ()


def build(kernel: Kernel, folder: Path) -> Built:
    """Compile the file with what makes mistakes show, and link it with the static host."""
    compiler = cpp_compiler("native")
    if compiler is None:
        return Built(ok=False, artifact=None, log="no g++ on PATH; apt-get install g++")
    support = runtime_folder() / "scratch.cpp"
    flags = (*FLAGS, *fills_locals(compiler))
    return compile_hosted(
        kernel, folder, compiler=compiler, flags=flags, support=support, foreign=True
    )


# the compiler's word is no proof: it names loops whose first round sets a variable, too
_UNSET = re.compile(r"\[-W(?:maybe-)?uninitialized\]")
_PLAIN = ("-O0", "-ftrivial-auto-var-init=uninitialized")


def on_the_stack(kernel: Kernel, folder: Path) -> Built | None:
    """Compile the file so that variables nobody set hold what the stack holds, another pattern in each call.

    None where the compiler sees no such variable. A pattern of the compiler's own is one for all calls, which a test on a bit of
    it may pass by luck.
    """
    compiler = cpp_compiler("native")
    if compiler is None or not fills_locals(compiler):
        return None
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in kernel.files:
        (folder / name).write_text(text, encoding="utf-8")
    flags = [f for f in FLAGS if f not in ("-w", "-shared") and not f.startswith("-fsanitize")]
    # each level sees some that the other does not
    if not any(_warned(kernel, folder, compiler, (*flags, level)) for level in ("-O1", "-O3")):
        return None
    support = runtime_folder() / "scratch.cpp"
    return compile_hosted(
        kernel, folder, compiler=compiler, flags=(*FLAGS, *_PLAIN), support=support, foreign=True
    )


def _warned(kernel: Kernel, folder: Path, compiler: Compiler, flags: tuple[str, ...]) -> bool:
    """Whether the compiler says of the file that something may be used before it is set."""
    asked = [compiler.path, *flags, "-Wmaybe-uninitialized", "-Wuninitialized", "-S"]
    done = run_confined(
        [*asked, f"./{kernel.main}", "-o", os.devnull], folder, 60.0,
        reads=toolchain_folders(compiler.path, {}),
    )  # fmt: skip
    return any(kernel.main in line and _UNSET.search(line) for line in done.output.splitlines())


def watched(kernel: Kernel, folder: Path) -> Built:
    """Compile the file into a program in which ThreadSanitizer sees its threads."""
    compiler = cpp_compiler("native")
    if compiler is None:
        return Built(ok=False, artifact=None, log="no g++ on PATH")
    return compile_watched(kernel, folder, compiler=compiler, flags=FLAGS)


FOREIGN = Foreign(
    suffixes=(".cpp", ".cc", ".cxx", ".c"),
    marks=(),
    hosts=hosts,
    host=host,
    kernel=kernel,
    build=build,
    watched=watched,
    on_the_stack=on_the_stack,
    loader="c_abi.py.j2",
    session=(("env", (("MALLOC_PERTURB_", "1"),)),),
    unsupported=of_torch,
    launches=read_launches,
    unchecked=("time: nothing was measured",),
)
