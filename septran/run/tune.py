"""`septran tune`: search the values that a mapping leaves open, and keep what is better than the default.

A proposal is mapped first: what does not map or fit is refused there. The model says what it would take, and what is expected to be
slower than the best so far is not built. Where a simulator counts cycles, what is left is built, verified like every kernel, and
that says how fast it is. Elsewhere it is built and timed in slots that alternate with the default's, and one of the timed calls is
judged: enough to go on searching. Without a device, where its emulation counts nothing, each is verified and its figure is the
model's (septran/run/foretold.py): a prediction, and called so wherever it goes. At the end the best is verified like every kernel, the next best where it fails, and measured
against the default again, twice in new processes; the default stays unless both intervals are on the other's side.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from septran import assets
from septran.atomic import write_atomic
from septran.errors import EnvironmentProblem, MappingError, SeptranError, exit_code_of
from septran.kernel import Kernel
from septran.machine import load_machine
from septran.mapping.schema import ExplicitMapping
from septran.mapping.space import choices_of, policy_choices, settled, values_of, with_values
from septran.mapping.text import mapping_text
from septran.plan.fit import Lowered
from septran.plan.floor import library_leaves
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, Plan, lower_plan, machine_of, predicted_ticks, resolve
from septran.plan.tuned import Tuned, added, policy_sha
from septran.run import store
from septran.run.ask_values import Asked, asked
from septran.run.foretold import foretold, require_model, spilled
from septran.run.predict import of_known_sizes
from septran.run.trials import Trial, Trials
from septran.run.tune_outcome import Outcome, TuneRequest
from septran.settings import Settings
from septran.trial.judge import Judged, build_candidate, judge_once
from septran.trial.place import Place, place_in
from septran.verify.pairs import Pairs, Ratio
from septran.verify.problem import Problem
from septran.verify.timing import race

Progress = Callable[[str], None]
_PROPOSALS = 12
"""Proposals for each kernel that may be built, so that a search ends."""
_MARGIN = {"cycles": 1.0, "seconds": 1.3}
"""How much slower than the best a choice may be expected to be before it is not built: clocks of a simulator are known, caches are not."""
_TRIAL_S, _FINAL_S = 0.6, 3.0
"""Seconds for which a choice, and in the end the best one, is timed beside the default."""
_CLOSE = 1.03
"""A choice that may be so many times as fast as the default, or slower, is timed for longer: not to miss what is worth having."""
_NARROWED = 4
"""Choices that are measured for longer once more at the end, those that may be fastest."""
_SILENT = "wrong or silent while it was timed"


def tune(
    request: TuneRequest,
    *,
    settings: Settings,
    progress: Progress,
    begun: Callable[[str], None] = lambda run: None,
) -> Outcome:
    """Search, measure the winner against the default, and write the result where `gen` finds it.

    begun: is told the folder of the run, which a later call may go on with.

    Raises:
        InputError: the user's mistake; M093, the mapping leaves nothing open; C162, a dim stays open.
        EnvironmentProblem: V110, V113, kernels cannot be run here; V117, nothing here says or predicts how fast they are;
            V118, the default itself is not right. KeyboardInterrupt: after saying how to go on.
    """
    search = _Search.of(request, settings, progress)
    try:
        with search.run.held():
            begun(str(search.run.dir))
            return search.whole()
    except KeyboardInterrupt as e:
        search.run.finish("interrupted", exit_code=exit_code_of(e), summary={})
        progress(f"to go on: septran tune --resume {store.reference(search.run)}")
        raise
    except SeptranError as e:
        search.run.finish("failed", exit_code=e.exit_code, summary={"codes": list(e.codes)})
        raise


@dataclass(slots=True)
class _Search:
    request: TuneRequest
    settings: Settings
    progress: Progress
    plan: Plan
    default: Lowered
    place: Place
    problem: Problem
    run: store.Run
    trials: Trials
    unit: str
    how: str
    policy: Mapping[str, tuple[object, ...]]
    asked: Asked | None = None
    first: Judged | None = None

    @classmethod
    def of(cls, request: TuneRequest, settings: Settings, progress: Progress) -> _Search:
        plan = of_known_sizes(resolve(replace(request.kernel, tuned=False)))
        place = place_in(settings, plan.backend, plan.arch, request.kernel.where)
        place.require()
        counted = plan.backend.figures is not None
        how = "counted" if counted else "predicted" if place.where == "emulated" else "timed"
        if isinstance(plan.mapping, ExplicitMapping):
            plan = replace(plan, mapping=settled(plan.mapping, first=True))
        default = lower_plan(plan)
        if how == "predicted":
            require_model(plan, default)
        choices = choices_of(default.bound.mapping)
        policy = _policy(request, plan, default)
        if not choices and not policy:
            raise MappingError.of(
                "M093",
                f"{plan.mapping.file} leaves nothing open for {plan.operator.name}",
                help="write `!tune {type: choice, values: [..], default: ..}` in place of a value; docs/mapping.md",
            )
        if request.resume is not None:
            run = store.find(request.resume, store.root(settings))
            run.update(status="running", pid=os.getpid())
        else:
            given = {**_plain(request.kernel), "trials": request.trials, "tune_seed": request.seed}
            given |= {"proposer": request.proposer or None}
            label = ("tune", plan.operator.name, plan.backend.name)
            run = store.create({**given, "command": "tune"}, label=label, settings=settings)
        return cls(
            request=request,
            settings=settings,
            progress=progress,
            plan=plan,
            default=default,
            place=place,
            problem=problem_of(plan, default.program, plan.dims),
            run=run,
            trials=_kept(
                run.dir / "trials.jsonl",
                choices,
                request.seed,
                how,
                values_of(default.bound.mapping, policy),
            ),
            unit="seconds" if how == "timed" else "cycles",
            how=how,
            policy=policy,
            asked=asked(request.proposer, plan, settings, run.dir / "asked.json", policy),
        )

    def whole(self) -> Outcome:
        self.start()
        proposals = _PROPOSALS * self.request.trials
        while self.trials.built < self.request.trials and len(self.trials.done) <= proposals:
            by, values = self.proposed()
            if values is None:
                break
            self.trials.add(replace(self.tried(values), by=by))
        return self.finish()

    def proposed(self) -> tuple[str, Mapping[str, Any] | None]:
        """Return who proposes what next: the model while it has something, then the sampler."""
        if self.asked is not None:
            facts = load_machine(self.plan.backend.machine(self.plan.arch)).facts
            found = self.asked.next(self.plan, self.trials, self.unit, facts)
            if found is not None:
                return "model", found
        return "sampler", self.trials.propose()

    def start(self) -> None:
        """Verify the default and measure it, unless the run has."""
        self.progress("building and verifying the default")
        self.first = self.judged(self.default, "default")
        if not self.first.verdict.passed:
            raise EnvironmentProblem.of("V118", f"the default kernel is {self.first.verdict.level}")
        if not self.trials.done:
            values = values_of(self.default.bound.mapping, self.trials.choices)
            values |= self.trials.fixed
            predicted = predicted_ticks(self.plan, self.default)
            trial = Trial(number=0, values=values, state="measured", predicted=predicted)
            trial = self.figured(trial, self.default, self.first)
            if trial.found is None:
                raise EnvironmentProblem.of("V118", f"the default kernel is {_SILENT}")
            self.trials.add(replace(trial, low=1.0, high=1.0))
            self.progress(f"default: {self.shown(trial.found)}")

    def tried(self, values: Mapping[str, Any]) -> Trial:
        number, begun = len(self.trials.done), time.perf_counter()
        trial = Trial(number=number, values=dict(values), state="refused")
        try:
            lowered = self.lowered(values)
            self.emitted(lowered)
        except EnvironmentProblem:
            raise
        except SeptranError as e:  # some refusals of a target's own come with its text
            return replace(trial, why=e.diagnostics[0].message)
        predicted = predicted_ticks(self.plan, lowered)
        trial = replace(trial, predicted=predicted)
        best = self.trials.best()
        if predicted is not None:
            expected = self.trials.expected(predicted)
            if expected > _MARGIN[self.unit] * (best.found or 0.0) or (
                self.unit == "cycles" and expected == best.found
            ):
                return replace(trial, state="pruned", why=f"expected: {self.shown(expected)}")
        told = ", ".join(f"{name.rpartition('.')[2]}={value}" for name, value in values.items())
        self.progress(f"{self.trials.built + 1} of {self.request.trials}: {told}")
        trial = self.measured(trial, lowered)
        gain = (
            f", {self.gain(trial)} x the default" if trial.low and trial.high else f": {trial.why}"
        )
        self.progress(f"  {self.shown(trial.found)}{gain}")
        return replace(trial, seconds=round(time.perf_counter() - begun, 3))

    def measured(self, trial: Trial, lowered: Lowered) -> Trial:
        """Return `trial` with its figure, or what is wrong with it."""
        if self.unit == "cycles":
            judged = self.judged(lowered, "trial")
            if not judged.verdict.passed:
                return replace(trial, state="wrong", why=str(judged.verdict.level))
            trial = self.figured(trial, lowered, judged)
            if trial.found is None:
                return replace(trial, state="wrong", why=_SILENT)
            default = self.trials.done[0]
            if spilled(trial.compiled) > spilled(default.compiled):
                why = f"{trial.why}: more than of the default"
                return replace(trial, state="refused", found=None, why=why)
            ratio = (default.found or 0.0) / trial.found
            return replace(trial, low=ratio, high=ratio)
        work = self.run.subdir("trial")
        judged = build_candidate(self.place, self.emitted(lowered), self.problem, work=work)
        if judged.verdict.code:
            return replace(trial, state="wrong", why=judged.verdict.message)
        pairs = self.raced(judged, _TRIAL_S, sample=True)
        if pairs is None:
            return replace(trial, state="wrong", why=_SILENT)
        gain = pairs.ratio()
        if gain.low <= 1.0 and gain.high > _CLOSE:
            again = self.raced(judged, _FINAL_S, sample=True)
            gain = gain if again is None else again.ratio()
        return self.timed(trial, gain)

    def gain(self, trial: Trial) -> str:
        """Return how many times as fast as the default a measured choice is, with the interval where it has one."""
        ratio = f"{(self.trials.done[0].found or 0.0) / (trial.found or 1.0):.3f}"
        return (
            ratio if trial.low == trial.high else f"{ratio} ({trial.low:.3f} to {trial.high:.3f})"
        )

    def narrow(self) -> None:
        """Measure again, and for longer, what by its interval might be faster than the best: the best is chosen after that."""
        best = self.trials.best()
        most = _CLOSE * (self.trials.done[0].found or 0.0) / (best.found or 1.0)
        open_ = [t for t in self.trials.measured[1:] if t.high is not None and t.high > most]
        if not open_ or self.unit == "cycles":
            return
        self.progress("measuring again what may be faster than the best")
        for trial in sorted(open_, key=lambda t: t.high or 0.0)[-_NARROWED:]:
            work = self.run.subdir("trial")
            kernel = self.emitted(self.lowered(trial.values))
            judged = build_candidate(self.place, kernel, self.problem, work=work)
            gain = None if judged.verdict.code else self.against_default(judged, sample=True)
            if gain is not None:
                self.trials.amend(self.timed(trial, gain))

    def against_default(self, judged: Judged, *, sample: bool) -> Ratio | None:
        """Return the default's time over a choice's, of two measurements in new children whose intervals both count.

        Where pages fall makes one child faster than another of the same kernel, by more than an interval of many pairs says.
        """
        found = [self.raced(judged, _FINAL_S / 2, sample=sample) for _ in range(2)]
        one, two = (None if pairs is None else pairs.ratio() for pairs in found)
        return None if one is None or two is None else one.joined(two)

    def timed(self, trial: Trial, gain: Ratio) -> Trial:
        """Return `trial` with the default's time over its own."""
        found = (self.trials.done[0].found or 0.0) / gain.middle
        return replace(trial, state="measured", found=found, low=gain.low, high=gain.high)

    def lowered(self, values: Mapping[str, Any]) -> Lowered:
        mapping = with_values(self.default.bound.mapping, values)
        return lower_plan(replace(self.plan, mapping=mapping))

    def emitted(self, lowered: Lowered) -> Kernel:
        leaves = library_leaves(self.plan.backend, lowered.program, lowered.bound.mapping)
        return self.plan.backend.emit(lowered.program, leaves)

    def judged(self, lowered: Lowered, name: str) -> Judged:
        """Build and verify a kernel as `gen` does; a resumed run has the default's verdict already."""
        work, seed = self.run.subdir(name), self.request.kernel.seed
        return judge_once(self.place, self.emitted(lowered), self.problem, work=work, seed=seed)

    def figured(self, trial: Trial, lowered: Lowered, judged: Judged) -> Trial:
        """Return `trial` with the figure of its verified kernel, None where there is none."""
        if self.how != "predicted":
            return replace(trial, state="measured", found=self.figure(judged))
        found = foretold(self.plan, lowered, judged)
        if found is None:
            return trial
        return replace(
            trial, state="predicted", found=found.ticks, why=found.why, compiled=found.compiled
        )

    def figure(self, judged: Judged) -> float | None:
        """Return the cycles, or the seconds of the default, of a verified kernel; None where it cannot be timed."""
        if self.how == "counted":
            cycles = judged.verdict.cycles
            return float(cycles["total"]) if cycles else None
        pairs = self.raced(judged, _TRIAL_S, sample=True)
        return None if pairs is None else pairs.second_s

    def raced(self, judged: Judged, budget_s: float, *, sample: bool) -> Pairs | None:
        assert self.first is not None
        return race(
            (judged.kernel, judged.built),
            (self.first.kernel, self.first.built),
            self.problem,
            sessions=self.place.sessions,
            budget_s=budget_s,
            sample=sample,
        )

    def confirmed(self) -> tuple[Trial, Ratio]:
        """Return the best that the verifier accepts, and the default's time over its own."""
        default = self.trials.done[0]
        while (best := self.trials.best()).number:
            if self.unit == "cycles":
                ratio = (default.found or 0.0) / (best.found or 1.0)
                return best, Ratio(middle=ratio, low=ratio, high=ratio)
            self.progress("verifying the best and measuring it against the default once more")
            judged = self.judged(self.lowered(best.values), "best")
            if not judged.verdict.passed:
                why = str(judged.verdict.level)
            elif (gain := self.against_default(judged, sample=False)) is None:
                why = _SILENT
            else:
                return best, gain
            self.trials.amend(replace(best, state="wrong", found=None, why=why))
        return best, Ratio(middle=1.0, low=1.0, high=1.0)

    def finish(self) -> Outcome:
        self.narrow()
        best, confirmed = self.confirmed()
        ratio, low, high = confirmed.middle, confirmed.low, confirmed.high
        better = bool(best.number) and low > 1.0
        outcome = Outcome(
            plan=self.plan,
            choices={**choices_of(self.default.bound.mapping), **self.policy},
            unit=self.unit,
            trials=tuple(self.trials.done),
            best=best,
            ratio=ratio,
            low=low,
            high=high,
            better=better,
            whole=self.trials.whole,
            file=str(self.written(best, ratio, low, high, better=better)),
            asked=None if self.asked is None else self.asked.summary(),
            how=self.how,
            run=str(self.run.dir),
        )
        data = outcome.to_json()
        self.run.write_sealed("result.json", data)
        self.run.finish("finished", exit_code=0, summary={"better": better, "speedup": ratio})
        return outcome

    def written(self, best: Trial, ratio: float, low: float, high: float, *, better: bool) -> Path:
        """Write the result into the file that `gen` reads; of an explicit mapping, the mapping with the best values."""
        plan, default = self.plan, self.trials.done[0]
        if isinstance(plan.mapping, ExplicitMapping):
            values = best.values if better else default.values
            text = mapping_text(with_values(self.default.bound.mapping, values))
            if self.request.output is not None:
                return write_atomic(self.request.output, text)
            return self.run.write("best.mapping.yaml", text)
        root = assets.find_project() or assets.home()
        path = self.request.output or root / "configs" / "tuned" / f"{plan.backend.name}.yaml"
        figure = (default.found or 0.0) / ratio if better else default.found
        entry = Tuned(
            op=plan.operator.name,
            logic=plan.logic.sha,
            arch=plan.arch,
            dtype=plan.dtype,
            dims=dict(plan.dims),
            machine=machine_of(plan),
            mapping=policy_sha(plan.mapping),
            values=dict(best.values) if better else {},
            unit=self.unit,
            default=default.found or 0.0,
            found=figure or 0.0,
            low=low,
            high=high,
            trials=self.trials.built,
            how=self.how,
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, added(path, entry))
        return path

    def shown(self, figure: float | None) -> str:
        if figure is None:
            return "not timed"
        if self.unit == "seconds":
            return f"{1e6 * figure:,.1f} us"
        return f"{figure:,.0f} cycles{' (predicted)' if self.how == 'predicted' else ''}"


def _policy(request: TuneRequest, plan: Plan, default: Lowered) -> Mapping[str, tuple[object, ...]]:
    """Return what a model may choose of what the policy chose; nothing without a model, and nothing that a user's own file says."""
    if not request.proposer or isinstance(plan.mapping, ExplicitMapping):
        return {}
    machine = load_machine(plan.backend.machine(plan.arch))
    outermost = machine.procs[0]
    own = [name for name, mem in machine.memories.items() if mem.visible_from != outermost]
    return policy_choices(default.bound.mapping, own)


def _kept(
    path: Path,
    choices: Mapping[str, Sequence[Any]],
    seed: int,
    how: str,
    fixed: Mapping[str, object],
) -> Trials:
    """Return the trials of a run; none where they were predicted and can now be measured, or the other way round."""
    found = Trials.kept(path, choices, seed, fixed)
    if found.done and (found.done[0].state == "predicted") != (how == "predicted"):
        path.unlink()
        return Trials.kept(path, choices, seed, fixed)
    return found


def _plain(request: GenRequest) -> dict[str, Any]:
    found = asdict(request)
    return {k: str(v.absolute()) if isinstance(v, Path) else v for k, v in found.items()}
