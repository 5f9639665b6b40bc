"""What commands print with --json that is of no other layer: one frozen dataclass for each object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from septran.document import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked(Document):
    """`septran check`. errors: as `SeptranError.to_json` says them."""

    SCHEMA: ClassVar[str] = "septran.check/1"
    files: Sequence[str]
    ok: bool
    errors: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured(Document):
    """`septran config`. settings: name -> value and from. environment: variables that are read; {} with --dsl."""

    SCHEMA: ClassVar[str] = "septran.config/1"
    settings: Mapping[str, Mapping[str, Any]]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Started(Document):
    """`septran init`. files: those that were written."""

    SCHEMA: ClassVar[str] = "septran.init/1"
    files: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported(Document):
    """`septran export`."""

    SCHEMA: ClassVar[str] = "septran.export/1"
    run: str
    bundle: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksExported(Document):
    """`septran tasks export`. tasks: rows of the file."""

    SCHEMA: ClassVar[str] = "septran.tasks-export/1"
    file: str
    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetRow:
    """A data file in use. layer: whose it is."""

    name: str
    layer: str
    path: str
    sha: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetList(Document):
    """`septran assets ls`."""

    SCHEMA: ClassVar[str] = "septran.assets/1"
    assets: Sequence[AssetRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetDiff(Document):
    """`septran assets diff`. diff: file -> how the own one differs from the bundled one."""

    SCHEMA: ClassVar[str] = "septran.assets-diff/1"
    diff: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetEjected(Document):
    """`septran assets eject`. ejected: the copy."""

    SCHEMA: ClassVar[str] = "septran.assets-eject/1"
    ejected: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCells(Document):
    """`septran batch --list`."""

    SCHEMA: ClassVar[str] = "septran.batch-list/1"
    cells: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A stored run. level, where, why: of its summary, None where it has none."""

    id: str
    status: str
    exit_code: int | None
    op: str | None
    backend: str | None
    level: str | None
    where: str | None
    why: str | None
    created: str | None
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunList(Document):
    """`septran runs ls`."""

    SCHEMA: ClassVar[str] = "septran.runs/1"
    runs: Sequence[RunRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPath(Document):
    """`septran runs path`."""

    SCHEMA: ClassVar[str] = "septran.run-path/1"
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsRemoved(Document):
    """`septran runs rm` and `prune`."""

    SCHEMA: ClassVar[str] = "septran.runs-removed/1"
    removed: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported(Document):
    """`septran import`. logic: the file that was written, None: none. text: of the logic. kernels: their names."""

    SCHEMA: ClassVar[str] = "septran.import/1"
    file: str
    logic: str | None
    text: str
    entry: str
    nodes: int
    kernels: Sequence[str]
    opaque_leaves: Sequence[Mapping[str, Any]]
    not_fused: Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined(Document):
    """`septran doctor`. backends: name, what works of each and why not."""

    SCHEMA: ClassVar[str] = "septran.doctor/1"
    versions: Mapping[str, Any]
    machine: Mapping[str, Any]
    home: str
    data: str
    model: str | None
    backends: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeRow:
    """An error code and its page's title."""

    code: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeList(Document):
    """`septran explain` without a code."""

    SCHEMA: ClassVar[str] = "septran.codes/1"
    codes: Sequence[CodeRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown(Document):
    """`septran show`. after: the pass, None: the last one."""

    SCHEMA: ClassVar[str] = "septran.show/1"
    what: str
    after: str | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped(Document):
    """`septran map`: the text of the mapping."""

    SCHEMA: ClassVar[str] = "septran.map/1"
    mapping: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion(Document):
    """`septran completion`."""

    SCHEMA: ClassVar[str] = "septran.completion/1"
    shell: str
    script: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed(Document):
    """`septran ls`. what: the one key besides the schema, with entries."""

    SCHEMA: ClassVar[str] = "septran.ls/1"
    what: str
    entries: Sequence[Mapping[str, Any]]

    def to_json(self) -> dict[str, Any]:
        """Return the entries under the name of what they are."""
        return {"schema": self.SCHEMA, self.what: list(self.entries)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving(Document):
    """`septran serve`. dir: of the ledger."""

    SCHEMA: ClassVar[str] = "septran.serve/1"
    url: str
    dir: str
