"""Examples of the pages are fast ones: as leaves of the library's operators they come near the library's own, by what there is for a clock."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from septran.agent.frame import assemble, make_frame
from septran.agent.writer import LeafVerdict
from septran.plan.floor import library_leaves
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.trial.judge import distinct_specs
from septran.trial.leaf_judge import LeafJudge
from septran.trial.place import place_of
from tests.dsl_docs.runner import docs_of

# page, case of its example, operator whose only leaf has the same operands, size
EXAMPLES = (
    ("cpp", "softmax", "softmax", {"M": 256, "N": 1000}),
    ("dsa_c", "softmax", "softmax", {"M": 64, "N": 256}),
)


def judged(dsl: str, body: str, op: str, dims: dict[str, int], folder: Path) -> LeafVerdict:
    """Return the verdict on an example's text as the operator's leaf."""
    plan = resolve(GenRequest(op=op, backend=dsl, dims=dims))
    lowered = lower_plan(plan)
    (spec,) = distinct_specs(lowered.program)
    judge = LeafJudge(
        place_of(plan.backend, plan.arch, "auto", 1),
        lowered.program,
        problem_of(plan, lowered.program, plan.dims),
        library_leaves(plan.backend, lowered.program, lowered.bound.mapping),
        work=folder,
    )
    frame = make_frame(spec, plan.backend, "body")
    return judge.check(assemble(frame, body, spec, "command", "page"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dsl", "case", "op", "dims"), EXAMPLES, ids=[f"{e[0]}-{e[1]}" for e in EXAMPLES]
)
def test_an_example_comes_near_the_library(
    dsl: str, case: str, op: str, dims: dict[str, int], tmp_path: Path
) -> None:
    (body,) = (
        b.code for d in docs_of(dsl) for b in d.blocks if b.attrs.get("case") == case and b.test == "run"
    )  # fmt: skip
    found = [judged(dsl, body, op, dims, tmp_path / str(run)) for run in range(3)]
    assert all(v.verified for v in found), found[0].message
    scores = [v.speedup for v in found]
    assert None not in scores
    assert statistics.median(scores) > 0.6, (
        scores
    )  # cpp: 0.75 on a busy machine; one accumulator, the library has four
