"""Run a kernel's calls in the static host (septran/host/) in place of a Python child.

Same schedule, arena and transcript as `session.run_calls`; what a Python child has to say about itself
(threads, memory) the parent reads from outside.
"""

from __future__ import annotations

import errno
import functools
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from septran.backends.base import Built
from septran.host import object_gate
from septran.host.control import MAX_PARAMS, MAX_THREADS, SETTINGS_LEFT, Row
from septran.host.process import HostFailed, HostProcess
from septran.kernel import Kernel
from septran.toolchain.hosted import null_host
from septran.verify.arena import PAGE, PLACEMENTS, Arena, Slot, tensor_bytes
from septran.verify.cases import draw
from septran.verify.gate_binary import allowed_symbols
from septran.verify.problem import Problem
from septran.verify.reports import Reports
from septran.verify.sandbox import SandboxResult, oom_kills
from septran.verify.session import Call, Sessions, Transcript, converse, note_late_writes, settle

if TYPE_CHECKING:
    import numpy as np

# calls of a burst, at most and at least, and of its first part; its processor seconds; a call's seconds above which there is none
_BURST, _LEAST, _FIRST, _BURST_S, _SMALL_S = 10_000, 100, 10, 0.05, 5e-3
_ENFORCED = (
    "static host",
    "system calls: waiting only",
    "no files, no clock, no new memory",
    "scratch and stack overwritten after each call",
)
_EMULATED = ("static host", "CPU emulator confined", _ENFORCED[-1])
# what a machine has none of for a while
_USED_UP = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
_MEMORY = "memory growth: not seen through the CPU's emulator"


def fits(built: Built, kernel: Kernel, sessions: Sessions) -> bool:
    """Return whether the kernel is judged in the static host that was linked for it."""
    return (
        built.host is not None
        and sessions.gpu is None
        and len(kernel.params) <= MAX_PARAMS
        and (built.runtime_calls is not None or threads_of(kernel, sessions) <= MAX_THREADS)
    )


def threads_of(kernel: Kernel, sessions: Sessions) -> int:
    """Return how many threads a native kernel may use: those of the session, or those it was written for."""
    asked = dict(kernel.options).get("threads")
    return max(sessions.threads, asked if isinstance(asked, int) else 0)


def object_findings(built: Built, kernel: Kernel) -> list[str]:
    """Return what the kernel's object holds that may not come into a host."""
    assert built.kernel_object is not None
    offered = built.runtime_calls or frozenset()
    return object_gate.findings(
        built.kernel_object,
        kernel.entry,
        # what a file that SepTran did not write calls of the C library runs behind the host's filter
        lambda name: built.foreign or name in offered or _allowed(name),
        foreign=built.foreign,
    )


def library_offers(built: Built, kernel: Kernel) -> bool:
    """Return whether the library that users load can be read and has the entry; the host needs neither."""
    assert built.artifact is not None
    return object_gate.offers(built.artifact, kernel.entry)


@functools.cache
def _allowed(symbol: str) -> bool:
    names, patterns = _known_symbols()
    bare = symbol.removesuffix("f").removesuffix("l")
    return symbol in names or bare in names or any(p.fullmatch(symbol) for p in patterns)


@functools.cache
def _known_symbols() -> Any:
    return allowed_symbols()


def rows_of(arena: Arena) -> list[list[Row]]:
    """Return where the arena's tensors lie, per placement, as the host reads it."""
    return [
        [
            Row(
                unit=arena.unit_of(slot.name),
                offset=slot.offset,
                pages=slot.pages * PAGE,
                lead=slot.lead,
                nbytes=slot.nbytes,
                windows=1,
                written=slot.file == "outputs",
                **_filled(arena.sources.get(slot.name) if placement == PLACEMENTS[0] else None),
            )
            for slot in arena.slots[placement]
        ]
        for placement in PLACEMENTS
    ]


