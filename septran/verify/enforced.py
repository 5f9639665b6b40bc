"""What held while a kernel ran, and what this machine or this way of running could not hold."""

from __future__ import annotations

from dataclasses import replace

from septran.verify.problem import Problem
from septran.verify.session import Sessions, Transcript, loader_capabilities
from septran.verify.verdict import Verdict, Where


def with_facts(
    base: Verdict, problem: Problem, transcript: Transcript, sessions: Sessions
) -> Verdict:
    """Return `base` with what was enforced while the kernel ran, and what could not be."""
    result = transcript.result
    enforced = list(result.enforced if result else ())
    missing = [*base.not_checked, *transcript.not_enforced]
    missing += [f"sandbox: {part}" for part in (result.not_enforced if result else ())]
    holds, copied = _memory_checks(
        base.where, sessions, any(p.dtype == "bfloat16" for p in problem.params)
    )
    enforced += holds
    missing += copied
    late = tuple(f"inputs {', '.join(s)}: out of time" for s in (transcript.skipped,) if s)
    missing += late
    enforced += ["poisoned outputs", "replay with new contents", "near-duplicate inputs"]
    if transcript.burst:
        enforced.append(f"{transcript.burst} calls without a pause")
    enforced += ["late writes", "determinism", "rounding mode"]
    enforced += [] if sessions.emulator else ["memory growth"]
    if base.where == "device":
        missing.append("threads of the child: the GPU's driver starts its own")
    else:
        enforced.append("threads")
    return replace(
        base,
        enforced=tuple(enforced),
        not_checked=tuple(dict.fromkeys(missing)),
        untried=(*base.untried, *late),
        diagnostics=transcript.diagnostics,
        log=result.stdout_tail if result else "",
    )


def _memory_checks(where: Where, sessions: Sessions, bfloat16: bool) -> tuple[list[str], list[str]]:
    """Return which of guard pages and read-only inputs held, and which did not with the reason."""
    known = loader_capabilities(sessions.loader)
    if where == "device":
        held = ["guard regions on the device", "inputs unchanged after each call"]
        return held, ["guard pages: reads beside a tensor in device memory do not fault"]
    if "watched" in known:
        return ["bounds of each access of a launch", "read-only inputs"], []
    if "fenced" in known:
        held = ["a pattern beside each tensor", "inputs unchanged after each call"]
        return held, ["guard pages: reads beside a tensor in a module's memory do not fault"]
    if "in_place" not in known:
        why = "this loader copies"
        return [], [f"guard pages: {why}", f"read-only inputs: {why}"]
    if "widens_bfloat16" in known and bfloat16:
        why = "the simulator widens bfloat16 and checks bounds itself"
        return ["read-only inputs"], [f"guard pages: {why}"]
    return ["guard pages", "read-only inputs"], []
