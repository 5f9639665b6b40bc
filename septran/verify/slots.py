"""A verified kernel in its static host, timed by the parent on work that is bound to judged bits.

A slot is one order for many calls. Its inputs are windows into secret regions that are new for each slot; which window
the next call reads follows from a digest over all outputs of the call before it (`septran.host.chain`), from a seed that is
written after the parent's clock has started. Only the last digest comes back. Afterwards a second process makes the calls of the fastest
slot and of one drawn at random again, one by one; the parent digests the outputs itself and judges some of them against float64.
So every timed call did the work, whatever the kernel did to the host's memory.
"""

from __future__ import annotations

import functools
import math
import mmap
import os
import random
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from septran.accuracy import load_policy
from septran.backends.base import Built
from septran.host import chain
from septran.host.control import STEP, Row
from septran.host.process import HostFailed, HostProcess
from septran.kernel import Kernel
from septran.toolchain.hosted import null_host
from septran.verify import budget, judge
from septran.verify.arena import PAGE, Arena
from septran.verify.cases import Case, draw, numpy_dtype
from septran.verify.hosted import fits, threads_of
from septran.verify.kept_memory import kept_memory
from septran.verify.problem import Problem
from septran.verify.session import Sessions
from septran.verify.settle import read_stored, settle

if TYPE_CHECKING:
    pass

_EXTRA = 1 << 20  # bytes of a region beyond its tensor: more than a kernel can keep unseen
_SHIFTS = 1 << 18  # bytes by which the contents of a region may be moved between slots
_REFRESH = 8 << 20  # regions together that are worth refilling for each slot
_GROWTH_KIB = 512
_SETS = 8  # windows that torch gets in turn
_JUDGED = 3
_SPIN = 10_000
MOST = 1000
"""Calls in one slot: as many are made again one by one."""


@dataclass(frozen=True, slots=True)
class _Timed:
    count: int
    seed: int
    receipt: int
    seconds: float
    shift: int


def can_be_timed(built: Built, kernel: Kernel, problem: Problem, settings: Sessions) -> bool:
    """Return whether slots of chained calls work for the kernel: in a host, with outputs that are no inputs."""
    plain = all(p.privilege in ("r", "w") for p in problem.params)
    real = built.runtime_calls is None
    return real and plain and fits(built, kernel, settings) and null_host() is not None


