"""Tasks of operators x targets as JSON lines, for training and evaluation sets."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from septran.environment.step import Submission, step
from septran.environment.tasks import Asked, LeafTask, kernels, leaf_tasks
from septran.errors import SeptranError
from septran.kernel import content_hash
from septran.settings import Settings

SCHEMA = "septran.dataset/1"
LICENSE = "MIT"


def rows(
    ops: Sequence[str],
    backends: Sequence[str],
    *,
    settings: Settings,
    verify: bool,
    seed: int = 0,
    skipped: Callable[[str], None],
) -> Iterator[dict[str, Any]]:
    """Yield one septran.dataset/1 object per leaf; empty `ops` or `backends` means all.

    A row holds the prompt, the contract, the reference and the library's leaf as a reply. verify: judge that reply, so that
    its reward stands beside it; else `reward` is None. skipped: told which kernels a target cannot map, and why.
    """
    for kernel in kernels():
        if (ops and kernel["op"] not in ops) or (backends and kernel["backend"] not in backends):
            continue
        asked = Asked(op=kernel["op"], backend=kernel["backend"])
        try:
            tasks = leaf_tasks(asked)
        except SeptranError as e:
            skipped(f"{kernel['op']} on {kernel['backend']}: {e.diagnostics[0].message}")
            continue
        for task in tasks:
            yield _row(task, settings, verify=verify, seed=seed)


def _row(task: LeafTask, settings: Settings, *, verify: bool, seed: int) -> dict[str, Any]:
    solution = task.solution()
    reward = None
    if verify and solution is not None:
        sent = Submission(
            asked=task.asked, leaf=task.spec.task, reply=_fenced(task, solution), seed=seed
        )
        reward = step(sent, settings=settings).to_json()
    found = {
        **task.to_json(settings),
        "schema": SCHEMA,
        "license": LICENSE,
        "reference": reference_text(task),
        "logic": Path(task.plan.logic.path).read_text(encoding="utf-8"),
        "solution": solution,
        "reward": reward,
    }
    return {**found, "row_sha": content_hash(found)}


def _fenced(task: LeafTask, body: str) -> str:
    return f"```{task.plan.backend.language}\n{body}```\n"


def reference_text(task: LeafTask) -> str:
    """Return the Python text of the operator's meaning in torch."""
    fn = task.plan.operator.reference.fn
    try:
        return textwrap.dedent(inspect.getsource(fn))
    except (OSError, TypeError):
        return ""
