"""python -m tests.leafgate.consistency [--missing] [BACKEND[/DTYPE[/OPERATOR]] ...]: the library's leaves, sent back, are accepted.

Every library leaf of every operator, as `septran show --leaf` prints it, goes the way of a model's reply: taken out of
a fenced block, through the gate, judged alone at its full and its edge tiles, then in the kernel, and timed against itself
where times are measured. Writes the rows that were asked for into docs/self-consistency.md, each as soon as it is known;
--missing: only those that the page lacks. What this machine could not judge is told and gets no row. Exit status 1 when a leaf is not accepted, 2 for a word that names none.
"""

from __future__ import annotations

import datetime
import itertools
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from septran import backends
from septran.agent.frame import assemble, make_frame
from septran.agent.reply import extract_body
from septran.agent.writer import LeafVerdict
from septran.errors import SeptranError
from septran.kernel import Leaf
from septran.plan.floor import library_leaves
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.run.inspect import leaf_body
from septran.trial.leaf_judge import LeafJudge
from septran.trial.place import Place, place_of
from tests.verify import honest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "self-consistency.md"
HEAD = """# The library, judged as a model is

Library leaves as `septran show --leaf` prints them, sent back as a reply: taken out of its fence, printed by the gate ([leaf-language](leaf-language.md)), judged alone on secret inputs at
the full and at the edge tiles, then in the kernel. Written by `python -m tests.leafgate.consistency` on {date}; equal leaves of several operators stand once.
The score is the library's time over that of the body sent back, in alternating slots, where times are measured (cpp); 1.00 also says that the two runs do not agree on a difference. Other
figures are one run each, and those taken under load say little; outside 0.95 to 1.05 a figure is the median of three runs, of which a slow test asks the same. On dsa_c it is the simulator's cycles, which are the same every time.
A run replaces the rows that it was asked for. In float32 the page has every leaf of these targets, of cpp and dsa_c in every dtype that they have, of the others in 16 bits a part;
`pytest --slow tests/leafgate` tries all, in the other dtypes, too.
"""
OPERATORS = {
    **honest.OPERATORS,
    "add": {"N": 1009},
    "col_mean": {"M": 37, "N": 41},
    "conv2d": {"B": 1, "H": 7, "W": 5, "Ci": 9, "Co": 13},
    "conv2d_stride2": {"B": 1, "H": 7, "W": 5, "Ci": 9, "Co": 13},
    "gemm_bias_silu": {"M": 21, "N": 19, "K": 33},
    "gemm_seed": {"M": 33, "N": 29, "K": 47},
}
"""All operators of the library; a test says which one is missing."""
BACKENDS = (
    "cpp", "cuda_c", "hip_c", "dsa_c", "triton_cuda", "triton_hip", "triton_npu", "tilelang_cuda", "tilelang_hip", "tilelang_npuir",
    "pallas_tpu",
)  # fmt: skip
"""Targets whose leaves can be sent back; the page has every leaf of the library for them in float32."""
DTYPES = ("float32", "float16", "bfloat16", "float64")
WITHIN = (0.95, 1.05)
"""A score of a leaf over itself that says nothing."""


@dataclass(frozen=True)
class Row:
    """One leaf that was sent back. told: why it was refused, "" when it was accepted. score: "" where none is measured."""

    backend: str
    op: str
    dtype: str
    leaf: str
    told: str = ""
    score: str = ""


@dataclass(frozen=True)
class Asked:
    """Which rows are asked for: words BACKEND, BACKEND/DTYPE or BACKEND/DTYPE/OPERATOR; none asks for all."""

    words: tuple[str, ...] = ()

    def unknown(self) -> str:
        """Return the first word that names no cell, and what it may be; "" when there is none."""
        for word in self.words:
            known = (BACKENDS, DTYPES, tuple(OPERATORS))
            parts = word.split("/")
            for part, names in zip(parts, known, strict=False):
                if part not in names:
                    return f"{word}: {part!r} is none of {' '.join(names)}"
            if len(parts) > len(known):
                return f"{word}: a word is BACKEND, BACKEND/DTYPE or BACKEND/DTYPE/OPERATOR"
        return ""

    def about(self, *cell: str) -> bool:
        """Return whether a row of (backend, dtype, operator), or of these first words of it, is asked for."""
        parts = [tuple(word.split("/")) for word in self.words] or [()]
        return any(all(a == b for a, b in zip(cell, part, strict=False)) for part in parts)


def leaves(backend: str, op: str, dtype: str) -> tuple[Leaf, ...]:
    """Return the distinct library leaves of a kernel at small, odd sizes."""
    plan = resolve(GenRequest(op=op, backend=backend, dtype=dtype, dims=OPERATORS[op]))
    lowered = lower_plan(plan)
    found = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    return tuple(leaf for leaf in found.values() if not leaf.listed)


def judged_at(backend: str, arch: str) -> Place:
    """Return where a target's leaves are judged; its `trouble` says why that cannot be done on this machine."""
    found = backends.get(backend)
    return place_of(found, arch, "emulated" if found.where == "emulated" else "auto", 1)


