"""Triton files that SepTran did not write: their host function, what they may say, how they are run on the CPU."""

from __future__ import annotations

import ast
import json
import shutil
from dataclasses import asdict
from pathlib import Path

from septran.backends.base import Built, Foreign, Host, HostCall, HostParam
from septran.backends.judged.record import recorded
from septran.backends.text.python_host import (
    Rules,
    any_function,
    host_functions,
    module_class,
    needed,
    objections,
)
from septran.backends.triton.accesses import launch_of
from septran.backends.triton.toolchain import RUNTIME, write
from septran.kernel import Kernel, KernelParam
from septran.prove.foreign.launch import Launch

MODULE = "ModelNew"
"""the class that benchmarks of modules ask for"""
_JIT = ("jit", "autotune", "heuristics")


def _is_kernel(node: ast.AST) -> bool:
    """Whether a function is device code: `@triton.jit`, below any tuners."""
    if not isinstance(node, ast.FunctionDef):
        return False
    words = set()
    for decorator in node.decorator_list:
        call = decorator.func if isinstance(decorator, ast.Call) else decorator
        words.add(call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", ""))
    return bool(words & set(_JIT))


def _launches(node: ast.AST) -> bool:
    """Whether an expression is `kernel[grid](...)` or `kernel.run(...)`."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)


_RULES = Rules(
    imports=frozenset(
        """
        __future__ torch torch.nn torch.nn.functional torch.autograd torch.cuda triton triton.language triton.runtime
        triton.runtime.driver triton.testing triton.tools.tensor_descriptor triton.language.extra triton.backends.compiler
        math typing functools itertools dataclasses enum collections collections.abc operator contextlib warnings logging
        """.split()
    ),
    names=frozenset(
        """
        exec eval compile __import__ open input globals locals vars breakpoint memoryview __builtins__ __loader__
        __spec__ getattr setattr delattr exit quit
        """.split()
    ),
    attributes=frozenset(
        """
        torch.utils torch.overrides torch.library torch.ops torch.hub torch.multiprocessing torch.distributed torch.load
        torch.save torch.from_numpy torch.frombuffer torch.compile torch.jit torch.fx triton.runtime.interpreter
        numpy from_blob storage untyped_storage f_globals f_locals f_back gi_frame cr_frame tb_frame
        """.split()
    ),
    kernel=_is_kernel,
    device_roots=frozenset({"triton", "math", "__future__", "typing"}),
)


def hosts(text: str) -> tuple[Host, ...]:
    """Return the class `ModelNew`, else the functions that launch kernels and that no other such function calls."""
    if (found := host(text, MODULE)) is not None:
        return (found,)
    return tuple(
        Host(name=f.name, line=f.line, params=_params(f.params))
        for f in host_functions(text, _is_kernel, _launches)
    )


def host(text: str, name: str) -> Host | None:
    """Return the function or module `name`, None when the file has none at module level."""
    if (made := module_class(text, name)) is not None:
        return Host(name=name, line=made.line, params=_params(made.params), module=True)
    found = any_function(text, name)
    return None if found is None else Host(name=name, line=found.line, params=_params(found.params))


def _params(found: tuple[tuple[str, bool], ...]) -> tuple[HostParam, ...]:
    return tuple(HostParam(name=name, default=default) for name, default in found)


def kernel(
    text: str, call: HostCall, params: tuple[KernelParam, ...], arch: str
) -> tuple[Kernel, tuple[str, ...]]:
    """Return the file as a Kernel, reduced to what its host function needs, and the lines that were left out."""
    kept, left = needed(text, call.host.name)
    plan = {
        "args": [asdict(a) for a in call.args],
        "returns": call.returns,
        "made_with": call.made_with,
    }
    found = Kernel(
        name=call.host.name,
        backend="triton_cuda",
        arch=arch,
        entry=call.host.name,
        params=params,
        main="judged_kernel.py",
        files=(("judged_kernel.py", kept),),
        leaves=(),
        options=(("call", json.dumps(plan)),),
    )
    return found, left


def refusals(text: str, entry: str) -> tuple[tuple[str, str, int], ...]:
    """Return what the part of the file that would run may not say."""
    return objections(needed(text, entry)[0], _RULES)


def build(kernel: Kernel, folder: Path) -> Built:
    """Write the file and the emulator beside it; nothing is compiled."""
    artifact = write(kernel, folder)
    for name in ("host", "launches"):
        shutil.copyfile(RUNTIME / f"{name}.py", folder / f"septran_triton_{name}.py")
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
    kernel=kernel,
    objections=refusals,
    build=build,
    loader="triton_host.py.j2",
    # torch places tensors on a GPU at multiples of far more, and descriptors ask for 16
    session=(("call_timeout_s", 60.0), ("budget_s", 40.0), ("alignment", 16)),
    launches=launches,
    unchecked=(
        "compile for a GPU: launches ran in Triton's interpreter, no code was generated",
        "races inside one program beyond what is proved: Triton's compiler orders shared memory only",
        "time: nothing was measured",
    ),
)
