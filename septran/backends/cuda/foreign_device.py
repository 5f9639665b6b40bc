"""CUDA files that SepTran did not write on a GPU: compiled by nvcc as their author wrote them, with the judge's entry behind them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from septran.backends.base import Built, HostCall, OnDevice, Unjudged
from septran.backends.cuda.toolchain import compile_device
from septran.backends.judged.c_foreign import ENTRY, plain_kernel
from septran.backends.judged.python_file import called_from_python
from septran.backends.judged.torch_text import bindings
from septran.kernel import Kernel, KernelParam

_BEFORE = """#include <cuda_runtime.h>
#include <cstddef>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
namespace cuemu {
struct Output { void* data; size_t bytes; };
template <class F> void in_every_order_and_block(std::initializer_list<Output>, F call) { call(); }
inline void fail(const char* kind, const char* format, ...) {
    va_list rest;
    va_start(rest, format);
    vfprintf(stderr, format, rest);
    va_end(rest);
    fprintf(stderr, " (%s)\\n", kind);
    std::_Exit(1);
}
}  // namespace cuemu
"""
"""what the judge's entry calls the file through: a device has one order of its own"""
_AFTER = f"""
extern "C" __attribute__((visibility("default"))) const char* {ENTRY}_on(void* const* args, void*) {{
    {ENTRY}(args);
    cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}}
"""


def for_device(kernel: Kernel) -> Kernel:
    """Return a judged file as nvcc takes it; its own lines keep their numbers."""
    source = f'{_BEFORE}#line 1 "{kernel.main}"\n{kernel.source}{_AFTER}'
    return replace(kernel, files=((kernel.main, source), *kernel.files[1:]))


def build(kernel: Kernel, folder: Path) -> Built:
    """Compile the file for the GPU of this machine."""
    return compile_device(for_device(kernel), folder)


ON_DEVICE = OnDevice(vendor="nvidia", build=build, loader="cuda_device.py.j2")

_PYTHON = """from pathlib import Path

from torch.utils.cpp_extension import load

_extension = load("judged_extension", [str(Path(__file__).with_name({cuda!r}))])


def {name}(*args, **more):
    return _extension.{bound}(*args, **more)
"""


def extension(
    text: str, call: HostCall, params: tuple[KernelParam, ...], arch: str
) -> tuple[Kernel, tuple[str, ...]]:
    """Return a file on torch's tensors as a Kernel: Python that has torch build it and calls its function."""
    name = call.host.name
    bound = next((python for python, own in bindings(text).items() if own == name), "")
    if not bound and "PYBIND11_MODULE" not in text:
        bound = name
        text = f'{text}\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ m.def("{name}", &{name}); }}\n'
    if not bound:
        raise Unjudged(call.host.line, f"{name}, which PYBIND11_MODULE does not offer")
    found = plain_kernel(text, "", call, params, "cuda_c", arch, ".cu")
    python = _PYTHON.format(cuda=found.main, name=name, bound=bound)
    return called_from_python(replace(found, entry=name), python, call), ()
