"""python -m tests.verify.draws [--count N] [--seed S] [--families A,B] [--backend B] [--minutes M] WHAT ...: rare false verdicts.

A verdict draws each family of inputs once, so what is wrong for one draw in a hundred shows once in a hundred verdicts. Here one
kernel, built once, is asked many draws of each family. WHAT: an operator (`softmax`, `softmax/float16`, `operators` for all), a table of
modules of tests/frontend (`more_rows`, `tables` for all), or one of its modules (`more_rows:median`). One line per family
that was refused: how often, and the smallest draw; exit status 1 when there is one.
"""

from __future__ import annotations

import argparse
import importlib
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septran.accuracy import load_policy
from septran.backends import get
from septran.call.export import export
from septran.errors import SeptranError
from septran.ir.dtypes import is_float
from septran.kernel import Kernel
from septran.plan.floor import library_leaves
from septran.plan.problem import problem_of
from septran.plan.torch_module import Imported, imported, load_imported
from septran.tasklang.load import Logic
from septran.tasklang.oracle import run_oracle
from septran.trial.place import place_of
from septran.verify import budget, judge
from septran.verify.cases import Case, draw, draws, tensors
from septran.verify.families import FAMILIES
from septran.verify.known import compared
from septran.verify.problem import Problem
from septran.verify.session import Call, Ran
from septran.verify.verify import Request, verify
from tests.attacks import families
from tests.frontend.calls import Call as Module_
from tests.frontend.importing import graph_of, tunables_of
from tests.frontend.modules import Module
from tests.frontend.planning import planned
from tests.verify.alarms import loaded, stored
from tests.verify.honest import BACKENDS, OPERATORS, emitted

if TYPE_CHECKING:
    from septran.aten.graph import Graph

