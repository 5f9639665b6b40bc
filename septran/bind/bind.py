"""bind: a logic, a mapping and a machine become a Program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from septran.bind.check_mapping import check_mapping
from septran.bind.layout import Bound
from septran.bind.lower import LeafSite, Lowering
from septran.bind.policy import apply_policy
from septran.bind.regions import check_regions
from septran.bind.scope import Probe, Size, Value
from septran.errors import MappingError, TaskLangError
from septran.ir.expr import Const, Expr
from septran.ir.nodes import Buffer, Dim, Param, Program, Region
from septran.machine import Machine
from septran.mapping.schema import OPTION_KEYS, ExplicitMapping, Policy
from septran.mapping.space import settled
from septran.tasklang.check import check_logic
from septran.tasklang.tree import Task, Traced
from septran.tasklang.values import Tunable


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgType:
    """A tensor argument: static shape and canonical dtype.

    extent: its sizes as expressions over symbolic dims, of which `shape` is an upper bound; () = `shape`.
    bound: sizes that tiles are cut from, at least `shape`, when a tile may be larger than the tensor; () = `shape`.
    """

    shape: tuple[int, ...]
    dtype: str
    extent: tuple[Expr, ...] = ()
    bound: tuple[int, ...] = ()


Arguments = Mapping[str, ArgType | int | float]
"""parameter -> type of a tensor, or the value of a compile-time scalar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundKernel:
    """The Program with what it came from."""

    program: Program
    mapping: ExplicitMapping
    sites: tuple[LeafSite, ...]
    notes: tuple[str, ...] = ()


def bind(
    entry: Task,
    mapping: ExplicitMapping | Policy,
    machine: Machine,
    args: Arguments,
    *,
    tasks: Mapping[str, Task],
    target: str = "",
    arch: str = "",
    cores: int = 1,
    symbolic: Mapping[str, int] | None = None,
) -> BoundKernel:
    """Return the Program of `entry` for arguments `args` (by parameter, in any order).

    tasks: the logic file's tasks by name. target: the backend's name (default: the mapping's). cores: workers of the machine, for size expressions.
    symbolic: dims in the arguments' extents -> the static bound tiles are made for. Regions of such a Program
    are not checked here: `septran.prove` decides them for all sizes.

    Raises:
        TaskLangError: E1xx. MappingError: Mxxx.
    """
    for name in entry.params:
        if name not in args:
            raise MappingError.of(
                "M080", f"{entry.name}: no type or value is given for parameter {name!r}"
            )
    ranks = {p: len(a.shape) for p, a in args.items() if isinstance(a, ArgType)}
    for param, rank in entry.ranks.items():
        if param in ranks and ranks[param] != rank:
            raise TaskLangError.of(
                "E144",
                f"{entry.name}: {param} is annotated with {rank} dims, got {ranks[param]}",
                entry.span,
            )
    traces = check_logic(entry, ranks)
    traced = traces.get(entry, ranks)
    everything = {**tasks, entry.name: entry} | {t.task.name: t.task for t in traces.found.values()}
    env = _environment(traced, args)
    if isinstance(mapping, Policy):
        explicit = apply_policy(
            mapping,
            traces=traces,
            tasks=everything,
            entry=traced,
            env=env,
            machine=machine,
            cores=cores,
            accumulate=_accumulate(args),
        )
    else:
        explicit = settled(mapping)
    check_mapping(explicit, tasks=everything, traces=traces, machine=machine)
    walk = Lowering(
        traces=traces,
        tasks=everything,
        instances=explicit.instances,
        machine=machine,
        missing=_no_value,
        accumulate=_accumulate(args),
        probe=Probe(),
        symbolic=frozenset(symbolic or ()),
    )
    for name in (*env, *(symbolic or {})):
        walk.fresh(name)
    walk.ranges.update({name: (1, bound) for name, bound in (symbolic or {}).items()})
    body = walk.instance(explicit.instances[explicit.entrypoint], (), env, 0)
    granted = traces.privileges_of(traced)
    params = []
    for name in entry.params:
        value = env[name]
        if isinstance(value, Bound):
            params.append(
                Param(
                    buffer=value.region.buffer,
                    privilege=granted.get(name, "r"),
                )
            )
    program = Program(
        name=entry.name,
        target=target or explicit.target or machine.name,
        arch=arch,
        machine=machine.name,
        params=tuple(params),
        body=body,
        options=_options(explicit),
        dims=tuple(Dim(name, 1, bound) for name, bound in (symbolic or {}).items()),
    )
    if not symbolic:
        check_regions(program)
    return BoundKernel(
        program=program,
        mapping=explicit,
        sites=tuple(walk.sites),
        notes=_notes(explicit, everything),
    )


def _accumulate(args: Arguments) -> str:
    wide = any(isinstance(a, ArgType) and a.dtype == "float64" for a in args.values())
    return "float64" if wide else "float32"


def _no_value(name: str, asked: Tunable | None) -> int | None:
    return None


def _environment(traced: Traced, args: Arguments) -> dict[str, Value]:
    env: dict[str, Value] = {}
    for name in traced.task.params:
        value = args[name]
        if isinstance(value, ArgType):
            buffer = Buffer(
                name=name, shape=value.shape, dtype=value.dtype, mem="GLOBAL", extent=value.extent
            )
            whole = Region.whole(buffer)
            if value.extent:
                whole = replace(whole, extent=value.extent)
            if value.bound:
                whole = replace(whole, tile=value.bound)
            env[name] = Bound(whole, name, (frozenset(),) * len(value.shape))
        elif isinstance(value, int):
            env[name] = Size(value, Const(value))
        else:
            env[name] = float(value)
    return env


def _options(mapping: ExplicitMapping) -> tuple[tuple[str, object], ...]:
    found: dict[str, object] = {}
    for inst in mapping.instances.values():
        found |= {k: v for k, v in inst.options.items() if k in OPTION_KEYS}
    return tuple(sorted(found.items()))


def _notes(mapping: ExplicitMapping, tasks: Mapping[str, Task]) -> tuple[str, ...]:
    return tuple(
        f"N001: {inst.name}: {inst.task_name} is not defined; "
        f"launching {next(iter(inst.calls))} with the same arguments"
        for inst in mapping.instances.values()
        if inst.task_name not in tasks and mapping.file and not inst.task_name.endswith("_host")
    )
