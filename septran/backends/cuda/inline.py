"""CUDA C++ inside Python (`load_inline`), as answers to benchmarks of modules have it.

Where `ModelNew.forward` only calls the extension, none of its Python is run: it becomes a C++ function (`inline_forward`) in the one CUDA
file that the texts of the sources are. Where it does more, its Python runs beside the extension (`served`).
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

from septran.backends.base import HostCall, Unjudged, as_it_is
from septran.backends.cuda.foreign import COPY, unjudged_words
from septran.backends.cuda.foreign import FOREIGN as PLAIN
from septran.backends.cuda.ptx import shown
from septran.backends.cuda.served import RULES, build, served_kernel, unset
from septran.backends.judged import c_sizes, py_sizes
from septran.backends.judged.inline_hosts import InlineHosts
from septran.backends.judged.inline_text import Extension, extension, on_processor, python_of
from septran.backends.judged.python_file import ON_DEVICE, as_kernel, between_calls, refusals
from septran.backends.judged.torch_text import launching, torch_functions
from septran.backends.text.python_host import any_function, module_class
from septran.ir.size_asked import SizeAsked
from septran.kernel import Kernel, KernelParam
from septran.prove.foreign.launch import Launch, NotRead

_HOSTS = InlineHosts(read=extension, entries=launching, backend="cuda_c", suffix=".cu", copy=COPY)
hosts = _HOSTS.hosts


def _run_kernel(
    text: str, call: HostCall, params: tuple[KernelParam, ...], arch: str
) -> tuple[Kernel, tuple[str, ...]]:
    read = extension(text)
    if any(f.name == call.host.name for f in torch_functions(read.text)):
        raise Unjudged(
            call.host.line, f"{call.host.name}, which is no function of the file's Python"
        )
    _may_run(text, read)
    found, left = served_kernel(text, read, call, params, arch)
    return found, (*left, *_HOSTS.told(read))


def _may_run(text: str, read: Extension) -> None:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("torch.ops."):
            raise Unjudged(
                node.lineno,
                f"`{ast.unparse(node)}`, an operator of a library; offer the function by functions= or PYBIND11_MODULE",
            )
    if re.search(r"\barg\s*\([^()]*\)\s*=", read.text):
        raise Unjudged(1, "parameters with default values in PYBIND11_MODULE")


def _on_device(
    text: str, call: HostCall, params: tuple[KernelParam, ...], arch: str
) -> tuple[Kernel, tuple[str, ...]]:
    """Return the file as a Kernel whose Python builds the extension and calls it, as its users do."""
    if any_function(text, call.host.name) is None and module_class(text, call.host.name) is None:
        raise Unjudged(call.host.line, f"{call.host.name} is no function of the file's Python")
    return as_kernel(text, call, params, arch, backend="cuda_c")


def _unsupported(text: str) -> tuple[str, ...]:
    return unjudged_words(extension(text).text)


def _launches(
    text: str, file: str, call: HostCall, params: tuple[KernelParam, ...], run_dir: Path
) -> tuple[Launch, ...]:
    raise NotRead(0, "host functions on torch's tensors are not read")


def _sizes(text: str) -> tuple[SizeAsked, ...]:
    """Return what the sources and the Python beside them ask of sizes."""
    return (
        *c_sizes.sizes_asked(shown(extension(text).text)),
        *py_sizes.sizes_asked(python_of(text)),
    )


def _objections(text: str, name: str) -> tuple[tuple[str, str, int], ...]:
    return refusals(python_of(text), name, rules=RULES)


_READ = replace(
    PLAIN,
    readings=as_it_is,
    suffixes=(".py",),
    marks=("load_inline(",),
    claims=lambda text: not on_processor(text),
    hosts=hosts,
    host=_HOSTS.host,
    kernel=_HOSTS.kernel,
    unsupported=_unsupported,
    launches=_launches,
    unlaunched=lambda text: None,
    unordered=lambda text: PLAIN.unordered(extension(text).text),
    sizes=_sizes,
    device=ON_DEVICE,
    on_device=_on_device,
)
_RUN = replace(
    _READ,
    kernel=_run_kernel,
    build=build,
    unset=unset,
    noted=None,
    loader="extension_host.py.j2",
    session=(("call_timeout_s", 60.0), ("budget_s", 40.0), ("alignment", 16), ("forks", True)),
    objections=_objections,
    between_calls=lambda text, name: between_calls(python_of(text), name),
    mixes=True,
    unchecked=(
        "races in shared memory beyond what three orders of threads show: the file's Python runs beside its kernels",
        *PLAIN.unchecked,
    ),
)
FOREIGN = replace(_READ, otherwise=_RUN)
