"""verify(kernel, built, problem): the verdict on one kernel at one set of dims.

gate -> plan secret cases -> child runs them (confined) -> child is dead -> torch in float64 judges
"""

from __future__ import annotations

import json
import math
import secrets
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from septran.accuracy import Policy, load_policy
from septran.backends.base import Built
from septran.kernel import Kernel, KernelParam
from septran.outcome import Level, Status
from septran.verify import admission, budget, hosted, judge
from septran.verify.arena import Placement
from septran.verify.budget import Expected
from septran.verify.cases import Case, plan, undefined
from septran.verify.enforced import with_facts
from septran.verify.environment import environment_facts
from septran.verify.figures import Check, believed
from septran.verify.gate import gate
from septran.verify.kept_memory import kept_memory
from septran.verify.known import Known, compared
from septran.verify.problem import Problem
from septran.verify.refusal import GROWN, harness_text, ran_out, refusal, unavailable
from septran.verify.session import Call, Ran, Seek, Sessions, Transcript, run_calls
from septran.verify.verdict import CaseResult, Verdict, Where, Worst, write_evidence

# elements of all tensors together above which only the first families are run
_LARGE, _FEW = 1 << 24, 9


class Search(Protocol):
    """What a verdict asks when its child is about to start."""

    def begin(self, problem: Problem, seed: int, work: Path) -> Seek | None:
        """Return what the child in the folder `work` seeks further inputs with, None: it seeks none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """How to verify. language decides the static gate: `gate` says how ("" = none).

    seed: of the secret inputs; None draws one (it is recorded). policy: None loads configs/accuracy.yaml.
    admission: also judge trivial answers on the same inputs; those that pass are listed in not_checked.
    unordered: its sums may be added in any order (atomic operations), so repeats need not have the same bits.
    figures: what the backend makes of its simulator's figures; ValueError where they are impossible.
    search: for further inputs, by a Python child after its calls (septran/verify/sought.py).
    cases: what is asked instead of the planned cases, at least two; (): those.
    """

    where: Where = "native"
    language: str = "c"
    seed: int | None = None
    policy: Policy | None = None
    sessions: Sessions = field(default_factory=Sessions)
    gate: bool = True
    admission: bool = False
    unordered: bool = False
    figures: Check | None = None
    search: Search | None = None
    cases: tuple[Case, ...] = ()


def verify(
    kernel: Kernel, built: Built, problem: Problem, *, run_dir: Path, request: Request | None = None
) -> Verdict:
    """Return what was established about `kernel`, and leave the evidence in `run_dir`.

    Writes verdict.json, verify_child.py, child.log and, when asked for, admission.json. Never raises for anything the kernel does.
    """
    request = request or Request()
    problem = as_run(problem, request.sessions)
    start = time.perf_counter()
    seed = secrets.randbits(62) if request.seed is None else request.seed
    base = replace(
        Verdict.of(kernel, where=request.where, dims=problem.dims, seed=seed),
        not_checked=built.not_checked,
        environment=_environment(request.sessions),
    )
    verdict = _verify(base, kernel, built, problem, run_dir, request, seed)
    files = {"child.log": verdict.log}
    if request.admission and verdict.passed:
        report = admission.report(problem, seed=seed, policy=request.policy)
        files["admission.json"] = json.dumps(asdict(report), indent=1) + "\n"
        verdict = verdict.without(*report.warnings)
    verdict = replace(verdict, seconds=time.perf_counter() - start)
    write_evidence(verdict, run_dir, files=files)
    return verdict


def _verify(
    base: Verdict,
    kernel: Kernel,
    built: Built,
    problem: Problem,
    run_dir: Path,
    request: Request,
    seed: int,
) -> Verdict:
    base = static_checks(base, kernel, built, problem, request)
    if base.code:
        return base
    in_host = hosted.fits(built, kernel, request.sessions)
    return _run_and_judge(base, kernel, built, problem, run_dir, request, seed, in_host=in_host)


def static_checks(
    base: Verdict, kernel: Kernel, built: Built, problem: Problem, request: Request
) -> Verdict:
    """Return the verdict on a built kernel of which nothing was run: with a code where it may not be run."""
    if not built.ok or built.artifact is None:
        return replace(
            base,
            code="V201",
            message=f"the compiler refused the kernel: {built.cause}",
            hint="see the compiler's log",
            log=built.log,
        )
    if kernel.params != problem.params:
        return replace(
            base,
            level=Level.COMPILED,
            status=Status.INCORRECT_SHAPE,
            code="V204",
            message=f"the kernel's parameters {_names(kernel.params)} are not the operator's "
            f"{_names(problem.params)}",
        )
    base = replace(base, level=Level.COMPILED, status=Status.RUNTIME_ERROR)
    if request.gate:
        # a kernel for another processor is a plain kernel: no emulator of ours is linked with it
        emulated = request.where == "emulated" and not request.sessions.emulator
        report = gate(
            kernel,
            built.artifact,
            language=request.language,
            emulated=emulated,
            device=request.where == "device",
        )
        base = base.without(*report.not_checked)
        if report.findings:
            return base.rejected(
                "V210",
                "; ".join(str(f) for f in report.findings[:5]),
                "a leaf computes on its arguments and calls nothing outside its language",
                diagnostics=tuple(asdict(f) for f in report.findings),
            )
    in_host = hosted.fits(built, kernel, request.sessions)
    if in_host and (found := hosted.object_findings(built, kernel)):
        # also with `gate=False`: what may run before the host confines itself is no question of taste
        return base.rejected(
            "V210",
            "; ".join(f"the compiled kernel {text}" for text in found[:5]),
            "a kernel holds code and constants, and keeps nothing between calls",
        )
    if in_host and not hosted.library_offers(built, kernel):
        # the host judges the object; users load the library that was linked from it
        return replace(
            base,
            code="V205",
            message=f"the library cannot be loaded: it is damaged or has no {kernel.entry}",
            hint="the entry needs default visibility",
        )
    return base


def _environment(sessions: Sessions) -> dict[str, str]:
    return environment_facts() | ({"gpu": str(sessions.gpu)} if sessions.gpu else {})


def _run_and_judge(
    base: Verdict,
    kernel: Kernel,
    built: Built,
    problem: Problem,
    run_dir: Path,
    request: Request,
    seed: int,
    *,
    in_host: bool,
) -> Verdict:
    import numpy as np

    calls = schedule(problem, seed, on_device=request.sessions.gpu is not None, cases=request.cases)
    noise = np.random.default_rng(secrets.randbits(64))
    transcript: Transcript | None = None
    if in_host:
        transcript = hosted.run_in_host(
            kernel, built, problem, calls, settings=request.sessions, noise=noise
        )
        if transcript is None:
            missing = "static host: this machine refuses its system call filter"
            base = base.without(missing)
    if transcript is None and request.sessions.emulator:
        why = "; ".join(part for part in base.not_checked if part.startswith("static host"))
        return unavailable(base, f"no host for {kernel.arch} could be run: {why}")
    if transcript is None:
        assert built.artifact is not None
        work = run_dir / "child"
        transcript = run_calls(
            kernel,
            built.artifact,
            problem,
            calls,
            settings=request.sessions,
            work=work,
            noise=noise,
            seek=request.search.begin(problem, seed, work) if request.search is not None else None,
        )
    if transcript.failure == "harness" or ran_out(transcript):
        return unavailable(base, harness_text(transcript))
    base = base.without(*_left_out(problem, seed))
    base = with_facts(base, problem, transcript, request.sessions)
    cycles, doubt = believed(transcript.figures, kernel, request.figures)
    if cycles or doubt:
        base = replace(base, cycles=cycles, not_checked=(*base.not_checked, *filter(None, [doubt])))
    refused = refusal(base, transcript, request.sessions)
    # an emulation that warns of every NaN grows: what is wrong with the values says more
    if refused is not None and GROWN not in refused.message:
        return refused
    policy = request.policy or load_policy()
    with budget.threads(1), kept_memory():
        found = judged(base, problem, transcript, policy, unordered=request.unordered)
    return found if refused is None or found.code == "V202" else refused


def schedule(
    problem: Problem, seed: int, *, on_device: bool = False, cases: tuple[Case, ...] = ()
) -> tuple[Call, ...]:
    """Return the calls: each case once, the first ones at both placements, one repeated at the end; `cases` () are the planned ones.

    The order matters: the near-duplicate follows its original at the same addresses, and what is
    left out when time runs out is at the end, before the repeats.
    """
    cases = cases or plan(problem, seed)
    if _elements(problem) > _LARGE:
        cases = _first(cases)
    calls: list[Call] = []
    for number, case in enumerate(cases):
        moved = number % 3 == 0 and number > 0 and case.touched is None
        # in device memory, where every tensor is aligned, there is no loose place
        other: Placement = "loose" if number % 2 and not on_device else "start"
        calls.append(Call(case=case, placement=other if moved else "end"))
        if number == 1:
            calls.append(Call(case=case, placement="end", repeat_of=2))
    calls.insert(1, Call(case=cases[0], placement="start"))
    return (*calls, Call(case=cases[0], placement="end", repeat_of=0))


def as_run(problem: Problem, sessions: Sessions) -> Problem:
    """Return the problem as a GPU solves it, where one is in use; where a CPU takes long, it computes the float64 reference, too."""
    if sessions.gpu is None:
        return problem
    problem = replace(problem, truncates=True)
    if _elements(problem) <= _LARGE:
        return problem
    import torch

    return replace(problem, device="cuda") if torch.cuda.is_available() else problem


def _first(cases: Sequence[Case]) -> tuple[Case, ...]:
    """Return the most telling cases, with one near-duplicate."""
    return tuple(c for c in cases if not c.name.startswith("near_duplicate_"))[:_FEW]


def _elements(problem: Problem) -> int:
    return sum(math.prod(p.shape) for p in problem.params)


def _left_out(problem: Problem, seed: int) -> tuple[str, ...]:
    none = ", ".join(undefined(problem, seed))
    found = (f"inputs {none}: torch has no value for them",) if none else ()
    if _elements(problem) <= _LARGE:
        return found
    cases = plan(problem, seed)
    kept = _first(cases)
    names = ", ".join(case.name for case in cases if case not in kept)
    return (*found, f"inputs {names}: only at smaller dims")


def judged(
    base: Verdict, problem: Problem, transcript: Transcript, policy: Policy, *, unordered: bool
) -> Verdict:
    """Return the verdict on calls that were made: each output against torch in float64, and the last checks."""
    results: list[CaseResult] = []
    worst: tuple[float, Worst, str] | None = None
    first: Worst | None = None
    base = replace(base, level=Level.RAN)
    cache: dict[Case, Known] = {}
    ties: dict[str, None] = {}
    for ran in transcript.ran:
        known, decided, comparisons = compared(problem, ran, policy, cache)
        ties.update(dict.fromkeys(decided))
        for name, wanted, found in comparisons:
            param = next(p for p in problem.outputs if p.name == name)
            if first is None and found.first is not None:
                first = _element(ran, param, found.first)
            if worst is None or found.ratio > worst[0]:
                raw = ran.outputs[name]
                text = judge.pattern(param, wanted, raw) if found.wrong else ""
                worst = (found.ratio, _worst(ran, param, found), text)
        figures = [found for _, _, found in comparisons]
        results.append(replace(_case_result(ran, figures, known), ties=len(decided)))
    accepted = [r for r in results if r.wrong == 0]
    base = replace(
        base,
        cases=tuple(results),
        worst=worst[1] if worst else None,
        first=first,
        max_error=_ordinary_error(accepted),
        budget_ratio=max((r.ratio for r in results), default=0.0),
        ties=_ties(results, tuple(ties)),
    )
    failed = [r for r in results if r.wrong]
    if failed:
        assert worst is not None
        families = ", ".join(dict.fromkeys(r.case for r in failed))
        return replace(
            base,
            status=Status.INCORRECT_NUMERICAL,
            code="V202",
            message=f"wrong on {len(failed)} of {len(results)} calls ({families}): {worst[2]}; "
            f"{_sentence(worst[1])}",
            hint=_numeric_hint(failed, len(results), worst[1]),
        )
    return _last_checks(base, problem, transcript, unordered=unordered)


def _ties(results: Sequence[CaseResult], about: tuple[str, ...]) -> str:
    """Return which decisions the kernel made otherwise than torch, between values closer than rounding, "" for none."""
    calls = sum(1 for r in results if r.ties)
    if not calls:
        return ""
    return (
        f"{' and '.join(about)} decided between values closer than rounding, otherwise than torch, "
        f"in {calls} of {len(results)} calls"
    )


def _ordinary_error(accepted: Sequence[CaseResult]) -> float:
    """Return the largest error on inputs of ordinary size; huge inputs have huge absolute errors."""
    ordinary = [r.max_error for r in accepted if r.family in ("normal", "uniform", "integers")]
    return max(ordinary or [r.max_error for r in accepted], default=0.0)


def _last_checks(
    base: Verdict, problem: Problem, transcript: Transcript, *, unordered: bool
) -> Verdict:
    if transcript.unsteady:
        return base.rejected(
            "V208",
            f"{transcript.burst} calls on the same inputs did not all give the same bits",
            "threads that are not synchronised, or a kernel that counts its calls",
        )
    for ran in transcript.ran:
        if ran.beside:
            return base.rejected(
                "V207",
                f"bytes beside output {ran.beside[0]} were written (inputs {ran.call.case.name!r})",
                "a store runs past the end, or before the start, of the tensor",
            )
        if ran.call.repeat_of is not None and not unordered:
            first = next(r for r in transcript.ran if r.call.case == ran.call.case)
            used = [p.name for p in problem.outputs if p.name not in problem.unused]
            same = all(first.outputs[name] == ran.outputs[name] for name in used)
            if first.call.placement == ran.call.placement and not same:
                return base.rejected(
                    "V208",
                    "the same inputs gave different bits",
                    "a race, uninitialised memory, or an order of sums that varies",
                )
    if unordered:
        missing = "the same bits in repeated calls: atomic operations add in any order"
        base = base.without(missing)
    return replace(base, level=Level.ACCURATE, status=Status.PASSED, message="accurate")


def _worst(ran: Ran, param: KernelParam, found: judge.Comparison) -> Worst:
    worst = judge.Element(at=found.worst, got=found.got, wanted=found.wanted, allowed=found.allowed)
    return _element(ran, param, worst)


def _element(ran: Ran, param: KernelParam, found: judge.Element) -> Worst:
    case = ran.call.case
    return Worst(
        case=case.name,
        family=case.family,
        seed=case.seed,
        output=param.name,
        index=judge.unravel(found.at, param.shape),
        got=f"{found.got:.9g}",
        expected=f"{found.wanted:.9g}",
        budget=f"{found.allowed:.3g}",
    )


def _case_result(
    ran: Ran, comparisons: Sequence[judge.Comparison], known: Sequence[Expected]
) -> CaseResult:
    return CaseResult(
        case=ran.call.case.name,
        family=ran.call.case.family,
        seed=ran.call.case.seed,
        placement=ran.call.placement,
        max_error=max((c.max_error for c in comparisons), default=0.0),
        ratio=max((c.ratio for c in comparisons), default=0.0),
        wrong=sum(c.wrong for c in comparisons),
        elements=sum(c.elements for c in comparisons),
        seconds=ran.seconds,
        exact=all(e.exact for e in known),
    )


def _sentence(worst: Worst) -> str:
    place = ", ".join(map(str, worst.index))
    return (
        f"{worst.output}[{place}] is {worst.got}, expected {worst.expected} within {worst.budget} "
        f"(inputs {worst.case!r})"
    )


def _numeric_hint(failed: Sequence[CaseResult], total: int, worst: Worst) -> str:
    names = {r.family for r in failed}
    if len(failed) == total:
        return "wrong for every input: the formula, an index or the extent of a loop"
    if names <= {"nan", "inf", "neg_inf_led"}:
        return "NaN and infinities must go through as in torch"
    if any(r.case == "near_duplicate" for r in failed) and len(failed) == 1:
        return "the result does not depend on every element: a remembered answer"
    if "integers" not in names and _here_and_there(failed, worst):
        return "right nearly everywhere: an edge, or threads that race"
    if "integers" not in names and _beyond_rounding(worst):
        return (
            "right on small integers, and other numbers elsewhere: an index, or threads that race"
        )
    if "integers" not in names:
        return "right on small integers: rounding, a narrower dtype, or cancellation"
    return "right on some inputs: look at the listed families"


def _here_and_there(failed: Sequence[CaseResult], worst: Worst) -> bool:
    """Return whether under one element in a thousand is wrong and one is another number: rounding is wrong in many."""
    share = sum(r.wrong for r in failed) / max(1, sum(r.elements for r in failed))
    got, expected = float(worst.got), float(worst.expected)
    return share < 1e-3 and not abs(got - expected) <= 0.5 * max(abs(got), abs(expected))


def _beyond_rounding(worst: Worst) -> bool:
    """Whether the worst error is more than arithmetic of a few bits makes (eight of them: 2^16 of float32's last places), short of overflow."""
    error, budget = abs(float(worst.got) - float(worst.expected)), float(worst.budget)
    return 0 < 2.0**22 * budget < error < math.inf


def _names(params: Sequence[Any]) -> str:
    return ", ".join(f"{p.name}{list(p.shape)}:{p.dtype}" for p in params)
