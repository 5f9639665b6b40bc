"""SepTran from Python: compile a logic to a kernel that takes and returns torch tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from septran import backends
from septran.call.kernel import CompiledKernel
from septran.errors import ArgumentError, InputError, MappingError
from septran.mapping.load import load_mapping
from septran.mapping.schema import ExplicitMapping
from septran.plan import catalog
from septran.plan.resolve import for_backend, load_target_mapping
from septran.plan.specialize import entry_task
from septran.tasklang.load import load_logic
from septran.tasklang.tree import Task

__all__ = ["CompiledKernel", "compile", "jit"]


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
) -> Any:
    """Return the kernel of an operator or a logic file under a mapping file, or under a target's policy.

    `septran.compile(module, example_inputs, target="cpp")` returns a CompiledModule for a torch module
    instead: a callable with the module's own signature and weights. mode: "eval", or "as-is" to leave norms
    and dropout as the module has them. fallback: "torch" leaves to torch what has no form, and what the
    target refuses, with a warning: `compiled.host_leaves` names what; the rest is kernels.
    prepare: compute what depends on the module's own tensors alone once, and again where one of these changed: batch
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
    example's sizes. An exported program has its own.

    Raises:
        TaskLangError, MappingError: mistakes in the files. InputError: C141 neither mapping nor target.
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
    if hasattr(logic_file, "named_parameters"):
        if op is not None:
            raise ArgumentError.of("C140", f"a module and op={op!r} are given; give one of them")
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
    if op is not None and mapping_file is None and target is None:
        target = backends.HOST
    _check_file(logic_file)
    if mapping_file is None and target is None:
        raise InputError.of(
            "C141",
            "neither mapping_file nor target is given",
            help=f"targets are {', '.join(backends.names())}",
        )
    if op is not None:
        logic = catalog.shipped(catalog.op_file(op))
    else:
        logic = load_logic(Path(str(logic_file)))
    given = load_mapping(Path(mapping_file)) if mapping_file is not None else None
    name = target or (given.target if given is not None else None)
    if name is None:
        assert isinstance(given, ExplicitMapping)
        name = infer_target(given)
    backend = backends.get(name)
    chosen = backends.resolve_arch(backend, arch or (given.arch if given is not None else None))
    mapping = for_backend(given, backend) if given else load_target_mapping(backend, chosen, None)
    if op is not None and entry is None:
        task = logic.operators[op].entry
    else:
        task = entry_task(logic, mapping if given is not None else None, entry)
    asked = {
        "logic_file": None if logic_file is None else str(Path(logic_file).absolute()),
        "mapping_file": None if mapping_file is None else str(Path(mapping_file).absolute()),
        "target": target,
        "op": op,
        "arch": arch,
        "entry": entry,
        "verify": verify,
        "backward": backward,
        "dynamic": dynamic,
    }
    return CompiledKernel(
        logic,
        task,
        mapping,
        backend,
        chosen,
        verify=verify,
        dynamic=dynamic if isinstance(dynamic, Mapping) else dict.fromkeys(dynamic),
        again=(_again, (asked,)),
        backward=backward,
    )


def _module(
    module: Any, example: Any, dynamic: Any, dynamic_shapes: Any
) -> tuple[Any, tuple[Any, ...], Any]:
    """Return a module, its example inputs and torch's `dynamic_shapes`, None where no size stays open."""
    import torch

    from septran.call.dynamic_shapes import of_program, torch_shapes

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


def _check_file(logic_file: Any) -> None:
    """Say what to write to somebody who gave an operator's name for a file."""
    if not isinstance(logic_file, str) or Path(logic_file).exists():
        return
    if logic_file in {op["name"] for op in catalog.ops()}:
        raise ArgumentError.of(
            "C140",
            f"{logic_file!r} is an operator's name and no file",
            help=f'septran.compile(op="{logic_file}")',
        )


def _check_types(**words: Any) -> None:
    for name, value in words.items():
        if value is not None and not isinstance(value, str):
            raise ArgumentError.of("C140", f"{name} is a {type(value).__name__}, not a str")


def _again(asked: Mapping[str, Any]) -> CompiledKernel:
    found: CompiledKernel = compile(**asked)
    return found


def infer_target(mapping: ExplicitMapping) -> str:
    """Return the only sensible target for a mapping that names none, from its processors.

    Raises:
        MappingError: M007, the processors leave no unique choice.
    """
    procs = {i.proc for i in mapping.instances.values()}
    mems = {m for i in mapping.instances.values() for m in i.mems.values()}
    found = backends.target_of(procs, mems)
    if found is None:
        raise MappingError.of(
            "M007",
            f"target cannot be inferred from processors {sorted(procs)}; add 'target:'",
            help=f"targets are {', '.join(backends.names())}",
        )
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
