"""Resolve a request: which operator, logic, backend, machine, mapping, dims and dtype it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from septran import assets, backends
from septran.backends.base import Backend
from septran.errors import ConfigError, MappingError, closest
from septran.ir.dtypes import DTYPES
from septran.machine import load_machine
from septran.mapping.load import load_mapping
from septran.mapping.schema import ExplicitMapping, Policy
from septran.plan import catalog
from septran.plan.cores import cores
from septran.plan.fit import Lowered
from septran.plan.planned import Plan as Plan
from septran.plan.planned import arguments as arguments
from septran.plan.planned import lower_sized
from septran.plan.planned import predicted_ticks as predicted_ticks
from septran.plan.tuned import Tuned, entries, policy_sha
from septran.tasklang.load import Logic, load_logic
from septran.tasklang.operator import Operator
from septran.verify.environment import environment_facts


@dataclass(frozen=True, slots=True, kw_only=True)
class GenRequest:
    """What the user asked for; the fields are the flags of `septran gen`. output: where a copy of the kernel goes."""

    op: str | None
    backend: str
    task_file: Path | None = None
    logic: Path | None = None
    arch: str | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    dtype: str | None = None
    mapping: Path | None = None
    writer: str = "library"
    attempts: int | None = None
    candidates: int | None = None
    budget_tokens: int | None = None
    budget_minutes: float | None = None
    seed: int | None = None
    stop_after: str | None = None
    require: tuple[str, ...] = ()
    config: Path | None = None
    search: str = "best-of"
    leaves: tuple[str, ...] = ()
    """tasks a model is asked for; () = those where it pays"""
    resume: str | None = None
    where: str = "auto"
    deterministic: str = ""
    math: str = ""
    """arithmetic with an accuracy of its own, a word of `math:`"""
    tuned: bool = True
    """whether results of `septran tune` are taken"""
    dynamic: tuple[str, ...] = ()
    """dims whose size the kernel reads when it runs; `dims` may say for which size its tiles are chosen"""
    output: Path | None = None
    opaque: str = ""
    """what of a torch module becomes an opaque leaf: "nodes" without a form, the "whole"; "": neither"""
    fallback: str = ""
    """"torch": what has no form, or what the target refuses, stays torch's; "": it is refused"""
    prepare: bool = False
    """whether what a module computes of its own tensors alone is computed once, outside the kernels"""


def resolve(request: GenRequest) -> Plan:
    """Return the plan of a request.

    Raises:
        ConfigError: C040 unknown operator, C130/C131 unknown backend or arch, C132 dtype, C133 the
            logic file names no operator, C134 --task. TaskLangError, MappingError: from the files.
    """
    return resolve_operator(request, *operator_of(request))


def resolve_operator(request: GenRequest, operator: Operator, logic: Logic) -> Plan:
    """Return the plan of a request for an operator that was looked up already; raises as `resolve`."""
    backend = backends.get(request.backend)
    arch = backends.resolve_arch(backend, request.arch)
    machine = load_machine(backend.machine(arch))
    mapping = load_target_mapping(backend, arch, request.mapping)
    if request.deterministic:
        mapping = in_one_order(mapping, request.deterministic)
    mapping = _with_math(mapping, backend, request.math)
    dtype = _dtype(request.dtype, operator, backend)
    plan = Plan(
        operator=operator,
        logic=logic,
        backend=backend,
        arch=arch,
        machine=machine,
        mapping=mapping,
        dims=operator.bind_dims({**dict.fromkeys(request.dynamic, 1), **request.dims})
        | {n: operator.dims[n] for n in request.dynamic if n not in request.dims},
        dtype=dtype,
        dynamic=tuple(request.dynamic),
    )
    if request.tuned and not (request.mapping or request.deterministic or request.math):
        return replace(plan, tuned=results_for(plan))
    return plan


def in_one_order(mapping: ExplicitMapping | Policy, deterministic: str) -> Policy:
    """Return the policy whose rows do not depend on their number.

    Raises:
        MappingError: M092, the mapping is explicit.
    """
    if isinstance(mapping, Policy):
        return replace(mapping, deterministic=deterministic)
    raise MappingError.of(
        "M092",
        f"{mapping.file} is explicit: its tiles are the file's for every number of rows",
        help="leave --deterministic out; `septran prove --dims symbolic` says whether rows are alike",
    )


def _with_math(
    mapping: ExplicitMapping | Policy, backend: Backend, math: str
) -> ExplicitMapping | Policy:
    """Return the policy with the arithmetic that was asked for.

    Raises:
        MappingError: M017, the target has none of it. M094, the mapping is explicit.
    """
    if not math:
        return mapping
    if math not in backend.maths:
        known = ", ".join(backend.maths) or "none"
        raise MappingError.of("M017", f"{backend.name} has no `math: {math}`; known: {known}")
    if not isinstance(mapping, Policy):
        raise MappingError.of(
            "M094",
            f"{mapping.file} is explicit: its tiles are those of its own arithmetic",
            help=f"write `math: {math}` into its instance, or leave --math out",
        )
    return replace(mapping, options={**mapping.options, "math": math})


