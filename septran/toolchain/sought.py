"""Build a kernel into a program that seeks inputs on which its comparisons come out otherwise (septran/host/sought.c)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from septran import host
from septran.host.link import HostObject, trusted_object
from septran.kernel import Kernel
from septran.toolchain.built import Built
from septran.toolchain.compilers import Compiler, cache_folder, cpp_compiler
from septran.toolchain.confined import run_confined, toolchain_folders
from septran.toolchain.program import OWN_MAIN, compiled, named, put_beside

_TOLD_LINE = 1 << 47
"""of a simulator's places (VL_TOLD), above every address of code"""
_RUNNER = "sought.c"
_PROGRAM = "sought"
_FLAGS = ("-O2", "-fno-pie")
# last, so that they count: an optimiser makes one comparison of two; the words would tell a kernel that it is looked at
_TOLD = ("-O0", "-fwrapv", "-g1", "-fsanitize-coverage=trace-cmp", "-fno-lto")


def compile_sought(
    kernel: Kernel,
    folder: Path,
    *,
    compiler: Compiler,
    flags: Sequence[str],
    support: Sequence[Path] = (),
    timeout_s: float = 120.0,
) -> Built:
    """Compile `kernel` in `folder` into a program that seeks inputs for it; confined, as every compile step.

    flags: of its library. support: sources or objects of ours that the kernel calls.
    """
    why_not = put_beside(kernel, _RUNNER, _FLAGS, folder, compiler)
    if why_not is not None:
        return why_not
    tool = shlex.quote(compiler.path)
    compiles = [f for f in flags if f != "-shared"]
    # one thread calls it: what each thread has for itself lies where other variables do
    own = [f"-D{word}=" for word in ("thread_local", "__thread") if word in kernel.source]
    steps = [
        named(kernel),
        f"{tool} {shlex.join([*compiles, *own, *_TOLD, OWN_MAIN])} -c ./{shlex.quote(kernel.main)} -o told.o",
    ]
    for end in ("begin", "end"):  # a linker lays out what stands between two files between them
        text = f"char st_data_{end}[8] = {{1}}, st_bss_{end}[8];"
        (folder / f"{end}.c").write_text(f"{text}\n", encoding="utf-8")
        steps.append(f"{tool} -x c -fno-pie -fno-common -c {end}.c -o {end}.o")
    units = []
    for number, path in enumerate(support):
        if path.suffix == ".o":
            units.append(shlex.quote(str(path)))
            continue
        units.append(f"unit{number}.o")
        steps.append(f"{tool} {shlex.join(compiles)} -c {shlex.quote(str(path))} -o {units[-1]}")
    openmp = "-fopenmp " if "-fopenmp" in flags else ""
    steps.append(
        f"{tool} {openmp}-no-pie runner.o begin.o told.o end.o {' '.join(units)} -o {_PROGRAM} -lm -pthread"
    )
    reads = (*toolchain_folders(compiler.path, {}), *{path.parent for path in support})
    return compiled(steps, folder, _PROGRAM, timeout_s, reads)


def seeking_library() -> HostObject:
    """Return the search as a library for a child that interprets a kernel (septran/verify/told.py)."""
    compiler = cpp_compiler("native")
    if compiler is None:
        return HostObject(path=None, missing="no g++ on PATH, which the search is compiled with")
    flags = ("-x", "c", "-std=gnu11", "-O2", "-fPIC", "-DCALLS_BACK", "-Wl,--no-as-needed", "-lm")
    source = Path(host.__file__).resolve().parent / _RUNNER
    cache = cache_folder() / "host"
    return trusted_object(compiler.path, source, flags, cache, extra=compiler.version, shared=True)


def lines_of(program: Path, places: Sequence[int], main: str, folder: Path) -> dict[int, int]:
    """Return the line of the file `main` that each code address of `program` belongs to, as far as one does."""
    if not places:
        return {}
    # what a simulator tells of is no code: it says the line itself
    found = {p: (p & (_TOLD_LINE - 1)) >> 20 for p in places if p >= _TOLD_LINE}
    places = [p for p in places if p < _TOLD_LINE]
    if not places:
        return found
    words = " ".join(f"{place:#x}" for place in places)
    done = run_confined(
        ["/bin/sh", "-c", f"addr2line -e ./{program.name} {words}"], folder, 20.0, reads=()
    )
    for place, line in zip(places, done.output.splitlines(), strict=False):
        at = re.search(r"([^/]+):(\d+)", line)
        if at and at[1] == Path(main).name:
            found[place] = int(at[2])
    return found
