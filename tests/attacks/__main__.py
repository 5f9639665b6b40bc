"""python -m tests.attacks [NAME or FAMILY ...]: try the corpus, print the catch table; exit 1 when one gets through."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.attacks.attack import missing, run
from tests.attacks.corpus import CORPUS
from tests.attacks.table import Row, summary


def main() -> int:
    chosen = sys.argv[1:]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for attack in CORPUS:
            if chosen and attack.name not in chosen and attack.language not in chosen:
                continue
            lacks = missing(attack)
            if lacks:
                print(f"{attack.name} not tried: no {lacks} here", flush=True)
                continue
            outcome = run(attack, Path(folder) / attack.name)
            row = Row(attack, outcome)
            rows.append(row)
            print(
                f"{attack.name} {'ok' if row.right else 'WRONG':5} {row.kind:7} {attack.family:24} {attack.what:48}"
                f" dynamic {outcome.dynamic or '-':5} static {outcome.static or '-'}",
                flush=True,
            )
    print(summary(rows))
    return 0 if all(row.right for row in rows) else 1


raise SystemExit(main())
