"""C++ inside Python (`load_inline` without CUDA): extensions for the processor, built against headers that stand for torch's.

`ModelNew.forward` becomes a C++ function (`judged/inline_forward.py`); none of the file's Python is run. What is checked of C++
files is checked of them: threads, vectors, memory that nobody wrote, what lives from call to call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from septran.backends.base import Built, HostCall, Reading, Unjudged, as_it_is
from septran.backends.cpp.emit import runtime_folder
from septran.backends.cpp.foreign import FLAGS, processors
from septran.backends.cpp.foreign import FOREIGN as PLAIN
from septran.backends.judged.c_builds import builds, elsewhere, more, threads
from septran.backends.judged.c_conditions import asks_its_judge
from septran.backends.judged.c_sizes import sizes_asked
from septran.backends.judged.inline_hosts import InlineHosts
from septran.backends.judged.inline_text import Extension, extension, on_processor
from septran.backends.judged.torch_text import INCLUDE, of_torch, uncalled
from septran.kernel import Kernel, KernelParam
from septran.prove.foreign.launch import Launch, NotRead
from septran.toolchain.compilers import Compiler, cpp_compiler, fills_locals
from septran.toolchain.hosted import compile_hosted
from septran.toolchain.sought import compile_sought
from septran.toolchain.unset import unset_otherwise
from septran.toolchain.watched import compile_aligned, compile_watched

_HEADERS = Path(__file__).resolve().parent / "extension"
_FLAGS = (*FLAGS, f"-I{_HEADERS}", f"-I{INCLUDE}")
_OF_BUILDS = ("-march=native", "-mtune=native", "-fopenmp", "-lgomp", "-shared", "-fno-math-errno")
"""flags of users' builds that the judge's has, too, or that no result depends on"""
_KNOWN = frozenset(
    """
    parallel_for parallel_reduce get_num_threads get_thread_num in_parallel_region divup irange NoGradGuard TensorAccessor
    acc_type opmath_type cpu
    """.split()
)
"""what extension/torch/extension.h offers besides what every target has"""
_LACKS = re.compile(
    r"(?:judged_kernel\.cpp|kernel\.py):(\d+):\d+: error: (?:"
    r"[‘'](?:class |struct )?at::Tensor[’'] has no member named [‘'](?P<member>\w+)[’']"
    r"|no matching function for call to [‘']at::Tensor::(?P<call>[^’']*)[’']"
    r"|no match for [‘'](?P<operator>operator.{1,3})[’'] \(operand types? (?:is|are) .*?at::Tensor"
    r"|[‘'](?P<name>\w+)[’'] is not a member of [‘'](?P<space>at|torch|c10)\b"
    r"|[‘'](?P<inner>(?:at|torch|c10)::\w+)[’'] has not been declared)"
)


def _read(text: str) -> Extension:
    return extension(text, processor=True)


_HOSTS = InlineHosts(read=_read, entries=uncalled, backend="cpp", suffix=".cpp", flags=_OF_BUILDS)


def _readings(text: str) -> tuple[Reading, ...]:
    """Return the file as the judge builds it, and as other builds that its C++ tells from that one read it."""
    try:
        code = _read(text).text
    except SyntaxError:
        return as_it_is(text)
    return builds((Reading("", text),), code, native=True, processors=processors())


def beyond(text: str) -> tuple[str, ...]:
    """Return the names of torch's library that a text has besides what stands for it here."""
    return of_torch(text, _KNOWN)


def _kernel(
    text: str, call: HostCall, params: tuple[KernelParam, ...], arch: str
) -> tuple[Kernel, tuple[str, ...]]:
    read = _read(text)
    if names := beyond(read.text):
        name = names[0]
        place = re.search(rf"\b(?:torch|at|c10)::{name}\b", text)
        line = 1 + text.count("\n", 0, place.start()) if place else call.host.line
        raise Unjudged(line, f"{_spelled(text, name)} of torch's own library: {OWN_WORK}")
    return _HOSTS.kernel(text, call, params, arch)


OWN_WORK = "an extension is judged against sizes, addresses, accessors, allocation, views, checks and at::parallel_for; what computes a kernel does itself"


def _spelled(text: str, name: str) -> str:
    found = re.search(rf"\b(?:torch|at|c10)::{name}\b", text)
    return found[0] if found else name


