"""The leaf writer's protocol: from a LeafSpec and a judge to a leaf that is verified.

    write(spec, judge, budget) -> Written(leaf, verdict, history, usage, reason)

A writer proposes leaves; only the `Judge` (built by the caller from the verifier) says how good
they are. Writers never see the verifier, the reference or the kernel around the leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from septran.agent.figures import preferred
from septran.kernel import Leaf, LeafSpec
from septran.outcome import VERIFIED, LeafStatus, Level


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafVerdict:
    """What the judge found out about one leaf, alone against its primitives and in the kernel.

    level: how far it got. status: why it stopped there ("ok" when nothing is wrong).
    message: for the writer: compiler output with the generated line, the crash, the worst elements.
    worst: the worst elements, one per line ("C[3, 17] = 0.5, expected 0.25 (error 9e4 x budget)").
    seconds, baseline_seconds: time of this leaf and of the library's leaf on the same inputs in the
        same process run, or in a simulator's cycles (a nanosecond each); None when not measured.
    roofline: share of the machine's limit that the leaf reaches (0..1); None when not measured.
    figures, baseline_figures: of the kernel with this leaf and with the library's, without a clock: registers and spills
        of a device compiler, vector width of machine code; {} when there are none.
    accesses: of the kernel with this leaf: what its warps take of memory, in words; "" where nobody counted it.
    bound: what bounds the hot loop of this leaf, in words; "" where nobody counted it.
    predicted: what `septran predict` says of the kernel, where nothing was measured; "" else.
    """

    level: Level
    status: LeafStatus
    message: str = ""
    worst: str = ""
    seconds: float | None = None
    baseline_seconds: float | None = None
    roofline: float | None = None
    figures: Mapping[str, float] = field(default_factory=dict)
    baseline_figures: Mapping[str, float] = field(default_factory=dict)
    accesses: str = ""
    bound: str = ""
    predicted: str = ""

    @property
    def predicted_better(self) -> bool:
        """Whether static figures prefer this leaf to the library's, where no clock says anything."""
        return (
            self.verified
            and self.speedup is None
            and preferred(self.figures, self.baseline_figures) == 1
        )

    @property
    def verified(self) -> bool:
        """Whether the leaf's results are right; whatever its level, nothing that was found wrong is."""
        return self.level in VERIFIED and self.status == "ok"

    @property
    def speedup(self) -> float | None:
        """Baseline time over own time; None unless both were measured."""
        if not self.verified or not self.seconds or not self.baseline_seconds:
            return None
        return self.baseline_seconds / self.seconds


class Judge(Protocol):
    """The caller's verifier. Called from one thread at a time."""

    def check(self, leaf: Leaf) -> LeafVerdict:
        """Return the verdict on `leaf`; never raises for a bad leaf."""
        ...

    def library(self, spec: LeafSpec) -> str:
        """Return what is known of the kernel with the library's leaf before a model is asked; "" when nothing is.

        Measured time or a simulator's cycles, static figures, and the predicted time with its bound.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits. attempts and candidates count per leaf; the others for all leaves of one writer.

    tokens: prompt plus completion. minutes: wall clock. cost: in the currency of the config's prices.
    """

    attempts: int = 6
    candidates: int = 1
    tokens: int | None = None
    minutes: float | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What the calls to a model used; `estimated` when a server did not report its tokens."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    estimated: bool = False

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            calls=self.calls + other.calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cost=self.cost + other.cost,
            seconds=self.seconds + other.seconds,
            estimated=self.estimated or other.estimated,
        )

    def minus(self, other: Usage) -> Usage:
        """Return what was used since `other` was taken."""
        return replace(
            self,
            calls=self.calls - other.calls,
            prompt_tokens=self.prompt_tokens - other.prompt_tokens,
            completion_tokens=self.completion_tokens - other.completion_tokens,
            cost=self.cost - other.cost,
            seconds=self.seconds - other.seconds,
        )

    @property
    def tokens(self) -> int:
        """Prompt plus completion tokens."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One candidate leaf and what became of it.

    number: counts from 1 per leaf. mode: first | repair | redesign | optimise | evolve.
    leaf: None when the reply held no usable code (`verdict.status` is then "unusable").
    """

    number: int
    mode: str
    model: str
    leaf: Leaf | None
    verdict: LeafVerdict
    request: str = ""
    """key of the request that was answered; the run record holds the messages and the reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The outcome for one spec. The leaf is never worse than the library's, where there is one."""

    leaf: Leaf
    verdict: LeafVerdict | None
    history: tuple[Attempt, ...] = ()
    usage: Usage = field(default_factory=Usage)
    reason: str = ""
    model: str = ""
    predicted: bool = False
    """the leaf replaces the library's by static figures alone; its speed was not measured"""


class LeafWriter(Protocol):
    """library, llm, replay and command have this form."""

    def write(self, spec: LeafSpec, judge: Judge, budget: Budget) -> Written:
        """Return a leaf for `spec`.

        Raises:
            EnvironmentProblem: L501..L505, L530: the model cannot be reached or used at all.
            SeptranError: L520 when there is neither a library leaf nor a verified one.
        """
        ...


Library = Callable[[LeafSpec], Leaf | None]
"""The floor: `Backend.library`."""
