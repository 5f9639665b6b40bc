"""Somebody's file on a GPU of this machine, as its users run it, after the emulation had nothing against it.

The device shows what no emulation does: that the file compiles for it, and what its compiler, its own arithmetic and its timing make of it.
Whether the host function may do what it does was seen before; here nothing stands around it.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from septran.backends.base import Compiled, Foreign, HostCall, Unjudged
from septran.outcome import Level
from septran.trial.place import Place
from septran.verify import timing
from septran.verify.problem import Problem
from septran.verify.verdict import Verdict
from septran.verify.verify import Request, verify

_SEEN = ("compile for a GPU", "time:")
"""how parts of `Foreign.unchecked` begin that a device settles"""
_NOT_ITS_FAULT = re.compile(
    r"(?:load: )?(?:ImportError|ModuleNotFoundError|OSError|PermissionError|FileNotFoundError|TimeoutError|CalledProcessError)\b"
    r"|does not see the GPU|out of memory|[Nn]inja|Operation not permitted|Error building extension"
)
_TIMED_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class OnGpu:
    """What a GPU showed. gpu: its name, "" where none was asked. why: what it could not say, and for which reason; "" for nothing.

    calls: that were judged. seconds: of a call of the host function with a cold L2 cache, torch_seconds: of the reference's operators
    in torch on the same GPU; 0 where they were not timed.
    """

    gpu: str = ""
    why: str = ""
    calls: int = 0
    seconds: float = 0.0
    torch_seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)

    def settles(self, unchecked: str) -> bool:
        """Whether something that an emulation cannot see was seen here."""
        if not self.calls:
            return False
        return unchecked.startswith(_SEEN if self.seconds else _SEEN[:1])


def with_device(verdict: Verdict, found: Verdict | None, shown: OnGpu, sha: str) -> Verdict:
    """Return an accurate verdict, or that of the device where the file is wrong there.

    found, shown: what `on_device` returned. sha: of the kernel that the emulation judged.
    """
    if found is None:
        return verdict.without(f"on {shown.gpu}: {shown.why}")
    if not found.passed:
        found = replace(found, kernel=verdict.kernel, kernel_sha=sha)
        return replace(found, message=f"on {shown.gpu}: {found.message}")
    verdict = replace(verdict, enforced=(*verdict.enforced, f"on {shown.gpu}: {shown.calls} calls"))
    return verdict.without(f"time on {shown.gpu}: {shown.why}") if shown.why else verdict


def with_compiler(unchecked: list[str], found: Compiled) -> list[str]:
    """Return what stays unchecked after the DSL's own compiler was asked where no GPU was; the words in which it refused the file, too.

    A refusal accuses nobody: it is of one version of the compiler, which need not be the author's.
    """
    if found.settles:
        return [text for text in unchecked if not text.startswith(_SEEN[0])]
    if not found.refused:
        return unchecked
    told = f"{_SEEN[0]}: {found.refused}"
    return [told if text.startswith(_SEEN[0]) else text for text in unchecked]


def on_device(
    foreign: Foreign,
    text: str,
    call: HostCall,
    place: Place,
    problem: Problem,
    folder: Path,
    *,
    seed: int | None,
    budget_s: float = _TIMED_S,
) -> tuple[Verdict | None, OnGpu]:
    """Return the verdict on a file that was run on a GPU, None where the GPU could say nothing, and what it showed.

    text: the file as its users have it. place: as `trial.place.device_place`, without trouble. budget_s: seconds of timing.
    """
    name = str(place.sessions.gpu)
    try:
        kernel, _ = (foreign.on_device or foreign.kernel)(text, call, problem.params, place.arch)
    except Unjudged as e:
        return None, OnGpu(gpu=name, why=e.what)
    (folder / "build").mkdir(parents=True, exist_ok=True)
    built = place.build(kernel, folder / "build")
    asked = Request(
        where="device",
        language="",
        seed=seed,
        sessions=place.sessions,
        gate=False,
        unordered=foreign.unordered(text) or "atomic" in text,
    )
    found = verify(kernel, built, problem, run_dir=folder, request=asked)
    if found.level is Level.UNAVAILABLE or _NOT_ITS_FAULT.search(found.message):
        return None, OnGpu(gpu=name, why=found.message)
    shown = OnGpu(gpu=name, calls=len(found.cases))
    if not found.passed:
        return found, shown
    try:
        timed = timing.measure(
            kernel, built, problem, run_dir=folder, settings=place.sessions, budget_s=budget_s
        )
    except Exception as e:  # the reference's graph, which was made for the processor, may do what it likes on a GPU
        timed = timing.Timing(ok=False, why=f"the reference does not run there: {str(e).partition(chr(10))[0][:200]}")  # fmt: skip
    if not timed.ok:
        return found, replace(shown, why=timed.why)
    return found, replace(shown, seconds=timed.kernel_s, torch_seconds=timed.torch_s)
