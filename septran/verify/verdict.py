"""How far a kernel got, how wrong it is where it is wrong, and what was not checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from septran.atomic import write_atomic
from septran.kernel import Kernel
from septran.outcome import Level, Status

Where = Literal["native", "emulated", "device"]
SCHEMA = "septran.verdict/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Worst:
    """An element: that furthest outside (or nearest to the edge of) its budget, or the first wrong one. Values are texts: NaN exists."""

    case: str
    family: str
    seed: int
    output: str
    index: tuple[int, ...]
    got: str
    expected: str
    budget: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """One call's figures. wrong: elements over budget. ratio: largest error / budget (inf = pattern).

    ties: decisions between values closer than rounding that the kernel made otherwise than torch (verify/settle.py).
    """

    case: str
    family: str
    seed: int
    placement: str
    max_error: float
    ratio: float
    wrong: int
    elements: int
    seconds: float
    exact: bool = False
    ties: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What was established about one kernel at one set of dims. Immutable; see docs/verification.md.

    code: of `septran explain` when something is wrong (V2xx), else "".
    message: one sentence; hint: what to try next. max_error: on inputs of ordinary
    size (|x| near 1). budget_ratio: largest share of the allowed error that was used, over all cases.
    worst: the element furthest outside of its budget. first: the first wrong one, of the first call that has one, in the order of its output.
    ties: which decisions were made otherwise than by torch between values closer than rounding, and in how many calls.
    untried: what of `not_checked` only the state of the machine kept from being checked; a later try may check it.
    cycles: a simulator's cycle report, where a backend has one; how far to trust it: docs/verification.md.
    accesses: sectors and wavefronts of memory that an emulation counted (verify/warp_accesses.py), {} where it did not.
    """

    level: Level
    status: Status
    where: Where
    kernel: str
    kernel_sha: str
    backend: str
    arch: str
    dims: Mapping[str, int] = field(default_factory=dict)
    code: str = ""
    message: str = ""
    hint: str = ""
    max_error: float = 0.0
    budget_ratio: float = 0.0
    worst: Worst | None = None
    first: Worst | None = None
    cases: tuple[CaseResult, ...] = ()
    not_checked: tuple[str, ...] = ()
    untried: tuple[str, ...] = ()
    enforced: tuple[str, ...] = ()
    diagnostics: tuple[Mapping[str, object], ...] = ()
    ties: str = ""
    cycles: Mapping[str, Any] = field(default_factory=dict)
    accesses: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    seconds: float = 0.0
    environment: Mapping[str, str] = field(default_factory=dict)
    log: str = ""

    @classmethod
    def of(
        cls, kernel: Kernel, *, where: Where, dims: Mapping[str, int], seed: int | None
    ) -> Verdict:
        """Return what is known of a kernel before anything was tried; the rest is found out with `replace`."""
        return cls(
            level=Level.EMITTED,
            status=Status.COMPILE_ERROR,
            where=where,
            kernel=kernel.name,
            kernel_sha=kernel.sha,
            backend=kernel.backend,
            arch=kernel.arch,
            dims=dict(dims),
            seed=seed,
        )

    @property
    def passed(self) -> bool:
        """Whether the kernel may be used: accurate or better."""
        return self.status is Status.PASSED

    def rejected(self, code: str, message: str, hint: str, **more: Any) -> Verdict:
        """Return the verdict that the kernel does what none may do; more: other fields."""
        return replace(
            self,
            level=Level.REJECTED,
            status=Status.REJECTED,
            code=code,
            message=message,
            hint=hint,
            **more,
        )

    def unavailable(self, code: str, message: str, hint: str) -> Verdict:
        """Return the verdict that nothing is known of the kernel, because it could not be tried."""
        return replace(
            self,
            level=Level.UNAVAILABLE,
            status=Status.UNAVAILABLE,
            code=code,
            message=message,
            hint=hint,
        )

    def without(self, *unchecked: str) -> Verdict:
        """Return the verdict with more that was not checked."""
        return replace(self, not_checked=(*self.not_checked, *unchecked))

    def without_for_now(self, *unchecked: str) -> Verdict:
        """Return the verdict with more that this machine had no time or memory to check."""
        return replace(self.without(*unchecked), untried=(*self.untried, *unchecked))

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values (non-finite numbers as texts)."""
        found = asdict(self)
        found["schema"] = SCHEMA
        return _plain(found)  # type: ignore[no-any-return]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Verdict:
        """Return the verdict `to_json` made.

        Raises:
            ValueError: another schema.
        """
        if data.get("schema") != SCHEMA:
            raise ValueError(f"not a {SCHEMA} object: {data.get('schema')!r}")
        known = {f.name for f in fields(cls)}
        values = {k: v for k, v in data.items() if k in known}
        values["level"] = Level(values["level"])
        values["status"] = Status(values["status"])
        for name in ("worst", "first"):
            if values.get(name):
                element = dict(values[name])
                values[name] = Worst(**{**element, "index": tuple(element["index"])})
        values["cases"] = tuple(
            CaseResult(**{**c, "ratio": float(c["ratio"]), "max_error": float(c["max_error"])})
            for c in values.get("cases", ())
        )
        for name in ("not_checked", "untried", "enforced", "diagnostics"):
            values[name] = tuple(values.get(name, ()))
        for name in ("max_error", "budget_ratio"):
            values[name] = float(values[name])
        return cls(**values)


def write_evidence(verdict: Verdict, run_dir: Path, *, files: Mapping[str, str]) -> None:
    """Write verdict.json and `files` into `run_dir`, each atomically."""
    for name, text in files.items():
        write_atomic(run_dir / name, text)
    text = json.dumps(verdict.to_json(), indent=1, sort_keys=True)
    write_atomic(run_dir / "verdict.json", text + "\n")


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {str(k): _plain(v) for k, v in value.items()}
        case list() | tuple():
            return [_plain(v) for v in value]
        case float() if value != value or value in (float("inf"), float("-inf")):
            return str(value)
        case _:
            return value
