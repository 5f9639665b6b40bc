"""The septran.gen/1 object: what is known about one kernel, from a plan to a verdict with a time.

Made by the straight line, a second verification, a bundle's and a batch's worker; each adds what it found out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any, Final

from septran.agent.writer import Usage, Written
from septran.backends.base import Built
from septran.kernel import Leaf
from septran.mapping.schema import Policy
from septran.plan.resolve import Plan
from septran.plan.workspace import Workspace
from septran.run.roofline import Share
from septran.trial.culprit import Culprit
from septran.verify.timing import Timing
from septran.verify.verdict import Verdict

SCHEMA = "septran.gen/1"


class Absent(Enum):
    """The value of a field that nobody got to: no key of the JSON object. None is a key with null."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The fields of the septran.gen/1 object, in its order (docs/cli.md).

    dims: name -> size. tuned: the result of `septran tune` that was taken. declared: the word of `math:` whose error budget it was judged by. proved, proof: rules that hold, and the rest with reasons. rows: under
    `deterministic: batch-invariant`, rules proven for every number of rows and those whose bits were compared.
    same_text_as: the arch whose kernel is the same text and ran in its place. dynamic: of a kernel with open dims, their domain, and the verdict at each size besides `dims`. leaves: task, writer, name, spec and
    sha of each. host_leaves: what torch computes inside the program (operators, nodes, line, why), and parts: the kernels beside it. model: calls, tokens and cost. workspace: bytes between kernels at the peak, separate (each tensor with its own) and
    tensors. culprit: kind, name, why. limit_share, limit: see `roofline.Share`.
    status ... worst: see `Verdict`. speedup: against torch, None where not measured. build: the compiler's figures.
    seconds: step -> seconds. timing: see `Timing`. bundle: file, key, level of what was verified again.
    errors, traceback: of a batch cell that failed. cell, key: of a batch.
    """

    op: str
    backend: str
    arch: str | None
    dims: Mapping[str, int]
    dtype: str
    mapping: str | Absent = ABSENT
    policy: bool | Absent = ABSENT
    tuned: Mapping[str, Any] | Absent = ABSENT
    declared: str | Absent = ABSENT
    proved: Sequence[str] | Absent = ABSENT
    proof: Mapping[str, Any] | Absent = ABSENT
    rows: Mapping[str, Any] | Absent = ABSENT
    dynamic: Mapping[str, Any] | Absent = ABSENT
    same_text_as: str | Absent = ABSENT
    leaves: Sequence[Mapping[str, Any]] | Absent = ABSENT
    host_leaves: Sequence[Mapping[str, Any]] | Absent = ABSENT
    parts: Sequence[str] | Absent = ABSENT
    model: Mapping[str, Any] | Absent = ABSENT
    workspace: Mapping[str, int] | Absent = ABSENT
    kernel: str | Absent = ABSENT
    culprit: Mapping[str, str] | Absent = ABSENT
    limit_share: float | Absent | None = ABSENT
    limit: Mapping[str, Any] | Absent = ABSENT
    level: str | Absent = ABSENT
    where: str | Absent | None = ABSENT
    status: str | Absent = ABSENT
    max_error: float | str | Absent | None = ABSENT
    budget_ratio: float | str | Absent | None = ABSENT
    not_checked: Sequence[str] | Absent = ABSENT
    seed: int | Absent | None = ABSENT
    ties: str | Absent = ABSENT
    cycles: Mapping[str, Any] | Absent = ABSENT
    accesses: Mapping[str, Any] | Absent = ABSENT
    reason: str | Absent = ABSENT
    hint: str | Absent = ABSENT
    worst: Mapping[str, Any] | Absent | None = ABSENT
    speedup: Mapping[str, float | None] | Absent = ABSENT
    build: Mapping[str, object] | Absent = ABSENT
    seconds: Mapping[str, float] | Absent = ABSENT
    run: str | Absent = ABSENT
    timing: Mapping[str, Any] | Absent = ABSENT
    bundle: Mapping[str, str] | Absent = ABSENT
    exit_code: int | Absent = ABSENT
    errors: Any = ABSENT
    traceback: str | Absent = ABSENT
    cell: str | Absent = ABSENT
    key: str | Absent = ABSENT

    @classmethod
    def of_plan(cls, plan: Plan) -> Result:
        """Return what a plan says."""
        return cls(
            op=plan.operator.name,
            backend=plan.backend.name,
            arch=plan.arch,
            dims=dict(plan.dims),
            dtype=plan.dtype,
            mapping=plan.mapping.file,
            policy=isinstance(plan.mapping, Policy),
        )

    @classmethod
    def of_cell(cls, cell: Mapping[str, Any]) -> Result:
        """Return what is known of a batch's cell before it ran; `cell`: `Cell.to_json`."""
        request = cell["request"]
        return cls(
            op=cell["op"],
            backend=cell["backend"],
            arch=request.get("arch"),
            dims=request["dims"],
            dtype=request["dtype"],
            where=None,
            max_error=None,
            budget_ratio=None,
            not_checked=[],
            speedup={"torch_eager": None, "torch_compile": None},
            leaves=[],
            model={"calls": 0, "prompt_tokens": 0, "completion_tokens": 0},
            seconds={},
            cell=cell["id"],
            key=cell["key"],
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Result:
        """Return the result that `to_json` made.

        Raises:
            ValueError: another schema. TypeError: a key that every result has is missing.
        """
        if data.get("schema") != SCHEMA:
            raise ValueError(f"not a {SCHEMA} object: {data.get('schema')!r}")
        known = {f.name for f in fields(cls)}
        return cls(**{name: value for name, value in data.items() if name in known})

    def to_json(self) -> dict[str, Any]:
        """Return the septran.gen/1 object."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {"schema": SCHEMA, **{k: v for k, v in values.items() if v is not ABSENT}}

    @property
    def code(self) -> int:
        """The exit code; 0 for what was stopped before a verdict."""
        return 0 if isinstance(self.exit_code, Absent) else self.exit_code

    @property
    def data(self) -> dict[str, Any]:
        """The septran.gen/1 object."""
        return self.to_json()

    def with_leaves(
        self, leaves: Mapping[str, Leaf], written: Sequence[Written], usage: Usage
    ) -> Result:
        """Return the result with the leaves by spec key, who wrote them and what that cost."""
        predicted = {w.leaf.spec.key for w in written if w.predicted}
        models = {w.leaf.spec.key: w.model for w in written if w.model}
        return replace(
            self,
            leaves=[_leaf(leaf, models.get(key), key in predicted) for key, leaf in leaves.items()],
            model={
                "calls": usage.calls,
                "prompt_tokens": usage.prompt_tokens,
                "completion_tokens": usage.completion_tokens,
                "cost": usage.cost,
                "estimated": usage.estimated,
            },
        )

    def with_workspace(self, room: Workspace) -> Result:
        """Return the result with the bytes between kernels, where there are several kernels."""
        if not room.rows:
            return self
        found = {"bytes": room.bytes, "separate": room.separate, "tensors": len(room.rows)}
        return replace(self, workspace=found)

    def with_culprit(self, culprit: Culprit) -> Result:
        """Return the result with who is to blame."""
        return replace(
            self, culprit={"kind": culprit.kind, "name": culprit.name, "why": culprit.why}
        )

    def with_share(self, share: Share) -> Result:
        """Return the result with the share of the machine's limit."""
        return replace(self, limit_share=share.share, limit=share.to_json())

    def with_build(self, built: Built) -> Result:
        """Return the result with the compiler's figures and what could not be checked."""
        return replace(self, build=dict(built.facts), not_checked=list(built.not_checked))

    def with_verdict(self, verdict: Verdict) -> Result:
        """Return the result with a verdict instead of an earlier one; a kernel of which no call ended has no error."""
        plain = verdict.to_json()
        ran = verdict.passed or bool(verdict.cases)
        return replace(
            self,
            level=str(verdict.level),
            where=verdict.where,
            status=str(verdict.status),
            max_error=plain["max_error"] if ran else None,
            budget_ratio=plain["budget_ratio"] if ran else None,
            not_checked=list(verdict.not_checked),
            seed=verdict.seed,
            ties=verdict.ties or ABSENT,
            cycles=dict(verdict.cycles) if verdict.cycles else ABSENT,
            accesses=dict(verdict.accesses) if verdict.accesses else ABSENT,
            reason=ABSENT if verdict.passed else f"[{verdict.code}] {verdict.message}",
            hint=ABSENT if verdict.passed else verdict.hint,
            worst=ABSENT if verdict.passed else plain["worst"],
        )

    def with_timing(self, timing: Timing | None) -> Result:
        """Return the result with the time against torch; None: it was not measured."""
        return replace(
            self,
            speedup={
                "torch_eager": None if timing is None else round(timing.ratio, 3),
                "torch_compile": None,
            },
            timing=ABSENT if timing is None else timing.to_json(),
        )


def _leaf(leaf: Leaf, model: str | None, predicted: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "task": leaf.spec.task,
        "writer": leaf.writer,
        "name": leaf.name,
        "spec": leaf.spec.key,
        "sha": leaf.sha,
    }
    if leaf.spec.opaque:
        found["opaque"] = True
    if predicted:
        found["accepted"] = "predicted"
    return {**found, "model": model} if model else found