def sent_back(leaf: Leaf, op: str, dtype: str, folder: Path) -> LeafVerdict:
    """Return the verdict on a library leaf's body as a reply."""
    spec = leaf.spec
    plan = resolve(GenRequest(op=op, backend=spec.backend, dtype=dtype, dims=OPERATORS[op]))
    lowered = lower_plan(plan)
    frame = make_frame(spec, plan.backend, "body")
    body = leaf_body(leaf, plan.backend.signature(spec))
    found = extract_body(f"Here it is.\n```{frame.tags[0]}\n{body}```\n", frame, spec)
    if found.problem:
        return LeafVerdict(level="rejected", status="unusable", message=found.problem)
    judge = LeafJudge(
        judged_at(spec.backend, spec.arch),
        lowered.program,
        problem_of(plan, lowered.program, plan.dims),
        library_leaves(plan.backend, lowered.program, lowered.bound.mapping),
        work=folder,
    )
    try:
        return judge.check(assemble(frame, found.body, spec, "command", "library"))
    except SeptranError as e:
        return LeafVerdict(level="unavailable", status="unavailable", message=str(e))


def scored(leaf: Leaf, op: str, dtype: str, folder: Path) -> LeafVerdict:
    """Return `sent_back`; a score outside of WITHIN is the median of three, as one run of three is loaded now and then."""
    first = sent_back(leaf, op, dtype, folder / "0")
    score = first.speedup
    if not first.verified or score is None or WITHIN[0] <= score <= WITHIN[1]:
        return first
    more = [sent_back(leaf, op, dtype, folder / str(number)) for number in (1, 2)]
    wrong = [one for one in more if not one.verified and one.status != "unavailable"]
    if wrong:
        return wrong[0]
    found = [first, *(one for one in more if one.speedup is not None)]
    return sorted(found, key=lambda one: one.speedup or 0)[len(found) // 2]


def distinct(backend: str, dtype: str) -> Iterator[tuple[str, Leaf]]:
    """Yield (operator, leaf) of each leaf that no earlier operator has."""
    seen: set[str] = set()
    for op in OPERATORS:
        try:
            found = leaves(backend, op, dtype)
        except SeptranError:  # the operator or the target has no such dtype
            continue
        for leaf in found:
            if leaf.spec.key not in seen:
                seen.add(leaf.spec.key)
                yield op, leaf


def rows(asked: Asked, known: Collection[tuple[str, ...]] = ()) -> Iterator[Row]:
    """Yield what became of each distinct leaf that is asked for; not of those (backend, operator, dtype, leaf) in `known`."""
    for backend, dtype in itertools.product(BACKENDS, DTYPES):
        if not asked.about(backend, dtype):
            continue
        for op, leaf in distinct(backend, dtype):
            if not asked.about(backend, dtype, op):
                continue
            if (backend, op, dtype, leaf.spec.task) in known:
                continue
            with tempfile.TemporaryDirectory() as folder:
                verdict = scored(leaf, op, dtype, Path(folder))
            if verdict.status == "unavailable":  # of this machine, not of the leaf
                told = f"{backend}/{dtype}/{op} {leaf.spec.task}: {verdict.message}"
                print(told, file=sys.stderr)
                continue
            told = "" if verdict.verified else verdict.message.splitlines()[0].replace("|", "/")
            score = f"{verdict.speedup:.2f}" if verdict.speedup else ""
            yield Row(backend, op, dtype, leaf.spec.task, told, score)


def page(found: Sequence[Row], date: str) -> str:
    """Return docs/self-consistency.md."""
    lines = [
        HEAD.format(date=date),
        "| target | operator | dtype | leaf | sent back | score |\n|---|---|---|---|---|---|",
        *map(line, found),
    ]
    return "\n".join(lines) + "\n"


def line(row: Row) -> str:
    told = f"**refused**: {row.told}" if row.told else "accepted"
    return f"| {row.backend} | {row.op} | {row.dtype} | {row.leaf} | {told} | {row.score} |"


def told() -> list[Row]:
    """Return the rows of the page."""
    return told_on(PAGE.read_text(encoding="utf-8"))


def told_on(text: str) -> list[Row]:
    """Return the rows of the page `text`."""
    cells = [[c.strip() for c in line.split("|")[1:-1]] for line in text.splitlines()]
    return [
        Row(
            *cell[:4],
            "" if cell[4] == "accepted" else cell[4].removeprefix("**refused**: "),
            cell[5],
        )
        for cell in cells
        if len(cell) == 6 and cell[0] in BACKENDS
    ]


def write(tried: Sequence[Row], *, missing: bool) -> None:
    """Put `tried` into the page; in place of the rows of the same operators, unless only those that are `missing` were tried."""
    cells = {(row.backend, row.dtype, row.op) for row in tried}
    kept = [row for row in told() if missing or (row.backend, row.dtype, row.op) not in cells]
    places = list(OPERATORS)
    found = sorted(
        [*kept, *tried],
        key=lambda r: (BACKENDS.index(r.backend), DTYPES.index(r.dtype), places.index(r.op)),
    )
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    PAGE.write_text(page(found, today), encoding="utf-8")


def main() -> int:
    missing = "--missing" in sys.argv
    asked, tried = Asked(tuple(word for word in sys.argv[1:] if word != "--missing")), list[Row]()
    if unknown := asked.unknown():
        print(unknown, file=sys.stderr)
        return 2
    known = {(row.backend, row.op, row.dtype, row.leaf) for row in told() if missing}
    for row in rows(asked, known):
        print(line(row), flush=True)
        if missing:
            tried = [row]  # the others are on the page by now
        else:
            tried.append(row)
        write(tried, missing=missing)
    return 1 if any(row.told for row in tried) else 0


if __name__ == "__main__":
    raise SystemExit(main())
