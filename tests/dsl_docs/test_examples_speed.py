"""Examples of the pages are fast ones: beside the library's leaf of the same meaning, by what there is for a clock.

cpp: time, call for call in turn, and one inside a kernel. dsa_c: cycles. cuda_c: what the warps' accesses take of memory.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from septran.agent.figures import preferred
from septran.agent.frame import assemble, make_frame
from septran.agent.writer import LeafVerdict
from septran.mapping.space import DIRECT, with_values
from septran.plan.floor import library_leaves
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, Plan, lower_plan, resolve
from septran.trial.judge import distinct_specs
from septran.trial.leaf_judge import LeafJudge
from septran.trial.place import place_of
from tests.dsl_docs.example_race import RACED, speed
from tests.dsl_docs.runner import docs_of

# page, case of its example, operator, its leaf with the same operands, size, least share of the library's speed
EXAMPLES = (
    # 0.75 on a busy machine: one accumulator, the library has four
    ("cpp", "softmax", "softmax", "softmax_leaf", {"M": 256, "N": 1000}, 0.6),
    ("dsa_c", "softmax", "softmax", "softmax_leaf", {"M": 64, "N": 256}, 0.6),
    ("dsa_c", "gemm_acc", "gemm", "mma", {"M": 64, "N": 64, "K": 128}, 0.95),
)
LEAST = {"gemm_acc": 0.65}
"""Of the library's speed, call for call; else 0.85. The library's product has two vectors in a row of its tile."""


def example(dsl: str, case: str) -> str:
    (body,) = (
        b.code for d in docs_of(dsl) for b in d.blocks if b.attrs.get("case") == case and b.test == "run"
    )  # fmt: skip
    return body


def judged(plan: Plan, body: str, leaf: str, folder: Path) -> LeafVerdict:
    """Return the verdict on an example's text as the leaf of an operator."""
    lowered = lower_plan(plan)
    spec = next(s for s in distinct_specs(lowered.program) if s.task == leaf)
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
    ("dsl", "case", "op", "leaf", "dims", "least"),
    EXAMPLES,
    ids=[f"{e[0]}-{e[1]}" for e in EXAMPLES],
)
def test_an_example_comes_near_the_library(
    dsl: str, case: str, op: str, leaf: str, dims: dict[str, int], least: float, tmp_path: Path
) -> None:
    plan = resolve(GenRequest(op=op, backend=dsl, dims=dims))
    body = example(dsl, case)
    runs = range(3 if plan.backend.figures is None else 1)  # cycles are the same each time
    found = [judged(plan, body, leaf, tmp_path / str(run)) for run in runs]
    assert all(v.verified for v in found), found[0].message
    scores = [v.speedup for v in found]
    assert None not in scores
    assert statistics.median(scores) > least, scores


def test_every_example_of_cpp_that_runs_is_timed() -> None:
    cases = {b.attrs["case"] for d in docs_of("cpp") for b in d.blocks if b.test == "run"}
    timed = {*RACED, *(case for dsl, case, *_ in EXAMPLES if dsl == "cpp")}
    assert cases == timed


@pytest.mark.slow
@pytest.mark.parametrize("case", RACED)
def test_an_example_of_cpp_is_as_fast_as_the_librarys_leaf(case: str, tmp_path: Path) -> None:
    found = statistics.median(speed(case, example("cpp", case), tmp_path) for _ in range(3))
    assert found > LEAST.get(case, 0.85)


CHAIN = """for (long i = 0; i < X.n[0]; ++i) {
    float s = 0;
    for (long j = 0; j < X.n[1]; ++j) s += X(i, j);
    Y(i, 0) = s;
}
"""


@pytest.mark.slow
def test_a_slow_example_is_found(tmp_path: Path) -> None:
    """The planted one: a sum whose every addition waits for the one before."""
    assert speed("row_sum", CHAIN, tmp_path) < 0.3


ALL_SCAN = """const int lane = threadIdx.x % 32;
for (int i = threadIdx.x / 32; i < X.n[0]; i += st::threads / 32) {
    float m = X(i, 0), s = 0;
    for (int j = 0; j < X.n[1]; ++j) m = st::maximum(m, X(i, j));
    for (int j = lane; j < X.n[1]; j += 32) s += expf(X(i, j) - m);
    for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(0xffffffffu, s, o);
    for (int j = lane; j < X.n[1]; j += 32) Y(i, j) = expf(X(i, j) - m) / s;
}
"""


@pytest.mark.slow
@pytest.mark.parametrize(("body", "wanted"), [("page", True), ("every lane scans", False)])
def test_an_example_of_cuda_takes_no_more_of_memory_than_the_librarys(
    body: str, wanted: bool, tmp_path: Path
) -> None:
    """Operands in memory, as the example has them; where nvcc is missing sectors and wavefronts decide alone."""
    plan = resolve(GenRequest(op="softmax", backend="cuda_c", dims={"M": 16, "N": 256}))
    direct = {f"softmax.softmax_leaf.mems.{name}": DIRECT for name in ("X", "Y")}
    plan = replace(plan, mapping=with_values(lower_plan(plan).bound.mapping, direct))
    text = example("cuda_c", "softmax") if body == "page" else ALL_SCAN
    found = judged(plan, text, "softmax_leaf", tmp_path)
    assert found.verified, found.message
    assert (preferred(found.figures, found.baseline_figures) == 1) is wanted, found.figures
