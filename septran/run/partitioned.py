"""`septran gen --task FILE --fallback torch`, or `--prepare`: a module of which torch computes what cannot be a kernel, or weights once.

Each part that became kernels goes the straight line by itself, in a folder of the run; then all steps are judged together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from septran import backends
from septran.aten.graph import Graph
from septran.aten.open_graph import OpenGraph
from septran.errors import ConfigError
from septran.frontend.capture import capture_open
from septran.frontend.partition import HostPart
from septran.plan.floor import library_leaves
from septran.plan.partitioned import Made, describe, partitioned, prepared, told
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, Plan, lower_plan, resolve_operator
from septran.plan.torch_module import Imported, load_imported
from septran.run import store
from septran.run.one import Progress, line, open_run, recorded
from septran.run.require import exit_code
from septran.run.result import ABSENT, Absent, Result
from septran.settings import Settings
from septran.trial.partitioned import Trial, judge_partitioned, whole_of
from septran.trial.place import place_in
from septran.verify.verdict import Verdict

PROGRAM = "program.txt"
"""The steps of a module in a run's folder, for people."""
_Part = Made[Plan] | HostPart


def gen_partitioned(
    request: GenRequest, *, settings: Settings, progress: Progress, into: Path | None
) -> Result | None:
    """Return what is known of the module's steps, None where no part of it has to stay torch's.

    Raises:
        ConfigError: C008, constants are to be prepared and sizes stay open; C150, C152, nobody could judge what torch would have to compute; else as `gen`.
    """
    assert request.task_file is not None
    graph = capture_open(request.task_file)
    if isinstance(graph, OpenGraph):
        if request.prepare:
            raise ConfigError.of(
                "C008",
                f"--prepare and the open sizes of {request.task_file} exclude each other",
                help="leave out --prepare, or the file's get_dynamic_shapes",
            )
        return None
    steps = _steps(request, graph)
    if request.prepare and not any(isinstance(s, HostPart) and s.once for s in steps):
        progress(
            "nothing to prepare: no weight is computed with, and no table made, before an input is read"
        )
    if not any(isinstance(s, HostPart) for s in steps):
        return None
    found, operator = whole_of(graph)
    logic = load_imported(found)[1]
    plan = resolve_operator(request, operator, logic)
    run = open_run(request, plan, settings, into)
    with recorded(run, progress), run.held():
        return _run(request, plan, graph, steps, run, settings=settings, progress=progress)


def _steps(request: GenRequest, graph: Graph) -> tuple[_Part, ...]:
    make = _planner(request)
    if request.prepare:
        columns = backends.get(request.backend).columns
        found = prepared(graph, make, split=bool(request.fallback), columns=columns)
        if found is not None:
            return found
    return partitioned(graph, make) if request.fallback else ()


def _planner(request: GenRequest) -> Callable[[Imported], Plan]:
    def make(found: Imported) -> Plan:
        operator, logic = load_imported(found)
        plan = resolve_operator(replace(request, dims={}, dtype=None), operator, logic)
        lowered = lower_plan(plan)  # what the target refuses is said here
        library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
        return plan

    return make


def _run(
    request: GenRequest,
    plan: Plan,
    graph: Graph,
    steps: Sequence[_Part],
    run: store.Run,
    *,
    settings: Settings,
    progress: Progress,
) -> Result:
    start = time.perf_counter()
    run.write(PROGRAM, _program(graph, steps))
    for part in steps:
        if isinstance(part, HostPart):
            progress(f"torch {'prepares' if part.once else 'computes'} {told(part, graph.file)}")
    trials: list[Trial | HostPart] = []
    results: list[Result] = []
    for part in steps:
        if isinstance(part, HostPart):
            trials.append(part)
            continue
        own = replace(request, output=None, require=(), fallback="", prepare=False, resume=None)
        found, judged = line(
            own,
            part.made,
            settings=settings,
            progress=progress,
            into=run.dir / "parts",
            timed=False,
        )
        results.append(found)
        if judged is not None:
            lowered = lower_plan(part.made)
            problem = problem_of(part.made, lowered.program, part.made.dims)
            trials.append(Trial(imported=part.imported, problem=problem, judged=judged))
    result = _joined(Result.of_plan(plan), results, steps, run)
    if len(trials) < len(steps):  # stopped before a verdict
        result = replace(result, level=results[0].level, where=None)
        code = 0
    else:
        progress("verifying the whole against the module")
        place = place_in(settings, plan.backend, plan.arch, request.where)
        work = run.dir / "whole"
        verdict = judge_partitioned(place, graph, trials, work=work, seed=request.seed)
        result = result.with_verdict(verdict).with_timing(None)
        blamed = (r.culprit for r in results if not isinstance(r.culprit, Absent))
        result = replace(result, culprit=next(blamed, ABSENT))
        result, code = _required(result, verdict, request.require)
    seconds = {"steps": round(time.perf_counter() - start, 3)}
    result = replace(result, exit_code=code, seconds=seconds, run=str(run.dir))
    data = result.to_json()
    run.write_sealed("result.json", data)
    summary = {n: data.get(n) for n in ("level", "where", "max_error")}
    run.finish("finished", exit_code=code, summary={**summary, "torch_eager": None})
    return result


def _joined(
    result: Result, results: Sequence[Result], steps: Sequence[_Part], run: store.Run
) -> Result:
    """Return what is known of all parts together: their leaves, the model's cost, and what torch computes."""
    leaves = [leaf for r in results if not isinstance(r.leaves, Absent) for leaf in r.leaves]
    total: dict[str, Any] = {}
    for one in (r.model for r in results if not isinstance(r.model, Absent)):
        for key, value in one.items():
            known = total.get(key)
            total[key] = (
                value
                if known is None or isinstance(value, bool) or value is None
                else known + value
            )
    return replace(
        result,
        leaves=leaves,
        model=total or ABSENT,
        host_leaves=[describe(s) for s in steps if isinstance(s, HostPart)],
        parts=[str(r.kernel) for r in results if not isinstance(r.kernel, Absent)],
        kernel=str(run.dir / PROGRAM),
    )


def _required(result: Result, verdict: Verdict, require: tuple[str, ...]) -> tuple[Result, int]:
    code = exit_code(verdict, require)
    if code == 0 and "proved" in require:
        return replace(
            result, reason="nothing is proven of what torch computes, once or at each call"
        ), 3
    return result, code


def _program(graph: Graph, steps: Sequence[_Part]) -> str:
    """Return the steps as text: the kernels' logic, and the graph of what torch computes."""
    from septran.aten.text import graph_text

    found = [f"# {Path(graph.file).name}: kernels and parts that torch computes, in order\n"]
    for number, part in enumerate(steps, 1):
        if isinstance(part, HostPart):
            found.append(
                f"# step {number}, {'once' if part.once else 'torch'}: {told(part, graph.file)}"
            )
            found.append(graph_text(part.graph))
        else:
            found.append(f"# step {number}, kernels")
            found.append(part.imported.text)
    return "\n".join(found)
