"""Whether a task can tell a right leaf from a trivial one, asked once for each task and kept by its hash.

Answers that nobody should accept (zeros, a constant, an input passed through, an input ignored) are judged as the operator's result and as the
leaf's own: a leaf that fills a tile with zeros is rightly solved by zeros, and whoever trains on it should know.
"""

from __future__ import annotations

import functools
import json
import threading
from dataclasses import asdict, dataclass
from typing import Any

from septran import __version__
from septran.accuracy import load_policy
from septran.environment.tasks import LeafTask
from septran.errors import SeptranError
from septran.kernel import content_hash
from septran.plan.problem import problem_of
from septran.seal import read_sealed, write_sealed
from septran.toolchain.compilers import cache_folder
from septran.trial.leaf_case import leaf_cases
from septran.verify.admission import Admission, report
from septran.verify.problem import Problem

SEED, LARGEST = 0, 1 << 20
"""of the inputs, so that the report is the task's alone; elements of all tensors above which nothing is tried"""
_FOLDER = "admissions"
_ONE = threading.Lock()
"""torch computes the references here, beside whatever the process serves"""


def admission(task: LeafTask) -> dict[str, Any]:
    """Return the report of a task: for the operator (`kernel`) and for the leaf alone on a full tile (`leaf`) what `Admission` says.

    admitted: whether neither accepts a trivial answer.
    """
    key = content_hash([task.sha, str(load_policy()), SEED, LARGEST, __version__])
    return dict(_kept(key, _Held(key, task)))


@dataclass(frozen=True, slots=True)
class _Held:
    """An argument of a cached function that its key stands for."""

    key: str
    task: LeafTask

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held) and other.key == self.key


@functools.lru_cache(maxsize=1024)
def _kept(key: str, held: _Held) -> dict[str, Any]:
    folder, name = cache_folder() / _FOLDER, f"{key}.json"
    known = read_sealed(folder, name)
    if known is not None:
        return known
    task = held.task
    with _ONE:
        kernel = _tried(problem_of(task.plan, task.program, task.plan.dims))
        leaf = _of_leaf(task)
    found = {
        "admitted": kernel.admitted and leaf.admitted and not kernel.skipped and not leaf.skipped,
        "seed": SEED,
        "kernel": _plain(kernel),
        "leaf": _plain(leaf),
    }
    write_sealed(folder, name, json.dumps(found))
    return found


def _tried(problem: Problem) -> Admission:
    return report(problem, seed=SEED, largest=LARGEST)


def _of_leaf(task: LeafTask) -> Admission:
    """Return the report of the leaf alone; an opaque one is given what its module makes, and only that says how it is judged."""
    if task.spec.opaque:
        return Admission(tried=(), accepted=(), skipped="the leaf is opaque")
    try:
        whole = leaf_cases(task.spec, machine=task.program.machine)[0]
    except SeptranError as e:
        return Admission(tried=(), accepted=(), skipped=e.diagnostics[0].message)
    return _tried(whole.problem)


def _plain(found: Admission) -> dict[str, Any]:
    return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(found).items()}
