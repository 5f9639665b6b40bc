"""Whether threads of a block touch the same byte of shared memory without an order between them.

An emulation that runs a block's threads one after another shows what three orders of threads make of a missing barrier, and
nothing where a thread reads back what another one is about to overwrite. A noted build tells who stored and who loaded each
byte, whatever the order was. It is called a few times and can only reject a kernel. Its products and sums are fused, as a device's
compiler makes them, so what it computes is judged, too: `x * x - p` is 0 or what rounding left of p, and a kernel could ask which.
In its first call it counts what the accesses of warps take of memory.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from septran.accuracy import load_policy
from septran.kernel import Kernel
from septran.toolchain.built import Built
from septran.verify import budget, hosted
from septran.verify.kept_memory import kept_memory
from septran.verify.problem import Problem
from septran.verify.refusal import harness_text, ran_out
from septran.verify.session import Call, Sessions, Transcript, run_calls
from septran.verify.verdict import Verdict
from septran.verify.verify import judged, schedule
from septran.verify.warp_accesses import warp_accesses

Build = Callable[[Kernel, Path], Built]
_CALLS, _CALL_S, _BUDGET_S = 4, 15.0, 15.0
_CHECK = "who stores and loads each byte of shared memory"
_HINTS = {
    "race": "a barrier orders what threads store with what others load: __syncthreads() for a block, __syncwarp() for a warp",
    "fence": "fence.proxy.async (cde::fence_proxy_async_shared_cta()) behind the stores, before the barrier, shows them to bulk copies and wgmma",
    "opaque": "mbarriers are handed to the instructions and functions that take them, and never looked into",
    "constant": "__ldg is for what no thread stores while the kernel runs; read it plainly",
    "address": "device code reaches memory of cudaMalloc, pinned and managed memory; the host copies what it wants of the first",
}
"""by the kind of what such a build alone sees"""


def with_noted_accesses(
    verdict: Verdict,
    kernel: Kernel,
    problem: Problem,
    build: Build,
    folder: Path,
    sessions: Sessions,
) -> Verdict:
    """Return an accurate `verdict`, or V209 where threads of a noted build race, or reach the host's memory; what it could not see is not checked.

    build: what makes the noted build in `folder`. Kernels whose leaves are all the library's are not built again.
    """
    written = not kernel.leaves or any(leaf.writer != "library" for leaf in kernel.leaves)
    if not verdict.passed or not written:
        return verdict
    built = build(kernel, folder)
    if built.artifact is None:
        return _unchecked(verdict, (built.log.splitlines() or ["it could not be built"])[0][:200])
    budget_s = max(_BUDGET_S, sessions.budget_s / 4)  # whoever asks for all inputs gets all calls
    asked = replace(sessions, call_timeout_s=_CALL_S, budget_s=budget_s, minimum_calls=1)
    transcript = called(kernel, built, problem, _calls(problem, verdict.seed), asked, folder)
    for kind, hint in _HINTS.items():
        for said in (d for d in transcript.diagnostics if d.get("kind") == kind):
            seen = replace(verdict, diagnostics=transcript.diagnostics)
            return seen.rejected("V209", f"{kind}: {said.get('message')}", hint)
    if transcript.failure == "harness" or ran_out(transcript):
        return verdict.without_for_now(f"{_CHECK}: {harness_text(transcript)}")
    if transcript.failure or not transcript.ran:
        return _unchecked(verdict, _why(transcript))
    verdict = _fused(verdict, problem, transcript)
    if not verdict.passed:
        return verdict
    left = [f"{_CHECK}: {part}" for part in built.not_checked if part not in verdict.not_checked]
    if transcript.skipped:
        left_out = f"{_CHECK}: of {len(transcript.ran)} calls alone, for want of time"
        verdict = verdict.without_for_now(left_out)
    fact = f"{_CHECK}: {len(transcript.ran)} calls"
    counted = warp_accesses(transcript.accesses, kernel, built.host)
    return replace(verdict.without(*left), enforced=(*verdict.enforced, fact), accesses=counted)


def _fused(verdict: Verdict, problem: Problem, transcript: Transcript) -> Verdict:
    """Return the verdict, or V202 where the kernel is wrong once products and sums are fused."""
    with budget.threads(1), kept_memory():
        now = judged(verdict, problem, transcript, load_policy(), unordered=True)
    if now.code != "V202":
        return verdict
    return replace(
        now,
        message=f"with fused multiply-adds, as a device's compiler makes them: {now.message}",
        hint="a result may not depend on whether a product is rounded before it is added",
    )


def counted_accesses(
    kernel: Kernel,
    problem: Problem,
    build: Build,
    folder: Path,
    sessions: Sessions,
    seed: int | None,
) -> Mapping[str, Any]:
    """Return what the accesses of a kernel's warps take in one call of a noted build; {} where that cannot be told."""
    built = build(kernel, folder)
    if built.artifact is None:
        return {}
    asked = replace(sessions, call_timeout_s=_CALL_S, budget_s=_BUDGET_S, minimum_calls=1)
    call = _calls(problem, seed)[:1]
    transcript = called(kernel, built, problem, call, asked, folder, burst=False)
    if transcript.failure or not transcript.ran:
        return {}
    return warp_accesses(transcript.accesses, kernel, built.host)


def _calls(problem: Problem, seed: int | None) -> tuple[Call, ...]:
    """Return calls on different inputs, those at the numbers that the kernel holds among them.

    Tensors of the first, whose accesses are counted, lie as a device's allocations do: at the start of a page.
    """
    of_case = {call.case: call for call in reversed(schedule(problem, seed or 0))}
    calls = tuple(reversed(of_case.values()))
    named = [call for call in calls if call.case.name.startswith("points")]
    first, *others = dict.fromkeys((*calls[: _CALLS - 1], *named, *calls[:_CALLS]))
    return (replace(first, placement="start"), *others)[:_CALLS]


def called(
    kernel: Kernel,
    built: Built,
    problem: Problem,
    calls: tuple[Call, ...],
    sessions: Sessions,
    folder: Path,
    *,
    burst: bool = True,
) -> Transcript:
    """Return what happened when a kernel was called on `calls`; nothing is judged. burst: also thousands of times without a pause."""
    import numpy as np

    noise = np.random.default_rng(secrets.randbits(64))
    if hosted.fits(built, kernel, sessions) and not hosted.object_findings(built, kernel):
        found = hosted.run_in_host(
            kernel, built, problem, calls, settings=sessions, noise=noise, burst=burst
        )
        if found is not None:
            return found
    assert built.artifact is not None
    return run_calls(
        kernel,
        built.artifact,
        problem,
        calls,
        settings=sessions,
        work=folder / "child",
        noise=noise,
    )


def _unchecked(verdict: Verdict, why: str) -> Verdict:
    return verdict.without(f"{_CHECK}: {why}")


def _why(transcript: Transcript) -> str:
    if transcript.failure == "timeout":
        return f"a call takes more than {_CALL_S:g} s when it is noted; smaller dims are checked"
    said = [str(d.get("message")) for d in transcript.diagnostics]
    return f"the noted build ended early: {(said or [transcript.message or transcript.failure])[0][:200]}"