class HostTimed:
    """A kernel ready to be timed; `slot(count)` is seconds, `wrong` says whether they count."""

    def __init__(self, kernel: Kernel, built: Built, problem: Problem, settings: Sessions) -> None:
        """Draw the secret regions and start the host.

        Raises:
            TimeoutError: the host does not come up.
        """
        import numpy as np

        assert built.host is not None
        self._problem, self._settings, self._program = problem, settings, built.host
        self._threads = threads_of(kernel, settings)
        seed = secrets.randbits(60)
        self._case = Case(name="timing", family="normal", seed=seed)
        regions, pools = _longer(problem, _EXTRA), _longer(problem, _EXTRA + _SHIFTS)
        self._pool = draw(pools, self._case)
        self._arena = Arena(regions.params, alignment=64)
        self._arena.fill("start", self._region(0), np.random.default_rng(seed))
        self._rows = [self._row(p.name) for p in problem.params]
        self._shift = 0
        self._timed: list[_Timed] = []
        self._nothing: dict[int, float] = {}
        self._resident, self._kept = -1, 0
        self._walls = self._waited = 0.0
        null = null_host()
        assert null is not None
        self._host = self._start(self._program)
        try:
            self._null = self._start(null)
        except TimeoutError:
            self._host.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._host.close()
        self._null.close()
        self._arena.close()

    @property
    def by_processor_time(self) -> bool:
        """Whether slots count processor time, which other load hardly moves: with one thread it is the wall time."""
        return self._threads == 1

    @property
    def input_sets(self) -> list[dict[str, Any]]:
        """Inputs for torch: windows of the same kind into regions of its own, in pages of the kernel's size."""
        rng = random.Random(self._case.seed)
        pool = {name: _in_shared_pages(array) for name, array in self._pool.items()}
        return [
            self._inputs(pool, [rng.randrange(row.windows) for row in self._rows])
            for _ in range(_SETS)
        ]

    def slot(self, count: int) -> float:
        """Return the seconds of `count` calls without the hand-over and the chain.

        Raises:
            TimeoutError: the kernel stopped answering.
        """
        if not self._timed:
            self._kept = self._host.kept_kib()
        elif self._resident < 0:  # scratch was touched for the first time by then
            self._resident = self._host.private_kib()
        self._refresh()
        seed = secrets.randbits(64)
        used = self._seconds(self._host, count, seed)
        self._timed.append(_Timed(count, seed, self._host.receipt, used / count, self._shift))
        if count not in self._nothing:
            again = (self._seconds(self._null, count, secrets.randbits(64)) for _ in range(5))
            self._nothing[count] = min(again)
        return max(used - self._nothing[count], 0.02 * used)

    @property
    def waited(self) -> float:
        """The share of the slots' wall time that the host's first thread waited for a processor."""
        return self._waited / self._walls if self._walls else 0.0

    def wrong(self, *, sample: bool = False) -> str:
        """Return what is wrong with the timed calls, "" when they were right. sample: judge one call of one slot."""
        grown = self._host.kept_kib() - self._kept
        if self._resident >= 0:
            grown = max(grown, self._host.private_kib() - self._resident)
        if grown > _GROWTH_KIB:
            return f"memory grew by {grown} KiB while the kernel was timed: it keeps something"
        full = max(t.count for t in self._timed)
        whole = [t for t in self._timed if t.count == full]
        fastest = min(whole, key=lambda t: t.seconds)
        try:
            for one in {fastest} if sample else {fastest, secrets.choice(whole)}:
                if why := self._made_again(one, 1 if sample else _JUDGED):
                    return why
        except HostFailed as failed:
            return f"the kernel stopped answering when calls were made again: {failed.why}"
        return ""

    def _made_again(self, one: _Timed, judged: int) -> str:
        import numpy as np

        self._fill(one.shift)
        picked = set(random.SystemRandom().sample(range(one.count), min(judged, one.count)))
        windows = [row.windows for row in self._rows]
        outputs = [i for i, row in enumerate(self._rows) if row.written]
        receipt = one.seed
        host = self._start(self._program)
        try:
            for number in range(one.count):
                found = chain.windows_of(receipt, windows)
                host.call(0, found)
                host.answered(self._settings.call_timeout_s)
                raw = [np.frombuffer(self._written(i), np.uint8) for i in outputs]
                if number in picked:
                    with kept_memory():
                        why = self._judged(found, raw)
                    if why:
                        return why
                for each in raw:
                    receipt = chain.digest(each, receipt)
        finally:
            host.close()
        if receipt != one.receipt:
            return "the timed calls gave other bits than the same calls one by one"
        return ""

    def _judged(self, windows: list[int], outputs: list[Any]) -> str:
        inputs = self._inputs(self._region(self._shift), windows)
        pairs = zip(self._problem.outputs, outputs, strict=True)
        raw_of = {p.name: raw.tobytes() for p, raw in pairs}
        why = wrong_outputs(self._problem, inputs, raw_of)
        return f"{why} in a timed call" if why else ""

    # ---- memory

    def _row(self, name: str) -> Row:
        slot = next(s for s in self._arena.slots["start"] if s.name == name)
        param = next(p for p in self._problem.params if p.name == name)
        nbytes = math.prod(param.shape) * numpy_dtype(param.dtype).itemsize
        written = slot.file == "outputs"
        return Row(
            offset=slot.offset,
            pages=slot.pages * PAGE,
            lead=slot.lead,
            nbytes=nbytes,
            windows=1 if written or self._stays(name) else (slot.nbytes - nbytes) // STEP + 1,
            written=written,
        )

    def _stays(self, name: str) -> bool:
        """Return whether an input is the same in each call: only its beginning means something."""
        domain = self._problem.domain(name)
        return domain.value is not None or domain.rising

    def _start(self, program: Any) -> HostProcess:
        inputs, outputs = self._arena.descriptors
        try:
            return HostProcess(
                program,
                [self._rows],
                inputs=inputs,
                outputs=outputs,
                threads=self._threads,
                depth_kib=64,
                spin=0 if self._threads == 1 or _busy() else _SPIN,
            )
        except HostFailed as failed:
            raise TimeoutError(f"the host did not start: {failed.why}") from failed

    def _seconds(self, host: HostProcess, count: int, seed: int) -> float:
        try:
            before, queued = host.cpu_seconds(), host.queued_seconds()
            wall = host.slot(count, seed, self._settings.call_timeout_s)
            self._walls += wall
            self._waited += host.queued_seconds() - queued
            return host.cpu_seconds() - before if self.by_processor_time else wall
        except HostFailed as failed:
            raise TimeoutError(failed.why) from failed

    def _refresh(self) -> None:
        if sum(row.pages for row in self._rows if not row.written) <= _REFRESH:
            self._fill(secrets.randbelow(_SHIFTS // STEP))

    def _fill(self, shift: int) -> None:
        import numpy as np

        self._shift = shift
        for slot in self._arena.slots["start"]:
            if slot.file == "inputs":
                body = self._arena.bytes_of(slot)[slot.lead : slot.lead + slot.nbytes]
                body[:] = self._region(shift)[slot.name].view(np.uint8)

    def _region(self, shift: int) -> dict[str, Any]:
        """The regions' contents, moved by `shift` steps of 64 bytes."""
        found = {}
        for name, pool in self._pool.items():
            first = 0 if self._stays(name) else shift * STEP // pool.itemsize
            found[name] = pool[first : first + pool.size - _SHIFTS // pool.itemsize]
        return found

    def _inputs(self, regions: dict[str, Any], windows: list[int]) -> dict[str, Any]:
        """Return the tensors that lie in these windows, in parameter order of the windows."""
        found = {}
        for param, window in zip(self._problem.params, windows, strict=True):
            if param.privilege == "r":
                flat = regions[param.name]
                first = window * STEP // flat.itemsize
                found[param.name] = flat[first : first + math.prod(param.shape)].reshape(
                    param.shape
                )
        return found

    def _written(self, number: int) -> bytes:
        slot = self._arena.slots["start"][number]
        raw = self._arena.bytes_of(slot)
        return bytes(raw[slot.lead : slot.lead + self._rows[number].nbytes])


def wrong_outputs(problem: Problem, inputs: Mapping[str, Any], raw: Mapping[str, bytes]) -> str:
    """Return which output's bytes are wrong for these inputs, "" when none is."""
    policy = load_policy()
    wrong = ""
    for known in budget.growing(problem, inputs, zero_mean=True, policy=policy, seed=1):
        found, _ = settle(problem, inputs, known, raw, zero_mean=True, policy=policy, seed=1)
        wrong = _wrong(problem, found, raw)
        if not wrong:
            return ""
    found = read_stored(problem, inputs, found, raw, zero_mean=True, policy=policy, seed=1)
    return _wrong(problem, found, raw)


def _wrong(problem: Problem, known: Sequence[budget.Expected], raw: Mapping[str, bytes]) -> str:
    for param, wanted in zip(problem.outputs, known, strict=True):
        found = judge.compare(param, wanted, raw[param.name])
        if found.wrong:
            return f"{found.wrong} elements of {param.name} were wrong"
    return ""


def _in_shared_pages(array: Any) -> Any:
    """Return a copy in memory of the kind that the kernel's tensors lie in.

    numpy asks for large pages, which a user's `torch.randn` has not: torch would read faster than the kernel can.
    """
    import numpy as np

    pages = mmap.mmap(-1, max(array.nbytes, PAGE))
    copy = np.frombuffer(pages, array.dtype, array.size).reshape(array.shape)
    copy[:] = array
    return copy


def _busy() -> bool:
    """Whether other work takes the processors: threads that wait awake would then wait for each other's turn."""
    return os.getloadavg()[0] > len(os.sched_getaffinity(0))


def _longer(problem: Problem, extra: int) -> Problem:
    """Return the problem with flat inputs that are `extra` bytes longer; only for drawing them."""
    longer = []
    for param in problem.params:
        size, item = math.prod(param.shape), numpy_dtype(param.dtype).itemsize
        more = extra // item if param.privilege == "r" else 0
        longer.append(replace(param, shape=(size + more,)))
    return replace(problem, params=tuple(longer))


def torch_calls(
    fn: Callable[..., Any], sets: list[dict[str, Any]], *, bound: bool = False
) -> list[Callable[[], Any]]:
    """Return calls of `fn` on each set; bound: `fn(**set)` prepares and returns the call."""
    if bound:
        return [fn(**given) for given in sets]
    return [functools.partial(fn, **given) for given in sets]
