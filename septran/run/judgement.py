"""What is asked of the judge of somebody's kernel, and what it found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from septran.outcome import Level
from septran.prove.foreign.launch import Proof
from septran.run.host_call import Numbers
from septran.run.host_numbers import Guess
from septran.run.judge_device import OnGpu
from septran.trial.place import Wanted as Where
from septran.verify.verdict import Verdict

SCHEMA = "septran.judge/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeRequest:
    """What to judge. file: with the kernel and its host function; reference: a module file or a function.

    entry: the host function, "" to find it. backend: "" to tell it from the file. numbers: values of the host
    function's number parameters by name. specials: also NaN, infinities and denormals. seed: of the secret inputs.
    allow_torch: operators that torch may compute beside the kernels, by name, or "all". in_place: parameters of the host function that
    hold results, too. where: "auto"
    also runs it on a GPU where there is one, "device" asks for one, "emulated" does without. sizes: "given", the file is made for the
    sizes of the reference's inputs and called at no others.
    """

    file: Path
    reference: Path
    entry: str = ""
    backend: str = ""
    numbers: Numbers = field(default_factory=dict)
    specials: bool = False
    seed: int | None = None
    allow_torch: tuple[str, ...] = ()
    where: Where = "auto"
    in_place: tuple[str, ...] = ()
    sizes: Literal["any", "given"] = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The septran.judge/1 object. finding: the class of what is wrong, "" when nothing was found.

    left_out: lines of the file that the entry does not need, which were not run. sha: of file and reference.
    proof: of bounds and races, from the text and the launches that were made. by_torch: operators that torch computed, with lines.
    device: what a GPU of this machine showed. compiler: what the DSL's own made of it where no GPU was asked, "" for nothing.
    guesses: what numbers that nobody gave may be. taken: what they were.
    """

    request: JudgeRequest
    backend: str
    entry: str
    verdict: Verdict
    finding: str
    left_out: tuple[str, ...]
    sha: str
    proof: Proof = field(default_factory=Proof)
    by_torch: tuple[str, ...] = ()
    device: OnGpu = field(default_factory=OnGpu)
    compiler: str = ""
    guesses: tuple[Guess, ...] = ()
    taken: Mapping[str, int] = field(default_factory=dict)

    @property
    def code(self) -> int:
        """The exit code: 0 nothing found, 1 something, 3 it could not be judged here."""
        if self.verdict.level is Level.UNAVAILABLE:
            return 3
        return 0 if self.verdict.passed else 1

    def to_json(self) -> dict[str, Any]:
        """Return the septran.judge/1 object; `verdict` is a septran.verdict/1."""
        verdict = self.verdict
        plain = verdict.to_json()
        return {
            "schema": SCHEMA,
            "file": str(self.request.file),
            "reference": str(self.request.reference),
            "backend": self.backend,
            "entry": self.entry,
            "sha": self.sha,
            "ok": verdict.passed,
            "finding": self.finding,
            "level": str(verdict.level),
            "status": str(verdict.status),
            "where": verdict.where,
            "reason": "" if verdict.passed else f"[{verdict.code}] {verdict.message}",
            "hint": "" if verdict.passed else verdict.hint,
            "max_error": plain["max_error"],
            "budget_ratio": plain["budget_ratio"],
            "seed": verdict.seed,
            "by_torch": list(self.by_torch),
            "left_out": list(self.left_out),
            "not_checked": list(verdict.not_checked),
            "proved": list(self.proof.proved),
            "not_proven": dict(self.proof.not_proven),
            "device": self.device.to_json(),
            "compiler": self.compiler,
            "taken": dict(self.taken),
            "exit_code": self.code,
            "verdict": plain,
        }
