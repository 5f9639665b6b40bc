"""docs/proofs.md: every operator on every target, what is proven of it, and planted faults that are refused.

    python -m tests.prove.table [PAGE] [--faults N] [--rows FILE] [--only TARGET]

On the first architecture of each target, N faults per kernel are taken evenly from all that `tests.prove.mutants` can plant into
the Program, and N from those that `tests.prove.text_mutants` can plant into the printed text. FILE keeps finished rows,
so that a run that was stopped goes on. `--only` leaves the other targets' rows as they are.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TypeVar

from septran import backends
from septran.errors import SeptranError
from septran.kernel import Kernel
from septran.plan.fit import Lowered
from septran.plan.floor import library_leaves
from septran.plan.resolve import GenRequest, Plan, lower_plan, resolve
from septran.plan.symbolic import symbolic
from septran.plan.unmapped import unmapped
from septran.prove import RULES, Finished, prove
from septran.prove.ordering import ordering
from septran.prove.printed import Broken, Unreadable
from septran.prove.sets import model
from septran.prove.text import same_text
from septran.run.prove import finish, prove_lowered
from tests.backends.operators import all_operators
from tests.packaging.sources import ROOT
from tests.prove.mutants import mutants, unordered
from tests.prove.text_mutants import text_mutants

T = TypeVar("T")
PAGE = ROOT / "docs" / "proofs.md"
HEAD = """# Proofs

