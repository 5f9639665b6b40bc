"""Tasks of the environment: one leaf of an operator on a target, with its contract and a content hash."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from septran import __version__
from septran.agent import config as agent_config
from septran.agent.contract import render_leafspec
from septran.agent.frame import Frame, make_frame
from septran.agent.prompt import render_prompt
from septran.errors import ConfigError, closest
from septran.ir.nodes import Program
from septran.kernel import Leaf, LeafSpec, content_hash, leaf_specs
from septran.plan import catalog
from septran.plan.floor import library_leaves
from septran.plan.resolve import GenRequest, Plan, lower_plan, resolve
from septran.run.inspect import leaf_body
from septran.settings import Settings

SCHEMA = "septran.task/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which kernel a task is part of. dims and dtype: the operator's own unless given."""

    op: str
    backend: str
    arch: str | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    dtype: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain values that `Asked(**values)` takes."""
        return {
            "op": self.op,
            "backend": self.backend,
            "arch": self.arch,
            "dims": dict(self.dims),
            "dtype": self.dtype,
        }

    @property
    def key(self) -> str:
        """Content hash."""
        return content_hash(self.to_json())


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafTask:
    """One leaf to write. leaves: the library's leaves of the kernel by spec key; `program` is what they go into."""

    asked: Asked
    plan: Plan
    program: Program
    spec: LeafSpec
    leaves: Mapping[str, Leaf]

    @property
    def name(self) -> str:
        """`op/backend/leaf`."""
        return f"{self.asked.op}/{self.asked.backend}/{self.spec.task}"

    @property
    def sha(self) -> str:
        """Content hash of everything that decides how a reply is judged."""
        plan = self.plan
        return content_hash(
            [
                plan.logic.sha,
                plan.backend.name,
                plan.arch,
                dict(plan.dims),
                plan.dtype,
                self.spec.key,
                __version__,
            ]
        )

    def frame(self, settings: Settings) -> Frame:
        """Return the text around the hole that a reply fills."""
        config = agent_config.load(self.plan.backend.docs, among=settings.layers)
        return make_frame(self.spec, self.plan.backend, config.get("frame"))

    def to_json(
        self,
        settings: Settings,
        *,
        prompt: bool = True,
        admission: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the septran.task/1 object; `content_sha` covers all of it. prompt: with the messages that a model would be sent.

        admission: the task's report (septran/environment/admitted.py), None: nobody asked for one.
        """
        plan = self.plan
        config = agent_config.load(plan.backend.docs, among=settings.layers)
        found: dict[str, Any] = {
            "schema": SCHEMA,
            "task": self.name,
            "sha": self.sha,
            **self.asked.to_json(),
            "arch": plan.arch,
            "dims": dict(plan.dims),
            "dtype": plan.dtype,
            "leaf": self.spec.task,
            "spec": self.spec.key,
            "language": plan.backend.language,
            "contract": render_leafspec(self.spec, plan.backend),
            "frame": self.frame(settings).shown,
            "admission": None if admission is None else dict(admission),
        }
        if prompt:
            messages = render_prompt(self.spec, plan.backend, config)
            found["messages"] = [{"role": m.role, "content": m.text} for m in messages]
        return {**found, "content_sha": content_hash(found)}

    def solution(self) -> str | None:
        """Return the body of the library's leaf as a reply could give it, None where it has no text."""
        leaf = self.leaves[self.spec.key]
        if leaf.listed:
            return None
        return leaf_body(leaf, self.plan.backend.signature(self.spec))


def kernels() -> tuple[dict[str, Any], ...]:
    """Return (op, backend) of every kernel there are tasks of, with the operator's dims and dtypes."""
    return tuple(
        {
            "op": op["name"],
            "backend": backend["name"],
            "about": op["about"],
            "dims": op["dims"],
            "dtypes": [d for d in op["dtypes"] if d in backend["dtypes"]],
        }
        for op in catalog.ops()
        for backend in catalog.backends()
    )


def leaf_tasks(asked: Asked) -> tuple[LeafTask, ...]:
    """Return the tasks of a kernel, one for each task name that has a leaf.

    Raises:
        InputError: no such operator, backend, arch, dim or dtype, or the target cannot map it.
    """
    return _leaf_tasks(asked.key, _Kept(asked))


@dataclass(frozen=True, slots=True)
class _Kept:
    """An argument of a cached function that its key stands for."""

    asked: Asked

    def __hash__(self) -> int:
        return hash(self.asked.key)


@functools.lru_cache(maxsize=256)
def _leaf_tasks(key: str, kept: _Kept) -> tuple[LeafTask, ...]:
    asked = kept.asked
    plan = resolve(
        GenRequest(
            op=asked.op,
            backend=asked.backend,
            arch=asked.arch,
            dims=dict(asked.dims),
            dtype=asked.dtype,
        )
    )
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    specs: dict[str, LeafSpec] = {}
    for _, spec in leaf_specs(lowered.program):
        specs.setdefault(spec.task, spec)
    return tuple(
        LeafTask(asked=asked, plan=plan, program=lowered.program, spec=spec, leaves=leaves)
        for spec in specs.values()
    )


def find(asked: Asked, leaf: str) -> LeafTask:
    """Return the task of leaf `leaf`.

    Raises:
        ConfigError: C137, the kernel has no such leaf. InputError: as `leaf_tasks`.
    """
    tasks = leaf_tasks(asked)
    for task in tasks:
        if task.spec.task == leaf:
            return task
    names = [task.spec.task for task in tasks]
    raise ConfigError.of(
        "C137",
        f"{asked.op} on {asked.backend} has no leaf {leaf!r}{closest(leaf, names)}",
        help=f"its leaves are {', '.join(names)}",
    )