def results_for(plan: Plan) -> tuple[Tuned, ...]:
    """Return the results of `septran tune` that fit a plan, at whatever sizes they were found, what was measured first.

    Raises:
        ConfigError: C123, a file of results cannot be read.
    """
    if not isinstance(plan.mapping, Policy) or not (known := entries(plan.backend.name)):
        return ()
    mine = {
        "op": plan.operator.name,
        "logic": plan.logic.sha,
        "arch": plan.arch,
        "dtype": plan.dtype,
        "machine": machine_of(plan),
        "mapping": policy_sha(plan.mapping),
    }
    fitting = [e for e in known if all(getattr(e, k) == v for k, v in mine.items())]
    return tuple(sorted(fitting, key=lambda e: e.predicted))


def machine_of(plan: Plan) -> str:
    """Return what a result holds for: this processor and its threads, or a described machine and its file's hash."""
    if plan.backend.where == "native":
        return f"{environment_facts().get('cpu', '')}, {cores()} threads"
    name = plan.machine.name
    return f"{name} {assets.find(f'configs/machines/{name}.yaml').sha}"


def load_target_mapping(
    backend: Backend, arch: str, given: Path | None
) -> ExplicitMapping | Policy:
    """Return the mapping file the user gave, else the target's policy.

    The policy of `<backend>.<arch>.mapping.yaml` wins over `<backend>.mapping.yaml`.

    Raises:
        MappingError: from the file; M016, it is for another target.
    """
    if given is not None:
        return for_backend(load_mapping(given), backend)
    for name in (
        f"mappings/{backend.name}.{arch}.mapping.yaml",
        f"mappings/{backend.name}.mapping.yaml",
    ):
        if assets.exists(name):
            return for_backend(load_mapping(assets.find(name).path), backend)
    asset = assets.find(f"mappings/{backend.name}.mapping.yaml")
    raise AssertionError(asset)


def for_backend(mapping: ExplicitMapping | Policy, backend: Backend) -> ExplicitMapping | Policy:
    """Return `mapping`; raises MappingError M016 when its `target:` is another backend."""
    if mapping.target and mapping.target != backend.name:
        raise MappingError.of(
            "M016",
            f"{mapping.file} is a mapping for {mapping.target}, not {backend.name}",
            mapping.target_span,
            help=f"use --backend {mapping.target}, or another mapping",
        )
    return mapping


def operator_of(request: GenRequest) -> tuple[Operator, Logic]:
    """Return the operator that --op, --task or --logic names, with the logic it comes from.

    Raises:
        ConfigError: C044 unknown operator, C133 the logic file names no or several operators.
    """
    if request.task_file is not None:
        from septran.plan.task_file import load_task_file

        return load_task_file(request.task_file, opaque=request.opaque)  # type: ignore[arg-type]
    if request.logic is not None:
        logic = load_logic(request.logic)
        if len(logic.operators) == 1:
            return next(iter(logic.operators.values())), logic
        if not logic.operators:
            from septran.plan.torch_module import load_written

            written = load_written(request.logic)
            if written is not None:
                return written
            raise ConfigError.of(
                "C133",
                f"{request.logic} defines no task.Operator, so shapes and reference are unknown",
                help="add OPERATORS = (task.Operator(...),) as docs/tutorial.md shows, or call "
                "septran.compile(logic_file=...) from Python with tensors",
            )
        raise ConfigError.of(
            "C133",
            f"{request.logic} defines {len(logic.operators)} operators: "
            f"{', '.join(logic.operators)}",
            help="keep one operator in a file given with --logic",
        )
    assert request.op is not None
    logic = catalog.shipped(catalog.op_file(request.op))
    return logic.operators[request.op], logic


def _dtype(asked: str | None, operator: Operator, backend: Backend) -> str:
    if asked is None:
        for dtype in operator.dtypes:
            if dtype in backend.dtypes:
                return dtype
        raise ConfigError.of(
            "C132",
            f"{operator.name} is defined for {', '.join(operator.dtypes)}; "
            f"{backend.name} has {', '.join(backend.dtypes)}",
        )
    why = dict(backend.lacks).get(asked)
    for who, known, reason in (
        (operator.name, operator.dtypes, None),
        (backend.name, backend.dtypes, why),
    ):
        if asked not in known:
            # a dtype that exists is meant, however near another's name is
            more = f": {reason}" if reason else "" if asked in DTYPES else closest(asked, known)
            raise ConfigError.of(
                "C132", f"{who} has no dtype {asked!r}{more}", help=f"it has {', '.join(known)}"
            )
    return asked


def lower_plan(plan: Plan, dims: Mapping[str, int] | None = None) -> Lowered:
    """Return the Program of a plan at `dims` (default: the plan's) after the backend's passes.

    Raises:
        TaskLangError, MappingError: the user's mistakes.
    """
    if plan.dynamic:
        from septran.plan.dynamic import lower_dynamic

        return lower_dynamic(plan)
    return lower_sized(plan, dims)