Made by `python -m tests.prove.table`. `septran prove` decides these rules exactly, for every iteration; [verification](verification.md#proofs) says what they
mean, what is trusted and what is only tested. Sizes are each operator's sample sizes, types its first that the target prints. Seconds are of one kernel with all its rules, on a shared two-core machine.

"""


@dataclass(slots=True)
class Row:
    """One target: kernels, seconds of proofs, and what became of planted faults."""

    kernels: int = 0
    proved: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)
    not_asked: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    by: Counter[str] = field(default_factory=Counter)
    same: list[str] = field(default_factory=list)
    """faults that no rule refuses"""


def measure(target: str, arch: str | None, faults: int) -> Row:
    """Prove every operator on one target, and plant faults in each kernel."""
    row = Row()
    for op in sorted(all_operators()):
        printed = _printed(op, target, arch)
        if isinstance(printed, SeptranError):
            row.not_asked.append(f"{op}: the target has no such kernel, {', '.join(printed.codes)}")
            continue
        plan, lowered, kernel = printed
        start = time.perf_counter()
        certificate = prove_lowered(plan, lowered, kernel=kernel).certificate
        row.seconds.append(time.perf_counter() - start)
        row.kernels += 1
        row.proved.update(certificate.proved)
        row.refused += [f"{op}: {f}" for f in certificate.findings]
        for r in certificate.rules:
            if r.state == "not asked" and (r.rule, bool(_else(plan, r.rule))) not in _EXCUSED:
                row.not_asked.append(f"{op}, {r.rule}: {r.why}")
        if faults:
            _in_program(row, op, plan, lowered, faults)
            if plan.backend.read_back is not None:
                _in_text(row, op, plan, lowered, kernel, faults)
            if not plan.backend.copies_ordered_by:
                _in_order(row, op, finish(plan, lowered))
    return row


def _printed(op: str, target: str, arch: str | None) -> tuple[Plan, Lowered, Kernel] | SeptranError:
    """Return an operator's kernel in its first type that the target prints, or why it prints none in its first type."""
    found: SeptranError | None = None
    for dtype in (None, "bfloat16"):
        try:
            plan = resolve(GenRequest(op=op, backend=target, arch=arch, dtype=dtype))
            lowered = lower_plan(plan)
            leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
            return plan, lowered, plan.backend.emit(lowered.program, leaves)
        except SeptranError as e:
            found = found or e
    assert found is not None
    return found


_EXCUSED = {("order", True), ("text", True)}


def _else(plan: Plan, rule: str) -> object:
    """Return who answers for a rule that is not asked of a target."""
    return plan.backend.copies_ordered_by if rule == "order" else plan.backend.read_back is None


def _in_program(row: Row, op: str, plan: Plan, lowered: Lowered, most: int) -> None:
    what = symbolic(plan, ())
    reference = unmapped(plan, lowered.bound.mapping, lowered.passes[0].program, what)
    for name, program in _spread(list(mutants(lowered.program)), most):
        if program == lowered.program:
            continue
        row.faults["program"] += 1
        found = prove(program, reference.program, assumptions=reference.assumptions)
        rules = [r.rule for r in found.rules if r.state == "refused"]
        row.by.update(rules[:1])
        if not rules:
            row.same.append(f"{op}: {name}")


def _in_text(row: Row, op: str, plan: Plan, lowered: Lowered, kernel: Kernel, most: int) -> None:
    core = finish(plan, lowered)
    assert plan.backend.read_back is not None
    m = model(core.program, core.dims)
    for name, mutant in _spread(list(text_mutants(kernel)), most):
        row.faults["text"] += 1
        try:
            found = next(same_text(m, plan.backend.read_back(mutant, core.program)), None)
        except Broken:
            row.by["text"] += 1
            continue
        except Unreadable:
            row.by["unreadable"] += 1
            continue
        if found is not None:
            row.by["text"] += 1
        else:
            row.same.append(f"{op}: text, {name}")


def _in_order(row: Row, op: str, core: Finished) -> None:
    """Drop each Sync, Post and Await that a core reaches; four a kernel, evenly, are tried."""
    m = model(core.program, core.dims)
    asked = [s for s in m.statements if s.kind in ("sync", "post", "await")]
    both = list(zip(asked, mutants(core.program, (unordered,)), strict=True))
    live = [planted for s, planted in both if not m.instances(s).is_empty()]
    for name, mutant in _spread(live, 4):
        row.faults["order"] += 1
        if next(ordering(model(mutant, core.dims)), None) is not None:
            row.by.update(["order"])
        else:
            row.same.append(f"{op}: {name}")


def _spread(found: Sequence[T], most: int) -> Iterator[T]:
    step = max(1, len(found) // most)
    yield from found[::step][:most]


def rows(faults: int, file: Path | None, only: str | None) -> dict[str, Row]:
    """Return label -> row of every target and arch, those in `file` as they stand there."""
    known = json.loads(file.read_text()) if file is not None and file.is_file() else {}
    found: dict[str, Row] = {}
    for target in dict(backends.BUILTIN):
        for at, arch in enumerate(backends.get(target).arches or (None,)):
            label = f"{target} {arch or ''}".strip()
            if label in known:
                data = known[label]
                counts = {k: Counter(data[k]) for k in ("proved", "faults", "by")}
                found[label] = Row(**{**data, **counts})
            elif only in (None, target, label):
                found[label] = measure(target, arch, 0 if at else faults)
                print(label, found[label], flush=True)
                if file is not None:
                    row = found[label]
                    known[label] = {f.name: getattr(row, f.name) for f in fields(row)}
                    file.write_text(json.dumps(known))
    return found


@dataclass(slots=True)
class Page:
    """The page's lines by target: rows of both tables, kernels that are not proven, faults that mean the same."""

    proved: dict[str, str] = field(default_factory=dict)
    unproven: dict[str, list[str]] = field(default_factory=dict)
    planted: dict[str, str] = field(default_factory=dict)
    same: dict[str, list[str]] = field(default_factory=dict)
    modules: str = ""
    """the section that `tests.prove.module_table` makes"""

    @classmethod
    def of(cls, text: str) -> Page:
        """Return what a page says."""
        found = cls(modules=modules_of(text))
        faults = False
        for line in text.splitlines(keepends=True):
            faults = faults or line.startswith("## Planted")
            label = line.strip("|- ").split(" |")[0].split(", ")[0]
            if label not in _labels():
                continue
            if line.startswith("| "):
                (found.planted if faults else found.proved)[label] = line
            elif line.startswith("- "):
                (found.same if faults else found.unproven).setdefault(label, []).append(line)
        return found

    def put(self, label: str, row: Row) -> None:
        """Replace what the page says of one target."""
        backend = backends.get(label.split()[0])
        blank = {"order": bool(backend.copies_ordered_by), "text": backend.read_back is None}
        proved = " | ".join("-" if blank.get(r) else str(row.proved[r]) for r in RULES)
        ordered = sorted(row.seconds)
        times = f"{ordered[len(ordered) // 2]:.2f}, {ordered[-1]:.2f}" if ordered else "-"
        self.proved[label] = f"| {label} | {row.kernels} | {proved} | {times} |\n"
        self.unproven[label] = [f"- {label}, {s}\n" for s in (*row.refused, *row.not_asked)]
        if row.faults:
            by = ", ".join(f"{r} {n}" for r, n in sorted(row.by.items()))
            counts = " | ".join(str(row.faults[k]) for k in ("program", "order", "text"))
            told = f"{sum(row.by.values())} | {by} | {len(row.same)}"
            self.planted[label] = f"| {label} | {counts} | {told} |\n"
            self.same[label] = [f"- {label}, {s}\n" for s in row.same]

    def text(self) -> str:
        """Return the whole page."""
        lines = [
            HEAD,
            f"| target | kernels | {' | '.join(RULES)} | seconds, median and worst |\n",
            f"|---|---|{'---|' * len(RULES)}---|\n",
            *_of_all(self.proved),
            BLANKS,
        ]
        if late := [label for label in _labels() if label not in self.proved]:
            lines.append(f"\nNot measured yet: {', '.join(late)}.\n")
        if other := [s for found in _of_all(self.unproven) for s in found]:
            lines += ["\n## Not proven\n\n", *other]
        lines.append(f"\n{self.modules}" if self.modules else "")
        rows = [row.strip("|\n ").split(" | ") for row in self.planted.values()]
        total = sum(int(n) for row in rows for n in row[1:4])
        same = sum(int(row[-1]) for row in rows)
        lines.append(
            f"\n## Planted faults\n\n{total} faults, {total - same} refused, {same} proven to mean the same. {FAULTS}"
        )
        lines += _of_all(self.planted)
        if same:
            lines += [SAME, *(s for found in _of_all(self.same) for s in found)]
        return "".join(lines)


MODULES, MODULES_END = "<!-- imported modules -->\n", "<!-- end of imported modules -->\n"


def modules_of(page: str) -> str:
    """Return a page's section about imported modules, "" where it has none."""
    if MODULES not in page:
        return ""
    return page[page.index(MODULES) : page.index(MODULES_END) + len(MODULES_END)]


BLANKS = "\n`-`: the target's own compiler orders copies; of Triton kernels that load what they store (`gemm_seed`) `order` is asked, too. Streamed panels of `gemm_seed` rest on a law that its certificate names: a sum over an axis is the sum over its blocks in order.\n"
FAULTS = (
    "In the Program: a statement dropped, a leaf run twice, a loop with one iteration more or less or made "
    "parallel, an operand shifted, clipped, in the wrong slot or by another loop's variable; a barrier, post or wait dropped. In the text: one number "
    "changed, one statement dropped or printed twice; in Triton also a mask, a fill, a condition or 64 bits dropped, `<=` for `<`, another operator, "
    "rows for columns; in TileLang and NPU IR also a copy or a leaf's operands turned round, a clip or condition dropped, a bound of `T.min` dropped, another index, another kind of "
    "loop; in Pallas also a condition, a stride or an alias dropped, an axis for any core, always the first block. Each is refused by the first rule that sees it; unreadable: the text is none that an emitter prints, so nothing is proven of it and `--require proved` fails.\n\n"
    "| target | in the Program | of order | in the text | refused | by | the same |\n|---|---|---|---|---|---|---|\n"
)
SAME = (
    "\nNo rule refuses these, and the rules are exact: in the Program the same elements reach the same leaves, and a changed text has the same "
    "addresses in every iteration (a factor or remainder of a variable that is always 0, the pitch of a tile of one row, a larger reserved block, an extent set twice, "
    "a condition that holds anyway, another order of blocks, a second barrier, an index said twice, a tile that nobody reads before it is written, zeros around "
    "an array that nobody reads, a name for an axis that nobody uses).\n\n"
)


@functools.cache
def _labels() -> tuple[str, ...]:
    return tuple(
        f"{target} {arch or ''}".strip()
        for target in dict(backends.BUILTIN)
        for arch in backends.get(target).arches or (None,)
    )


def _of_all(found: Mapping[str, T]) -> list[T]:
    return [found[label] for label in _labels() if label in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", nargs="?", type=Path, default=PAGE)
    parser.add_argument("--faults", type=int, default=4)
    parser.add_argument("--rows", type=Path)
    parser.add_argument(
        "--only",
        help="measure this target, or `target arch`, alone and put its rows into the page as it stands",
    )
    asked = parser.parse_args()
    found = rows(asked.faults, asked.rows, asked.only)
    known = Page.of(asked.page.read_text(encoding="utf-8"))
    new = known if asked.only else Page(modules=known.modules)
    for label, row in found.items():
        if asked.only in (None, label.split()[0], label):
            new.put(label, row)
    asked.page.write_text(new.text(), encoding="utf-8")


if __name__ == "__main__":
    main()
