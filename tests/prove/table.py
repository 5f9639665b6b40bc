"""docs/proofs.md: every operator on every target, what is proven of it, and planted faults that are refused.

    python -m tests.prove.table [PAGE] [--faults N]

N faults per kernel are taken evenly from all that `tests.prove.mutants` can plant.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from septran import backends
from septran.errors import SeptranError
from septran.ir.nodes import Program
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.plan.symbolic import symbolic
from septran.plan.unmapped import unmapped
from septran.prove import RULES, Finished, prove
from septran.prove.ordering import ordering
from septran.prove.sets import model
from septran.run.prove import finish, prove_lowered
from tests.backends.operators import all_operators
from tests.packaging.sources import ROOT
from tests.prove.mutants import mutants, unordered

PAGE = ROOT / "docs" / "proofs.md"
HEAD = """# Proofs

Made by `python -m tests.prove.table`. `septran prove` decides these rules exactly, for every iteration; [verification](verification.md#proofs) says what they
mean, what is trusted and what is only tested. Sizes are each operator's sample sizes, types its first.

"""


@dataclass(slots=True)
class Row:
    """One target: kernels, seconds of proofs, and what became of planted faults."""

    kernels: int = 0
    proved: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    faults: int = 0
    by: Counter[str] = field(default_factory=Counter)
    survivors: list[str] = field(default_factory=list)
    unavailable: int = 0


def measure(target: str, arch: str | None, faults: int) -> Row:
    """Prove every operator on one target, and plant `faults` faults in each kernel."""
    row = Row()
    for op in sorted(all_operators()):
        try:
            plan = resolve(GenRequest(op=op, backend=target, arch=arch))
            lowered = lower_plan(plan)
        except SeptranError:
            row.unavailable += 1
            continue
        start = time.perf_counter()
        certificate = prove_lowered(plan, lowered).certificate
        row.seconds.append(time.perf_counter() - start)
        row.kernels += 1
        row.proved.update(certificate.proved)
        row.refused += [f"{op}: {f}" for f in certificate.findings]
        reference = unmapped(
            plan, lowered.bound.mapping, lowered.passes[0].program, symbolic(plan, ())
        )
        for name, program in _spread(list(mutants(lowered.program)), faults):
            if program == lowered.program:
                continue
            row.faults += 1
            found = prove(program, reference.program, assumptions=reference.assumptions)
            rules = [r.rule for r in found.rules if r.state == "refused"]
            row.by.update(rules[:1])
            if not rules:
                row.survivors.append(f"{op}: {name}")
        if not plan.backend.copies_ordered_by:
            _drop_each(row, op, finish(plan, lowered))
    return row


def _drop_each(row: Row, op: str, core: Finished) -> None:
    m = model(core.program, core.dims)
    asked = [s for s in m.statements if s.kind in ("sync", "post", "await")]
    for s, (name, mutant) in zip(asked, mutants(core.program, (unordered,)), strict=True):
        if m.instances(s).is_empty():
            continue
        row.faults += 1
        if next(ordering(model(mutant, core.dims)), None) is not None:
            row.by.update(["order"])
        else:
            row.survivors.append(f"{op}: {name}")


def _spread(found: list[tuple[str, Program]], most: int) -> Iterator[tuple[str, Program]]:
    step = max(1, len(found) // most) if most else len(found) + 1
    yield from found[::step][:most]


def page(faults: int) -> str:
    """Return the whole page."""
    rules = " | ".join(RULES)
    lines = [
        HEAD,
        f"| target | kernels | {rules} | seconds, median and worst | faults planted | refused | by |\n",
        f"|---|---|{'---|' * len(RULES)}---|---|---|---|\n",
    ]
    left: list[str] = []
    for target in dict(backends.BUILTIN):
        for arch in backends.get(target).arches or (None,):
            row = measure(target, arch, faults)
            label = f"{target} {arch or ''}".strip()
            proved = " | ".join(
                str(row.proved[r])
                if r != "order" or not backends.get(target).copies_ordered_by
                else "-"
                for r in RULES
            )
            ordered = sorted(row.seconds)
            times = f"{ordered[len(ordered) // 2]:.2f}, {ordered[-1]:.2f}" if ordered else "-"
            by = ", ".join(f"{r} {n}" for r, n in row.by.most_common())
            refused = sum(row.by.values())
            lines.append(
                f"| {label} | {row.kernels} | {proved} | {times} | {row.faults} | {refused} | {by} |\n"
            )
            left += [f"- {label}, {s}\n" for s in row.survivors]
            left += [f"- {label}, not proven: {s}\n" for s in row.refused]
            print(lines[-1], end="", flush=True)
    lines.append(
        "\nA fault is refused by the first rule that sees it. `-`: the target's own compiler orders copies.\n"
    )
    if left:
        lines.append("\n## What no rule refuses\n\n" + "".join(left))
    return "".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", nargs="?", type=Path, default=PAGE)
    parser.add_argument("--faults", type=int, default=8)
    asked = parser.parse_args()
    asked.page.write_text(page(asked.faults), encoding="utf-8")


if __name__ == "__main__":
    main()
