"""CUDA C++ inside Python (`load_inline`), as answers to benchmarks of modules have it.

Where `ModelNew.forward` only calls the extension, none of its Python is run: it becomes a C++ function (`inline_forward`) in the one CUDA
file that the texts of the sources are. Where it does more, its Python runs beside the extension (`served`).
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

from septran.backends.base import Host, HostCall, Unjudged, as_it_is
from septran.backends.cuda.foreign import FOREIGN as PLAIN
from septran.backends.cuda.foreign import unjudged_words
from septran.backends.cuda.inline_forward import Forward
from septran.backends.cuda.inline_text import Extension, extension, python_of
from septran.backends.cuda.served import RULES, build, served_kernel, unset
from septran.backends.cuda.torch_text import call_text, entry, launching, torch_functions
from septran.backends.judged.c_foreign import ENTRY, plain_kernel
from septran.backends.judged.python_file import MODULE, between_calls, host_params, refusals
from septran.backends.text.python_host import any_function, module_class
from septran.kernel import Kernel, KernelParam
from septran.prove.foreign.launch import Launch, NotRead


def hosts(text: str) -> tuple[Host, ...]:
    """Return the class `ModelNew`, else the functions on tensors that launch and that the extension offers."""
    if (found := host(text, MODULE)) is not None:
        return (found,)
    read = extension(text)
    offered = set(read.offered.values())
    return tuple(f.host() for f in launching(read.text) if not offered or f.name in offered)


def host(text: str, name: str) -> Host | None:
    """Return the module class, the C++ function or the Python function `name`."""
    if (made := module_class(text, name)) is not None:
        return Host(name=name, line=made.line, params=host_params(made.params), module=True)
    for function in torch_functions(extension(text).text):
        if function.name == name:
            return function.host()
    if (found := any_function(text, name)) is not None:
        return Host(name=name, line=found.line, params=host_params(found.params))
    return None


def kernel(
    text: str, call: HostCall, params: tuple[KernelParam, ...], arch: str
) -> tuple[Kernel, tuple[str, ...]]:
    """Return the sources as one CUDA file with the judge's entry after it.

    Raises:
        Unjudged: the entry's Python does more than call the extension.
    """
    read = extension(text)
    more, run = "", ""
    if call.host.module:
        forward = Forward(text, read.offered, call, params)
        more, run = forward.function(), forward.call()
    elif any(f.name == call.host.name for f in torch_functions(read.text)):
        run = call_text(call, params)
    else:
        raise Unjudged(call.host.line, f"{call.host.name}, which is no function of the extension")
    last = entry(ENTRY, params, run, returns=call.returns, more=more)
    found = plain_kernel(read.text, last, call, params, "cuda_c", arch, ".cu")
    return found, ("all of its Python, which was read and not run", *_flags(read))


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
    return found, (*left, *_flags(read))


def _may_run(text: str, read: Extension) -> None:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("torch.ops."):
            raise Unjudged(
                node.lineno,
                f"`{ast.unparse(node)}`, an operator of a library; offer the function by functions= or PYBIND11_MODULE",
            )
    if re.search(r"\barg\s*\([^()]*\)\s*=", read.text):
        raise Unjudged(1, "parameters with default values in PYBIND11_MODULE")


def _flags(read: Extension) -> tuple[str, ...]:
    """Return what is told of flags that the judge did not give."""
    return (
        (f"flags of its build, {' '.join(read.flags)}: judged without them",) if read.flags else ()
    )


def _unsupported(text: str) -> tuple[str, ...]:
    return unjudged_words(extension(text).text)


def _launches(
    text: str, file: str, call: HostCall, params: tuple[KernelParam, ...], run_dir: Path
) -> tuple[Launch, ...]:
    raise NotRead(0, "host functions on torch's tensors are not read")


def _objections(text: str, name: str) -> tuple[tuple[str, str, int], ...]:
    return refusals(python_of(text), name, rules=RULES)


_READ = replace(
    PLAIN,
    readings=as_it_is,
    suffixes=(".py",),
    marks=("load_inline(",),
    hosts=hosts,
    host=host,
    kernel=kernel,
    unsupported=_unsupported,
    launches=_launches,
    unordered=lambda text: PLAIN.unordered(extension(text).text),
)
_RUN = replace(
    _READ,
    kernel=_run_kernel,
    build=build,
    unset=unset,
    loader="extension_host.py.j2",
    session=(("call_timeout_s", 60.0), ("budget_s", 40.0), ("alignment", 16), ("forks", True)),
    objections=_objections,
    between_calls=lambda text, name: between_calls(python_of(text), name),
    mixes=True,
)
FOREIGN = replace(_READ, otherwise=_RUN)
