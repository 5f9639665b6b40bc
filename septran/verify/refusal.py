"""What a child that did not do its work, or did more than its work, says about the kernel.

A child that broke before the kernel's own code could run says nothing about it: the verdict is `unavailable`.
Nothing that a kernel does can bring that about, because the child says "begins" before the kernel's first line.
"""

from __future__ import annotations

from dataclasses import replace

from septran.backends.base import THREW
from septran.outcome import Status
from septran.sandbox import STARVED
from septran.verify.session import Sessions, Transcript, loader_capabilities
from septran.verify.verdict import Verdict

# over about fifteen calls; interpreters (loaders that copy) cache what they compiled
_GROWTH_KIB = {True: 8 * 1024, False: 256 * 1024}
# seen from outside and counted exactly; scratch, heap and stack are touched in the first calls
_GROWTH_IN_HOST_KIB = 512

GROWN = "memory grew"


def refusal(base: Verdict, transcript: Transcript, sessions: Sessions) -> Verdict | None:
    """Return the verdict on a child that did not do its work, or None when there is work to judge."""
    call = transcript.failed_call
    place = f" on inputs {call.case.name!r} at placement {call.placement!r}" if call else ""
    if base.diagnostics:
        first = base.diagnostics[0]
        return base.rejected(
            "V209",
            f"{first.get('kind')}: {first.get('message')}",
            "the emulator saw an access that the device does not allow",
        )
    match transcript.failure:
        case "timeout":
            what = "did not load" if transcript.message == "load" else "did not return"
            return replace(
                base,
                status=Status.TIMEOUT,
                code="V206",
                message=f"the kernel {what} in time{place}",
                hint="an endless loop, a deadlock, or far too slow; run_timeout_s allows longer calls",
            )
        case "crash":
            return replace(base, code="V205", message=_crash_text(transcript, place), hint=_CRASH)
        case "load" | "error":
            return replace(
                base, code="V205", message=f"{transcript.message}{place}", hint="see child.log"
            )
        case "protocol":
            return base.rejected("V211", f"the child spoke out of turn{place}", _FORGE)
    result = transcript.result
    if result is not None and result.why == "output":
        return base.rejected("V211", "the kernel flooded its output", _FORGE)
    claim = _claims(transcript, sessions)
    if claim:
        return base.rejected("V212", claim, OPENMP_HINT if claim == LEFT_OPENMP else _CLEAN)
    if transcript.late:
        return base.rejected(
            "V213",
            f"output {transcript.late[0]} changed after the call had returned",
            "all work ends before the entry returns",
        )
    for ran in transcript.ran:
        if ran.changed:
            what = f"input {ran.changed[0]} was changed (inputs {ran.call.case.name!r})"
            return base.rejected("V215", what, _FORGE)
    if not transcript.ran:
        return replace(base, code="V205", message="the kernel was never called")
    return None


def unavailable(base: Verdict, why: str) -> Verdict:
    """Return the verdict that this machine could not try the kernel: `why` is not the kernel's fault."""
    return base.unavailable(
        "V214",
        f"the kernel could not be tried here: {why}",
        "nothing is known about the kernel; `septran doctor` checks the tools",
    )


def ran_out(transcript: Transcript) -> bool:
    """Return whether the machine's memory, not the kernel's share of it, was used up, or the machine did not run the child."""
    result = transcript.result
    return transcript.failure == STARVED or (
        result is not None and result.why in ("machine memory", STARVED)
    )


def harness_text(transcript: Transcript) -> str:
    """Return in one line what broke before the kernel began."""
    result = transcript.result
    if transcript.failure == STARVED or (result is not None and result.why == STARVED):
        return "the machine gave the child no processor time"
    if result is None:
        return transcript.message
    if ran_out(transcript):
        return "the machine ran out of memory"
    tail = result.stdout_tail.strip().splitlines()
    parts = [result.broken or transcript.message, *([] if result.broken else tail[-1:])]
    if result.why and result.why != transcript.message:
        parts.append(f"ended by its {result.why} limit")
    return "; ".join(parts)[:600]


_CRASH = (
    "an access outside a tensor or a write to an input faults here; check extents at ragged edges"
)
_FORGE = "a kernel writes its outputs and nothing else"
_CLEAN = "a kernel leaves threads, memory and the floating-point environment as it found them"


LEFT_OPENMP = "a setting of OpenMP is another after the call: its number of threads, dynamic teams, levels or schedule"
OPENMP_HINT = "that is so for torch, too; `num_threads(n)` at a pragma is for one region, or set back what omp_get_max_threads() was"
_POOL_THREADS = 8
"""What a loader's own runtime may start later than at its self-test, when calls first wait for each other."""


def _crash_text(transcript: Transcript, place: str) -> str:
    import signal

    result = transcript.result
    if result is None:
        return f"the child ended{place}"
    if result.why:
        return f"the child was ended by its {result.why} limit{place}"
    if transcript.hosted and result.rc == -signal.SIGSYS:
        return f"the kernel asked the operating system for something{place}"
    if result.rc == THREW:
        return f"an exception left the host function{place}"
    if result.rc < 0:
        return f"{signal.Signals(-result.rc).name}{place}"
    return f"the kernel ended the process with status {result.rc}{place}"


def _claims(transcript: Transcript, sessions: Sessions) -> str:
    """Return the first of the child's own facts that counts against the kernel."""
    ready = transcript.ready
    ran = transcript.ran
    if not ran:
        return ""
    for one in ran:
        if one.claims.get("rounding") != ready.get("rounding"):
            return "the rounding mode was changed"
        if one.claims.get("flushes") != ready.get("flushes"):
            return "denormals are flushed to zero after the call"
        if one.claims.get("traps") != ready.get("traps"):
            return "floating-point exceptions trap, or the x87 unit's precision is another, after the call"
        if one.claims.get("settings") != ready.get("settings"):
            return LEFT_OPENMP
    threads = [int(one.claims.get("threads", 1)) for one in ran]
    allowed = int(ready.get("threads", 1)) + sessions.threads
    if "pools" in loader_capabilities(sessions.loader):
        allowed += _POOL_THREADS
    if sessions.gpu is None and max(threads) > allowed:  # a GPU's driver starts its own
        return f"{max(threads)} threads are left after a call; {allowed} are allowed"
    settled = [int(one.claims.get("private_kib", 0)) for one in ran][2:]
    in_place = "in_place" in loader_capabilities(sessions.loader)
    allowed_kib = _GROWTH_IN_HOST_KIB if transcript.hosted else _GROWTH_KIB[in_place]
    if len(settled) > 4 and settled[-1] - settled[0] > allowed_kib:
        return f"{GROWN} by {settled[-1] - settled[0]} KiB over {len(settled)} calls"
    return ""
