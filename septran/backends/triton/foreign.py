"""Triton files that SepTran did not write: their host function, what they may say, how they are run on the CPU."""

from __future__ import annotations

import ast
import shutil
from functools import partial
from pathlib import Path

from septran.backends.base import Built, Foreign, Host, HostCall
from septran.backends.judged import python_versions
from septran.backends.judged.py_sizes import sizes_asked
from septran.backends.judged.python_file import (
    ATTRIBUTES,
    IMPORTS,
    MODULE,
    NAMES,
    ON_DEVICE,
    UNMODELLED,
    as_kernel,
    between_calls,
    host,
    host_params,
    lay_torch_host,
    readings,
    refusals,
)
from septran.backends.judged.python_imports import merged
from septran.backends.judged.record import recorded
from septran.backends.text import ptx as ptx_text
from septran.backends.text.python_host import decorators, host_functions
from septran.backends.text.python_rules import Rules
from septran.backends.text.python_unlaunched import unlaunched
from septran.backends.triton.accesses import launch_of
from septran.backends.triton.foreign_compiled import compiled
from septran.backends.triton.toolchain import RUNTIME, write
from septran.kernel import Kernel, KernelParam
from septran.prove.foreign.launch import Launch

_DEVICES = (("an H100", "sm_90"), ("a slice of an A100", "sm_80"), ("an RTX 5090", "sm_120"))
_JIT = ("jit", "autotune", "heuristics")


def _is_kernel(node: ast.AST) -> bool:
    """Whether a function is device code: `@triton.jit`, below any tuners."""
    return isinstance(node, ast.FunctionDef) and any(w in _JIT for w, _ in decorators(node))


def _launches(node: ast.AST) -> bool:
    """Whether an expression is `kernel[grid](...)` or `kernel.run(...)`."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)


_WHO_RUNS_IT = frozenset(
    """
    triton.runtime.interpreter triton.knobs triton.runtime.knobs triton.InterpreterError triton.runtime.InterpreterError
    triton.JITFunction triton.runtime.JITFunction triton.runtime.jit
    """.split()
)
"""what answers otherwise in the interpreter than where users run the file: its switch and the class of its functions"""
_RULES = Rules(
    imports=IMPORTS
    | python_versions.IMPORTS
    | frozenset(
        """
        triton triton.language triton.language.math triton.runtime triton.runtime.driver triton.testing triton.tools.tensor_descriptor
        triton.language.extra triton.language.extra.cuda triton.language.extra.libdevice triton.language.extra.cuda.libdevice
        triton.backends.compiler
        """.split()
    ),
    names=NAMES,
    attributes=(ATTRIBUTES - python_versions.ATTRIBUTES) | _WHO_RUNS_IT,
    only=python_versions.ONLY,
    called=python_versions.CALLED,
    unmodelled=UNMODELLED,
    kernel=_is_kernel,
    device_roots=frozenset({"triton", "math", "__future__", "typing"}),
    # what torch.compile would look through, and what says that there is a GPU and Triton on it: both are where the file runs
    spared=frozenset({"torch.library.wrap_triton", "torch.utils._triton.has_triton"}),
)


def hosts(text: str) -> tuple[Host, ...]:
    """Return the class `ModelNew`, else the functions that launch kernels and that no other such function calls."""
    if (found := host(text, MODULE)) is not None:
        return (found,)
    return tuple(
        Host(name=f.name, line=f.line, params=host_params(f.params), gives=f.gives)
        for f in host_functions(text, _is_kernel, _launches)
    )


_ASM = ("asm", "asm_opcodes", "asm_conversions")


def build(kernel: Kernel, folder: Path) -> Built:
    """Write the file and the emulator beside it; nothing is compiled."""
    artifact = write(kernel, folder)
    lay_torch_host(folder)
    for name in ("host", "driver", "launches", "blocks", "libdevice", *_ASM):
        shutil.copyfile(RUNTIME / f"{name}.py", folder / f"septran_triton_{name}.py")
    shutil.copyfile(str(ptx_text.__file__), folder / "septran_triton_asm_text.py")
    return Built(ok=True, artifact=artifact, command=f"{kernel.main} in Triton's interpreter")


def launches(
    text: str, file: str, call: HostCall, params: tuple[KernelParam, ...], run_dir: Path
) -> tuple[Launch, ...]:
    """Return the accesses of the launches that the host function made."""
    return tuple(launch_of(text, file, record) for record in recorded(run_dir))


FOREIGN = Foreign(
    suffixes=(".py",),
    marks=("import triton", "from triton", "@triton.jit"),
    hosts=hosts,
    host=host,
    kernel=partial(as_kernel, backend="triton_cuda"),
    objections=partial(refusals, rules=_RULES),
    build=build,
    loader="triton_host.py.j2",
    readings=partial(readings, archs=_DEVICES),
    between_calls=between_calls,
    beside=merged,
    sizes=sizes_asked,
    mixes=True,
    # torch places tensors on a GPU at multiples of far more, and descriptors ask for 16
    session=(("call_timeout_s", 60.0), ("budget_s", 40.0), ("alignment", 16)),
    launches=launches,
    unlaunched=partial(unlaunched, kernel=_is_kernel, launches=_launches),
    compiled=compiled,
    device=ON_DEVICE,
    unchecked=(
        "compile for a GPU: launches ran in Triton's interpreter, no code was generated",
        "races inside one program beyond what is proved: Triton's compiler orders shared memory only",
        "time: nothing was measured",
    ),
)
