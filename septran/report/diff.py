"""What became worse, or better, from one run to another: cells are matched by their ids."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from septran.report.data import Report, Row

_RANK = {"accurate": 3, "unavailable": 2, "rejected": 1, "failed": 0}
_SLOWER = 0.85


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One cell that differs. kind: regression | slower | improvement | new | gone."""

    kind: str
    cell: str
    before: str
    after: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """The changes from A to B. exit_code: 1 when something that was accurate no longer is."""

    changes: tuple[Change, ...]
    same: int

    @property
    def exit_code(self) -> int:
        """1 with regressions, else 0; slower kernels are shown but do not count."""
        return int(any(change.kind == "regression" for change in self.changes))

    def to_json(self) -> dict[str, Any]:
        """Return the septran.diff/1 object."""
        return {
            "schema": "septran.diff/1",
            "regressions": sum(change.kind == "regression" for change in self.changes),
            "same": self.same,
            "changes": [asdict(change) for change in self.changes],
            "exit_code": self.exit_code,
        }


def diff(before: Report, after: Report) -> Diff:
    """Return what changed; a cell that is gone is no regression (the matrix decides what is run)."""
    old = {row.cell: row for row in before.rows}
    new = {row.cell: row for row in after.rows}
    changes = [change for cell, row in new.items() if (change := _compare(old.get(cell), row))]
    changes += [
        Change(kind="gone", cell=cell, before=row.level, after="")
        for cell, row in old.items()
        if cell not in new
    ]
    order = ("regression", "slower", "improvement", "new", "gone")
    changes.sort(key=lambda change: (order.index(change.kind), change.cell))
    touched = {change.cell for change in changes}
    return Diff(changes=tuple(changes), same=sum(cell not in touched for cell in new))


def _compare(old: Row | None, new: Row) -> Change | None:
    if old is None:
        return Change(kind="new", cell=new.cell, before="", after=new.level, reason=new.reason)
    if _RANK[new.sort] != _RANK[old.sort]:
        kind = "regression" if _RANK[new.sort] < _RANK[old.sort] else "improvement"
        return Change(
            kind=kind, cell=new.cell, before=old.level, after=new.level, reason=new.reason
        )
    if old.speedup and new.speedup and new.speedup < _SLOWER * old.speedup and _apart(old, new):
        return Change(
            kind="slower",
            cell=new.cell,
            before=f"{old.speedup:.2f} x torch",
            after=f"{new.speedup:.2f} x torch",
        )
    return None


def _apart(old: Row, new: Row) -> bool:
    """Return whether the quartiles of the two measurements do not overlap."""
    return (new.high or new.speedup or 0.0) < (old.low or old.speedup or 0.0)
