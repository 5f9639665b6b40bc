"""Check an explicit mapping against the logic and the machine before anything is lowered."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from septran.errors import Diagnostic, MappingError, closest
from septran.machine import Machine
from septran.mapping.arith import evaluate
from septran.mapping.schema import Binding, ExplicitMapping, Instance, Tune
from septran.tasklang.check import Traces
from septran.tasklang.tree import AllocLocal, Launch, Task, Traced

RESERVED_KERNELS = ("auto", "agent")


def check_mapping(
    mapping: ExplicitMapping, *, tasks: Mapping[str, Task], traces: Traces, machine: Machine
) -> None:
    """Raise MappingError with all of M003-M006, M010, M012, M013, M022, M040, M050, M060, M090."""
    problems: list[Diagnostic] = []
    reached = _reached(mapping)
    asked: set[str] = set()
    for inst in mapping.instances.values():
        if inst.name not in reached:
            continue
        problems += _procs(inst, machine)
        traced = _traced(inst, tasks, traces)
        if traced is None and not (inst.proc == machine.procs[0] and len(inst.calls) == 1):
            problems.append(
                Diagnostic(
                    code="M003",
                    message=f"{inst.name}: task {inst.task_name!r} is not defined in the logic "
                    f"file{closest(inst.task_name, tasks)}; known: {sorted(tasks)}",
                    span=inst.span("task_name"),
                )
            )
        problems += _memories(inst, machine, traced, tasks)
        if traced is not None:
            problems += _targets(inst, traced)
            asked |= set(traced.tunables)
            problems += _pipeline(inst, traced, mapping, traces)
        problems += _kernels(inst, mapping, machine)
        problems += _tunes(inst)
    problems += _unused_tunables(mapping, reached, traces)
    problems += _constraints(mapping)
    if problems:
        raise MappingError(sorted(problems, key=lambda d: d.place)[:20])


def _reached(mapping: ExplicitMapping) -> set[str]:
    found, todo = set(), [mapping.entrypoint]
    while todo:
        name = todo.pop()
        if name in found or name not in mapping.instances:
            continue
        found.add(name)
        todo += mapping.instances[name].calls.values()
    return found


def _traced(inst: Instance, tasks: Mapping[str, Task], traces: Traces) -> Traced | None:
    if inst.task_name not in tasks:
        return None
    for traced in traces.found.values():
        if traced.task.name == inst.task_name:
            return traced
    return None


def _procs(inst: Instance, machine: Machine) -> list[Diagnostic]:
    if inst.proc in machine.procs:
        return []
    return [
        Diagnostic(
            code="M005",
            message=f"{inst.name}: target {machine.name} has no processor {inst.proc!r}; "
            f"it has {list(machine.procs)}{closest(inst.proc, machine.procs)}",
            span=inst.span("proc"),
        )
    ]


def _memories(
    inst: Instance, machine: Machine, traced: Traced | None, tasks: Mapping[str, Task]
) -> list[Diagnostic]:
    found = []
    named = {n.tensor.name for n in (traced.walk() if traced else ()) if isinstance(n, AllocLocal)}
    callee = next(iter(inst.calls), "")
    params = traced.task.params if traced else tasks[callee].params if callee in tasks else ()
    for key, mem in inst.mems.items():
        span = inst.key_span("mems", key)
        if params and key not in params and key not in named:
            found.append(
                Diagnostic(
                    code="M012",
                    message=f"{inst.name}: mems names {key!r}; {inst.task_name} has parameters "
                    f"{list(params)} and locals {sorted(named)}{closest(key, [*params, *named])}",
                    span=span,
                )
            )
        if mem == "NONE":
            continue
        found += _visible(inst, machine, key, mem, ("mems", key))
    for leaf, binding in inst.leaf_task_bindings.items():
        for key, mem in binding.mems.items():
            found += _visible(inst, machine, key, mem, ("leaf_task_bindings", leaf, "mems", key))
    return found


def _visible(
    inst: Instance, machine: Machine, key: str, mem: str, path: tuple[str, ...]
) -> list[Diagnostic]:
    memory = machine.memory(mem)
    if memory is None:
        known = [n for m in machine.memories.values() for n in (m.name, *m.aliases)]
        return [
            Diagnostic(
                code="M010",
                message=f"{inst.name}: {machine.name} has no memory {mem!r}; it has "
                f"{known}{closest(mem, known)}",
                span=inst.span(*path),
            )
        ]
    placed = inst.proc in machine.procs and memory.visible_from in machine.procs
    if placed and machine.level(inst.proc) < machine.level(memory.visible_from):
        return [
            Diagnostic(
                code="M013",
                message=f"{inst.name} ({inst.proc}) cannot hold {key} in {memory.name}: "
                f"{memory.name} is visible from {memory.visible_from} down",
                span=inst.span(*path),
            )
        ]
    return []


def _targets(inst: Instance, traced: Traced) -> list[Diagnostic]:
    launched = {n.task.name: n.task for n in traced.walk() if isinstance(n, Launch)}
    found = []
    for kind, names in (("calls", inst.calls), ("leaf_task_bindings", inst.leaf_task_bindings)):
        found += [
            Diagnostic(
                code="M006",
                message=f"{inst.name}: {kind} names {name!r}, which {traced.task.name} "
                f"never launches{closest(name, launched)}; it launches {sorted(launched)}",
                span=inst.key_span(kind, name),
            )
            for name in names
            if name not in launched
        ]
    for name, task in launched.items():
        if not task.leaf and name not in inst.calls:
            found.append(
                Diagnostic(
                    code="M004",
                    message=f"{inst.name}: no mapping for launched task {name!r}; add it to calls",
                    span=inst.key_span("calls"),
                )
            )
        binding = inst.leaf_task_bindings.get(name, Binding())
        found += [
            Diagnostic(
                code="M012",
                message=f"{inst.name}: mems of leaf {name} names {key!r}; it has parameters "
                f"{list(task.params)}{closest(key, task.params)}",
                span=inst.key_span("leaf_task_bindings", name, "mems", key),
            )
            for key in binding.mems
            if key not in task.params
        ]
    return found


def _pipeline(
    inst: Instance, traced: Traced, mapping: ExplicitMapping, traces: Traces
) -> list[Diagnostic]:
    depth = inst.options.get("pipeline")
    if not isinstance(depth, int) or depth < 2:
        return []
    from septran.tasklang.tree import Loop
    from septran.tasklang.values import Piece

    loops = any(isinstance(n, Loop) and n.kind == "sequential" for n in traced.walk())
    panels = any(
        isinstance(a, Piece) and any(i is None for i in a.index)
        for n in traced.walk()
        if isinstance(n, Launch)
        for a in n.args
    )
    if loops or panels:
        return []
    return [
        Diagnostic(
            code="M040",
            message=f"{inst.name}: pipeline {depth}, but {traced.task.name} has no sequential or "
            "streamed loop that copies",
            span=inst.span("pipeline"),
            help="drop pipeline, or loop over blocks with task.sequential_range",
        )
    ]


def _kernels(inst: Instance, mapping: ExplicitMapping, machine: Machine) -> list[Diagnostic]:
    found = []
    known = (*machine.leaf_kernels, *mapping.leaf_kernels, *RESERVED_KERNELS)
    for leaf, binding in inst.leaf_task_bindings.items():
        if not isinstance(binding.kernel, str) or binding.kernel in known:
            continue
        found.append(
            Diagnostic(
                code="M050",
                message=f"{inst.name}: leaf_task_bindings: {leaf} -> {binding.kernel!r} is no leaf "
                f"kernel of {machine.name}; it has {sorted(known)}{closest(binding.kernel, known)}",
                span=inst.span("leaf_task_bindings", leaf, "kernel")
                if ("leaf_task_bindings", leaf, "kernel") in inst.spans
                else inst.span("leaf_task_bindings", leaf),
            )
        )
    return found


def _tunes(inst: Instance) -> list[Diagnostic]:
    """Return options whose value nobody picked yet; tunables and bindings are checked where used."""
    return [
        Diagnostic(
            code="M090",
            message=f"{inst.name}: {key} is still !tune {value.kind}",
            span=inst.span(key),
            help="pick one of " + ", ".join(map(str, value.values[:8])),
        )
        for key, value in inst.options.items()
        if isinstance(value, Tune)
    ]


def _left(text: str) -> str:
    """Return the left side of a comparison, or the whole expression."""
    tree = ast.parse(text, mode="eval").body
    return ast.unparse(tree.left) if isinstance(tree, ast.Compare) else text


def _unused_tunables(
    mapping: ExplicitMapping, reached: set[str], traces: Traces
) -> list[Diagnostic]:
    asked = {t for traced in traces.found.values() for t in traced.tunables} | {"block_size"}
    found = []
    for inst in mapping.instances.values():
        found += [
            Diagnostic(
                code="M022",
                message=f"{inst.name}: tunable {name!r} is never read{closest(name, asked)}",
                span=inst.key_span("tunables", name),
            )
            for name in inst.tunables
            if inst.name in reached and name not in asked
        ]
    return found


def _constraints(mapping: ExplicitMapping) -> list[Diagnostic]:
    names: dict[str, int] = {}
    for inst in mapping.instances.values():
        for table in (inst.tunables, inst.options):
            names |= {k: v for k, v in table.items() if isinstance(v, int)}
    found = []
    for text, span in mapping.constraints:
        if not evaluate(text, names, span):
            value = evaluate(_left(text), names, span)
            found.append(
                Diagnostic(code="M060", message=f"constraint {text!r} is false: {value}", span=span)
            )
    return found
