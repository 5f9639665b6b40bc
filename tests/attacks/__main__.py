"""python -m tests.attacks [NAME ...]: print the catch table; exit 1 when one gets through."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.attacks import corpus_c, corpus_python
from tests.attacks.attack import run


def main() -> int:
    chosen = sys.argv[1:]
    failed = 0
    caught = {"dynamic": 0, "static": 0, "both": 0}
    attacks = [a for a in (*corpus_c.ALL, *corpus_python.ALL) if not chosen or a.name in chosen]
    with tempfile.TemporaryDirectory() as folder:
        for attack in attacks:
            outcome = run(attack, Path(folder) / attack.name)
            wrong = outcome.rejected == attack.honest
            failed += wrong
            if not attack.honest:
                caught["dynamic"] += bool(outcome.dynamic)
                caught["static"] += bool(outcome.static)
                caught["both"] += outcome.rejected
            mark = "WRONG" if wrong else "ok"
            kind = "control" if attack.honest else "attack"
            print(
                f"{attack.name} {mark:5} {kind:7} {attack.what:40} dynamic {outcome.dynamic or '-':5}"
                f" static {outcome.static or '-'}",
                flush=True,
            )
    total = sum(not a.honest for a in attacks)
    print(
        f"{total} attacks: {caught['both']} rejected ({caught['dynamic']} by running them,"
        f" {caught['static']} by the static gate); {len(attacks) - total} controls"
    )
    return 1 if failed else 0


raise SystemExit(main())
