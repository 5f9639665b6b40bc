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
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from septran.backends.base import Built
from septran.gpu import Gpu
from septran.kernel import Kernel
from septran.reference import Remote
from septran.stopwatch import gpu_slot, one_processor, rotating_slot
from septran.verify import budget
from septran.verify.arena import Arena, tensor_bytes
from septran.verify.call_cost import CallCost, call_cost
from septran.verify.cases import Case, draw
from septran.verify.pairs import Pairs, measure_pairs
from septran.verify.pipe import Pipe
from septran.verify.problem import Problem
from septran.verify.session import Sessions, render, start_child, write_plan
from septran.verify.slots import MOST, HostTimed, can_be_timed, torch_calls, wrong_outputs
from septran.verify.verify import as_run

if TYPE_CHECKING:
    import numpy as np

# calls on new inputs that a busy machine may disturb
_FRESH = 12
# share of the wall time that a kernel may wait for a processor before its wall time says little
_WAITED = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds per call, and torch / kernel with its 95 % interval.

    ok: the outputs of timed calls were right; else `why` says what happened. kernel_s: the kernel alone, outputs
    reused. call_s: what a call from Python adds, outputs allocated. speedup, low, high: torch_s / (kernel_s + call_s), the median of the
    pairs. reused: the same without allocation on either side. baseline: how torch was called, "fn" or "best".
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
    slot_s: float = 0.005,
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
    slot_s: float = 0.005,
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
                    slots = {"fn": _gpu_slot(problem, timed.input_sets[0], settings.gpu)}
                else:
                    slots = _torch_slots(problem, timed.input_sets, processor_time=by_processor)
                baseline, theirs = _best(slots, settings, 1 if by_processor else settings.threads)
                with budget.threads(theirs):
                    cost = call_cost(kernel) if timed.native else CallCost(call=0.0, allocate=0.0)
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
) -> _Hosted | _Timed:
    if can_be_timed(built, kernel, problem, settings):
        return _Hosted(kernel, built, problem, settings)
    return _Timed(kernel, built, problem, work=work, settings=settings)


class _Hosted(HostTimed):
    """A kernel in its static host, with the interface of `_Timed`."""

    most = MOST
    native = True

    def wait_ready(self) -> None:
        """Do nothing: a host that could be started is ready."""

    def wrong(self, per_call: float = 0.0, *, sample: bool = False) -> str:
        """Return what is wrong with the timed calls, "" when nothing."""
        return super().wrong(sample=sample)


class _Timed:
    """A verified kernel in its Python child, ready to be called many times on one input set."""

    most = 10_000
    native = False
    by_processor_time = False
    waited = 0.0

    def __init__(
        self, kernel: Kernel, built: Built, problem: Problem, *, work: Path, settings: Sessions
    ) -> None:
        import numpy as np

        assert built.artifact is not None
        work.mkdir(parents=True, exist_ok=True)
        self._problem, self._settings = as_run(problem, settings), settings
        seed = int.from_bytes(os.urandom(7), "little")
        self._case = Case(name="timing", family="normal", seed=seed)
        self.inputs = draw(problem, self._case)
        self._arena = Arena(problem.params, alignment=64, guard=settings.guard)
        self._arena.fill("start", self.inputs, np.random.default_rng(seed))
        go_read, go_write = os.pipe()
        done_read, done_write = os.pipe()
        self._ends = (go_write, done_read)
        plan = write_plan(kernel, built.artifact, self._arena, settings, go_read, done_write)
        script = work / "timing_child.py"
        script.write_text(render(plan, settings.loader, "kernel_timing_template.j2"))
        fds = (*self._arena.descriptors, go_read, done_write)
        self._child = start_child(script, built.artifact, work, settings, fds)
        os.close(go_read)
        os.close(done_write)
        self._pipe = Pipe(go_write, done_read, self._child)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill("done")
        self._child.wait()
        for fd in self._ends:
            os.close(fd)
        self._arena.close()

    @property
    def input_sets(self) -> list[dict[str, Any]]:
        """The one set of inputs that the timed calls read."""
        return [self.inputs]

    def wait_ready(self) -> None:
        """Wait until the kernel is loaded; TimeoutError says why it is not."""
        ready = self._pipe.receive(self._settings.load_timeout_s)
        if not isinstance(ready, dict):
            raise TimeoutError(f"the timing child did not start: {ready}")

    def slot(self, count: int) -> float:
        """Return the seconds that `count` calls took."""
        self._pipe.send(f"{count}\n".encode())
        answer = self._pipe.receive(self._settings.call_timeout_s)
        if not isinstance(answer, dict) or "seconds" not in answer:
            raise TimeoutError(str(answer))
        return float(answer["seconds"])

    def wrong(self, per_call: float, *, sample: bool = False) -> str:
        """Return what is wrong with the timed calls, which took `per_call` seconds each, "" when nothing.

        sample: the repeated call alone is judged, none on new inputs.
        """
        if self._settings.gpu is not None:
            self.slot(0)  # the outputs are still on the device
            return _wrong(self._arena, self._problem, self.inputs)
        if any(p.privilege == "rw" for p in self._problem.params):
            return ""  # many calls have accumulated into it
        why = _wrong(self._arena, self._problem, self.inputs)
        return why if sample else why or self._remembered(per_call)

    def _remembered(self, per_call: float) -> str:
        """Return "" when a call on new inputs is about as fast as the timed ones, and right.

        Timed calls repeat one input set, so a kernel that remembers its last answer would look fast. One
        undisturbed call is enough to believe it; caches that are cold are allowed for.
        """
        import numpy as np

        moved = sum(slot.nbytes for slot in self._arena.slots["start"])
        allowed = 4 * per_call + 2e-4 + moved / 1e9
        noise = np.random.default_rng(int.from_bytes(os.urandom(7), "little"))
        best = float("inf")
        for number in range(_FRESH):
            case = replace(self._case, seed=int(noise.integers(1 << 60)))
            inputs = draw(self._problem, case)
            self._arena.fill("start", inputs, noise, held="numbers" if number % 2 else "nan")
            best = min(best, self.slot(1))
            if best <= allowed or number == _FRESH - 1:
                why = _wrong(self._arena, self._problem, inputs)
                if why or best <= allowed:
                    return why
        return (
            f"a call on new inputs takes {1e6 * best:.0f} us, a repeated one {1e6 * per_call:.0f} us: "
            "the kernel remembers its answer"
        )


