"""The verdict on a module of which torch computes a part: its kernels, each judged before, and torch's parts, as one program."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from septran.aten.graph import Graph, Ref
from septran.frontend.partition import HostPart
from septran.ir.dtypes import HALVES
from septran.kernel import KernelParam, content_hash
from septran.outcome import Level, Status
from septran.plan.partitioned import run_part, told
from septran.plan.torch_module import Imported, imported, load_imported
from septran.tasklang.operator import Operator
from septran.trial.judge import Judged
from septran.trial.place import Place
from septran.verify.problem import Problem
from septran.verify.steps import KernelStep, TorchStep, verify_steps
from septran.verify.verdict import Verdict, write_evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A part that became kernels: its import, its problem, and the verdict on it."""

    imported: Imported
    problem: Problem
    judged: Judged


def whole_of(graph: Graph) -> tuple[Imported, Operator]:
    """Return a module as one operator, whoever computes its parts; raises ConfigError C150, C152."""
    found = imported(graph, "nodes")
    return found, load_imported(found)[0]


def judge_partitioned(
    place: Place,
    graph: Graph,
    steps: Sequence[Trial | HostPart],
    *,
    work: Path,
    seed: int | None = None,
) -> Verdict:
    """Return the verdict on the steps of a module against the module in float64, and leave it in `work`.

    A kernel that failed alone is the verdict. It is `accurate` at most, never `attested`: torch's own parts are taken as they are.
    """
    trials = [s for s in steps if isinstance(s, Trial)]
    failed = next((t.judged.verdict for t in trials if not t.judged.verdict.passed), None)
    if failed is not None:
        return failed
    found, operator = whole_of(graph)
    parts = [s for s in steps if isinstance(s, HostPart)]
    problem, names = _problem(found, operator, parts)
    by_torch = "; ".join(told(p, graph.file) for p in parts if not p.once)
    once = "; ".join(told(p, graph.file) for p in parts if p.once)
    notes = dict.fromkeys(n for t in trials for n in t.judged.verdict.not_checked)
    text = [t.judged.kernel.sha for t in trials] + [str(p.graph.to_json()) for p in parts]
    base = Verdict(
        level=Level.COMPILED,
        status=Status.RUNTIME_ERROR,
        where=place.where,
        kernel=operator.name,
        kernel_sha=content_hash(text),
        backend=place.backend.name,
        arch=place.arch,
        seed=secrets.randbits(62) if seed is None else seed,
        not_checked=(*notes, *([f"computed by torch, no kernel: {by_torch}"] if by_torch else ())),
        enforced=tuple(dict.fromkeys(n for t in trials for n in t.judged.verdict.enforced)),
        environment=trials[0].judged.verdict.environment if trials else {},
    )
    work.mkdir(parents=True, exist_ok=True)
    verdict = verify_steps(base, problem, names, [_step(s) for s in steps], work=work)
    if verdict.passed:
        said = [f"torch computes {by_torch}"] if by_torch else []
        said += [f"judged with what torch prepares once: {once}"] if once else []
        verdict = replace(verdict, message="; ".join(["accurate", *said]))
    write_evidence(verdict, work, files={})
    return verdict


def _step(one: Trial | HostPart) -> KernelStep | TorchStep:
    if isinstance(one, HostPart):
        return TorchStep(reads=tuple(i.name for i in one.graph.inputs), run=partial(run_part, one))
    return KernelStep(
        kernel=one.judged.kernel,
        built=one.judged.built,
        problem=one.problem,
        names=names_of(one.imported),
        sessions=one.judged.sessions,
    )


def names_of(found: Imported) -> dict[str, str]:
    """Return parameter of an import's logic -> the value of the graph that it is."""
    made = (o.value.name for o in found.graph.outputs if isinstance(o.value, Ref))
    return found.origins() | dict(zip(found.written.outputs, made, strict=True))


def _problem(
    found: Imported, operator: Operator, parts: Sequence[HostPart]
) -> tuple[Problem, dict[str, str]]:
    """Return what the steps compute together; halves are rounded where torch hands them over, as torch itself does."""
    params = tuple(
        KernelParam(name=n, shape=s, dtype=d, privilege="w" if n in operator.outputs else "r")
        for n, s, d in found.written.params
    )
    half = any(p.dtype in HALVES for p in params)
    reference = operator.reference
    if half:
        given = sum(len(p.graph.inputs) + len(p.graph.outputs) for p in parts)
        reference = replace(reference, storage_roundings=given)
    problem = Problem(
        name=operator.name,
        params=params,
        reference=reference,
        domains=dict(operator.domains),
        samples=dict(operator.samples),
    )
    return problem, names_of(found)
