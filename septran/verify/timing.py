"""How fast an accepted kernel is against torch, in the same seconds on the same machine.

The kernel stays in its confined child; torch runs in the parent. Slots alternate (`pairs`). A kernel with a static host is timed there by the
parent's clock on calls that are bound to judged results (`slots`); others in a Python child. torch's side is the fastest of the ways
to write the operator in torch that are known (`Reference.fn`, `Reference.best`).

What a user gets is the figure: `kernel(x)` allocates its output, as torch does, so what the call costs besides the kernel
(`call_cost`) counts as the kernel's; `reused` is the same comparison with outputs that both sides write again and again.
"""

from __future__ import annotations

import contextlib
import math
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from septran.backends.base import Built
from septran.kernel import Kernel
from septran.stopwatch import one_processor
from septran.verify import budget
from septran.verify.call_cost import CallCost, call_cost
from septran.verify.child_timed import ChildTimed
from septran.verify.pairs import Pairs, measure_pairs
from septran.verify.problem import Problem
from septran.verify.session import Sessions
from septran.verify.slots import HostTimed, can_be_timed
from septran.verify.torch_side import fastest, gpu_slot_of, torch_slots

# share of the wall time that a kernel may wait for a processor before its wall time says little
_WAITED = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds per call, and torch / kernel with its 95 % interval.

    ok: the outputs of timed calls were right; else `why` says what happened. kernel_s: the kernel alone, outputs
    reused. call_s: what a call from Python adds, outputs allocated. speedup, low, high: torch_s / (kernel_s + call_s), the median of the
    pairs. reused: the same without allocation on either side. baseline: how torch was called, "fn", "best" or "in_place".
    reliable: the interval is narrow. clock: "wall" or "processor". threads: the kernel's.
    """

    ok: bool
    why: str = ""
    kernel_s: float = 0.0
    call_s: float = 0.0
    torch_s: float = 0.0
    speedup: float = 0.0
    low: float = 0.0
    high: float = 0.0
    reused: float = 0.0
    reliable: bool = True
    baseline: str = "fn"
    clock: str = "wall"
    pairs: int = 0
    threads: int = 1

    @property
    def ratio(self) -> float:
        """Torch's time over the kernel's: above 1 the kernel is faster."""
        return self.speedup

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values; seconds."""
        return asdict(self)


def time_kernel(
    kernel: Kernel,
    built: Built,
    problem: Problem,
    *,
    threads: int = 2,
    sessions: Sessions | None = None,
    budget_s: float = 1.0,
    slot_s: float = 0.01,
) -> Timing | None:
    """Return the timing of a verified kernel against torch eager, or None when it could not be timed.

    Where other work takes processors away, several threads have no figure; then both sides get one
    thread, whose processor time other work hardly moves, and `Timing.threads` says so.
    """
    assert built.artifact is not None
    settings = sessions or Sessions(threads=threads)
    timing = Timing(ok=False)
    for asked in (settings, replace(settings, threads=1)):
        with tempfile.TemporaryDirectory(prefix="septran-timing-") as folder:
            timing = measure(
                kernel,
                built,
                problem,
                run_dir=Path(folder),
                settings=asked,
                budget_s=budget_s,
                slot_s=slot_s,
            )
        if not timing.ok or timing.reliable or not can_be_timed(built, kernel, problem, asked):
            break
    return timing if timing.ok else None


def compare_kernels(
    mine: tuple[Kernel, Built],
    other: tuple[Kernel, Built],
    problem: Problem,
    *,
    sessions: Sessions | None = None,
    budget_s: float = 0.6,
    slot_s: float = 0.01,
) -> tuple[float, float] | None:
    """Return seconds per call of two verified kernels in alternating slots, each in its own child.

    Where the 95 % interval of their ratio holds 1, both are given the same seconds. A difference is measured
    again in new children with the roles exchanged, and the smaller one counts, none where the two disagree: one
    lucky or unlucky run (where pages fell, what else ran) makes a kernel neither faster nor slower.
    None when one of them stopped answering or gave wrong outputs while it was timed.
    """
    settings = sessions or Sessions()
    found = _compare(mine, other, problem, settings, budget_s, slot_s)
    if found is None or found[0] == found[1]:
        return found
    again = _compare(other, mine, problem, settings, budget_s, slot_s)
    if again is None:
        return None
    first, second = math.log(found[0] / found[1]), math.log(again[1] / again[0])
    if first * second <= 0:
        return found[1], found[1]
    return found if abs(first) <= abs(second) else again[::-1]


def _compare(
    one: tuple[Kernel, Built],
    two: tuple[Kernel, Built],
    problem: Problem,
    settings: Sessions,
    budget_s: float,
    slot_s: float,
) -> tuple[float, float] | None:
    found = race(one, two, problem, sessions=settings, budget_s=budget_s, slot_s=slot_s)
    return None if found is None else settled(found)


