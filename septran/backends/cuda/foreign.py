"""CUDA files that SepTran did not write: their host function, and a build for the emulation in which mistakes show."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from septran.backends.base import Built, Foreign, Host, HostCall, Reading
from septran.backends.cuda import foreign_device
from septran.backends.cuda.cards import on_cards
from septran.backends.cuda.foreign_compiled import compiled
from septran.backends.cuda.noted import NOTED, NOTES, STARTS, believable, not_noted
from septran.backends.cuda.nvcc_passes import readings
from septran.backends.cuda.prepare import asked_of_emulation, prepare, unsupported
from septran.backends.cuda.ptx import shown, translated, untranslated
from septran.backends.cuda.toolchain import (
    ALIGNED,
    EMULATION_FLAGS,
    EMULATOR,
    SHIFTED,
    emulation,
    headers,
    machine,
)
from septran.backends.judged.c_builds import builds
from septran.backends.judged.c_builds import more as flags_of
from septran.backends.judged.c_conditions import asks_its_compiler
from septran.backends.judged.c_foreign import ENTRY, judged, plain_kernel, read_launches
from septran.backends.judged.c_host import CFunction, blank, functions
from septran.backends.judged.c_hosts import hosts_of, likely, named, of_host
from septran.backends.judged.c_places import lines_of_places
from septran.backends.judged.c_sizes import sizes_asked
from septran.backends.judged.c_unlaunched import unlaunched
from septran.backends.judged.python_file import ON_DEVICE
from septran.backends.judged.torch_text import (
    INCLUDE,
    call_text,
    computes_with_torch,
    launching,
    on_torch,
    torch_functions,
)
from septran.backends.judged.torch_text import entry as torch_entry
from septran.ir.dtypes import nbytes
from septran.kernel import Kernel, KernelParam
from septran.machine import load_machine
from septran.prove.foreign.launch import Launch, NotRead
from septran.toolchain.compilers import Compiler, cpp_compiler, fills_locals
from septran.toolchain.hosted import compile_hosted
from septran.toolchain.sought import compile_sought
from septran.toolchain.unset import unset_otherwise

Compile = Callable[[Kernel, Path, Compiler, tuple[str, ...]], Built]

_FLAGS = (
    *(flag for flag in EMULATION_FLAGS if flag != "-fvisibility=hidden"),
    "-fsanitize=bounds,bounds-strict,integer-divide-by-zero,null,vla-bound",
    *ALIGNED,
    *SHIFTED,
    "-ffunction-sections",
    "-fdata-sections",
)
COPY = "cudaMemcpy({to}, {of}, {bytes}, cudaMemcpyDeviceToDevice)"
_BEFORE = """#include <cuda_runtime.h>
#define __CUDACC__ 1
#define __NVCC__ 1
#define CUDART_VERSION 12080
#define CUDA_VERSION 12080
"""
"""what nvcc defines on its host and device passes alike, after the emulation's own headers"""


def _readings(text: str) -> tuple[Reading, ...]:
    return builds(on_cards(readings(text), text), text, native=False)


def _device(before: str) -> bool:
    return "__global__" in before or "__device__" in before


def _launching(text: str) -> tuple[CFunction, ...]:
    """Return the functions that launch, also through others."""
    found = functions(text, _device)
    launching = {f.name for f in found if "<<<" in f.body}
    grew = True
    while grew:
        more = {f.name for f in found if any(f"{n}(" in f.body for n in launching)} - launching
        launching |= more
        grew = bool(more)
    return tuple(f for f in found if f.name in launching)


def hosts(text: str) -> tuple[Host, ...]:
    """Return the functions on pointers, vectors and numbers, or on torch's tensors, that launch and that no other such function calls."""
    if on_torch(text):
        return tuple(f.host() for f in launching(text))
    return hosts_of(likely(_launching(text)))


def host(text: str, name: str) -> Host | None:
    """Return the function `name`, None when the file has none on pointers and numbers, or on torch's tensors."""
    if on_torch(text):
        return next((f.host() for f in torch_functions(text) if f.name == name), None)
    return named(hosts_of(functions(text, _device)), name)


def kernel(
    text: str, call: HostCall, params: tuple[KernelParam, ...], arch: str
) -> tuple[Kernel, tuple[str, ...]]:
    """Return the file with the judge's entry after it, which runs every order of threads."""
    if on_torch(text):
        run = call_text(call, params, COPY)
        return plain_kernel(text, torch_entry(ENTRY, params, run, returns=call.returns), call, params, "cuda_c", arch, ".cu"), ()  # fmt: skip
    function = of_host(functions(text, _device), call.host)
    sizes = ", ".join(
        f"{{args[{i}], {_nbytes(p)}}}" for i, p in enumerate(params) if p.privilege != "r"
    )
    around = f"cuemu::in_every_order_and_block({{{sizes}}}, [&] {{ {{call}}; }});"
    found = judged(
        text,
        function,
        call,
        params,
        backend="cuda_c",
        arch=arch,
        suffix=".cu",
        around=around,
        copy=COPY,
        fails="namespace septran_vectors { using cuemu::fail; }\n",
    )
    return found, ()


def _nbytes(param: KernelParam) -> str:
    return str(math.prod(param.shape) * nbytes(param.dtype))


def build(kernel: Kernel, folder: Path) -> Built:
    """Compile the file against the emulation's headers into `folder/kernel.so`."""
    compiler = cpp_compiler("native")
    if compiler is None:
        return Built(ok=False, artifact=None, log="no g++ on PATH; apt-get install g++")
    return _compiled(emulated(kernel), folder, compiler, fills_locals(compiler))


