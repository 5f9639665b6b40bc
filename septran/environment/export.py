"""Tasks of operators x targets as JSON lines, for training and evaluation sets."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from septran.document import Document
from septran.environment.admitted import admission
from septran.environment.step import Submission, step
from septran.environment.tasks import Asked, LeafTask, kernels, leaf_tasks
from septran.errors import SeptranError
from septran.kernel import content_hash
from septran.settings import Settings

LICENSE = "MIT"
ALL = "all"
"""instead of a dtype: all that there are"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Document):
    """A leaf task with its answer. task: a septran.task/1 object, whose fields become the row's.

    reference: Python text of the meaning. solution: the library's body, None: it has no text. reward: of that, None: not judged.
    """

    SCHEMA: ClassVar[str] = "septran.dataset/1"
    task: Mapping[str, Any]
    reference: str
    logic: str
    solution: str | None
    reward: Mapping[str, Any] | None

    def to_json(self) -> dict[str, Any]:
        """Return the septran.dataset/1 object; `row_sha` covers all of it."""
        found = {
            **self.task,
            "schema": self.SCHEMA,
            "license": LICENSE,
            "reference": self.reference,
            "logic": self.logic,
            "solution": self.solution,
            "reward": self.reward,
        }
        return {**found, "row_sha": content_hash(found)}


def rows(
    ops: Sequence[str],
    backends: Sequence[str],
    *,
    settings: Settings,
    verify: bool,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    dtypes: Sequence[str] = (),
    skipped: Callable[[str], None],
) -> Iterator[dict[str, Any]]:
    """Yield one septran.dataset/1 object per leaf; empty `ops` or `backends` means all.

    dims: sizes laid over each operator's own. dtypes: one set of rows each, `ALL`: those that operator and target share; (): the default.
    A row holds the prompt, the contract, the reference and the library's leaf as a reply. verify: judge that reply, so that
    its reward stands beside it; else `reward` is None. skipped: told which kernels a target cannot map, and why.
    """
    for kernel in kernels():
        if (ops and kernel["op"] not in ops) or (backends and kernel["backend"] not in backends):
            continue
        for dtype in _dtypes(dtypes, kernel):
            asked = Asked(op=kernel["op"], backend=kernel["backend"], dims=dims or {}, dtype=dtype)
            try:
                tasks = leaf_tasks(asked)
            except SeptranError as e:
                as_ = f" as {dtype}" if dtype else ""
                skipped(f"{asked.op} on {asked.backend}{as_}: {e.diagnostics[0].message}")
                continue
            for task in tasks:
                yield _row(task, settings, verify=verify, seed=seed).to_json()


def _dtypes(asked: Sequence[str], kernel: Mapping[str, Any]) -> Sequence[str | None]:
    found = [d for one in asked for d in (kernel["dtypes"] if one == ALL else (one,))]
    return tuple(dict.fromkeys(found)) or (None,)


def _row(task: LeafTask, settings: Settings, *, verify: bool, seed: int) -> Row:
    solution = task.solution()
    reward = None
    if verify and solution is not None:
        sent = Submission(
            asked=task.asked, leaf=task.spec.task, reply=_fenced(task, solution), seed=seed
        )
        reward = step(sent, settings=settings).to_json()
    return Row(
        task=task.to_json(settings, admission=admission(task)),
        reference=reference_text(task),
        logic=Path(task.plan.logic.path).read_text(encoding="utf-8"),
        solution=solution,
        reward=reward,
    )


def _fenced(task: LeafTask, body: str) -> str:
    return f"```{task.plan.backend.language}\n{body}```\n"


def reference_text(task: LeafTask) -> str:
    """Return the Python text of the operator's meaning in torch."""
    fn = task.plan.operator.reference.fn
    try:
        return textwrap.dedent(inspect.getsource(fn))
    except (OSError, TypeError):
        return ""
