"""Specialise a logic file to the tensors of a call: shapes, outputs, program, kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from septran.backends.base import Backend
from septran.bind import ArgType, BoundKernel
from septran.errors import InputError, SeptranError, TaskLangError
from septran.ir.nodes import Program
from septran.kernel import Kernel, kernel_params
from septran.machine import Machine
from septran.mapping.schema import ExplicitMapping, Policy
from septran.plan.batch_invariant import lower_rows
from septran.plan.fit import Lowered, lower_to_fit
from septran.plan.floor import library_leaves
from septran.reference import Reference
from septran.tasklang.check import Traces, check_logic
from septran.tasklang.infer import output_shapes
from septran.tasklang.load import Logic
from septran.tasklang.operator import Operator
from septran.tasklang.tree import Task
from septran.verify.problem import Problem

if TYPE_CHECKING:
    import torch

MAX_RANK = 4
Value = Any
"""A torch tensor, an int or a float."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """How a call's values meet the entry task's parameters.

    given: parameter -> type of a tensor, or a scalar. outputs: parameters the kernel allocates.
    """

    given: Mapping[str, ArgType | int | float]
    outputs: tuple[str, ...]


def signature(entry: Task, values: Sequence[Value]) -> Signature:
    """Return what a call with `values` means: one value per parameter that is not write-only, in order.

    The ranks of outputs are tried from that of the first tensor, because an unannotated output has none.

    Raises:
        InputError: C140, the number of values does not fit. TaskLangError: E1xx, E145.
    """
    import torch

    first = next((v.ndim for v in values if isinstance(v, torch.Tensor)), 2)
    problems: list[SeptranError] = []
    for rank in dict.fromkeys((first, *range(1, MAX_RANK + 1))):
        try:
            return _signature(entry, values, rank)
        except SeptranError as e:
            problems.append(e)
    raise problems[0]


def _signature(entry: Task, values: Sequence[Value], rank: int) -> Signature:
    import torch

    guess = {p: entry.ranks.get(p, rank) for p in entry.params if p not in entry.scalars}
    if len(values) == len(entry.params):
        pairs = dict(zip(entry.params, values, strict=True))
        return Signature(given={p: _type(v) for p, v in pairs.items()}, outputs=())
    traces = check_logic(entry, guess)
    granted = traces.privileges_of(traces.get(entry, guess))
    inputs = [p for p in entry.params if granted.get(p) != "w"]
    if len(values) != len(inputs):
        raise InputError.of(
            "C140",
            f"{entry.name} takes {len(inputs)} values ({', '.join(inputs)}), got {len(values)}",
            help=f"or all {len(entry.params)} parameters with the outputs allocated by you",
        )
    pairs = dict(zip(inputs, values, strict=True))
    ranks = guess | {p: v.ndim for p, v in pairs.items() if isinstance(v, torch.Tensor)}
    ranks = {p: r for p, r in ranks.items() if isinstance(pairs.get(p), torch.Tensor | None)}
    traces = check_logic(entry, ranks)
    given: dict[str, ArgType | int | float] = {p: _type(v) for p, v in pairs.items()}
    shapes = {p: t.shape for p, t in given.items() if isinstance(t, ArgType)}
    found = output_shapes(traces, traces.get(entry, ranks), shapes)
    dtype = _promoted([v for v in values if isinstance(v, torch.Tensor)])
    for param, shape in found.items():
        given[param] = ArgType(shape=shape, dtype=dtype)
    return Signature(given=given, outputs=tuple(found))


def _type(value: Value) -> ArgType | int | float:
    import torch

    if isinstance(value, torch.Tensor):
        return ArgType(shape=tuple(value.shape), dtype=str(value.dtype).removeprefix("torch."))
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError.of(
            "C140", f"expected a tensor, an int or a float, got {type(value).__name__}"
        )
    return value


def _promoted(tensors: Sequence[torch.Tensor]) -> str:
    import torch

    floats = [t.dtype for t in tensors if t.is_floating_point()]
    if not floats:
        return str(tensors[0].dtype).removeprefix("torch.")
    found = floats[0]
    for dtype in floats[1:]:
        found = torch.promote_types(found, dtype)
    return str(found).removeprefix("torch.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Specialized:
    """A kernel for one set of shapes and dtypes, not built yet.

    others: of a kernel with open dims, the same problem at other sizes, at which the same build is judged, too.
    """

    bound: BoundKernel
    program: Program
    kernel: Kernel
    problem: Problem
    others: tuple[Problem, ...] = ()


def specialize(
    logic: Logic,
    entry: Task,
    mapping: ExplicitMapping | Policy,
    backend: Backend,
    arch: str,
    machine: Machine,
    given: Mapping[str, ArgType | int | float],
    dims: Mapping[str, int] | None = None,
) -> Specialized:
    """Return the lowered program, the kernel with library leaves, and what it is verified against.

    dims: the dims of the file's own operator, when the entry is one's.

    Raises:
        TaskLangError, MappingError: the user's mistakes.
    """

    def lower(
        mapping: ExplicitMapping | Policy,
        given: Mapping[str, ArgType | int | float],
        workers: int = 0,
    ) -> Lowered:
        return lower_to_fit(
            entry,
            mapping,
            given,
            logic=logic,
            backend=backend,
            arch=arch,
            machine=machine,
            workers=workers,
        )

    operator = _operator(logic, entry, dims or {})
    if isinstance(mapping, Policy) and mapping.deterministic and operator is not None:
        sized = partial(_sized, operator, given)
        lowered = lower_rows(operator, mapping, dims or {}, sized, lower)
    else:
        lowered = lower(mapping, given)
    bound, program = lowered.bound, lowered.program
    kernel = backend.emit(program, library_leaves(backend, program, bound.mapping))
    return Specialized(
        bound=bound,
        program=program,
        kernel=kernel,
        problem=_problem(logic, entry, program, given, _tunables(bound), dims or {}),
    )


def _operator(logic: Logic, entry: Task, dims: Mapping[str, int]) -> Operator | None:
    """Return the file's operator of this entry, where `dims` are its own."""
    found = (o for o in logic.operators.values() if o.entry is entry)
    return next((o for o in found if dims.keys() == o.dims.keys()), None)


