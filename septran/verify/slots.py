"""A verified kernel in its static host, timed by the parent on work that is bound to judged bits.

A slot is some orders for many calls each. Its inputs are windows into secret regions that are new for each slot; which window
the next call reads follows from a digest over all outputs of the call before it (`septran.host.chain`), from a seed that is
written after the parent's clock has started. Only the last digest comes back. Afterwards a second process makes the calls of the fastest
order and of one drawn at random again, one by one; the parent digests the outputs itself and judges some of them against float64.
So every timed call did the work, whatever the kernel did to the host's memory.

A tensor that is read and written is filled every few calls from a window into a secret region of its own; between, a call works on what
the last one left, as in a user's loop. A long row of such calls is made after the slots (`_repeated`).
"""

from __future__ import annotations

import math
import os
import random
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from septran.accuracy import load_policy
from septran.backends.base import Built
from septran.host import chain
from septran.host.control import Row
from septran.host.process import HostFailed, HostProcess
from septran.kernel import Kernel, KernelParam
from septran.toolchain.hosted import null_host
from septran.verify import budget, judge
from septran.verify.arena import PAGE, Arena
from septran.verify.cases import Case, numpy_dtype
from septran.verify.hosted import fits, threads_of
from septran.verify.kept_memory import kept_memory
from septran.verify.problem import Problem
from septran.verify.regions import ROUND, SHIFTS, Regions, array_of, source
from septran.verify.session import Sessions
from septran.verify.settle import read_stored, settle

_GROWTH_KIB = 512
_JUDGED = 3
_REPEATED_S = 0.5
_SPIN = 10_000
MOST = 1000
"""Calls in one order, of which a slot has as many as it needs: those of an order are made again one by one."""


@dataclass(frozen=True, slots=True)
class _Timed:
    count: int
    seed: int
    receipt: int
    seconds: float
    shift: int


def can_be_timed(built: Built, kernel: Kernel, problem: Problem, settings: Sessions) -> bool:
    """Return whether slots of chained calls work for the kernel: it has a static host for this processor."""
    return built.runtime_calls is None and fits(built, kernel, settings) and null_host() is not None


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
        self._regions = Regions(problem, Case(name="timing", family="normal", seed=seed))
        self._arena = Arena(self._regions.params(), alignment=64)
        self._arena.fill("start", {}, np.random.default_rng(seed))
        self._fill(0)
        self._rows = [self._row(p) for p in problem.params]
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
        """Inputs for torch, like the kernel's."""
        return self._regions.sets()

    def slot(self, count: int) -> float:
        """Return the seconds of `count` calls without the hand-over and the chain.

        Raises:
            TimeoutError: the kernel stopped answering.
        """
        if not self._timed:
            self._kept = self._host.kept_kib()
        elif self._resident < 0:  # scratch was touched for the first time by then
            self._resident = self._host.private_kib()
        self._fill(secrets.randbelow(SHIFTS))
        orders = -(-count // MOST)
        return sum(self._order(count // orders + (k < count % orders)) for k in range(orders))

    def _order(self, count: int) -> float:
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
        whole = [t for t in self._timed if 2 * t.count > full]  # a slot's orders differ by one
        fastest = min(whole, key=lambda t: t.seconds)
        try:
            for one in {fastest} if sample else {fastest, secrets.choice(whole)}:
                if why := self._made_again(one, 1 if sample else _JUDGED):
                    return why
            return "" if sample else self._repeated(full)
        except HostFailed as failed:
            return f"the kernel stopped answering when calls were made again: {failed.why}"

    def _made_again(self, one: _Timed, judged: int) -> str:
        import numpy as np

        self._fill(one.shift)
        draw = random.SystemRandom()
        picked = set(draw.sample(range(one.count), min(judged, one.count)))
        # on new contents: what calls in place go on to need not be ordinary numbers
        picked.add(draw.randrange(0, one.count, ROUND))
        windows = [row.windows for row in self._rows]
        receipt = one.seed
        host = self._start(self._program)
        try:
            for number in range(one.count):
                inputs = self._call(host, number, chain.windows_of(receipt, windows))
                raw = self._outputs()
                if (
                    number in picked
                    and self._regions.ordinary(inputs)
                    and (why := self._judged(inputs, raw))
                ):
                    return f"{why} in a timed call"
                for each in raw:
                    receipt = chain.digest(np.frombuffer(each, np.uint8), receipt)
        finally:
            host.close()
        if receipt != one.receipt:
            return "the timed calls gave other bits than the same calls one by one"
        return ""

    def _repeated(self, count: int) -> str:
        """Return what is wrong with one of `count` calls that work on what the call before left, "" when nothing."""
        if not any(map(self._regions.leaves_any, self._problem.params)):
            return ""
        draw = random.SystemRandom()
        windows = [draw.randrange(row.windows) for row in self._rows]
        picked = {count - 1, *draw.sample(range(count), min(_JUDGED, count))}
        until = time.monotonic() + _REPEATED_S
        host = self._start(self._program)
        try:
            for number in range(count):
                late = time.monotonic() > until
                inputs = self._call(host, min(number, 1), list(windows))
                if not self._regions.ordinary(inputs):
                    break
                if (number in picked or late) and (why := self._judged(inputs, self._outputs())):
                    return f"{why} in call {number + 1} of a row that works in place"
                if late:
                    break
        finally:
            host.close()
        return ""

    def _call(self, host: HostProcess, number: int, windows: list[int]) -> dict[str, Any]:
        """Make call `number` of a slot and return its inputs."""
        inputs = self._regions.inputs(self._regions.at(self._shift), windows)
        for i, (param, row) in enumerate(zip(self._problem.params, self._rows, strict=True)):
            if number % row.every:
                windows[i] = row.windows  # none: it keeps what it holds
                inputs[param.name] = array_of(self._held(i), param)
        host.call(0, windows)
        host.answered(self._settings.call_timeout_s)
        return inputs

    def _outputs(self) -> list[bytes]:
        return [self._held(i) for i, row in enumerate(self._rows) if row.written]

    def _judged(self, inputs: dict[str, Any], outputs: list[bytes]) -> str:
        raw_of = {p.name: raw for p, raw in zip(self._problem.outputs, outputs, strict=True)}
        with kept_memory():
            return wrong_outputs(self._problem, inputs, raw_of)

    # ---- memory

    def _row(self, param: KernelParam) -> Row:
        slots = {slot.name: slot for slot in self._arena.slots["start"]}
        slot, filled = slots[param.name], slots.get(source(param.name))
        return Row(
            offset=slot.offset,
            pages=slot.pages * PAGE,
            lead=slot.lead,
            nbytes=math.prod(param.shape) * numpy_dtype(param.dtype).itemsize,
            windows=self._regions.windows(param),
            written=slot.file == "outputs",
            source=filled.offset if filled else 0,
            source_pages=filled.pages * PAGE if filled else 0,
            every=ROUND if self._regions.leaves_any(param) else 1,
        )

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

    def _fill(self, shift: int) -> None:
        import numpy as np

        self._shift = shift
        slots = {slot.name: slot for slot in self._arena.slots["start"]}
        for name, region in self._regions.at(shift).items():
            slot = slots.get(source(name), slots[name])
            body = self._arena.bytes_of(slot)[slot.lead : slot.lead + slot.nbytes]
            body[:] = region.view(np.uint8)

    def _held(self, number: int) -> bytes:
        """The bytes that a tensor holds now."""
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


def _busy() -> bool:
    """Whether other work takes the processors: threads that wait awake would then wait for each other's turn."""
    return os.getloadavg()[0] > len(os.sched_getaffinity(0))