def _build(kernel: Kernel, folder: Path) -> Built:
    """Compile the extension with what makes mistakes show, and link it with the static host.

    Raises:
        Unjudged: it uses what the judge's torch has not.
    """
    compiler = cpp_compiler("native")
    if compiler is None:
        return Built(ok=False, artifact=None, log="no g++ on PATH; apt-get install g++")
    built = _compiled(kernel, folder, compiler, (*fills_locals(compiler), *more(kernel)))
    if not built.ok and (lack := _LACKS.search(built.log)):
        word = next(w for w in ("member", "call", "operator", "name", "inner") if lack[w])
        spelled = {
            "member": "at::Tensor::{}",
            "call": "at::Tensor::{}",
            "operator": "{} of at::Tensor",
        }
        named = spelled.get(word, f"{lack['space']}::{{}}" if lack["space"] else "{}")
        raise Unjudged(int(lack[1]), f"{named.format(lack[word])}: {OWN_WORK}")
    return built


def _compiled(kernel: Kernel, folder: Path, compiler: Compiler, last: tuple[str, ...]) -> Built:
    found = (*sorted(_HEADERS.rglob("*.h")), *sorted(INCLUDE.rglob("*.h")))
    return compile_hosted(
        kernel,
        folder,
        compiler=compiler,
        flags=(*_FLAGS, *last),
        support=runtime_folder() / "scratch.cpp",
        foreign=True,
        extra="".join(p.read_text(encoding="utf-8") for p in found),
    )


def _unset(kernel: Kernel, folder: Path) -> Iterator[Built]:
    """Yield builds whose variables that nobody set hold something else than in `_build`'s; none where none is read."""
    compiler = cpp_compiler("native")
    if compiler is None:
        return

    def compiled(changed: Kernel, own: Path, last: tuple[str, ...]) -> Built:
        return _compiled(changed, own, compiler, (*more(kernel), *last))

    yield from unset_otherwise(kernel, folder, compiler, (*_FLAGS, *more(kernel)), compiled)


def _watched(kernel: Kernel, folder: Path) -> Built:
    """Compile the extension into a program in which ThreadSanitizer sees its threads."""
    compiler = cpp_compiler("native")
    if compiler is None:
        return Built(ok=False, artifact=None, log="no g++ on PATH")
    flags = (*_FLAGS, *more(kernel), "-DSEPTRAN_WATCHED")
    return compile_watched(kernel, folder, compiler=compiler, flags=flags)


def _aligned(kernel: Kernel, folder: Path) -> Built:
    """Compile the extension into a program that tells of vectors that are loaded or stored where none may lie."""
    compiler = cpp_compiler("native")
    if compiler is None:
        return Built(ok=False, artifact=None, log="no g++ on PATH")
    flags = (*_FLAGS, *more(kernel), "-DSEPTRAN_WATCHED")
    return compile_aligned(kernel, folder, compiler=compiler, flags=flags)


def _sought(kernel: Kernel, folder: Path) -> Built:
    """Compile the extension into a program that seeks inputs on which its comparisons come out otherwise."""
    compiler = cpp_compiler("native")
    if compiler is None:
        return Built(ok=False, artifact=None, log="no g++ on PATH")
    flags = (*_FLAGS, *fills_locals(compiler), *more(kernel), "-DSEPTRAN_WATCHED")
    support = (runtime_folder() / "scratch.cpp",)
    return compile_sought(kernel, folder, compiler=compiler, flags=flags, support=support)


def _launches(
    text: str, file: str, call: HostCall, params: tuple[KernelParam, ...], run_dir: Path
) -> tuple[Launch, ...]:
    raise NotRead(0, "host functions on torch's tensors are not read")


FOREIGN = replace(
    PLAIN,
    suffixes=(".py",),
    marks=("load_inline(",),
    claims=on_processor,
    hosts=_HOSTS.hosts,
    host=_HOSTS.host,
    kernel=_kernel,
    build=_build,
    watched=_watched,
    aligned=_aligned,
    unset=_unset,
    sought=_sought,
    readings=_readings,
    threads=lambda text: threads(_read(text).text),
    elsewhere=lambda text: elsewhere(_read(text).text),
    sizes=lambda text: sizes_asked(_read(text).text),
    unsupported=lambda text: asks_its_judge(_read(text).text),
    launches=_launches,
    unlaunched=lambda text: None,
)
