"""Which loops TileLang pipelines: what stood before an outer loop was taken into it, and a kernel began anew each round."""

from __future__ import annotations

import pytest

from septran.backends.tilelang.passes.settle import settle_loops
from septran.ir import nodes as ir
from septran.ir.expr import Const, Expr, Var, evaluate, free
from septran.plan.floor import library_leaves
from septran.plan.resolve import GenRequest, lower_plan, resolve


def wait(slot: Expr) -> ir.Await:
    return ir.Await(event="e", slot=slot, engine="x")


def nest(extent: int, *inside: ir.Stmt, arch: str = "sm_90a") -> ir.Program:
    inner = ir.For(var="j", extent=Const(5), body=(wait(Var("i")),), pipeline=3)
    outer = ir.For(var="i", extent=Const(extent), body=(*inside, inner))
    name = "tilelang_cuda"
    return ir.Program(name="k", target=name, arch=arch, machine=name, params=(), body=(outer,))


def test_a_loop_that_is_all_of_another_becomes_one_with_it() -> None:
    (loop,) = settle_loops(nest(4)).body
    assert isinstance(loop, ir.For) and loop.extent == Const(20) and loop.pipeline == 3
    (found,) = loop.body
    assert isinstance(found, ir.Await) and free(found.slot) == {loop.var}
    assert [evaluate(found.slot, {loop.var: n}) for n in (0, 4, 5, 19)] == [0, 0, 1, 3]


@pytest.mark.parametrize(("arch", "stages"), [("sm_90a", 0), ("sm_120a", 0), ("sm_80", 3)])
def test_no_stages_inside_of_another_loop_where_copies_get_a_warp(arch: str, stages: int) -> None:
    (outer,) = settle_loops(nest(4, wait(Const(0)), arch=arch)).body
    assert isinstance(outer, ir.For)
    assert [s.pipeline for s in outer.body if isinstance(s, ir.For)] == [stages]


@pytest.mark.parametrize("op", ["conv2d", "conv2d_stride2", "attention", "gemm"])
def test_no_operator_pipelines_inside_of_a_loop(op: str) -> None:
    request = GenRequest(op=op, backend="tilelang_cuda", arch="sm_90a", dtype="float16")
    plan = resolve(request)
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    lines = plan.backend.emit(lowered.program, leaves).source.splitlines()
    (at,) = (n for n, line in enumerate(lines) if "in T.Pipelined(" in line)
    depth = len(lines[at]) - len(lines[at].lstrip())
    around = [line for line in lines[:at] if len(line) - len(line.lstrip()) < depth]
    assert not any("in T.serial(" in line for line in around)
