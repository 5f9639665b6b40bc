"""The verdict on a program in which torch computes a part: kernels and torch's calls in order, judged as a whole.

Each kernel has a verdict of its own before. Here the bytes that one step leaves are what the next one reads, and what comes
out at the end is compared with the whole module in float64.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septran.accuracy import load_policy
from septran.backends.base import Built
from septran.kernel import Kernel
from septran.outcome import Status
from septran.verify import budget, hosted
from septran.verify.cases import Case, draw, numpy_dtype
from septran.verify.judge import torch_dtype
from septran.verify.problem import Problem
from septran.verify.refusal import harness_text, ran_out, refusal, unavailable
from septran.verify.session import Call, Ran, Sessions, Transcript, run_calls
from septran.verify.verdict import Verdict
from septran.verify.verify import judged, schedule

if TYPE_CHECKING:
    import torch

    from septran.verify.cases import Array

Values = dict[str, Any]
"""The module's values of one case, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelStep:
    """A built kernel. problem: its own; names: its parameter -> the module's value; sessions: how it is run."""

    kernel: Kernel
    built: Built
    problem: Problem
    names: Mapping[str, str]
    sessions: Sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchStep:
    """A part that torch computes. reads: the module's values; run: those as tensors -> what it makes, by name."""

    reads: tuple[str, ...]
    run: Callable[[Mapping[str, torch.Tensor]], Mapping[str, torch.Tensor]]


def verify_steps(
    base: Verdict,
    problem: Problem,
    names: Mapping[str, str],
    steps: Sequence[KernelStep | TorchStep],
    *,
    work: Path,
) -> Verdict:
    """Return the verdict on steps that compute `problem` together.

    base: what is known before; its seed is that of the secret inputs. names: parameter of the problem -> the module's value.
    Files of the children go to `work`. Never raises for anything that a kernel does.
    """
    assert base.seed is not None
    calls = _once(schedule(problem, base.seed))
    values: dict[str, Values] = {}
    for call in calls:
        drawn = draw(problem, call.case)
        values[call.case.name] = {names[p.name]: drawn[p.name] for p in problem.inputs}
    for number, step in enumerate(steps):
        if isinstance(step, TorchStep):
            for known in values.values():
                known.update(_by_torch(step, known))
            continue
        failed, calls = _by_kernel(base, step, calls, values, work / f"step_{number}")
        if failed is not None:
            return failed
    ran = [_ran(problem, names, call, values[call.case.name]) for call in calls]
    left = [n for n in values if n not in {c.case.name for c in calls}]
    if left:
        base = base.without(f"inputs {', '.join(left)}: no time left")
    with budget.threads(1):
        return judged(base, problem, Transcript(ran=ran), load_policy(), unordered=False)


def _once(calls: Sequence[Call]) -> tuple[Call, ...]:
    found: dict[Case, Call] = {}
    for call in calls:
        found.setdefault(call.case, Call(case=call.case, placement="end"))
    return tuple(found.values())


def _by_torch(step: TorchStep, known: Values) -> dict[str, Array]:
    given = {n: _tensor(known[n]) for n in step.reads}
    return {n: _array(t) for n, t in step.run(given).items()}


def _by_kernel(
    base: Verdict,
    step: KernelStep,
    calls: tuple[Call, ...],
    values: Mapping[str, Values],
    work: Path,
) -> tuple[Verdict | None, tuple[Call, ...]]:
    """Return the verdict when the kernel did not run, and the calls that it was run on; `values` has what it made."""
    import numpy as np

    made = {
        call.case.name: {
            p.name: values[call.case.name][step.names[p.name]].reshape(p.shape)
            for p in step.problem.inputs
        }
        for call in calls
    }
    problem = replace(step.problem, made=made, within=None)
    noise = np.random.default_rng(secrets.randbits(64))
    transcript = None
    if hosted.fits(step.built, step.kernel, step.sessions):
        transcript = hosted.run_in_host(
            step.kernel, step.built, problem, calls, settings=step.sessions, noise=noise
        )
    if transcript is None and step.sessions.emulator:
        return unavailable(base, f"no host for {step.kernel.arch} could be run"), ()
    if transcript is None:
        assert step.built.artifact is not None
        transcript = run_calls(
            step.kernel,
            step.built.artifact,
            problem,
            calls,
            settings=step.sessions,
            work=work,
            noise=noise,
        )
    if transcript.failure == "harness" or ran_out(transcript):
        return unavailable(base, harness_text(transcript)), ()
    told = replace(base, status=Status.RUNTIME_ERROR)
    failed = refusal(told, transcript, step.sessions)
    if failed is not None:
        return failed, ()
    for ran in transcript.ran:
        for param in step.problem.outputs:
            array = np.frombuffer(ran.outputs[param.name], dtype=numpy_dtype(param.dtype))
            values[ran.call.case.name][step.names[param.name]] = array.reshape(param.shape)
    return None, tuple(ran.call for ran in transcript.ran)


def _ran(problem: Problem, names: Mapping[str, str], call: Call, known: Values) -> Ran:
    outputs = {}
    for param in problem.outputs:
        wanted = numpy_dtype(param.dtype)
        outputs[param.name] = known[names[param.name]].astype(wanted, copy=False).tobytes()
    return Ran(call=call, outputs=outputs, beside=(), seconds=0.0, claims={})


def _tensor(array: Array) -> torch.Tensor:
    import torch

    raw = bytearray(array.tobytes())
    return torch.frombuffer(raw, dtype=torch_dtype(str(array.dtype))).reshape(array.shape)


def _array(tensor: torch.Tensor) -> Array:
    import numpy as np
    import torch

    name = str(tensor.dtype).removeprefix("torch.")
    raw = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return np.frombuffer(raw, dtype=numpy_dtype(name)).reshape(tuple(tensor.shape))
