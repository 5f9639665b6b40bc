"""The judge a leaf writer asks: the leaf alone first, then inside the kernel, then the clock."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from septran.agent.figures import (
    LOOP_CYCLES,
    TILE_CYCLES,
    cycle_figures,
    told_figures,
    with_resident,
)
from septran.agent.writer import LeafVerdict
from septran.backends.base import Built, TileCost
from septran.errors import EnvironmentProblem, SeptranError
from septran.ir.nodes import Program
from septran.kernel import Kernel, Leaf, LeafSpec, leaf_specs
from septran.leafgate import Refusal
from septran.machine import load_machine
from septran.outcome import Level, Status
from septran.passes.run import lower
from septran.plan.floor import admitted
from septran.plan.predicted import threads_of
from septran.predict.predict import predict
from septran.predict.prediction import summary
from septran.trial.judge import Judged, build_only, judge_kernel
from septran.trial.leaf_case import (
    LeafCase,
    as_in_the_kernel,
    leaf_cases,
    unused_operands,
    without_steps,
)
from septran.trial.place import Place
from septran.trial.static_figures import static_figures
from septran.verify.gate import scan_leaf
from septran.verify.noted import counted_accesses
from septran.verify.pairs import Pairs
from septran.verify.problem import Problem, Within
from septran.verify.timing import Timing, compare_kernels, race, time_kernel
from septran.verify.verdict import Verdict
from septran.verify.warp_accesses import figures as warp_figures
from septran.verify.warp_accesses import told as told_accesses

IN_KERNEL = "in the kernel"
_CYCLE_S = 1e-9  # a simulator's cycles are compared as if a cycle took a nanosecond


class LeafJudge:
    """Judges leaves of one kernel. `leaves` are the other leaves the kernel is built with."""

    def __init__(
        self,
        place: Place,
        program: Program,
        problem: Problem,
        leaves: Mapping[str, Leaf],
        *,
        work: Path,
        seed: int | None = None,
    ) -> None:
        """`place`: where kernels run. `work`: folder for builds and evidence. `seed`: of the secret inputs."""
        self._seed = seed
        self._place = place
        self._backend = place.backend
        self._program = program
        self._problem = problem
        self._leaves = dict(leaves)
        self._work = work
        self._count = itertools.count(1)
        self._baseline: Judged | None = None
        self._floor: dict[str, dict[str, float]] = {}
        self._counted: Mapping[str, Any] | None = None
        self._mine: dict[str, Judged] = {}
        self._costs: dict[str, TileCost] = {}

    def check(self, leaf: Leaf) -> LeafVerdict:
        """Return the verdict on `leaf`; never raises for a bad leaf."""
        folder = self._work / f"{next(self._count):03d}-{leaf.sha}"
        found: LeafVerdict | None = None
        refused = scan_leaf(leaf) if leaf.writer != "library" else ()
        if refused:
            return LeafVerdict(level=Level.REJECTED, status="rejected", message=str(refused[0]))
        try:
            for number, case in enumerate(self._cases(leaf.spec)):
                verdict = self._alone(leaf, case, folder / f"alone{number}")
                found = leaf_verdict(verdict, _alone(case))
                if not verdict.passed:
                    return found
            if found is not None and self._missing(leaf):
                return found
            return self._inside(leaf, folder / "kernel")
        except SeptranError as e:
            if isinstance(e, EnvironmentProblem):
                return LeafVerdict(level=Level.UNAVAILABLE, status="unavailable", message=str(e))
            return LeafVerdict(level=Level.EMITTED, status="compile_error", message=str(e))

    def verdicts(self, leaf: Leaf) -> Iterator[tuple[str, Verdict]]:
        """Yield (place, verdict) of the leaf alone on each of its cases, then in the kernel; a failure is the last.

        Raises:
            SeptranError: the kernel cannot be printed or built with this leaf.
        """
        folder = self._work / leaf.sha
        for number, case in enumerate(self._cases(leaf.spec)):
            verdict = self._alone(leaf, case, folder / f"alone{number}")
            yield _alone(case), verdict
            if not verdict.passed:
                return
        self._mine[leaf.sha] = mine = self._judged(self._kernel(leaf), folder / "kernel")
        yield IN_KERNEL, mine.verdict

    def program_at(self, spec: LeafSpec, place: str) -> Program:
        """Return the Program that a verdict of `verdicts` is on, by its place."""
        return next((c.program for c in self._cases(spec) if _alone(c) == place), self._program)

    def figures(self, leaf: Leaf | None, spec: LeafSpec) -> dict[str, float]:
        """Return what can be said without a clock of the kernel with a leaf that `verdicts` judged; None: with the library's.

        A simulator's cycles, static figures of what was built, what the accesses of warps take of memory.
        """
        if leaf is None:
            return {**self._library_figures(self._place.where, spec), **self._library_cycles()}
        mine = self._mine[leaf.sha]
        found = self._figures(mine.built, mine.verdict.where, mine.kernel, spec)
        return {
            **found,
            **warp_figures(mine.verdict.accesses),
            **cycle_figures(mine.verdict.cycles),
        }

    def race(self, leaf: Leaf) -> tuple[Pairs | None, Timing | None]:
        """Return the calls of the kernel with a leaf that `verdicts` found right against those with the library's, in alternating slots, and its timing against torch.

        None: it could not be timed here, or there is no library's leaf.
        """
        mine, library = self._mine[leaf.sha], None
        timed = time_kernel(mine.kernel, mine.built, self._problem, sessions=mine.sessions)
        if timed is None:
            return None, None
        if leaf.spec.key in self._leaves:
            library = self._with_library()
        if library is None or not library.verdict.passed:
            return None, timed
        sessions = replace(mine.sessions, threads=timed.threads)
        one, two = (mine.kernel, mine.built), (library.kernel, library.built)
        return race(one, two, self._problem, sessions=sessions), timed

    def library(self, spec: LeafSpec) -> str:
        """Return what is known of the kernel with the library's leaf: time or cycles, static figures, the prediction.

        "" for a kernel with an opaque leaf that is still to be written; what a missing compiler or device hides is left out.
        """
        if any(s.opaque and s.key not in self._leaves for _, s in leaf_specs(self._program)):
            return ""
        told = []
        with contextlib.suppress(SeptranError):
            told += [
                self._library_time(),
                told_figures(self._library_figures(self._place.where, spec), {}),
                self._bound(self._kernel(None), spec),
                _told_accesses(self._counted or {}),
            ]
        with contextlib.suppress(SeptranError):
            told.append(self._prediction(self._kernel(None)))
        return "; ".join(t for t in told if t)

    def _library_time(self) -> str:
        """Return what a clock or a simulator says of the kernel with the library's leaf, "" where there is neither."""
        if self._place.where == "emulated" and self._backend.figures is None:
            return ""
        found = self._with_library()
        if not found.verdict.passed:
            return ""
        counted = int(found.verdict.cycles.get("total", 0))
        if counted:
            return f"{counted:,} cycles in the simulator"
        timed = time_kernel(found.kernel, found.built, self._problem, sessions=found.sessions)
        if timed is None:
            return ""
        threads = f"{timed.threads} thread{'s' if timed.threads > 1 else ''}"
        return f"{1e6 * timed.kernel_s:.3g} us a call, measured here on {threads}"

    def alone(self, leaf: Leaf) -> LeafVerdict | None:
        """Return the first verdict on the leaf alone that is not right, else the last one."""
        folder = self._work / f"{next(self._count):03d}-{leaf.sha}"
        found: LeafVerdict | None = None
        for number, case in enumerate(self._cases(leaf.spec)):
            verdict = self._alone(leaf, case, folder / f"alone{number}")
            found = leaf_verdict(verdict, _alone(case))
            if not verdict.passed:
                break
        return found

    def _cases(self, spec: LeafSpec) -> tuple[LeafCase, ...]:
        """Return what a leaf is judged on alone: any values, or for an opaque leaf what its module hands to it.

        What an opaque leaf is given may be special (a matrix that is positive definite), and only the module says how.
        """
        cases = _cases_of(spec, self._program.machine)
        if not spec.opaque:
            return cases
        given = self._problem.reference.operands.get(spec.task)
        if given is None:
            return ()
        names = next(p.ins for p in spec.prims if p.name == "extern")
        within = Within(problem=self._problem, given=given, names=names)
        return tuple(replace(c, problem=replace(c.problem, within=within)) for c in cases)

    def _missing(self, leaf: Leaf) -> bool:
        """Return whether another leaf of the kernel is still to be written, so that it cannot be built."""
        have = {*self._leaves, leaf.spec.key}
        return any(s.key not in have and s.opaque for _, s in leaf_specs(self._program))

    def _alone(self, leaf: Leaf, case: LeafCase, folder: Path) -> Verdict:
        unused = unused_operands(self._program, leaf.spec)
        lowered = lower(case.program, self._backend.passes)
        program = without_steps(as_in_the_kernel(lowered, leaf.spec), unused)
        specs = [spec for _, spec in leaf_specs(program)]
        assert len(specs) == 1, "a leaf program has one leaf"
        spec = specs[0]
        renamed = replace(
            leaf, spec=spec, source=leaf.source.replace(leaf.spec.symbol, spec.symbol)
        )
        if leaf.writer != "library":  # the comments of a signature may differ
            with contextlib.suppress(Refusal):
                renamed = admitted(renamed, self._backend)
        kernel = self._backend.emit(program, {spec.key: renamed})
        return judge_kernel(
            self._place,
            kernel,
            replace(case.problem, unused=unused, flushes=self._problem.flushes),
            work=folder,
            seed=self._seed,
        ).verdict

    def _judged(self, kernel: Kernel, folder: Path) -> Judged:
        suspect = any(leaf.writer != "library" for leaf in kernel.leaves)
        return judge_kernel(
            self._place, kernel, self._problem, work=folder, seed=self._seed, suspect=suspect
        )

    def _kernel(self, leaf: Leaf | None) -> Kernel:
        leaves = dict(self._leaves)
        if leaf is not None:
            leaves[leaf.spec.key] = leaf
        return self._backend.emit(self._program, leaves)

    def _prediction(self, kernel: Kernel) -> str:
        """Return what is predicted of the kernel's Program, whatever its leaves' bodies are; "" when nothing is."""
        leaves = {leaf.spec.key: leaf for leaf in kernel.leaves}
        finished = self._backend.finished(self._program, leaves, check=False)
        machine = load_machine(finished.machine)
        return summary(predict(finished, machine, threads=threads_of(machine), between=0))

    def _inside(self, leaf: Leaf, folder: Path) -> LeafVerdict:
        mine = self._judged(self._kernel(leaf), folder)
        found = leaf_verdict(mine.verdict, IN_KERNEL)
        counted = int(mine.verdict.cycles.get("total", 0))
        if mine.verdict.passed:
            found = self._with_figures(found, mine, leaf)
        if not mine.verdict.passed:
            return found
        if mine.verdict.where == "emulated" and not counted:
            return replace(found, predicted=self._prediction(mine.kernel))
        if self._baseline is None and leaf.spec.opaque:
            self._baseline = (
                mine  # there is no library's: later leaves are compared with the first right one
            )
            return found
        baseline = self._with_library()
        if not baseline.verdict.passed:
            return found
        if counted:
            library = int(baseline.verdict.cycles.get("total", 0))
            return replace(
                found,
                seconds=_CYCLE_S * counted,
                baseline_seconds=_CYCLE_S * library or None,
                figures={**found.figures, **cycle_figures(mine.verdict.cycles)},
                baseline_figures={
                    **found.baseline_figures,
                    **cycle_figures(baseline.verdict.cycles),
                },
            )
        times = compare_kernels(
            (mine.kernel, mine.built),
            (baseline.kernel, baseline.built),
            self._problem,
            sessions=mine.sessions,
        )
        if times is None:
            return found
        return replace(found, seconds=times[0], baseline_seconds=times[1])

    def _with_figures(self, found: LeafVerdict, mine: Judged, leaf: Leaf) -> LeafVerdict:
        """Return the verdict with what can be said without a clock, beside the library's."""
        where = mine.verdict.where
        figures = self._figures(mine.built, where, mine.kernel, leaf.spec)
        figures |= warp_figures(mine.verdict.accesses)
        found = replace(found, figures=figures, accesses=_told_accesses(mine.verdict.accesses))
        found = replace(found, bound=self._bound(mine.kernel, leaf.spec))
        if not figures or leaf.spec.opaque:
            return found
        return replace(found, baseline_figures=self._library_figures(where, leaf.spec))

    def _library_figures(self, where: str | None, spec: LeafSpec) -> dict[str, float]:
        if spec.key not in self._floor:
            kernel = self._kernel(None)
            built = build_only(self._place, kernel, folder=self._work / "floor")
            self._floor[spec.key] = self._figures(built, where, kernel, spec) if built.ok else {}
            if built.ok and where == "emulated":
                self._floor[spec.key] |= warp_figures(self._library_accesses(kernel))
        return self._floor[spec.key]

    def _library_cycles(self) -> dict[str, float]:
        """Return a simulator's account of the kernel with the library's leaf, {} where none counts."""
        if self._backend.figures is None:
            return {}
        found = self._with_library().verdict
        return cycle_figures(found.cycles) if found.passed and found.cycles else {}

    def _library_accesses(self, kernel: Kernel) -> Mapping[str, Any]:
        if self._backend.noted is None:
            return {}
        if self._counted is None:
            self._counted = counted_accesses(
                kernel,
                self._problem,
                self._backend.noted,
                self._work / "floor" / "noted",
                self._place.sessions,
                self._seed,
            )
        return self._counted

    def _with_library(self) -> Judged:
        if self._baseline is None:
            self._baseline = self._judged(self._kernel(None), self._work / "baseline")
        return self._baseline

    def _tile_cost(self, kernel: Kernel, spec: LeafSpec, folder: Path) -> TileCost:
        leaf = next((one for one in kernel.leaves if one.spec.key == spec.key), None)
        if self._backend.tile_cost is None or leaf is None:
            return TileCost()
        if leaf.sha not in self._costs:
            self._costs[leaf.sha] = self._backend.tile_cost(kernel, leaf, folder)
        return self._costs[leaf.sha]

    def _bound(self, kernel: Kernel, spec: LeafSpec) -> str:
        """Return what bounds the hot loop of a leaf whose figures were taken, "" where nothing says it."""
        shas = [leaf.sha for leaf in kernel.leaves if leaf.spec.key == spec.key]
        return next((self._costs[sha].bound for sha in shas if sha in self._costs), "")

    def _figures(
        self, built: Built, where: str | None, kernel: Kernel, spec: LeafSpec
    ) -> dict[str, float]:
        """Return the figures of a built kernel and, where its target has them, of the leaf of `spec` in it."""
        found = static_figures(built, where)
        if built.artifact is not None:
            cost = self._tile_cost(kernel, spec, built.artifact.parent)
            found |= {} if cost.cycles is None else {TILE_CYCLES: cost.cycles}
            found |= {} if cost.throughput is None else {LOOP_CYCLES: cost.throughput}
        return with_resident(found, load_machine(self._program.machine).limits)


def _alone(case: LeafCase) -> str:
    return f"alone, {case.label}"


def _told_accesses(accesses: Mapping[str, Any]) -> str:
    return "; ".join(f"{memory}: {text}" for memory, text in told_accesses(accesses))


@functools.lru_cache(maxsize=64)
def _cases_of(spec: LeafSpec, machine: str) -> tuple[LeafCase, ...]:
    """Return `leaf_cases`, the same objects for the same leaf: what is computed of them may be kept."""
    return leaf_cases(spec, machine=machine)


def leaf_verdict(verdict: Verdict, place: str) -> LeafVerdict:
    """Return a kernel's verdict as the leaf writer sees it."""
    worst = ""
    if verdict.worst is not None and not verdict.passed:
        w = verdict.worst
        worst = (
            f"{w.output}{list(w.index)} = {w.got}, expected {w.expected} (allowed error {w.budget})"
        )
    log = f"\n{verdict.log[-2000:]}" if verdict.status is Status.COMPILE_ERROR else ""
    message = "" if verdict.passed else f"{place}: {verdict.message}. {verdict.hint}{log}"
    return LeafVerdict(
        level=verdict.level,
        status=verdict.status.of_leaf,
        message=message,
        worst=worst,
    )
