"""Whether what SepTran did not write answers the same with its tensors, stack and allocations elsewhere, and in other teams.

A kernel may branch on an address, on how far apart two pointers lie, on flags of the floating-point unit, or on how many threads
it may have: where it is judged, it is right. One set of inputs is therefore given to it again, some thousands of times, each time in
other surroundings (septran/host/moved.h). Other bits alone accuse nobody: each result that is another is judged, once.
"""

from __future__ import annotations

import math
import random
import re
import secrets
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from septran.accuracy import load_policy
from septran.host import control
from septran.host.process import HostFailed, HostProcess
from septran.ir.dtypes import is_float, nbytes
from septran.kernel import Kernel
from septran.toolchain.built import Built
from septran.toolchain.machine_asked import surroundings_asked
from septran.verify import budget
from septran.verify.arena import Arena, Placement, tensor_bytes
from septran.verify.cases import Case, draw, numpy_dtype, plan
from septran.verify.hosted import fits, rows_of, threads_of
from septran.verify.kept_memory import kept_memory
from septran.verify.problem import Problem
from septran.verify.refusal import LEFT_OPENMP, OPENMP_HINT
from septran.verify.session import Call, Ran, Sessions, Transcript
from septran.verify.verdict import Verdict
from septran.verify.verify import judged

if TYPE_CHECKING:
    import numpy as np

_CHECK = "other surroundings"
# calls at least and at most, and by how much their number grows; processor seconds; bytes of all tensors above which there are none
_LEAST, _MOST, _STEP, _SECONDS, _MOST_BYTES = 2, 4096, 8, 0.15, 64 << 20
_LEAF_SECONDS = 0.02  # of a kernel with somebody else's leaves, whose language knows no addresses: this looks once more
_TEAMS = (1, 4, 6, 8, 12, 16, 24, 32, 64, 96, 128, 192, 256, 384, 768, 1024)
_PICKED = 2  # more numbers of threads that nobody knows before
_FEW = 64  # a file may have room for no more threads: only a wrong result accuses it then
# in another rounding mode: parts of the largest result that one may be off by, and of the results that may be off by more
_OFF, _FEW_OF, _TINY = 0.25, 0.01, 1e-30
_SIZED = re.compile(r"\bnum_threads\s*\(\s*\d|\bomp_set_num_threads\s*\(")
_PLACES = "its tensors, its stack and its allocations lay elsewhere in this call"
_UNIT = "another rounding mode or flushed denormals were set before this call"
SHRUNK = "it sets how many threads OpenMP has, and with another number than that its call ended before it answered"
_HINT = "an answer depends on the inputs alone: not on addresses, flags, or the number of threads"


@dataclass(frozen=True, slots=True)
class _Other:
    """A call in other surroundings whose result is another: where, in words, and whether an input was changed."""

    ran: Ran
    where: str
    changed: bool = False


class _Ended(Exception):
    """The process ended in other surroundings; the text says how, and where."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is called: a file's build, on the inputs of a case."""

    built: Built
    arena: Arena
    problem: Problem
    case: Case
    sessions: Sessions
    noise: np.random.Generator

    def started(self, threads: int, *, moves: bool = False) -> HostProcess:
        """Return a host with so many threads that has made one call at the first placement, whose outputs lie there.

        Raises:
            HostFailed: it did not start. _Ended: the call.
        """
        host = self._called(threads, moves=moves)
        try:
            host.answered(self.sessions.call_timeout_s)
        except HostFailed as failed:
            host.close()
            raise _ended(host, failed, f"in a team of {threads}") from failed
        return host

    def leaves_settings(self, threads: int) -> bool | None:
        """Whether a call with so many threads leaves a setting of OpenMP, None where it ended before that could be seen.

        A team that is told to shrink ends threads, which ends the process; whether the word was written before that is the machine's load.
        """
        host, ended = self._called(threads), False
        try:
            try:
                host.answered(self.sessions.call_timeout_s)
            except HostFailed:
                ended = True
            if host.environment & control.SETTINGS_LEFT:
                return True
            return None if ended else False
        finally:
            host.close()

    def _called(self, threads: int, *, moves: bool = False) -> HostProcess:
        """Return a host that makes a call at the first placement."""
        assert self.built.host is not None
        inputs, outputs = self.arena.descriptors
        host = HostProcess(
            self.built.host, rows_of(self.arena), inputs=inputs, outputs=outputs, threads=threads,
            depth_kib=1024 if moves else 16, moves=moves,
        )  # fmt: skip
        drawn = draw(self.problem, self.case)
        self.arena.fill("end", drawn, self.noise)
        self.arena.keep(drawn)
        try:
            host.call(0)
        except HostFailed:
            host.close()
            raise
        return host

    def ran(self, placement: Placement = "end") -> Ran:
        """Return the call whose outputs lie at a placement."""
        pages = self.arena.snapshot(placement)
        slots = {slot.name: slot for slot in self.arena.slots[placement]}
        outputs = {name: tensor_bytes(slots[name], raw) for name, raw in pages.items()}
        call = Call(case=self.case, placement="end")
        return Ran(call=call, outputs=outputs, beside=(), seconds=0.0, claims={})


