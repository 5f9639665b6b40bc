"""Program -> one CUDA C++ or HIP C++ file: leaves, kernels, launch code, a plain C entry and a Python module."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from septran.backends.cuda.dialect import Dialect, dialect
from septran.backends.cuda.launch import HostWriter
from septran.backends.cuda.leaves import WARPGROUPS
from septran.backends.cuda.passes.place_fragments import MOVEMENT
from septran.backends.cuda.passes.wgmma import panel_allocs
from septran.backends.text.cstyle import banner, identifier
from septran.errors import InternalError
from septran.ir.nodes import Alloc, Program, buffers, leaf_calls, walk
from septran.kernel import Kernel, Leaf

WGMMA_HEADERS = ("st_bulk.cuh", "st_wgmma.cuh")
MOVEMENT_HEADER = "st_movement.cuh"
"""Only in kernels that use them."""


def runtime_folder() -> Path:
    """Return the folder with the device headers."""
    return Path(__file__).resolve().parent / "runtime"


def header(spelled: Dialect, name: str) -> Path:
    """Return the file of a header as a dialect has it."""
    own = runtime_folder() / spelled.api / name
    return own if own.is_file() else runtime_folder() / name


def emit(program: Program, leaves: Mapping[str, Leaf]) -> Kernel:
    """Return the kernel of a finished `program`; leaves: by symbol, in the order in which they are printed.

    Its entry is `extern "C" void <name>_entry(void* const* args)` on device pointers (host pointers
    in the emulated build). Compiled with SEPTRAN_PYBIND the file is also a Python module.
    """
    for stmt in walk(program.body):
        if (
            isinstance(stmt, Alloc)
            and stmt.buffer.mem == "REGISTER"
            and not stmt.buffer.layout.startswith("frag:")
        ):
            raise InternalError(f"{stmt.buffer.name}: place_fragments has not run")
    entry = f"{identifier(program.name)}_entry"
    spelled = dialect(program.target)
    main = f"{identifier(program.name)}{spelled.suffix}"
    host = HostWriter(program, _products(leaves))
    hierarchy = host.text(entry)
    parts = [
        banner(program),
        _prelude(program, spelled),
        "// ---- leaves\n",
        *(f"// {leaf.headline}\n{leaf.source.strip()}\n" for leaf in leaves.values()),
        "// ---- kernels\n",
        hierarchy,
        _python_module(program, entry) if spelled.api == "cuda" else "",
    ]
    names = (
        *spelled.headers,
        *(WGMMA_HEADERS if panel_allocs(program.body) else ()),
        *((MOVEMENT_HEADER,) if _moves(program) else ()),
    )
    headers = tuple((name, header(spelled, name).read_text(encoding="utf-8")) for name in names)
    return Kernel.of(
        program,
        entry=entry,
        main=main,
        files=((main, "\n".join(parts)), *headers),
        leaves=leaves,
        options=(
            *program.options,
            ("shared_bytes", host.shared_bytes),
            *((("alignment", host.alignment),) if host.alignment else ()),
        ),
    )


def _products(leaves: Mapping[str, Leaf]) -> frozenset[str]:
    """Return the library's leaves that are one product of warpgroups: others may read their sums at once."""
    return frozenset(
        symbol
        for symbol, leaf in leaves.items()
        if leaf.writer == "library" and leaf.name == WARPGROUPS and len(leaf.spec.prims) == 1
    )


def _prelude(program: Program, spelled: Dialect) -> str:
    lines = [f"#define SEPTRAN_THREADS {program.option('threads', 256)}"]
    if any(math.prod(b.shape) >= 2**31 for b in buffers(program)):
        lines.append("#define SEPTRAN_INDEX long long  // a tensor has more than 2^31 elements")
    lines.append(f'#include "{spelled.headers[0]}"')
    if panel_allocs(program.body):
        lines.append('#include "st_wgmma.cuh"')
    if _moves(program):
        lines.append(f'#include "{MOVEMENT_HEADER}"')
    return "\n".join(lines) + "\n"


def _moves(program: Program) -> bool:
    """Whether a leaf goes along an axis in memory."""
    return any(p.name in MOVEMENT for call in leaf_calls(program) for p in call.prims)


def _python_module(program: Program, entry: str) -> str:
    names = [identifier(p.buffer.name) for p in program.params]
    handles = ", ".join(f"pybind11::object {n}" for n in names)
    pointers = ", ".join(f"address({n})" for n in names)
    return f"""\
// ---- Python module: call(tensor or address, .., stream=0)
#ifdef SEPTRAN_PYBIND
#include <pybind11/pybind11.h>
#include <stdexcept>

// An address as int, or anything with data_ptr().
static void* address(pybind11::object x) {{
    if (PyLong_CheckExact(x.ptr())) return PyLong_AsVoidPtr(x.ptr());
    return PyLong_AsVoidPtr(x.attr("data_ptr")().ptr());
}}

PYBIND11_MODULE(SEPTRAN_PYBIND, module) {{
    module.def("call", []({handles}, size_t stream) {{
        void* const args[] = {{{pointers}}};
        const char* error = {entry}_on(args, reinterpret_cast<void*>(stream));
        if (error) throw std::runtime_error(error);
    }}, {"".join(f'pybind11::arg("{n}"), ' for n in names)}pybind11::arg("stream") = 0);
}}
#endif
"""
