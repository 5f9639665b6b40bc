"""docs/proofs-symbolic.md: what is proven with sizes left symbolic, for every number of rows, and for all sizes.

    python -m tests.prove.symbolic_table [--rows FILE]

FILE keeps finished targets, so that a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from pathlib import Path

from septran import backends
from septran.errors import SeptranError
from septran.plan.resolve import GenRequest
from septran.plan.rows import row_dims
from septran.prove import RULES
from septran.prove.sets import FLATTENED
from septran.run.prove import prove_request
from tests.backends.operators import all_operators
from tests.packaging.sources import ROOT

PAGE = ROOT / "docs" / "proofs-symbolic.md"
ASKED = (*(r for r in RULES if r != "text"), "row-order")
SPANS = ("rows", "all")
Counted = dict[str, dict[str, dict[str, int]]]
"""sizes -> rule -> reason, "" for proved -> kernels"""


def measure(target: str) -> Counted:
    """Prove every operator with its rows symbolic, and with all its sizes symbolic."""
    found: dict[str, dict[str, Counter[str]]] = {s: {r: Counter() for r in ASKED} for s in SPANS}
    for op, (operator, _) in sorted(all_operators().items()):
        for span, names in zip(SPANS, (row_dims(operator), tuple(operator.dims)), strict=True):
            for rule, why in _told(GenRequest(op=op, backend=target), names).items():
                found[span][rule][why] += 1
    return {s: {r: dict(c) for r, c in rules.items()} for s, rules in found.items()}


def _told(request: GenRequest, names: tuple[str, ...]) -> dict[str, str]:
    """Return rule -> why it is not proven, "" when it is."""
    try:
        rules = prove_request(request, names).certificate.rules
    except SeptranError as e:
        return dict.fromkeys(ASKED, _general(f"{request.op}: {e.diagnostics[0].message}"))
    return {
        r.rule: "" if r.state == "proved" else _general(r.why or f"refused: {r.findings[0].text}")
        for r in rules
        if r.rule in ASKED
    }


def _general(why: str) -> str:
    """Return a reason without the names of one operator."""
    why = re.sub(r"needs the value of \w+", "needs a size", why)
    return FLATTENED + " is missing" if FLATTENED in why else why


def page(found: dict[str, Counted]) -> str:
    """Return the whole page."""
    lines = [
        "# Proofs with symbolic sizes\n\nMade by `python -m tests.prove.symbolic_table`: of how many operators each rule holds for every number of rows (the dim that counts an output's rows; tiles as "
        "at the sample sizes), and for every size of all dims. A window's dims begin where the window fits. A dim that one tile holds whole (the rows of a softmax) is proven up to that tile, all others up to 2^24. "
        "`order` is of what the target's passes make of open sizes: every barrier and event they place is decided, but an event that only given sizes show to be implied stays. `text` is of printed kernels; where "
        "they read sizes when they run (`--dim M=dynamic`), `septran gen` asks it.\n\n",
        f"| target | symbolic | {' | '.join(ASKED)} | missing |\n|---|---|{'---|' * len(ASKED)}---|\n",
    ]
    for target, spans in found.items():
        for span, rules in spans.items():
            counts, missing = [], []
            for rule, reasons in rules.items():
                answered = backends.get(target).copies_ordered_by if rule == "order" else ""
                counts.append("-" if answered else str(reasons.get("", 0)))
                if not answered:
                    missing += [f"{rule}: {why} ({n})" for why, n in reasons.items() if why]
            told = "; ".join(missing).replace("|", "/") or "nothing"
            lines.append(f"| {target} | {span} | {' | '.join(counts)} | {told} |\n")
    late = [t for t in dict(backends.BUILTIN) if t not in found]
    if late:
        lines.append(f"\nNot measured yet: {', '.join(late)}.\n")
    return "".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--only", help="measure this target alone; others as in FILE")
    asked = parser.parse_args()
    file = asked.rows
    found = json.loads(file.read_text()) if file is not None and file.is_file() else {}
    for target in dict(backends.BUILTIN):
        if target not in found and asked.only in (None, target):
            found[target] = measure(target)
            print(target, found[target], flush=True)
            if file is not None:
                file.write_text(json.dumps(found))
    PAGE.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
