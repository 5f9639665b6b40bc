"""The rule `row-order`: a row goes through the same steps wherever it stands and however many rows there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from septran import backends
from septran.errors import SeptranError
from septran.ir import nodes as ir
from septran.ir.expr import Const, Var, make, substitute
from septran.plan.resolve import GenRequest, Plan, lower_plan, resolve
from septran.plan.rows import row_dims
from septran.plan.symbolic import LARGEST, lower_symbolic, symbolic
from septran.prove.rows import row_order
from septran.prove.sets import Dim, model
from septran.run.prove import decide_again, prove_request
from tests.backends.operators import all_operators
from tests.cli.conftest import septran as septran

SIZES = {"M": 200, "N": 150, "K": 1024}


def told(
    op: str,
    target: str,
    names: tuple[str, ...] = (),
    change: Callable[[ir.Program], ir.Program] = lambda p: p,
    **dims: int,
) -> list[str]:
    plan: Plan = resolve(GenRequest(op=op, backend=target, dims=dims))
    rows = names or row_dims(plan.operator)
    what = symbolic(plan, rows)
    program = lower_symbolic(plan, lower_plan(plan).bound.mapping, what)[-1].program
    m = model(change(program), [Dim(n, 1, LARGEST) for n in rows], what.shapes)
    return [str(f) for f in row_order(m, rows)]


def test_prove_says_that_rows_are_alike(septran):
    done = septran("prove", "--op", "gemm", "--backend", "cpp", "--symbolic", "M")
    assert done.code == 0, done.err
    (line,) = (x for x in done.out.splitlines() if x.strip().startswith("row-order"))
    assert " proved " in line and "the same for every M" in line


def test_other_sizes_may_stay_symbolic_too():
    proof = prove_request(GenRequest(op="gemm", backend="cpp", dims=SIZES), ("M", "N", "K"))
    assert "row-order" in proof.certificate.proved
    again = decide_again(proof.certificate.to_json())
    assert "row-order" in again.proved and again.rows == ("M",)
    assert again.assumptions == proof.certificate.assumptions


@pytest.mark.parametrize(("op", "target"), [("attention", "triton_cuda"), ("softmax", "dsa_c")])
def test_rows_are_alike(op: str, target: str):
    assert told(op, target) == []


@pytest.mark.slow
@pytest.mark.parametrize("target", sorted(dict(backends.BUILTIN)))
def test_rows_of_every_operator_are_alike(target: str):
    for op, (operator, _) in all_operators().items():
        assert row_dims(operator), op
        try:
            lower_plan(resolve(GenRequest(op=op, backend=target)))
        except SeptranError as e:
            assert e.exit_code == 2, e
            continue
        assert told(op, target) == [], op


def test_a_sum_over_the_rows_is_refused():
    (found, *_) = told("col_sum", "cpp", ("M",))
    assert "P062" in found and "adds up depends on the row" in found


def test_tokens_that_see_earlier_ones_are_no_rows():
    """A causal attention looks at as many keys as a token has before it: S counts no rows."""
    assert told("attention_causal", "cpp", ("S",)) != []


def _loop(
    program: ir.Program, var: str, edit: Callable[[ir.For], tuple[ir.Stmt, ...]]
) -> ir.Program:
    def one(stmt: ir.Stmt) -> tuple[ir.Stmt, ...]:
        if isinstance(stmt, ir.For) and stmt.var == var:
            return edit(stmt)
        if isinstance(stmt, ir.For | ir.When):
            return (replace(stmt, body=tuple(x for s in stmt.body for x in one(s))),)
        return (stmt,)

    return replace(program, body=tuple(x for s in program.body for x in one(s)))


def _rotated(stmt: ir.Stmt, index: object) -> ir.Stmt:
    def region(r: ir.Region) -> ir.Region:
        env = {"k0": index}
        return replace(
            r,
            offset=tuple(substitute(o, env) for o in r.offset),
            extent=tuple(substitute(e, env) for e in r.extent),
        )

    match stmt:
        case ir.Copy():
            return replace(stmt, dst=region(stmt.dst), src=region(stmt.src))
        case ir.LeafCall():
            return replace(stmt, args=tuple(replace(a, region=region(a.region)) for a in stmt.args))
        case ir.For() | ir.When():
            return replace(stmt, body=tuple(_rotated(s, index) for s in stmt.body))
    return stmt


def test_a_sum_that_starts_at_the_rows_own_block_is_refused():
    """Blocks of K visited from the row tile's number on, as kernels do that spread their traffic."""

    def rotate(program: ir.Program) -> ir.Program:
        def edit(loop: ir.For) -> tuple[ir.Stmt, ...]:
            index = make("%", make("+", Var("k0"), Var("i0")), loop.extent)
            return (replace(loop, body=tuple(_rotated(s, index) for s in loop.body)),)

        return _loop(program, "k0", edit)

    (found, *_) = told("gemm", "cpp", ("M",), rotate, **SIZES)
    assert "P062" in found and "depends on the row" in found


def test_a_block_that_only_the_first_rows_add_is_refused():
    def guard(program: ir.Program) -> ir.Program:
        def edit(loop: ir.For) -> tuple[ir.Stmt, ...]:
            body = (
                ir.When(expr=Var("i0") + Var("k0") * Const(-1), low=-1, high=99, body=loop.body),
            )
            return (replace(loop, body=body),)

        return _loop(program, "k0", edit)

    assert any("runs depends on the row" in f for f in told("gemm", "cpp", ("M",), guard, **SIZES))


def test_what_a_window_reads_outside_its_image_is_the_same_for_every_row():
    certificate = prove_request(GenRequest(op="conv2d", backend="cpp"), ("B",)).certificate
    assert "row-order" in certificate.proved
