"""Whether static figures order leaves as a clock does: the table of docs/agents.md.

    python benchmarks/leaf_order.py               times and prices the leaves of leaf_order.yaml, prints the table
    python benchmarks/leaf_order.py --op softmax  of one operator (repeat it)
    python benchmarks/leaf_order.py --no-clock    cycles alone; times nothing

Every leaf is timed in its kernel against the library's leaf in alternating slots; results of timed calls are compared with the reference. A pair of leaves of an operator counts when both its
times and its cycles differ clearly (10 %).
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from septran import settings as settings_
from septran.agent.frame import make_frame
from septran.backends.base import Built
from septran.kernel import Kernel, Leaf
from septran.plan.floor import library_leaves
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.run.inspect import leaf_body
from septran.trial.judge import build_only, distinct_specs
from septran.trial.place import Place, place_in
from septran.verify.problem import Problem
from septran.verify.timing import race

LEAVES = Path(__file__).with_suffix(".yaml")
CLEARLY = 1.1
_CLOCK_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A leaf. cycles: of a full tile. time: over that of the library's leaf in the kernel; None: not timed."""

    op: str
    name: str
    cycles: float | None
    time: float | None


def figures(
    op: str, given: Mapping[str, Any], arch: str, clock: bool, folder: Path
) -> list[Figure]:
    """Return the figures of the library's leaf and of those in `given`."""
    plan = resolve(GenRequest(op=op, backend="cpp", **({"arch": arch} if arch else {})))
    lowered = lower_plan(plan)
    backend = plan.backend
    assert backend.tile_cost is not None
    spec = next(s for s in distinct_specs(lowered.program) if s.task == given["leaf"])
    leaves = library_leaves(backend, lowered.program, lowered.bound.mapping)
    body = leaf_body(leaves[spec.key], backend.signature(spec))
    bodies = dict(given.get("bodies") or {})
    for name, edits in (given.get("edits") or {}).items():
        bodies[name] = body
        for what, by in edits:
            if what not in bodies[name]:
                raise SystemExit(f"{op}: {name}: the library's leaf has no {what!r}")
            bodies[name] = bodies[name].replace(what, by)
    frame = make_frame(spec, backend, "body")
    made = {n: frame.leaf(text, writer="llm", name=n) for n, text in bodies.items()}
    found = []
    place = place_in(settings_.load(flags={}), backend, plan.arch, "auto")
    problem = problem_of(plan, lowered.program, plan.dims)
    base: tuple[Kernel, Built] | None = None
    for name, leaf in {"library": leaves[spec.key], **made}.items():
        kernel = backend.emit(lowered.program, {**leaves, spec.key: leaf})
        own = folder / name
        own.mkdir(parents=True)
        cycles = backend.tile_cost(kernel, kernel_leaf(kernel.leaves, spec.key), own).cycles
        time = None
        if clock:
            built = build_only(place, kernel, folder=own / "built")
            if not built.ok:
                raise SystemExit(f"{op}: {name}: {built.log}")
            base = base or (kernel, built)
            time = 1.0 if name == "library" else _time((kernel, built), base, problem, place)
            if time is None:
                raise SystemExit(f"{op}: {name}: its results are wrong, or it stopped answering")
        found.append(Figure(op=op, name=name, cycles=cycles, time=time))
    return found


def kernel_leaf(leaves: tuple[Leaf, ...], key: str) -> Leaf:
    """Return the leaf of a spec."""
    return next(leaf for leaf in leaves if leaf.spec.key == key)


def _time(
    mine: tuple[Kernel, Built], base: tuple[Kernel, Built], problem: Problem, place: Place
) -> float | None:
    """Return the time of a kernel over that of the one with the library's leaf: alternating slots, least disturbed.

    None when its results were wrong.
    """
    # one thread: processor time, which other work hardly moves
    sessions = replace(place.sessions, threads=1)
    found = race(mine, base, problem, sessions=sessions, budget_s=_CLOCK_S, slot_s=0.002)
    return None if found is None else found.first_s / found.second_s


def pairs(found: list[Figure]) -> list[tuple[Figure, Figure, bool]]:
    """Return the pairs of leaves of one operator whose times and cycles both differ clearly; True: in the same order."""
    known = [f for f in found if f.cycles and f.time]
    told = []
    for one, two in itertools.combinations(known, 2):
        assert one.cycles and two.cycles and one.time and two.time
        apart = max(one.time / two.time, two.time / one.time) >= CLEARLY
        told_apart = max(one.cycles / two.cycles, two.cycles / one.cycles) >= CLEARLY
        if apart and told_apart:
            told.append((one, two, (one.time < two.time) == (one.cycles < two.cycles)))
    return told


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    options.add_argument("--op", action="append", default=[])
    options.add_argument("--arch", default="")
    options.add_argument("--no-clock", action="store_true")
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    listed = yaml.safe_load(LEAVES.read_text(encoding="utf-8"))
    rows: list[Figure] = []
    print(
        "| operator | leaf | cycles of a tile | over the library's | time over the library's |\n|---|---|---|---|---|"
    )
    for op in given.op or listed:
        with tempfile.TemporaryDirectory() as folder:
            found = figures(op, listed[op], given.arch, not given.no_clock, Path(folder))
        base = found[0].cycles
        for f in found:
            cycles = "unknown" if f.cycles is None else f"{f.cycles:,.0f}"
            over = f"{f.cycles / base:.2f}" if f.cycles and base else "-"
            print(
                f"| {op} | {f.name} | {cycles} | {over} | {'-' if f.time is None else f'{f.time:.2f}'} |",
                flush=True,
            )
        rows += found
    told = [
        p
        for op in dict.fromkeys(f.op for f in rows)
        for p in pairs([f for f in rows if f.op == op])
    ]
    right = sum(same for _, _, same in told)
    print(
        f"\n{right} of {len(told)} pairs that both tell apart by 10 % are ordered as the clock orders them."
    )
    for one, two, same in told:
        if not same:
            print(f"- not {one.op}: {one.name} and {two.name}")
    if given.json:
        given.json.write_text(
            json.dumps([(f.op, f.name, f.cycles, f.time) for f in rows], indent=1)
        )


if __name__ == "__main__":
    main()
