"""The table of docs/backends.md, "All architectures": what batch runs of the whole matrix have found so far.

    septran batch all-ops-all-archs            makes cells; can be stopped and resumed
    python benchmarks/matrix.py RUN ...        prints the table and what was refused, of one or more runs' folders
    python benchmarks/matrix.py RUN ... --write    puts both into docs/backends.md

A cell of several runs counts as in the last of them that has it.
"""

from __future__ import annotations

import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from septran.report.data import Row, read_report
from septran.run.store import Run

PAGE = Path(__file__).resolve().parents[1] / "docs" / "backends.md"
_HEAD = "| target | operators | cells | accurate | of these as another arch's text | refused | wrong | seconds of those that ran, median and worst |"


def cells(runs: Sequence[Path]) -> list[Row]:
    """Return the cells that have a result; one whose simulator or package was not there (V110) has none."""
    rows = [row for run in runs for row in read_report(Run(run)).rows]
    return list({row.cell: row for row in rows if "[V110]" not in row.reason}.values())


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a row per architecture, and one of all."""
    archs: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        archs[row.backend, row.arch].append(row)
    yield _HEAD
    yield "|---" * (_HEAD.count("|") - 1) + "|"
    for (backend, arch), mine in sorted(archs.items()):
        yield _line(f"{backend} {arch}", mine)
    yield _line("all", rows)


def _line(name: str, rows: Sequence[Row]) -> str:
    sorts = [row.sort for row in rows]
    same = sum(bool(row.same_text_as) for row in rows if row.sort == "accurate")
    wrong = sorts.count("rejected") + sorts.count("failed")
    spent = [(row.compile_s or 0.0) + row.verify_s for row in rows if row.verify_s is not None]
    seconds = f"{statistics.median(spent):.1f}, {max(spent):.0f}" if spent else ""
    counts = (sorts.count("accurate"), same, sorts.count("unavailable"), wrong)
    shown = " | ".join(map(str, (len({row.op for row in rows}), len(rows), *counts)))
    return f"| {name} | {shown} | {seconds} |"


def others(rows: Sequence[Row]) -> Iterator[str]:
    """Yield what is not accurate, cells of one arch with the same reason together."""
    found: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row.sort != "accurate":
            found[row.backend, row.arch, row.reason.partition("\n")[0]].append(row)
    for (backend, arch, reason), mine in sorted(found.items()):
        ops = ", ".join(sorted({row.op for row in mine}))
        yield f"* {backend} {arch}: {ops} ({len(mine)}): {reason}"


def main() -> None:
    """Print the table and what is not accurate, or write them between their marks."""
    rows = cells([Path(word) for word in sys.argv[1:] if not word.startswith("-")])
    text = "\n".join((*table(rows), "", *others(rows))).strip()
    print(text)
    if "--write" in sys.argv[1:]:
        page, count = re.subn(
            r"(<!-- matrix -->\n).*?(<!-- end of matrix -->)",
            lambda mark: f"{mark[1]}{text}\n{mark[2]}",
            PAGE.read_text(encoding="utf-8"),
            flags=re.DOTALL,
        )
        assert count == 1
        PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