def race(
    one: tuple[Kernel, Built],
    two: tuple[Kernel, Built],
    problem: Problem,
    *,
    sessions: Sessions | None = None,
    budget_s: float = 0.6,
    slot_s: float = 0.01,
    sample: bool = False,
) -> Pairs | None:
    """Return seconds per call of two verified kernels in alternating slots, each in its own child.

    sample: the first was not verified yet, which is done if it turns out fast: one of its timed calls is judged, none
    of the second's. None when one of them stopped answering or gave wrong outputs while it was timed.
    """
    settings = sessions or Sessions()
    with (
        tempfile.TemporaryDirectory(prefix="septran-timing-") as folder,
        _place(settings) as placed,
    ):
        try:
            first = _timed(*one, problem, Path(folder) / "one", settings)
            second = _timed(*two, problem, Path(folder) / "two", settings)
            with first, second:
                first.wait_ready()
                second.wait_ready()
                found = measure_pairs(
                    first.slot, second.slot, budget_s=budget_s, slot_s=slot_s, most=first.most
                )
                placed.close()
                if first.wrong(found.first_s, sample=sample):
                    return None
                if not sample and second.wrong(found.second_s):
                    return None
        except (TimeoutError, OSError):
            return None
    return found


def settled(found: Pairs) -> tuple[float, float]:
    """Return seconds of both; the same for both where the pairs do not say which is faster."""
    ratio = found.ratio()
    if not ratio.decided:
        return found.second_s, found.second_s
    return found.second_s / ratio.middle, found.second_s


def measure(
    kernel: Kernel,
    built: Built | Path,
    problem: Problem,
    *,
    run_dir: Path,
    settings: Sessions | None = None,
    budget_s: float = 1.0,
    slot_s: float = 0.01,
    quiet: contextlib.AbstractContextManager[object] | None = None,
) -> Timing:
    """Return the timing of a verified kernel against torch eager in the task's dtype.

    built: as the build step left it, or an artifact for a Python child. Torch computes `problem.reference.fn` on
    tensors in the parameters' own dtypes. quiet: held while slots run and their results are judged, by callers
    that prepare several kernels side by side.
    """
    settings = settings or Sessions()
    built = Built(ok=True, artifact=built) if isinstance(built, Path) else built
    try:
        with (
            _place(settings) as placed,
            _timed(kernel, built, problem, run_dir / "timing", settings) as timed,
        ):
            timed.wait_ready()
            with quiet or contextlib.nullcontext():
                by_processor = timed.by_processor_time
                if settings.gpu is not None:
                    slots = {"fn": gpu_slot_of(problem, timed.input_sets[0], settings.gpu)}
                else:
                    slots = torch_slots(problem, timed.input_sets, processor_time=by_processor)
                baseline, theirs = fastest(slots, settings, 1 if by_processor else settings.threads)
                with budget.threads(theirs):
                    cost = (
                        call_cost(kernel, processor_time=by_processor)
                        if timed.native
                        else CallCost(call=0.0, allocate=0.0, low=0.0, high=0.0)
                    )
                    found = measure_pairs(
                        timed.slot,
                        slots[baseline],
                        budget_s=budget_s,
                        slot_s=slot_s,
                        most=timed.most,
                    )
                placed.close()
                wrong = timed.wrong(found.first_s)
    except (TimeoutError, OSError) as error:
        return Timing(ok=False, why=f"the kernel stopped answering: {error}")
    if wrong:
        return Timing(ok=False, why=wrong)
    ratio = found.ratio(first_more=cost.call + cost.allocate)
    # what the cost itself is uncertain by, the ratio is, too
    ratio = replace(
        ratio,
        low=found.ratio(first_more=cost.high).low,
        high=found.ratio(first_more=cost.low).high,
    )
    return Timing(
        ok=True,
        kernel_s=found.first_s,
        call_s=cost.call + cost.allocate,
        torch_s=found.second_s,
        speedup=ratio.middle,
        low=ratio.low,
        high=ratio.high,
        reused=found.ratio(first_more=cost.call, second_less=cost.allocate).middle,
        reliable=ratio.reliable and (by_processor or timed.waited < _WAITED),
        baseline=baseline,
        clock="processor" if by_processor else "wall",
        pairs=len(found.first),
        threads=1 if by_processor else settings.threads,
    )


def _place(settings: Sessions) -> contextlib.ExitStack:
    """Return the context in which both sides of a pair run on one processor, where each has one thread.

    Closed before results are judged, which may take all processors: threads stay where they began.
    """
    placed = contextlib.ExitStack()
    if settings.threads == 1 and settings.gpu is None:
        placed.enter_context(one_processor())
    return placed


def _timed(
    kernel: Kernel, built: Built, problem: Problem, work: Path, settings: Sessions
) -> _Hosted | ChildTimed:
    if can_be_timed(built, kernel, problem, settings):
        return _Hosted(kernel, built, problem, settings)
    return ChildTimed(kernel, built, problem, work=work, settings=settings)


class _Hosted(HostTimed):
    """A kernel in its static host, with the interface of `ChildTimed`."""

    most = 100_000
    native = True

    def wait_ready(self) -> None:
        """Do nothing: a host that could be started is ready."""

    def wrong(self, per_call: float = 0.0, *, sample: bool = False) -> str:
        """Return what is wrong with the timed calls, "" when nothing."""
        return super().wrong(sample=sample)