def _filled(source: Slot | None) -> dict[str, int]:
    """Return what a row says of where the tensor is filled from before a call."""
    return {} if source is None else {"source": source.offset, "source_pages": source.pages * PAGE}


class HostLine:
    """A `pipe.Line` to a static host."""

    def __init__(
        self,
        host: HostProcess,
        reports: Reports | None = None,
        *,
        rows: Sequence[Sequence[Row]],
        always: bool = True,
    ) -> None:
        """reports: of the simulator that the kernel runs in. always: it also reports calls that end well."""
        # no window: a tensor that is read and written holds what the parent has put there
        self._windows = [row.windows if row.source_pages else 0 for row in rows[0]]
        self._host, self._reports, self._always = host, reports, always
        self._greeting = [{"begins": True}, {"ready": True, **self._facts()}]
        self._calls = 0
        self.why = ""

    def send(self, order: bytes) -> bool:
        """Order one call at the placement `order` begins with."""
        self._host.clear_text()
        try:
            placement = [p[0] for p in PLACEMENTS].index(order.decode())
            self._host.call(placement, self._windows, variant=self._calls)
        except HostFailed:
            return False
        self._calls += 1
        return True

    def receive(self, timeout_s: float) -> dict[str, Any] | str:
        """Return the next message, or why there is none."""
        if self._greeting:
            return self._greeting.pop(0)
        try:
            self._host.answered(timeout_s)
        except HostFailed as failed:
            if self._reports is not None and (self._always or self._host.text):
                self._reports.add(self._host.text)  # a simulator that ends the process says why
            return failed.why
        if (
            self._reports is not None
            and self._always
            and (wrong := self._reports.add(self._host.text))
        ):
            return {"error": wrong}
        changed = self._host.environment
        facts = {
            "rounding": changed & 1,
            "flushes": bool(changed & 2),
            "traps": bool(changed & 4),
            "settings": bool(changed & SETTINGS_LEFT),
        }
        return {"done": True, **self._facts(), **facts}

    def kill(self, why: str) -> None:
        """End the host."""
        self.why = self.why or why
        self._host.kill()

    def _facts(self) -> dict[str, Any]:
        # in the rooms lies what a simulator remembers of a call, and how much that is depends on the order of commands
        resident = self._host.kept_kib if self._always else self._host.private_kib
        return {
            "threads": self._host.threads(),
            "private_kib": resident(),
            "rounding": 0,
            "flushes": False,
            "traps": False,
            "settings": False,
        }


def run_in_host(
    kernel: Kernel,
    built: Built,
    problem: Problem,
    calls: Sequence[Call],
    *,
    settings: Sessions,
    noise: np.random.Generator,
    burst: bool = True,
) -> Transcript | None:
    """Return what happened when the kernel was called on `calls` in its host.

    None: the host does not run here (the machine refuses its filter); nothing of the kernel has run. burst: also repeat the first call.
    """
    assert built.host is not None
    simulated = built.runtime_calls is not None
    # what stands for a library in a file that SepTran did not write says why it ended the process
    reports = Reports() if simulated or built.foreign else None
    # what a kernel's copies need of a tensor's address, it needs of the secret placements too
    alignment = settings.alignment or kernel.alignment
    arena = Arena(problem.params, alignment=alignment, again=burst and not simulated)
    transcript = Transcript(not_enforced=arena.not_enforced, hosted=True)
    begun, killed = time.monotonic(), oom_kills()
    try:
        inputs, outputs = arena.descriptors
        try:
            rows = rows_of(arena)
            host = HostProcess(
                built.host,
                rows,
                inputs=inputs,
                outputs=outputs,
                threads=1 if simulated else threads_of(kernel, settings),
                emulator=settings.emulator,
            )
        except HostFailed as failed:
            if failed.why == "crash":  # refused: the machine has no such filter
                return None
            transcript.failure, transcript.message = (
                "harness",
                f"the host did not start: {failed.why}",
            )
            return transcript
        except OSError as error:
            if error.errno not in _USED_UP:
                return None
            transcript.failure, transcript.message = "harness", f"the host did not start: {error}"
            return transcript
        try:
            line = HostLine(host, reports, rows=rows, always=simulated)
            converse(line, arena, problem, calls, settings, noise, transcript)
            if not transcript.failure:
                settle()
                if host.spoke_out_of_turn:
                    transcript.failure, transcript.message = "protocol", "done"
            if burst and not transcript.failure and not simulated:
                _burst(host, arena, rows, problem, settings, noise, transcript)
            code = host.poll()
            if code is None:
                host.kill()
            host.wait()
            held = host.confinement
            transcript.result = _result(code, line.why, time.monotonic() - begun, killed, held)
            note_late_writes(arena, transcript)
            if reports is not None:
                transcript.diagnostics, transcript.figures = reports.diagnostics, reports.figures
                transcript.accesses = reports.accesses
        finally:
            host.close()
    finally:
        arena.close()
    return transcript


