"""python -m tests.leafgate.consistency [BACKEND ...]: the library's leaves, sent back as replies, are accepted.

Every library leaf of every operator, as `septran show --leaf` prints it, goes the way of a model's reply: taken out of
a fenced block, through the gate, judged alone at its full and its edge tiles. Writes the rows of the backends that were
asked for into docs/self-consistency.md; exit status 1 when a leaf is not accepted.
"""

from __future__ import annotations

import datetime
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

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
from septran.trial.place import place_of
from tests.verify.honest import OPERATORS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "self-consistency.md"
HEAD = """# The library, judged as a model is

Library leaves as `septran show --leaf` prints them, sent back as a reply: taken out of its fence, printed by the gate ([leaf-language](leaf-language.md)), judged alone on secret inputs at
the full and at the edge tiles. Written by `python -m tests.leafgate.consistency` on {date}; equal leaves of several operators stand once. dsa_c's library leaves are lists of operations and have no text.
A run replaces the rows of the targets that it was asked for; cpp and cuda_c were tried with all operators, the others until the run was stopped (`pytest --slow tests/leafgate` tries all).
"""
BACKENDS = ("cpp", "cuda_c", "triton_cuda", "tilelang_cuda", "tilelang_npuir")


@dataclass(frozen=True)
class Row:
    """One leaf that was sent back. told: why it was refused, "" when it was accepted."""

    backend: str
    op: str
    dtype: str
    leaf: str
    told: str


def leaves(backend: str, op: str, dtype: str) -> tuple[Leaf, ...]:
    """Return the distinct library leaves of a kernel at small, odd sizes."""
    plan = resolve(GenRequest(op=op, backend=backend, dtype=dtype, dims=OPERATORS[op]))
    lowered = lower_plan(plan)
    found = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    return tuple(leaf for leaf in found.values() if not leaf.inline)


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
    where = "emulated" if plan.backend.where == "emulated" else "auto"
    judge = LeafJudge(
        place_of(plan.backend, spec.arch, where, 1),
        lowered.program,
        problem_of(plan, lowered.program, plan.dims),
        library_leaves(plan.backend, lowered.program, lowered.bound.mapping),
        work=folder,
    )
    try:
        verdict = judge.alone(assemble(frame, found.body, spec, "command", "library"))
    except SeptranError as e:
        return LeafVerdict(level="unavailable", status="unavailable", message=str(e))
    assert verdict is not None
    return verdict


def rows(backends: tuple[str, ...], dtypes: tuple[str, ...]) -> Iterator[Row]:
    """Yield what became of each distinct leaf."""
    seen: set[str] = set()
    for backend in backends:
        for dtype in dtypes:
            for op in OPERATORS:
                try:
                    found = leaves(backend, op, dtype)
                except SeptranError:
                    continue
                for leaf in found:
                    if leaf.spec.key in seen:
                        continue
                    seen.add(leaf.spec.key)
                    with tempfile.TemporaryDirectory() as folder:
                        verdict = sent_back(leaf, op, dtype, Path(folder))
                    told = "" if verdict.verified else verdict.message.splitlines()[0]
                    yield Row(backend, op, dtype, leaf.spec.task, told)


def page(found: Sequence[Row], date: str) -> str:
    """Return docs/self-consistency.md."""
    parts = [
        HEAD.format(date=date),
        "| target | operator | dtype | leaf | sent back |\n|---|---|---|---|---|",
    ]
    parts += [
        f"| {r.backend} | {r.op} | {r.dtype} | {r.leaf} | {f'**refused**: {r.told}' if r.told else 'accepted'} |"
        for r in found
    ]
    return "\n".join(parts) + "\n"


def kept(text: str, asked: tuple[str, ...]) -> list[Row]:
    """Return the rows of the page `text` that are about other targets than those `asked` for."""
    cells = [[c.strip() for c in line.split("|")[1:-1]] for line in text.splitlines()]
    return [
        Row(*cell[:4], "" if cell[4] == "accepted" else cell[4].removeprefix("**refused**: "))
        for cell in cells
        if len(cell) == 5 and cell[0] in BACKENDS and cell[0] not in asked
    ]


def main() -> int:
    asked = tuple(sys.argv[1:]) or BACKENDS
    tried = []
    for row in rows(asked, ("float32",)):
        tried.append(row)
        print(page([row], "").splitlines()[-1], flush=True)
    all_rows = [*tried, *kept(PAGE.read_text(encoding="utf-8"), asked)]
    all_rows.sort(key=lambda row: BACKENDS.index(row.backend))
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    PAGE.write_text(page(all_rows, today), encoding="utf-8")
    return 1 if any(row.told for row in tried) else 0


if __name__ == "__main__":
    raise SystemExit(main())
