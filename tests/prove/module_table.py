"""The part of docs/proofs.md about imported modules: every task file of the tests, what is proven of its kernels.

    python -m tests.prove.module_table [PAGE] --rows FILE [--only TARGET ...] [--seconds S]

FILE keeps what is known of each file and target, so that a run that was stopped goes on; S ends a run early.
"""

from __future__ import annotations

import argparse
import functools
import json
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from septran import backends
from septran.errors import InternalError, SeptranError
from septran.plan import task_file, torch_module
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.prove import RULES
from septran.run.prove import WITHIN_S, prove_lowered
from tests.frontend.importing import imported
from tests.prove.table import MODULES, MODULES_END, PAGE, modules_of

TASKS = Path(__file__).parents[1] / "frontend" / "tasks"
TARGETS = ("cpp", "cuda_c", "triton_cuda", "dsa_c", "tilelang_cuda", "tilelang_npuir")


def proven(path: Path, target: str) -> dict[str, Any]:
    """Return what is known of one file on one target: the rules' states, or why the target has no such kernel."""
    try:
        plan = resolve(GenRequest(op=None, task_file=path, backend=target))
        lowered = lower_plan(plan)
        start = time.process_time()
        certificate = prove_lowered(plan, lowered).certificate
    except InternalError:
        return {"unavailable": "internal error"}
    except SeptranError as e:
        if e.exit_code not in (2, 3):  # refused, or nothing here can run it
            raise
        return {"unavailable": e.codes[0]}
    return {
        "seconds": time.process_time() - start,
        "rules": {r.rule: "assumed" if r.assumes else r.state for r in certificate.rules},
        "why": {r.rule: r.why for r in certificate.rules if r.state == "not asked"},
        "findings": [str(f) for f in certificate.findings],
    }


def measure(
    rows: dict[str, dict[str, Any]], file: Path, targets: Sequence[str], until: float
) -> None:
    """Prove what `rows` does not know yet, file by file, so that each is imported once."""
    with tempfile.TemporaryDirectory() as folder:
        for source in sorted(TASKS.glob("*/*.py")):
            name = f"{source.parent.name}/{source.stem}"
            path = Path(folder) / source.name
            shutil.copy(source, path)
            once = functools.cache(lambda p, **_: torch_module.load_imported(imported(p)))
            task_file.load_task_file = once  # a child for each target would take minutes
            for target in targets:
                if target in rows.get(name, {}):
                    continue
                if time.monotonic() > until:
                    return
                found = proven(path, target)
                rows.setdefault(name, {})[target] = found
                print(name, target, found, flush=True)
                file.write_text(json.dumps(rows))


def table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the section of the page."""
    lines = [
        MODULES,
        HEAD,
        f"| target | modules | {' | '.join(RULES)} | seconds, median and worst |\n",
    ]
    lines.append(f"|---|---|{'---|' * len(RULES)}---|\n")
    other: list[str] = []
    without: list[str] = []
    for target in TARGETS:
        mine = {n: found[target] for n, found in rows.items() if target in found}
        kernels = {n: f for n, f in mine.items() if "rules" in f}
        if not kernels:
            continue
        backend = backends.get(target)
        cells = []
        for rule in RULES:
            if rule == "order" and backend.copies_ordered_by:
                cells.append("-")
                continue
            states = Counter(f["rules"][rule] for f in kernels.values())
            cells.append(_count(states))
            reasons = Counter(f["why"][rule] for f in kernels.values() if rule in f["why"])
            other += [f"- {target}, {rule}: {why} ({n})\n" for why, n in sorted(reasons.items())]
        seconds = sorted(f["seconds"] for f in kernels.values())
        times = f"{seconds[len(seconds) // 2]:.2f}, {seconds[-1]:.2f}"
        if late := sum(s > WITHIN_S for s in seconds):
            times += f", {late} over {WITHIN_S:g}"
        codes = Counter(f["unavailable"] for f in mine.values() if "unavailable" in f)
        if codes:
            without.append(f"{target}: " + ", ".join(f"{c} {n}" for c, n in sorted(codes.items())))
        lines.append(
            f"| {target} | {len(kernels)} of {len(mine)} | {' | '.join(cells)} | {times} |\n"
        )
        other += [f"- {target}, {n}: {x}\n" for n, f in kernels.items() for x in f["findings"]]
    lines.append(TAIL.format(without="; ".join(without)))
    if other:
        lines += ["\nNot proven:\n\n", *other]
    return "".join([*lines, MODULES_END])


def _count(states: Counter[str]) -> str:
    parts = [str(states["proved"] + states["assumed"])]
    parts += [f"{states['assumed']} with an assumption"] if states["assumed"] else []
    parts += [f"{states[s]} {s}" for s in ("refused", "not asked") if states[s]]
    return ", ".join(parts)


HEAD = """## Imported modules

Made by `python -m tests.prove.module_table`: the task files of the tests (permuted, reshaped, sliced and broadcast arrays, windows, lookups), imported as they
stand. Counted are modules, of those that were tried and that the target has kernels for; "with an assumption": the rule rests on the range of an index that is read from memory, and the
certificate names it. Seconds are the processor's, of all rules of one module.

"""
TAIL = f"""
`-`: the target's own compiler orders copies. Over {WITHIN_S:g} seconds, `gen` says which rules it did not ask, and `septran prove` decides them all. Modules that a target has no kernel for are refused before any
proof, with a code: {{without}}.
"""


def put(page: Path, section: str) -> None:
    """Put the section into the page, before the planted faults where it has none yet."""
    text = page.read_text(encoding="utf-8")
    if known := modules_of(text):
        text = text.replace(known, section)
    else:
        text = text.replace("\n## Planted faults", f"\n{section}\n## Planted faults")
    page.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", nargs="?", type=Path, default=PAGE)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=TARGETS)
    parser.add_argument("--seconds", type=float, default=1e9)
    asked = parser.parse_args()
    rows = json.loads(asked.rows.read_text()) if asked.rows.is_file() else {}
    measure(rows, asked.rows, asked.only, time.monotonic() + asked.seconds)
    put(asked.page, table(rows))


if __name__ == "__main__":
    main()