def _burst(
    host: HostProcess,
    arena: Arena,
    rows: list[list[Row]],
    problem: Problem,
    settings: Sessions,
    noise: np.random.Generator,
    transcript: Transcript,
) -> None:
    """Repeat the first call thousands of times without a pause; every call must leave the same bits.

    Shows threads that are not synchronised and kernels that count their calls. What is read and written is filled anew before
    each call. What the chain of digests should be, a host whose kernel does nothing says: it digests the bytes of the judged call as often.
    """
    first = transcript.ran[0]
    null = null_host()
    quick = min(ran.seconds for ran in transcript.ran)
    if null is None or quick > _SMALL_S:
        return
    inputs, outputs = arena.descriptors
    drawn = draw(problem, first.call.case)
    arena.fill(first.call.placement, drawn, noise)
    arena.keep(drawn)
    which = PLACEMENTS.index(first.call.placement)
    assert which == 0, "slots use the first placement"
    seed = int(noise.integers(1 << 62))
    try:
        before = host.cpu_seconds()
        wall = host.slot(_FIRST, seed, settings.call_timeout_s)
        # on a busy machine the wall time says little of the kernel, but it is spent
        once = max((host.cpu_seconds() - before) / _FIRST, wall / _FIRST / 4, 1e-6)
        count = max(_LEAST, min(_BURST, int(_BURST_S / once)))
        host.slot(count, seed, settings.call_timeout_s)
    except HostFailed as failed:
        transcript.failure, transcript.message = failed.why, "call"
        transcript.failed_call = first.call
        return
    slots = {slot.name: slot for slot in arena.slots["end"]}
    pages = arena.snapshot("end")
    transcript.last["end"] = pages
    # what nothing reads need not be written: it holds the noise of this call or of that
    used = {p.name for p in problem.outputs} - problem.unused
    left = {name: tensor_bytes(slots[name], pages[name]) for name in used}
    wanted = {name: first.outputs[name] for name in used}
    # it digests what lies there: nothing is filled
    lying = [[replace(row, source_pages=0) for row in placement] for placement in rows]
    other = HostProcess(null, lying, inputs=inputs, outputs=outputs, threads=1, depth_kib=0)
    try:
        other.slot(count, seed, settings.call_timeout_s, without=True)
        same = other.receipt == host.receipt and left == wanted
    finally:
        other.close()
    transcript.burst = count
    transcript.unsteady = not same


def _result(
    code: int | None,
    why: str,
    seconds: float,
    killed: int,
    held: tuple[tuple[str, ...], tuple[str, ...]] | None,
) -> SandboxResult:
    if code == -signal.SIGKILL and not why and oom_kills() > killed:
        why = "machine memory"
    return SandboxResult(
        rc=code or 0,
        why=why,
        seconds=seconds,
        stdout_tail="",
        enforced=_ENFORCED if held is None else (*_EMULATED, *held[0]),
        not_enforced=() if held is None else (_MEMORY, *held[1]),
    )