def with_other_surroundings(
    verdict: Verdict,
    kernel: Kernel,
    built: Built,
    problem: Problem,
    sessions: Sessions,
    *,
    suspect: bool = False,
) -> Verdict:
    """Return an accurate `verdict`, or that on a call in other surroundings where the kernel is wrong.

    Asked of files that SepTran did not write, and of kernels that hold somebody else's leaves (suspect), which are only moved: no leaf asks
    for flags or threads. Of what runs in the static host without a simulator.
    """
    native = built.runtime_calls is None and not sessions.emulator
    asked = built.foreign or suspect
    if not verdict.passed or not asked or not native or not fits(built, kernel, sessions):
        return verdict
    if sum(math.prod(p.shape) * nbytes(p.dtype) for p in problem.params) > _MOST_BYTES:
        return verdict.without(f"{_CHECK}: its tensors are large; smaller ones are moved")
    arena = Arena(problem.params, alignment=sessions.alignment or kernel.alignment, again=True)
    try:
        return _looked(verdict, _asked(built, arena, problem, sessions, verdict.seed), kernel)
    except _Ended as ended:
        return verdict.rejected("V205", str(ended), _HINT)
    except (HostFailed, OSError) as error:
        return verdict.without_for_now(f"{_CHECK}: the machine did not run it ({error})")
    finally:
        arena.close()


def _asked(
    built: Built, arena: Arena, problem: Problem, sessions: Sessions, seed: int | None
) -> _Asked:
    import numpy as np

    cases = plan(problem, seed or 0)
    case = next((c for c in cases if c.family == "normal"), cases[0])
    noise = np.random.default_rng(secrets.randbits(64))
    return _Asked(built, arena, problem, case, sessions, noise)


def _looked(verdict: Verdict, asked: _Asked, kernel: Kernel) -> Verdict:
    """Make the calls and judge what they gave."""
    words = surroundings_asked(asked.built, kernel.entry) if asked.built.foreign else frozenset()
    threads = threads_of(kernel, asked.sessions)
    # the number that the text has would be no other one
    if "settings" in words:
        left = asked.leaves_settings(threads + 1)
        if left:
            return verdict.rejected("V212", LEFT_OPENMP, OPENMP_HINT)
        if left is None:
            return verdict.unavailable("V217", SHRUNK, OPENMP_HINT)
    others: list[_Other] = []
    calls = _moved(asked, threads, words, others)
    teams = []
    # of a file that asks, other readings have numbers of threads of their own
    if "teams" in words and not _SIZED.search(kernel.source) and threads == asked.sessions.threads:
        picked = random.SystemRandom().sample(range(5, _TEAMS[-1]), _PICKED)
        teams = [n for n in sorted({*_TEAMS, *picked}) if n != threads]
        others += _in_teams(asked, teams)
    if any(other.changed for other in others):
        return verdict.rejected("V215", f"an input was changed: {_PLACES}", _HINT)
    for where in dict.fromkeys(other.where for other in others):
        ran = [other.ran for other in others if other.where == where]
        found = _judged(verdict, asked.problem, ran)
        near = _UNIT in where and all(_near(asked.problem, others[0].ran, one) for one in ran)
        if not found.passed and not near:
            return replace(found, message=f"{found.message}; {where}", hint=_HINT)
    sizes = f", teams of {', '.join(map(str, teams))}" if teams else ""
    return replace(verdict, enforced=(*verdict.enforced, f"{_CHECK}: {calls} calls{sizes}"))


