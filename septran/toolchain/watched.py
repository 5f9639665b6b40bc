"""Build a threaded C++ kernel into a program that ThreadSanitizer watches (septran/host/watched.c)."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from septran.host import object_gate
from septran.kernel import Kernel
from septran.toolchain.built import Built
from septran.toolchain.compilers import Compiler
from septran.toolchain.confined import toolchain_folders
from septran.toolchain.program import OWN_MAIN, compiled, named, put_beside

_RUNNER = "watched.c"
_PROGRAM = "watched"
# last, so that they count: what is watched is compiled in a third of the time, and cannot ask whether it is watched
_WATCHED = ("-O1", "-g1", "-fsanitize=thread", "-U__SANITIZE_THREAD__")
# frames of inlined functions are told from -g2 on with some compilers; alignment alone, and told instead of trapped
_ALIGNED = ("-O1", "-g", "-fsanitize=alignment")
_THREADS = ("pthread_create", "thrd_create", "_ZNSt6thread")


def has_threads(built: Built) -> bool:
    """Return whether a built kernel asks for threads, OpenMP's included, by the names that it needs."""
    return _needs(built, ("GOMP_", "omp_", *_THREADS))


def starts_threads(built: Built) -> bool:
    """Return whether a built kernel starts threads without OpenMP."""
    return _needs(built, _THREADS)


def _needs(built: Built, names: tuple[str, ...]) -> bool:
    path, shared = (built.kernel_object, False) if built.kernel_object else (built.artifact, True)
    if path is None:
        return False
    try:
        _, symbols = object_gate.read(path.read_bytes(), shared=shared)
    except (OSError, ValueError, IndexError):
        return True
    return any(s.name.startswith(names) for s in symbols if not s.defined)


def compile_watched(
    kernel: Kernel,
    folder: Path,
    *,
    compiler: Compiler,
    flags: Sequence[str],
    support: Path | None = None,
    timeout_s: float = 120.0,
) -> Built:
    """Compile `kernel` in `folder` into a program that calls it in bursts; confined, as every compile step.

    flags: of its library. support: our source with what the kernel calls besides.
    """
    return _compiled(kernel, folder, compiler, flags, _WATCHED, "thread", support, timeout_s)


def compile_aligned(
    kernel: Kernel,
    folder: Path,
    *,
    compiler: Compiler,
    flags: Sequence[str],
    timeout_s: float = 120.0,
) -> Built:
    """Compile `kernel` as `compile_watched` does, into a program that tells of accesses to addresses that their types do not allow."""
    own = [f for f in flags if not f.startswith("-fsanitize")]
    return _compiled(kernel, folder, compiler, own, _ALIGNED, "undefined", None, timeout_s)


def _compiled(
    kernel: Kernel,
    folder: Path,
    compiler: Compiler,
    flags: Sequence[str],
    checks: Sequence[str],
    library: str,
    support: Path | None,
    timeout_s: float,
) -> Built:
    """Compile and link the kernel's program. checks: flags for what it looks for; library: the sanitizer that is linked."""
    runner = _WATCHED if library == "thread" else _ALIGNED[:2]
    why_not = put_beside(kernel, _RUNNER, ("-fPIC", *runner), folder, compiler)
    if why_not is not None:
        return why_not
    tool = shlex.quote(compiler.path)
    compiles = [f for f in flags if f != "-shared"]
    units = [f"./{shlex.quote(kernel.main)}", *([shlex.quote(str(support))] if support else [])]
    # libgomp is linked by -fopenmp alone: what the runner has not is then missing
    linked = f"{tool} {shlex.join([*compiles, *checks, OWN_MAIN])} -c"
    steps = [named(kernel)]
    steps += [f"{linked} {unit} -o unit{n}.o" for n, unit in enumerate(units)]
    objects = " ".join(f"unit{n}.o" for n in range(len(units)))
    steps.append(f"{tool} -fsanitize={library} runner.o {objects} -o {_PROGRAM} -lm -pthread")
    reads = toolchain_folders(compiler.path, {})
    if support:
        reads = (*reads, support.parent)
    return compiled(steps, folder, _PROGRAM, timeout_s, reads)
