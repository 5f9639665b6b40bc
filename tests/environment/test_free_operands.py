"""An operand that only holds a step in between is free, as the prompt says: a leaf that leaves it alone is right."""

from __future__ import annotations

import pytest

from septran.environment.step import Submission, step
from septran.environment.tasks import Asked, leaf_tasks
from septran.ir import nodes as ir
from septran.passes.run import lower
from septran.settings import load
from septran.trial.leaf_case import leaf_cases, unused_operands, without_steps

DSA = """const vl_tile y = vl_matrix(Y), x = vl_matrix(X);
const vl_tile shifted = vl_temp(scratch, 1024, x.rows, x.cols), top = vl_temp(scratch, 0, x.rows, 1);
vendor_lib_vec_reduce(VL_RMAX, top, x);
vendor_lib_vec_binary(VL_SUB, shifted, x, top);
vendor_lib_vec_unary(VL_EXP, shifted, shifted);
vendor_lib_vec_reduce(VL_SUM, top, shifted);
vendor_lib_vec_scalar_r(VL_DIV, top, 1.0, top);
vendor_lib_vec_binary(VL_MUL, y, shifted, top);"""
NPU = """T.reduce(X, m, dims=[1], reduce_mode="max")
T.vsub(X, m, Y)
T.vexp(Y, Y)
T.reduce(Y, s, dims=[1], reduce_mode="sum")
T.vdiv(Y, s, Y)"""


def copied_out(program: ir.Program) -> set[str]:
    found: set[str] = set()

    def walk(body: tuple[ir.Stmt, ...]) -> None:
        for stmt in body:
            if isinstance(stmt, ir.For | ir.When):
                walk(stmt.body)
            elif isinstance(stmt, ir.Copy) and stmt.dst.buffer.mem == "GLOBAL":
                found.add(stmt.dst.buffer.name)

    walk(program.body)
    return found


@pytest.mark.parametrize("backend", ["dsa_c", "tilelang_npuir"])
def test_a_leaf_alone_copies_out_what_its_kernel_reads(backend: str) -> None:
    task = leaf_tasks(Asked(op="softmax", backend=backend, dims={"M": 9, "N": 130}))[0]
    unused = unused_operands(task.program, task.spec)
    assert unused == {"t", "m", "s"}
    case = leaf_cases(task.spec, machine=task.program.machine)[0]
    lowered = lower(case.program, task.plan.backend.passes)
    assert copied_out(lowered) == {"Y", "t", "m", "s"}
    assert copied_out(without_steps(lowered, unused)) == {"Y"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "body", "last"),
    [("dsa_c", DSA, "vendor_lib_vec_binary(VL_MUL"), ("tilelang_npuir", NPU, "T.vdiv")],
)
def test_it_need_not_be_written(backend: str, body: str, last: str) -> None:
    asked = Asked(op="softmax", backend=backend, dims={"M": 9, "N": 130})
    sent = Submission(asked=asked, leaf="softmax_leaf", reply=f"```\n{body}\n```", seed=1)
    found = step(sent, settings=load())
    assert found.rung == "accurate", found.message
    without = "\n".join(line for line in body.splitlines() if not line.startswith(last))
    sent = Submission(asked=asked, leaf="softmax_leaf", reply=f"```\n{without}\n```", seed=1)
    assert step(sent, settings=load()).rung != "accurate"