def _judged(verdict: Verdict, problem: Problem, ran: list[Ran]) -> Verdict:
    with budget.threads(1), kept_memory():
        return judged(verdict, problem, Transcript(ran=ran), load_policy(), unordered=False)


def _near(problem: Problem, usual: Ran, ran: Ran) -> bool:
    """Whether results differ by no more than another rounding mode, or flushed denormals, may be answerable for.

    Sums that nearly cancel move by more than their budgets, and where values lie at a limit a few results are other numbers.
    """
    import numpy as np

    for param in problem.outputs:
        if not is_float(param.dtype) or param.name in problem.unused:
            continue
        kind = numpy_dtype(param.dtype)
        wanted = np.frombuffer(usual.outputs[param.name], kind).astype(np.float64)
        found = np.frombuffer(ran.outputs[param.name], kind).astype(np.float64)
        largest = np.abs(wanted[np.isfinite(wanted)]).max(initial=0.0)
        same = (found == wanted) | np.isnan(found) & np.isnan(wanted)
        close = same | (np.abs(found - wanted) <= _OFF * largest + _TINY)
        if np.count_nonzero(~close) > max(_FEW_OF * close.size, int(close.size > 1)):
            return False
    return True


def _moved(asked: _Asked, threads: int, words: frozenset[str], others: list[_Other]) -> int:
    """Call the kernel at thousands of places; return how many calls there were. others: gets those whose results are others."""
    vary = control.VARY_UNIT * ("unit" in words) | control.VARY_LEVEL * ("level" in words)
    timeout = asked.sessions.call_timeout_s
    seed = secrets.randbits(63)
    host = asked.started(threads, moves=True)
    try:
        others.append(_Other(asked.ran(), "its inputs were those of other calls"))
        first, end = 0, 1
        begun = host.cpu_seconds()
        while first < end:
            at = host.moved(first, end, seed, timeout, vary=vary)
            if at < end:
                told = host.environment
                where = f"{_PLACES}, and {_UNIT}" if told & control.VARY_UNIT else _PLACES
                changed = bool(told & control.INPUT_CHANGED)
                others.append(_Other(asked.ran("start"), where, changed))
            first = at + (at < end)
            if first >= end:  # as many more as the time that is left allows
                once = max((host.cpu_seconds() - begun) / end, 1e-6)
                most = _SECONDS if asked.built.foreign else _LEAF_SECONDS
                end = max(end, _LEAST, min(_STEP * end, _MOST, int(most / once)))
        return end
    except HostFailed as failed:
        raise _ended(host, failed, _PLACES) from failed
    finally:
        host.close()


def _in_teams(asked: _Asked, teams: Sequence[int]) -> Iterator[_Other]:
    """Call the kernel once with each number of threads, up to the first that it cannot have."""
    for threads in teams:
        try:
            host = asked.started(threads)
        except (_Ended, HostFailed):
            if threads > _FEW:
                return
            raise
        try:
            yield _Other(asked.ran(), f"it had {threads} threads in this call")
        finally:
            host.close()


def _ended(host: HostProcess, failed: HostFailed, where: str) -> Exception:
    """Return what is to be raised of a host that gave no answer."""
    if failed.why == "starved":
        return failed
    if failed.why == "timeout":
        return _Ended(f"the kernel did not return in time: {where}")
    code = host.wait()
    how = signal.Signals(-code).name if code < 0 else f"the process ended with status {code}"
    return _Ended(f"{how}: {where}")
