"""How fast an accepted kernel is against torch, in the same seconds on the same machine.

The kernel stays in its confined child; torch runs in the parent. Slots alternate, so that what else the
machine does disturbs both alike. The figure compares the least disturbed fifth of the slots of each side
(other load only ever adds time); the quartiles of the paired ratios are its spread.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from septran.accuracy import load_policy
from septran.backends.base import Built
from septran.gpu import Gpu
from septran.kernel import Kernel
from septran.reference import Remote
from septran.stopwatch import cpu_slot, gpu_slot
from septran.verify import budget, judge
from septran.verify.arena import Arena, tensor_bytes
from septran.verify.cases import Case, draw
from septran.verify.problem import Problem
from septran.verify.session import Pipe, Sessions, render, start_child, write_plan
from septran.verify.verify import on_gpu_when_large

if TYPE_CHECKING:
    import numpy as np

# calls on new inputs that a busy machine may disturb
_FRESH = 12
_TORCH_NAMES = {"float16": "float16", "bfloat16": "bfloat16", "float64": "float64"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds per call and torch / kernel, both of the least disturbed slots; quartiles of the pairs.

    ok: the outputs after the timed calls were right; else `why` says what happened.
    """

    ok: bool
    why: str = ""
    kernel_s: float = 0.0
    torch_s: float = 0.0
    speedup: float = 0.0
    low: float = 0.0
    high: float = 0.0
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
    """Return the timing of a verified kernel against torch eager, or None when it could not be timed."""
    assert built.artifact is not None
    settings = sessions or Sessions(threads=threads)
    with tempfile.TemporaryDirectory(prefix="septran-timing-") as folder:
        timing = measure(
            kernel,
            built.artifact,
            problem,
            run_dir=Path(folder),
            settings=settings,
            budget_s=budget_s,
            slot_s=slot_s,
        )
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

    A win of `mine` is measured again in new children with the roles exchanged, and the less favourable
    pair counts: one lucky run (where pages fell, what else ran) does not make a kernel faster.
    None when one of them stopped answering or gave wrong outputs while it was timed.
    """
    settings = sessions or Sessions()
    found = _compare(mine, other, problem, settings, budget_s, slot_s)
    if found is None or found[0] >= found[1]:
        return found
    again = _compare(other, mine, problem, settings, budget_s, slot_s)
    if again is None:
        return None
    return max(found, again[::-1], key=lambda pair: pair[0] / pair[1])


def _compare(
    one: tuple[Kernel, Built],
    two: tuple[Kernel, Built],
    problem: Problem,
    settings: Sessions,
    budget_s: float,
    slot_s: float,
) -> tuple[float, float] | None:
    with tempfile.TemporaryDirectory(prefix="septran-timing-") as folder:
        first = _Timed(*one, problem, work=Path(folder) / "one", settings=settings)
        second = _Timed(*two, problem, work=Path(folder) / "two", settings=settings)
        with first, second:
            try:
                first.wait_ready()
                second.wait_ready()
                found = _pairs(first.slot, second.slot, settings.threads, budget_s, slot_s)
                if first.wrong(found.kernel_s) or second.wrong(found.torch_s):
                    return None
            except (TimeoutError, OSError):
                return None
    return found.kernel_s, found.torch_s


def measure(
    kernel: Kernel,
    artifact: Path,
    problem: Problem,
    *,
    run_dir: Path,
    settings: Sessions | None = None,
    budget_s: float = 1.0,
    slot_s: float = 0.01,
) -> Timing:
    """Return the timing of a verified kernel against torch eager in the task's dtype.

    Torch computes `problem.reference.fn` on tensors in the parameters' own dtypes.
    """
    settings = settings or Sessions()
    built = Built(ok=True, artifact=artifact)
    timed = _Timed(kernel, built, problem, work=run_dir / "timing", settings=settings)
    with timed:
        try:
            timed.wait_ready()
            if settings.gpu is not None:
                torch_slot, threads = _gpu_slot(problem, timed.inputs, settings.gpu), 1
            else:
                torch_slot = _torch_slot(problem, timed.inputs)
                threads = _best_threads(torch_slot, settings.threads)
            with budget.threads(threads):
                found = _pairs(timed.slot, torch_slot, settings.threads, budget_s, slot_s)
            wrong = timed.wrong(found.kernel_s)
        except (TimeoutError, OSError) as error:
            return Timing(ok=False, why=f"the kernel stopped answering: {error}")
    return Timing(ok=False, why=wrong) if wrong else found


class _Timed:
    """A verified kernel in its child, ready to be called many times on one input set."""

    def __init__(
        self, kernel: Kernel, built: Built, problem: Problem, *, work: Path, settings: Sessions
    ) -> None:
        import numpy as np

        assert built.artifact is not None
        work.mkdir(parents=True, exist_ok=True)
        self._problem, self._settings = on_gpu_when_large(problem, settings), settings
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

    def wrong(self, per_call: float) -> str:
        """Return what is wrong with the timed calls, which took `per_call` seconds each, "" when nothing."""
        if self._settings.gpu is not None:
            self.slot(0)  # the outputs are still on the device
            return _wrong(self._arena, self._problem, self._case)
        if any(p.privilege == "rw" for p in self._problem.params):
            return ""  # many calls have accumulated into it
        return _wrong(self._arena, self._problem, self._case) or self._remembered(per_call)

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
            self._arena.fill("start", inputs, noise, finite=bool(number % 2))
            best = min(best, self.slot(1))
            if best <= allowed or number == _FRESH - 1:
                why = _wrong(self._arena, self._problem, case)
                if why or best <= allowed:
                    return why
        return (
            f"a call on new inputs takes {1e6 * best:.0f} us, a repeated one {1e6 * per_call:.0f} us: "
            "the kernel remembers its answer"
        )


def _pairs(
    kernel_slot: Callable[[int], float],
    torch_slot: Callable[[int], float],
    threads: int,
    budget_s: float,
    slot_s: float,
) -> Timing:
    kernel_calls = _calls_per_slot(kernel_slot, slot_s)
    torch_calls = _calls_per_slot(torch_slot, slot_s)
    mine: list[float] = []
    theirs: list[float] = []
    start = time.perf_counter()
    while len(mine) < 5 or (time.perf_counter() - start < budget_s and len(mine) < 101):
        # the order inside a pair alternates too: whoever goes first finds the caches cold
        if len(mine) % 2:
            theirs.append(torch_slot(torch_calls) / torch_calls)
        mine.append(kernel_slot(kernel_calls) / kernel_calls)
        if len(theirs) < len(mine):
            theirs.append(torch_slot(torch_calls) / torch_calls)
        if len(mine) >= 3 and time.perf_counter() - start > 4 * budget_s:
            break
    ratios = sorted(t / m for t, m in zip(theirs, mine, strict=True))
    quarter = len(ratios) // 4
    return Timing(
        ok=True,
        kernel_s=_undisturbed(mine),
        torch_s=_undisturbed(theirs),
        speedup=_undisturbed(theirs) / _undisturbed(mine),
        low=ratios[quarter],
        high=ratios[-1 - quarter],
        pairs=len(ratios),
        threads=threads,
    )


def _undisturbed(seconds: list[float]) -> float:
    return statistics.median(sorted(seconds)[: max(1, len(seconds) // 5)])


def _calls_per_slot(slot: Callable[[int], float], slot_s: float) -> int:
    slot(1)  # first touch of memory, thread pools
    once = min(slot(1), slot(2) / 2)
    return max(1, min(10_000, int(slot_s / max(once, 1e-7))))


def _torch_slot(problem: Problem, inputs: dict[str, Any]) -> Callable[[int], float]:
    import torch

    given = {}
    for param in problem.inputs:
        array: np.ndarray[Any, Any] = inputs[param.name]
        if array.dtype.kind in "iub":
            given[param.name] = torch.from_numpy(array)
        else:
            dtype = getattr(torch, _TORCH_NAMES.get(param.dtype, "float32"))
            given[param.name] = torch.from_numpy(array.astype("float64")).to(dtype)
    given |= problem.scalars
    fn = problem.reference.fn
    return fn.slot(given) if isinstance(fn, Remote) else cpu_slot(fn, given)


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
    import torch

    given = {}
    for param in problem.inputs:
        array: np.ndarray[Any, Any] = inputs[param.name]
        if array.dtype.name == "bfloat16":
            found = torch.from_numpy(array.view("int16")).view(torch.bfloat16)
        else:
            found = torch.from_numpy(array)
        given[param.name] = found.cuda()
    return given


def _best_threads(torch_slot: Callable[[int], float], limit: int) -> int:
    """Return the thread count, 1 or `limit`, at which torch is faster: the baseline is its best."""
    best: dict[int, float] = {}
    for count in {1, limit}:
        with budget.threads(count):
            torch_slot(1)
            best[count] = min(torch_slot(1) for _ in range(5))
    return min(best, key=lambda n: best[n])


def _wrong(arena: Arena, problem: Problem, case: Case) -> str:
    """Return what is wrong with the outputs of the last timed call, "" when right."""
    if any(p.privilege == "rw" for p in problem.params):
        return ""  # many calls have accumulated into it
    policy = load_policy()
    known = budget.expected(problem, draw(problem, case), zero_mean=True, policy=policy, seed=1)
    pages = arena.snapshot("start")
    slots = {slot.name: slot for slot in arena.slots["start"]}
    for param, wanted in zip(problem.outputs, known, strict=True):
        raw = tensor_bytes(slots[param.name], pages[param.name])
        found = judge.compare(param, wanted, raw)
        if found.wrong:
            return f"{found.wrong} elements of {param.name} were wrong after the timed calls"
    return ""
