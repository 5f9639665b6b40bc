"""SepTran from Python: compile a logic to a kernel that takes and returns torch tensors."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septran.call.asleep import asleep
from septran.errors import ArgumentError

if TYPE_CHECKING:
    from septran.call.kernel import CompiledKernel
    from septran.tasklang.tree import Task

__all__ = ["CompiledKernel", "compile", "jit"]


def __getattr__(name: str) -> Any:
    # late: a kernel that the cache has is called without it
    if name == "CompiledKernel":
        from septran.call import kernel

        return kernel.CompiledKernel
    raise AttributeError(f"module 'septran.api' has no attribute {name!r}")


def compile(
    logic_file: Any = None,
    mapping_file: Any = None,
    target: str | None = None,
    *,
    op: str | None = None,
    arch: str | None = None,
    entry: str | None = None,
    verify: bool = True,
    backward: Callable[..., Any] | None = None,
    mode: str = "eval",
    fallback: str = "error",
    dynamic: Sequence[str] | Mapping[str, Any] = (),
    dynamic_shapes: Any = None,
    prepare: bool = False,
    deterministic: str = "",
) -> Any:
    """Return the kernel of an operator or a logic file under a mapping file, or under a target's policy.

    `septran.compile(module, example_inputs, target="cpp")` returns a CompiledModule for a torch module
    instead: a callable with the module's own signature and weights. mode: "eval", or "as-is" to leave norms
    and dropout as the module has them. fallback: "torch" leaves to torch what has no form, and what the
    target refuses, with a warning: `compiled.host_leaves` names what; the rest is kernels.
    prepare: compute what no input changes once, and again where one of these changed: batch
    norms folded into weights, normalised or added weights. `compiled.prepared` names them.
    op: a shipped operator's name instead of a file; the target is then the CPU when none is given.
    At least one of `mapping_file` and `target` is given with a file. target: a backend's name ("cpp");
    without it the mapping's `target:`, else what its processors imply. entry: the task to start with,
    when the file leaves a choice. verify: check each specialisation against torch before it is used.
    backward: called with the gradient of each output and the inputs, in order; returns the inputs'
    gradients (or None). Without it, inputs that require gradients are refused.
    dynamic: dims of the operator that stay open: one kernel, built and verified once, serves all their sizes. A mapping
    says for which size tiles are chosen ({"M": 256}), else it is the operator's sample size. Of a module: argument -> axis ->
    name, `{"x": {0: "B"}}`; `dynamic_shapes` is torch's way to say it (`torch.export.Dim`, with ends). Tiles are chosen for the
    example's sizes. An exported program has its own. deterministic: "batch-invariant", a row's bits depend neither on the
    number of rows nor on threads (docs/mapping.md).

    Raises:
        TaskLangError, MappingError: mistakes in the files; M092, `deterministic` cannot be kept. InputError: C141 neither mapping nor target.
        ArgumentError: C140 not exactly one of logic_file and op; a value of another type.
        ConfigError: C044 unknown operator, C130, C131 unknown target or arch. InputError: C110 no such dim in
        `dynamic`, C162 a dim cannot stay open.
    """
    _check_types(op=op, target=target, arch=arch, entry=entry)
    if not isinstance(verify, bool):
        raise ArgumentError.of("C140", f"verify is {verify!r}, not True or False")
    if backward is not None and not callable(backward):
        raise ArgumentError.of("C140", f"backward is a {type(backward).__name__}, not a function")
    if mode not in ("eval", "as-is"):
        raise ArgumentError.of("C140", f"mode is {mode!r}, not 'eval' or 'as-is'")
    if deterministic not in ("", "batch-invariant"):
        raise ArgumentError.of(
            "C140", f"deterministic is {deterministic!r}, not 'batch-invariant' or ''"
        )
    if deterministic and (dynamic or hasattr(logic_file, "named_parameters")):
        raise ArgumentError.of(
            "C140", "deterministic is for operators and logic files whose sizes are known"
        )
    if hasattr(logic_file, "named_parameters"):
        if op is not None:
            raise ArgumentError.of("C140", f"a module and op={op!r} are given; give one of them")
        from septran import backends
        from septran.call.module import CompiledModule  # and with it the frontend

        module, example, shapes = _module(logic_file, mapping_file, dynamic, dynamic_shapes)
        return CompiledModule(
            module,
            example,
            target=target or backends.HOST,
            arch=arch,
            mode=mode,
            verify=verify,
            fallback=fallback,
            prepare=prepare,
            dynamic_shapes=shapes,
        )
    if dynamic_shapes is not None:
        raise ArgumentError.of(
            "C140", "dynamic_shapes is for modules", help='of an operator: dynamic=("M",)'
        )
    if (logic_file is None) == (op is None):
        raise ArgumentError.of(
            "C140", "give a logic file or op=, one of them", help='septran.compile(op="softmax")'
        )
    asked = {
        "logic_file": _absolute(logic_file),
        "mapping_file": _absolute(mapping_file),
        "target": target,
        "op": op,
        "arch": arch,
        "entry": entry,
        "verify": verify,
        "backward": backward,
        "dynamic": dynamic,
        "deterministic": deterministic,
    }
    again = (_again, (asked,))
    found = asleep(asked, partial(_compiled, asked, asked, again))
    if found is None:
        spelled = {**asked, "logic_file": logic_file, "mapping_file": mapping_file}
        found = _compiled(spelled, asked, again)
    return found


def _compiled(asked: Mapping[str, Any], lasting: Mapping[str, Any], again: Any) -> CompiledKernel:
    """Return the kernel now. lasting: `asked` with whole paths. again: how it travels."""
    collecting = gc.isenabled()
    gc.disable()  # a collection while modules are read looks at all of torch, and finds nothing
    try:
        from septran.call.resolved import resolved
    finally:
        if collecting:
            gc.enable()
    return resolved(asked, lasting, again)


def _absolute(file: Any) -> str | None:
    return None if file is None else str(Path(str(file)).absolute())


def _module(
    module: Any, example: Any, dynamic: Any, dynamic_shapes: Any
) -> tuple[Any, tuple[Any, ...], Any]:
    """Return a module, its example inputs and torch's `dynamic_shapes`, None where no size stays open."""
    import torch

    from septran.call.dynamic_shapes import of_program, torch_shapes

    if isinstance(example, torch.Tensor):
        example = (example,)
    elif not isinstance(example, tuple | list | None):
        raise ArgumentError.of(
            "C140",
            f"the example inputs of {type(module).__name__} are a {type(example).__name__}",
            help="septran.compile(module, (x, y)): the arguments of a call, in order; one tensor may stand alone",
        )
    if isinstance(module, torch.export.ExportedProgram):
        args = tuple(example or (module.example_inputs or ((), {}))[0])
        shapes = of_program(module) if module.range_constraints else None
        return module.module(), args, shapes
    args = tuple(example or ())
    if not dynamic:
        return module, args, dynamic_shapes
    if dynamic_shapes is not None or not isinstance(dynamic, Mapping):
        raise ArgumentError.of(
            "C140",
            "give one of dynamic and dynamic_shapes"
            if dynamic_shapes is not None
            else f"dynamic={dynamic!r} does not say which input has the size",
            help='dynamic={"x": {0: "B"}}: axis 0 of argument x stays open',
        )
    return module, args, torch_shapes(module.forward, args, {}, dynamic)


def _check_types(**words: Any) -> None:
    for name, value in words.items():
        if value is not None and not isinstance(value, str):
            raise ArgumentError.of("C140", f"{name} is a {type(value).__name__}, not a str")


def _again(asked: Mapping[str, Any]) -> CompiledKernel:
    found: CompiledKernel = compile(**asked)
    return found


def jit(
    fn: Any = None,
    *,
    mapping_file: str | Path | None = None,
    target: str | None = None,
    **options: Any,
) -> Any:
    """Turn a Task defined in a file into a kernel: `@septran.jit(target="cpp")` above `@task.define`.

    Same call as `compile` on the file that defines the task. Without target and mapping_file the kernel
    is for the CPU.
    """
    from septran import backends

    def decorate(task: Task) -> CompiledKernel:
        assert task.span is not None
        from septran.tasklang.load import loading

        if loading():
            return task  # type: ignore[return-value]  # the file is being read by compile itself
        chosen = target or (None if mapping_file is not None else backends.HOST)
        found: CompiledKernel = compile(
            task.span.file, mapping_file, chosen, entry=task.name, **options
        )
        return found

    return decorate if fn is None else decorate(fn)