def _sized(
    operator: Operator, given: Mapping[str, ArgType | int | float], dims: Mapping[str, int]
) -> dict[str, ArgType | int | float]:
    """Return the arguments of a call at other sizes."""
    return {
        name: replace(one, shape=operator.shape(name, dims)) if isinstance(one, ArgType) else one
        for name, one in given.items()
    }


def _problem(
    logic: Logic,
    entry: Task,
    program: Program,
    given: Mapping[str, ArgType | int | float],
    tunables: Mapping[str, int],
    dims: Mapping[str, int],
) -> Problem:
    """Return the problem: the operator's own reference when the file has one, else the oracle."""
    scalars = {p: v for p, v in given.items() if not isinstance(v, ArgType)}
    operator = _operator(logic, entry, dims)
    if operator is not None:
        return Problem(
            name=operator.name,
            params=kernel_params(program),
            reference=operator.reference,
            dims=dict(dims),
            scalars=scalars,
            domains=dict(operator.domains),
        )
    terms = max((n for v in given.values() if isinstance(v, ArgType) for n in v.shape), default=1)
    return Problem(
        name=entry.name,
        params=kernel_params(program),
        reference=Reference(
            fn=_oracle(entry, program, tunables), kind="chain", reduction=lambda dims: terms
        ),
        scalars=scalars,
    )


def _tunables(bound: BoundKernel) -> dict[str, int]:
    """Return the mapping's tunables; with the kernel's tile sizes the oracle takes few steps."""
    return {
        name: value
        for inst in bound.mapping.instances.values()
        for name, value in inst.tunables.items()
        if isinstance(value, int)
    }


def _oracle(entry: Task, program: Program, tunables: Mapping[str, int]) -> Any:
    """Return a reference that runs the logic itself on the verifier's tensors."""
    shapes = {p.buffer.name: p.buffer.shape for p in program.params}
    outputs = [p.buffer.name for p in program.params if "w" in p.privilege]

    def reference(**values: Any) -> Any:
        import torch

        from septran.tasklang.oracle import run_oracle

        wide = next(
            (
                v.dtype
                for v in values.values()
                if isinstance(v, torch.Tensor) and v.is_floating_point()
            ),
            torch.float64,
        )
        held = {
            n: values[n].clone() if n in values else torch.full(s, float("nan"), dtype=wide)
            for n, s in shapes.items()
        }
        everything = tuple(held[p] if p in held else values[p] for p in entry.params)
        run_oracle(entry, everything, tunables)
        found = tuple(held[n] for n in outputs)
        return found[0] if len(found) == 1 else found

    return reference


def entry_task(logic: Logic, mapping: ExplicitMapping | Policy | None, name: str | None) -> Task:
    """Return the task a kernel starts with.

    `name` wins; else the mapping's entry instance (or the task it passes through to), else the file's
    only operator, else the only inner task that no other task launches.

    Raises:
        TaskLangError: E127 no such task, E146 the entry is not clear.
    """
    if name is not None:
        return logic.task(name)
    if isinstance(mapping, ExplicitMapping):
        inst = mapping.instances[mapping.entrypoint]
        if inst.task_name in logic.tasks:
            return logic.tasks[inst.task_name]
        if len(inst.calls) == 1:
            return logic.task(next(iter(inst.calls)))
        return logic.task(inst.task_name)
    if len(logic.operators) == 1:
        return next(iter(logic.operators.values())).entry
    tops = _tops(logic)
    if len(tops) == 1:
        return tops[0]
    raise TaskLangError.of(
        "E146",
        f"{logic.path}: the entry task is not clear; candidates are "
        f"{sorted(t.name for t in tops) or sorted(logic.tasks)}",
        help="name it: septran.compile(..., entry='...')",
    )


def _tops(logic: Logic) -> list[Task]:
    """Return the inner tasks that no other task of the file launches (traced with ranks of 2)."""
    from septran.tasklang.tree import Launch

    launched: set[str] = set()
    inner = [t for t in logic.tasks.values() if not t.leaf]
    for task in inner:
        for rank in range(1, MAX_RANK + 1):
            ranks = {p: task.ranks.get(p, rank) for p in task.params if p not in task.scalars}
            try:
                traced = Traces(task).get(task, ranks)
            except SeptranError:
                continue
            launched |= {n.task.name for n in traced.walk() if isinstance(n, Launch)}
            break
    return [t for t in inner if t.name not in launched]