def emulated(kernel: Kernel) -> Kernel:
    """Return the kernel as a host compiler takes it; files besides the main one stay."""
    main = "judged_kernel.emulated.cpp"
    source = f'{_BEFORE}#line 1 "{kernel.main}"\n{prepare(translated(kernel.source))}'
    others = tuple(one for one in kernel.files if one[0] != kernel.main)
    return replace(kernel, main=main, files=((main, source), *others))


def emulation_flags(kernel: Kernel) -> tuple[str, ...]:
    """Return the flags that such a file is compiled with, but for what fills variables. kernel: as `emulated` returns it."""
    limit = load_machine(f"{kernel.backend}.{kernel.arch}").capacity("SHARED")
    return (
        *_FLAGS,
        f"-DSEPTRAN_SHARED_LIMIT={limit}",
        f"-I{EMULATOR}",
        f"-I{INCLUDE}",
        *asked_of_emulation(kernel.source),
        *flags_of(kernel),
    )


def noted(kernel: Kernel, folder: Path) -> Built:
    """Compile the file for an emulation that notes accesses, as `toolchain.compile_noted`."""
    compiler = cpp_compiler("native")
    if compiler is None:
        return Built(ok=False, artifact=None, log="no g++ on PATH; apt-get install g++")
    if why := not_noted(kernel):
        return Built(ok=False, artifact=None, log=why)
    more = (*fills_locals(compiler), *NOTED)
    ready = emulated(kernel)
    return believable(_compiled(ready, folder, compiler, more, (NOTES,)), ready)


def sought(kernel: Kernel, folder: Path) -> Built:
    """Compile the file for the emulation into a program that seeks inputs on which its comparisons come out otherwise."""
    compiler = cpp_compiler("native")
    if compiler is None:
        return Built(ok=False, artifact=None, log="no g++ on PATH; apt-get install g++")
    ready = emulated(kernel)
    flags = (*emulation_flags(ready), *fills_locals(compiler))
    return compile_sought(ready, folder, compiler=compiler, flags=flags, support=machine(compiler))


def _compiled(
    kernel: Kernel,
    folder: Path,
    compiler: Compiler,
    more: tuple[str, ...],
    machine: tuple[str, ...] = (),
) -> Built:
    return compile_hosted(
        kernel,
        folder,
        compiler=compiler,
        flags=(*emulation_flags(kernel), *more),
        support=emulation(*machine),
        without=STARTS if machine else (),
        extra=headers(),
        foreign=True,
    )


def unset(kernel: Kernel, folder: Path) -> Iterator[Built]:
    """Yield builds whose variables that nobody set hold something else than in `build`'s; none where none is read."""
    yield from unset_in(kernel, folder, _compiled)


def unset_in(kernel: Kernel, folder: Path, build: Compile) -> Iterator[Built]:
    """Yield what `build` makes of `kernel` with other variables that nobody set, as `unset`; more flags are its last argument."""
    compiler = cpp_compiler("native")
    if compiler is None:
        return

    def compiled(changed: Kernel, own: Path, more: tuple[str, ...]) -> Built:
        return build(changed, own, compiler, more)

    ready = emulated(kernel)
    yield from unset_otherwise(ready, folder, compiler, emulation_flags(ready), compiled)


def unjudged_words(text: str) -> tuple[str, ...]:
    """Return what a text uses that cannot be judged here."""
    torch = computes_with_torch(text) if on_torch(text) else ()
    return (*unsupported(blank(text)), *untranslated(text), *torch, *asks_its_compiler(text))


def _launches(
    text: str, file: str, call: HostCall, params: tuple[KernelParam, ...], run_dir: Path
) -> tuple[Launch, ...]:
    if on_torch(text):
        raise NotRead(0, "host functions on torch's tensors are not read")
    return read_launches(text, file, call, params, run_dir)


def _unordered(text: str) -> bool:
    """Whether the text adds atomically: the emulation runs each call in another order, and floats then round differently."""
    return re.search(r"\batomic(Add|Sub|Exch|CAS)\w*\s*\(", blank(shown(text))) is not None


FOREIGN = Foreign(
    suffixes=(".cu", ".cuh"),
    marks=(),
    claims=lambda text: not on_torch(text),
    device=foreign_device.ON_DEVICE,
    compiled=compiled,
    hosts=hosts,
    host=host,
    kernel=kernel,
    build=build,
    unset=unset,
    noted=noted,
    sought=sought,
    loader="cuda_emu.py.j2",
    # cudaMalloc aligns to 256 bytes; a load of a float4 needs 16
    session=(("env", (("MALLOC_PERTURB_", "1"),)), ("budget_s", 40.0), ("alignment", 16)),
    unsupported=unjudged_words,
    readings=_readings,
    launches=_launches,
    unordered=_unordered,
    unlaunched=partial(unlaunched, skip=_device),
    placed=lines_of_places,
    sizes=lambda text: sizes_asked(shown(text)),
    unchecked=(
        "compile for a GPU: nvcc was not asked",
        "races in global memory beyond what is proved that three orders of threads do not show; those of launches with atomic operations on it",
        "cheating on the host: the file may compute before it launches",
        "time: nothing was measured",
    ),
)
ON_TORCH = replace(
    FOREIGN,
    claims=on_torch,
    unlaunched=lambda text: None,
    device=ON_DEVICE,
    on_device=foreign_device.extension,
    compiled=None,
)
"""files whose host functions take torch's tensors"""
