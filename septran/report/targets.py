"""How the kernels of a batch came out on each architecture of each target."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from septran.report.data import Row

_FORMLESS = ("[C150]", "[C151]", "[C152]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One architecture. same_text: of the accurate ones, those whose text ran for another arch. wrong: rejected or failed. formless: modules, or parts of them, that have no kernel (C150 to C152). refused: unavailable here, or refused by the target. where: places that ran them.

    median_s, worst_s: seconds that building and judging a kernel took, None where none was timed.
    """

    backend: str
    arch: str
    where: str
    accurate: int
    same_text: int
    wrong: int
    formless: int
    refused: int
    median_s: float | None
    worst_s: float | None

    @property
    def seconds(self) -> str:
        """Return "2.6, 11", "" where nothing was timed."""
        if self.median_s is None or self.worst_s is None:
            return ""
        return f"{self.median_s:.1f}, {self.worst_s:.0f}"


def targets(rows: Sequence[Row]) -> tuple[Target, ...]:
    """Return the architectures in the order of the rows."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row.backend, row.arch), []).append(row)
    return tuple(_target(backend, arch, mine) for (backend, arch), mine in found.items())


def table(found: Sequence[Target]) -> list[str]:
    """Return a Markdown table of architectures."""
    head = "| target | where | accurate | of them as another arch's text | wrong | no form | refused | seconds, median and worst |"
    return [
        head,
        "|---" * (head.count("|") - 1) + "|",
        *(
            f"| {t.backend} {t.arch} | {t.where} | {t.accurate} | {t.same_text} | {t.wrong} | {t.formless} | {t.refused} | {t.seconds} |"
            for t in found
        ),
    ]


def _target(backend: str, arch: str, rows: Sequence[Row]) -> Target:
    sorts = [row.sort for row in rows]
    formless = sum(row.sort == "failed" and row.reason.startswith(_FORMLESS) for row in rows)
    seconds = [(row.compile_s or 0.0) + row.verify_s for row in rows if row.verify_s is not None]
    return Target(
        backend=backend,
        arch=arch,
        where=", ".join(dict.fromkeys(row.where for row in rows if row.where)),
        accurate=sorts.count("accurate"),
        same_text=sum(bool(row.same_text_as) for row in rows if row.sort == "accurate"),
        wrong=sorts.count("rejected") + sorts.count("failed") - formless,
        formless=formless,
        refused=sorts.count("unavailable"),
        median_s=statistics.median(seconds) if seconds else None,
        worst_s=max(seconds, default=None),
    )
