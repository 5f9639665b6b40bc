"""python -m tests.attacks.table [--missing] [PATH]: try the whole corpus and write the catch table (default docs/attacks.md).

--missing: only those attacks that the page lacks are tried; what it says of the others stays. Exit status 1 when an attack got through, a control was refused, or one could not be tried; the table says so, too.
"""

from __future__ import annotations

import datetime
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import septran
from tests.attacks.attack import Attack, Outcome, missing, run
from tests.attacks.corpus import CORPUS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "attacks.md"
HEAD = """# The catch table

Kernels that cheat, and honest ones that must pass, tried against SepTran {version} on {date}. Written by
`python -m tests.attacks.table`; a test compares the names with the corpus in `tests/attacks/`. "running it" is what the
confined child shows without the static gate; "gate" is what the static gate says without running anything. Attacks marked
*gate only* leave right results, or are replies that the gate refuses before anything runs; *got through* names the commit that an attack was shown to pass whole. The authors of the checks wrote the attacks: read the table as a floor.
[Verification](verification.md) explains the checks, `septran explain CODE` the codes.
"""

_MOST_AT_ONCE = 4
"""Processes, each of which has torch: about 0.5 GiB and a kernel under test."""


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    attack: Attack
    outcome: Outcome
    failed: str = ""
    """What was raised where the attack could not be tried."""
    once: str = ""
    """What a first try said where two more said otherwise: inputs are secret, and clocks are loaded."""

    @property
    def kind(self) -> str:
        return "control" if self.attack.honest else "attack"

    @property
    def right(self) -> bool:
        """Whether an attack was rejected by each layer that can see it, or a control accepted."""
        if self.failed:
            return False
        if self.attack.honest:
            return not self.outcome.rejected
        return self.outcome.rejected and bool(self.outcome.dynamic or self.attack.static_only)


def try_all(attacks: Iterable[Attack] = CORPUS) -> list[Row]:
    """Return what became of each attack that this machine can try, several at once; in the order of `attacks`.

    A wrong row is told on stderr at once: whoever runs out of time, or reads only the end of a log, sees it.
    """
    tried = [a for a in attacks if not missing(a)]
    context = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        pool = ProcessPoolExecutor(min(os.cpu_count() or 1, _MOST_AT_ONCE), context)
        try:
            for row in pool.map(_tried, tried, [Path(folder) / a.name for a in tried]):
                rows.append(row)
                if row.once or not row.right:
                    word = "ONCE IN THREE" if row.right else "WRONG"
                    print(f"{word} {row.kind} {row.attack.name} ({row.attack.what}): {row.once or row.failed or row.outcome}", file=sys.stderr, flush=True)  # fmt: skip
        finally:  # an interrupt does not wait for what has not begun
            pool.shutdown(cancel_futures=True)
    return rows


def _tried(attack: Attack, place: Path) -> Row:
    """Return the row; a wrong one is tried twice more, and is right only if both say so."""
    first = _try(attack, place)
    if first.right:
        return first
    again = [_try(attack, place) for _ in range(2)]
    wrong = [row for row in again if not row.right]
    return wrong[0] if wrong else replace(again[0], once=first.failed or str(first.outcome))


def _try(attack: Attack, place: Path) -> Row:
    try:
        return Row(attack, run(attack, place))
    except Exception as error:
        return Row(attack, Outcome("", ""), failed=f"{type(error).__name__}: {error}")


def summary(rows: Sequence[Row]) -> str:
    """Return one sentence of counts."""
    tried = [r for r in rows if not r.attack.honest]
    caught = [r for r in tried if r.outcome.rejected]
    controls = [r for r in rows if r.attack.honest]
    passed = [r for r in controls if r.right]
    dynamic = sum(bool(r.outcome.dynamic) for r in tried)
    static = sum(bool(r.outcome.static) for r in tried)
    return (
        f"{len(tried)} attacks: {len(caught)} rejected ({dynamic} by running them, {static} by the static gate); "
        f"{len(controls)} controls: {len(passed)} accepted"
    )


def page(rows: Sequence[Row], date: str) -> str:
    """Return docs/attacks.md."""
    parts = [HEAD.format(version=septran.__version__, date=date), f"**{summary(rows)}**\n"]
    for family in dict.fromkeys(r.attack.family for r in rows):
        here = [r for r in rows if r.attack.family == family]
        parts.append(f"## {family}\n\n{summary(here)}.\n")
        parts.append("| | attack | caught by | running it | gate |\n|---|---|---|---|---|")
        parts += [_line(r) for r in here]
        parts.append("")
    return "\n".join(parts)


def _line(row: Row) -> str:
    attack, outcome = row.attack, row.outcome
    if attack.honest:
        result = "**NOT TRIED**" if row.failed else "accepted" if row.right else "**REFUSED**"
        once = " *wrong once in three tries*" if row.once else ""
        return f"| {attack.name} | control: {attack.what}{once} | {result} | - | - |"
    caught = "**NOT TRIED**" if row.failed else outcome.code or "**GOT THROUGH**"
    only = " *gate only*" if attack.static_only else ""
    only += f" *got through {attack.through}*" if attack.through else ""
    only += " *wrong once in three tries*" if row.once else ""
    static = outcome.static.rpartition("(")[2].rstrip(")") if outcome.static else "-"
    return (
        f"| {attack.name} | {attack.what}{only} | {caught} | {outcome.dynamic or '-'} | {static} |"
    )


def names(text: str) -> list[str]:
    """Return the attacks that a page lists."""
    cells = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")]
    return [cell for cell in cells if cell]


def rows_of(text: str) -> dict[str, Row]:
    """Return the rows of a page by name, of attacks that are in the corpus with these words."""
    cells = [[c.strip() for c in line.split("|")[1:-1]] for line in text.splitlines()]
    found = {}
    for attack in CORPUS:
        for cell in cells:
            if len(cell) == 5 and cell[0] == attack.name and attack.what in cell[1]:
                dynamic, static = ("" if c == "-" else c for c in cell[3:])
                row = Row(attack, Outcome(dynamic, f"({static})" if static else ""))
                found |= {attack.name: row} if row.right and _line(row).split("|")[2].strip() == cell[1] else {}  # fmt: skip
    return found


def main() -> int:
    words = [word for word in sys.argv[1:] if word != "--missing"]
    target = Path(words[0]) if words else PAGE
    known = rows_of(target.read_text(encoding="utf-8")) if "--missing" in sys.argv else {}
    tried = {row.attack.name: row for row in try_all([a for a in CORPUS if a.name not in known])}
    rows = [row for a in CORPUS if (row := (known | tried).get(a.name)) is not None]
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    target.write_text(page(rows, today), encoding="utf-8")
    sys.stdout.write(page(rows, today))
    return 0 if all(row.right for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