LOGIC = "logic"
"""the target that is no target: what is written, as torch runs it"""
NAMES = tuple(f.name for f in FAMILIES)
LIVE = ("more_rows", "places", "middles", "special", "spectral")
"""test_NAME.CASES: name -> (function or module, its inputs or a tensor's shape)"""
FILES = {
    "rows": ("modules", "ROWS"),
    "pointwise": ("modules", "POINTWISE"),
    "products": ("modules", "PRODUCTS"),
    "attention": ("modules", "ATTENTION"),
    "windows": ("modules", "WINDOWS"),
    "layouts": ("modules", "LAYOUTS"),
    "recurrent": ("modules", "RECURRENT"),
    "convolutions": ("modules", "CONVOLUTIONS"),
    "families": ("families", "FAMILIES"),
    "made_here": ("test_made_here", "CASES"),
    "fused": ("fused", "FUSED"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is drawn. count: of each family; names: of the families."""

    count: int = 50
    seed: int = 1
    names: tuple[str, ...] = NAMES
    backend: str = "cpp"


@dataclass(slots=True)
class Counts:
    """Kernels, draws, refused draws, and kernels that there are not."""

    kernels: int = 0
    draws: int = 0
    refused: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The draws of a family that were refused. smallest: what one of them holds."""

    family: str
    wrong: int
    draws: int
    why: str
    smallest: str = ""

    def __str__(self) -> str:
        return f"{self.family}: {self.wrong} of {self.draws}: {self.why}{self.smallest}"


Ask = Callable[[tuple[Case, ...]], tuple[list[Case], str]]
"""cases -> those that were refused, and why"""
Made = Callable[[Path], tuple[Problem, Ask]]
"""a folder to build in -> what is asked, and whom"""


def refused(problem: Problem, ask: Ask, asked: Asked, counts: Counts) -> Iterator[Refused]:
    """Yield the families of which results were refused."""
    for name in asked.names:
        cases = draws(problem, name, max(asked.count, 2), asked.seed)
        if len(cases) < 2:
            continue
        counts.draws += len(cases)
        wrong, why = ask(cases)
        counts.refused += len(wrong)
        if wrong:
            shown = _smallest(problem, wrong)
            yield Refused(family=name, wrong=len(wrong), draws=len(cases), why=why, smallest=shown)


def _asking(kernel: Kernel, problem: Problem, folder: Path) -> tuple[Problem, Ask]:
    if get(kernel.backend).where != "native":
        return problem, _confined(kernel, problem, folder)
    return problem, compares(problem, loaded(kernel, problem, folder / "build"))


def compares(problem: Problem, run: Callable[[Mapping[str, Any]], Mapping[str, bytes]]) -> Ask:
    """Return what asks in this process and compares numbers alone, which takes milliseconds."""
    policy = load_policy()

    def ask(cases: tuple[Case, ...]) -> tuple[list[Case], str]:
        wrong, why = [], ""
        for case in cases:
            call = Call(case=case, placement="end")
            ran = Ran(
                call=call, outputs=run(draw(problem, case)), beside=(), seconds=0.0, claims={}
            )
            with budget.threads(1):
                _, _, found = compared(problem, ran, policy, {})
            for name, _, one in found:
                if one.wrong:
                    what = f"{name}: {one.wrong} of {one.elements}, {one.got} for {one.wanted} within {one.allowed:.3g}"
                    why = why or f"{what} (seed {case.seed}, {case.target})"
            if any(one.wrong for _, _, one in found):
                wrong.append(case)
        return wrong, why

    return ask


def _confined(kernel: Kernel, problem: Problem, folder: Path) -> Ask:
    """Return what asks for a verdict on all cases at once."""
    backend = get(kernel.backend)
    built = families.build(BACKENDS[backend.name], kernel, folder / "build")
    place = place_of(backend, kernel.arch, "emulated", 2)
    sessions = replace(place.sessions, budget_s=600.0, minimum_calls=10**6)

    def ask(cases: tuple[Case, ...]) -> tuple[list[Case], str]:
        request = Request(
            where=backend.where, language=backend.language, seed=1, sessions=sessions, cases=cases
        )
        verdict = verify(kernel, built, problem, run_dir=folder / cases[0].name, request=request)
        if verdict.passed:
            return [], ""
        names = {c.case for c in verdict.cases if c.wrong}
        wrong = [c for c in cases if c.name in names]
        return wrong or list(cases), f"[{verdict.code}] {verdict.message}"

    return ask


def _smallest(problem: Problem, wrong: list[Case]) -> str:
    """Return the inputs of the refused draw with the fewest values that are no ordinary numbers, where they are small."""
    import numpy as np

    drawn = [draw(problem, c) for c in wrong]

    def odd(arrays: Mapping[str, Any]) -> int:
        floats = [a.astype(float) for a in arrays.values() if a.dtype.kind not in "iub"]
        return sum(int((~np.isfinite(a) | (a == 0)).sum()) for a in floats)

    least = min(drawn, key=odd)
    shown = [f"{n} = {a.tolist()}" for n, a in least.items() if a.size <= 24]
    return "".join(f"\n    {line}" for line in shown)


def operators(what: str, asked: Asked) -> Iterator[tuple[str, Made]]:
    """Yield (name, who is asked) of an operator or all."""
    op, _, dtype = what.partition("/")
    backend, dtype = get("cpp" if asked.backend == LOGIC else asked.backend), dtype or "float32"
    for name in OPERATORS if op == "operators" else (op,):

        def made(folder: Path, name: str = name) -> tuple[Problem, Ask]:
            return _asking(*emitted(backend, name, dtype, _small(OPERATORS[name])), folder)

        yield f"{name}/{dtype}", made


def _small(dims: Mapping[str, int]) -> dict[str, int]:
    """Return sizes that divide nothing and are quickly computed."""
    return {name: min(size, 131) for name, size in dims.items()}


def modules(what: str, asked: Asked) -> Iterator[tuple[str, Made]]:
    """Yield (name, who is asked) of the modules of a table, or of one."""
    table, _, only = what.partition(":")
    if table == "tables":
        for one in (*LIVE, *FILES):
            yield from modules(one, asked)
        return
    for name, graph in _graphs(table):
        if only in ("", name):

            def made(folder: Path, graph: Callable[[], Graph] = graph) -> tuple[Problem, Ask]:
                return _of_graph(graph(), asked.backend, folder)

            yield f"{table}:{name}", made


def _graphs(table: str) -> Iterator[tuple[str, Callable[[], Graph]]]:
    import torch

    if table in LIVE:
        cases = importlib.import_module(f"tests.frontend.test_{table}").CASES
        for name, (fn, given) in cases.items():
            module = fn if isinstance(fn, torch.nn.Module) else Module_(fn)
            if isinstance(given, torch.Tensor):
                given = (given,)
            elif given and isinstance(given[0], int):
                given = (torch.randn(*given),)
            yield name, lambda m=module, g=given: export(m, g, {}, mode="eval")[0]
        return
    file, variable = FILES[table]
    found: tuple[Module, ...] = getattr(importlib.import_module(f"tests.frontend.{file}"), variable)
    for one in found:
        yield one.name, lambda one=one: _of_file(one)


def _of_file(module: Module) -> Graph:
    with tempfile.TemporaryDirectory() as folder:
        return graph_of(module.write(Path(folder)))


def _of_graph(graph: Graph, target: str, folder: Path) -> tuple[Problem, Ask]:
    found = imported(graph)
    operator, logic = load_imported(found)
    plan, lowered = planned((operator, logic), "cpp" if target == LOGIC else target)
    problem = problem_of(plan, lowered.program, {})
    if target == LOGIC:
        return problem, compares(problem, _of_logic(found, problem, logic))
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    return _asking(plan.backend.emit(lowered.program, leaves), problem, folder)


def _of_logic(
    found: Imported, problem: Problem, logic: Logic
) -> Callable[[Mapping[str, Any]], Mapping[str, bytes]]:
    """Return the written logic as torch runs it, what its formulas say without any compiler."""
    import torch

    task, tunables = logic.task(found.written.entry), dict.fromkeys(tunables_of(found.text), 4096)

    def run(arrays: Mapping[str, Any]) -> Mapping[str, bytes]:
        given = tensors(arrays)
        for p in problem.outputs:
            wide = torch.float64 if is_float(p.dtype) else judge.torch_dtype(p.dtype)
            given[p.name] = torch.zeros(p.shape, dtype=wide)
        args = tuple(given[name] for name, _, _ in found.written.params)
        run_oracle(task, args, tunables)
        outs = problem.outputs
        return {p.name: stored(given[p.name].to(judge.torch_dtype(p.dtype))) for p in outs}

    return run


def tried(name: str, made: Made, asked: Asked, counts: Counts) -> None:
    """Ask one kernel all draws, and print what is refused."""
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            problem, ask = made(Path(place))
            counts.kernels += 1
            for one in refused(problem, ask, asked, counts):
                print(f"{asked.backend} {name} {one}", flush=True)
        except SeptranError as error:
            counts.skipped += 1
            print(f"skipped {name}: {str(error).splitlines()[0]}", flush=True)


def main() -> int:
    """Ask what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--families", default=",".join(NAMES))
    parser.add_argument("--backend", default="cpp", choices=[*BACKENDS, LOGIC])
    parser.add_argument("--minutes", type=float, default=1e6)
    parser.add_argument("--share", default="0/1", help="every Nth kernel: which/N")
    parser.add_argument("what", nargs="+")
    args = parser.parse_args()
    asked = Asked(
        count=args.count,
        seed=args.seed,
        names=tuple(args.families.split(",")),
        backend=args.backend,
    )
    counts, begun = Counts(), time.monotonic()
    which, of = map(int, args.share.split("/"))
    number = 0
    for what in args.what:
        is_op = what.partition("/")[0] in (*OPERATORS, "operators")
        for name, made in (operators if is_op else modules)(what, asked):
            number += 1
            if number % of != which:
                continue
            if time.monotonic() - begun > 60 * args.minutes:
                counts.skipped += 1
                continue
            tried(name, made, asked, counts)
    minutes = (time.monotonic() - begun) / 60
    print(
        f"{counts.kernels} kernels, {counts.draws} draws: {counts.refused} refused; "
        f"{counts.skipped} skipped ({minutes:.1f} min)"
    )
    return 1 if counts.refused else 0


if __name__ == "__main__":
    raise SystemExit(main())