def _torch_slots(
    problem: Problem, sets: Sequence[dict[str, Any]], *, processor_time: bool
) -> dict[str, Callable[[int], float]]:
    """Return slots of torch on the CPU by the name of the way it is called."""
    given = [_cpu_tensors(problem, inputs) | dict(problem.scalars) for inputs in sets]
    fn, best = problem.reference.fn, problem.reference.best
    if isinstance(fn, Remote):
        return {"fn": fn.slot(given[0])}
    calls = {"fn": torch_calls(fn, given)}
    if best is not None:
        calls["best"] = torch_calls(best, given, bound=True)
    return {name: rotating_slot(c, processor_time=processor_time) for name, c in calls.items()}


def _cpu_tensors(problem: Problem, inputs: dict[str, Any]) -> dict[str, Any]:
    import torch

    given = {}
    for param in problem.meant:
        array: np.ndarray[Any, Any] = inputs[param.name]
        if array.dtype.name == "bfloat16":
            given[param.name] = torch.from_numpy(array.view("int16")).view(torch.bfloat16)
        else:
            given[param.name] = torch.from_numpy(array)
    return given


def _gpu_slot(problem: Problem, inputs: dict[str, Any], gpu: Gpu) -> Callable[[int], float]:
    """Return torch on the same GPU: each call with a cold L2, timed by events, as the kernel's are.

    Raises:
        OSError: this torch does not see the GPU.
    """
    import torch

    if not torch.cuda.is_available():
        raise OSError(f"torch {torch.__version__} does not see the GPU")
    fn, given = problem.reference.fn, {**gpu_tensors(problem, inputs), **problem.scalars}
    return fn.slot(given, gpu_l2=gpu.l2) if isinstance(fn, Remote) else gpu_slot(fn, given, gpu.l2)


def gpu_tensors(problem: Problem, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs as tensors on the GPU, in the parameters' dtypes."""
    return {name: found.cuda() for name, found in _cpu_tensors(problem, inputs).items()}


def _best(
    slots: dict[str, Callable[[int], float]], settings: Sessions, limit: int
) -> tuple[str, int]:
    """Return the way of calling torch and the thread count, 1 or `limit`, that are fastest: the baseline is its best."""
    if settings.gpu is not None:
        return "fn", 1
    best: dict[tuple[str, int], float] = {}
    for name, slot in slots.items():
        for count in {1, limit}:
            with budget.threads(count):
                slot(1)
                best[name, count] = min(slot(1) for _ in range(5))
    return min(best, key=lambda key: best[key])


def _wrong(arena: Arena, problem: Problem, inputs: dict[str, Any]) -> str:
    """Return what is wrong with the outputs of the last timed call, "" when right."""
    if any(p.privilege == "rw" for p in problem.params):
        return ""  # many calls have accumulated into it
    pages = arena.snapshot("start")
    slots = {slot.name: slot for slot in arena.slots["start"]}
    raw = {p.name: tensor_bytes(slots[p.name], pages[p.name]) for p in problem.outputs}
    why = wrong_outputs(problem, inputs, raw)
    return f"{why} after the timed calls" if why else ""
