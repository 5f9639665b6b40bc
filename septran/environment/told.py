"""What the environment answers, whatever asked: one frozen dataclass for each object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from septran.document import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Health(Document):
    """How many submissions wait and are judged, and how many may wait."""

    SCHEMA: ClassVar[str] = "septran.health/1"
    queued: int
    running: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelList(Document):
    """The kernels that have tasks."""

    SCHEMA: ClassVar[str] = "septran.kernels/1"
    kernels: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskList(Document):
    """The tasks of a kernel, septran.task/1 objects."""

    SCHEMA: ClassVar[str] = "septran.tasks/1"
    tasks: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted(Document):
    """A submission was taken. new: nobody had sent it before."""

    SCHEMA: ClassVar[str] = "septran.accepted/1"
    id: str
    new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class State(Document):
    """Where a submission is. state: queued, running, done, or unavailable: this machine could not judge it.

    result: a reward or an error, None until it is done; why not, where it is unavailable.
    """

    SCHEMA: ClassVar[str] = "septran.submission/1"
    id: str
    state: str
    result: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory(Document):
    """A submission with its result: a line of the ledger."""

    SCHEMA: ClassVar[str] = "septran.trajectory/1"
    id: str
    submission: Mapping[str, Any]
    result: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained(Document):
    """An error code's page, or a result in words. code: the code, or the submission's name."""

    SCHEMA: ClassVar[str] = "septran.explain/1"
    code: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured(Document):
    """What a submission's kernel takes, in microseconds a call; None: not measured, and `reason` says why.

    gain: over the kernel with the library's leaf; speedup: over torch; both with their 95 % interval. reliable: the intervals are narrow.
    """

    SCHEMA: ClassVar[str] = "septran.measured/1"
    task: str
    task_sha: str
    seed: int
    rung: str
    code: str = ""
    message: str = ""
    where: str = ""
    leaf_sha: str = ""
    threads: int | None = None
    leaf_us: float | None = None
    library_us: float | None = None
    torch_us: float | None = None
    gain: Mapping[str, Any] | None = None
    speedup: Mapping[str, Any] | None = None
    reliable: bool | None = None
    reason: str = ""
