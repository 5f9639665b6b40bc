"""A leaf for a simulated machine is measured in cycles, so the faster one can win there, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.backends.dsa.backend import DSA_C
from septran.backends.dsa.emit import signature
from septran.kernel import Leaf, leaf_specs
from septran.plan.floor import library_leaves
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.trial.leaf_judge import LeafJudge
from septran.trial.place import place_of

LEAVES = {
    "one product": ("vendor_lib_mma(vl_matrix(C), vl_matrix(A), vl_matrix(B), 0);", False),
    "a product for each row": (
        """for (int i = 0; i < C.n[0]; i++) {
    vl_tile c = vl_matrix(C), a = vl_matrix(A);
    c.addr += (uint64_t)(i * c.ld) * 4, a.addr += (uint64_t)(i * a.ld) * 4;
    c.rows = a.rows = 1;
    vendor_lib_mma(c, a, vl_matrix(B), 0);
  }""",
        True,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LEAVES)
def test_cycles_decide(name: str, tmp_path: Path) -> None:
    body, slow = LEAVES[name]
    plan = resolve(GenRequest(op="gemm", backend="dsa_c", dims={"M": 48, "N": 32, "K": 40}))
    lowered = lower_plan(plan)
    leaves = library_leaves(DSA_C, lowered.program, lowered.bound.mapping)
    spec = next(s for _, s in leaf_specs(lowered.program) if s.task == "mma")
    source = f"{signature(spec)} {{\n  {body}\n  (void)scratch;\n}}\n"
    judge = LeafJudge(
        place_of(DSA_C, "", "auto", 1),
        lowered.program,
        problem_of(plan, lowered.program, plan.dims),
        leaves,
        work=tmp_path,
    )
    assert "cycles in the simulator" in judge.library(spec)
    found = judge.check(Leaf(spec=spec, writer="llm", name=name, source=source))
    assert found.verified, found.message
    assert found.speedup is not None
    assert (found.speedup < 0.5) == slow
