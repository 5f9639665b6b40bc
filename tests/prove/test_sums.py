"""The rule `sums`: faults that are the logic's own, which no comparison with the logic can see."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from septran import backends
from septran.assets import find
from septran.bind import ArgType, bind
from septran.ir import nodes as ir
from septran.ir.expr import Bin, Const, Expr, Var, substitute
from septran.machine import load_machine
from septran.mapping.load import load_mapping
from septran.passes.run import lower
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.plan.unmapped import WRITTEN
from septran.prove import prove
from septran.prove.sets import model
from septran.prove.sums import found_sums, sums
from septran.run.prove import prove_request
from septran.tasklang.load import execute_logic
from tests.prove.mutants import mutants


def lowered(op: str, target: str, **dims: int) -> ir.Program:
    return lower_plan(resolve(GenRequest(op=op, backend=target, dims=dims))).program


def codes(program: ir.Program) -> set[str]:
    """The codes of `sums` when the logic has the same fault: the program is its own reference."""
    certificate = prove(program, program)
    return {f.code for r in certificate.rules if r.rule == "sums" for f in r.findings}


@pytest.mark.parametrize(
    ("op", "count"), [("gemm", 1), ("attention", 3), ("conv2d", 1), ("row_sum", 1), ("add", 0)]
)
def test_every_product_and_sum_is_asked(op: str, count: int):
    program = lowered(op, "cuda_c")
    assert len(found_sums(model(program))) == count
    assert list(sums(model(program))) == []


@pytest.mark.parametrize(
    ("fault", "code"),
    [("one iteration less: loop k0", "P060"), ("dim 1 clipped: copy A_s", None)],
)
def test_a_part_that_is_left_out_is_refused(fault: str, code: str | None):
    program = lowered("gemm", "cuda_c", M=200, N=150, K=100)
    planted = next(m for name, m in mutants(program) if name.startswith(fault))
    found = prove(planted, planted)
    assert not found.holds
    assert code is None or code in {f.code for f in found.findings}


def _in_the_loop(program: ir.Program, var: str, index: Expr) -> ir.Program:
    """Let every region inside loop `var` lie where `index` says instead."""

    def region(r: ir.Region) -> ir.Region:
        env = {var: index}
        return replace(
            r,
            offset=tuple(substitute(o, env) for o in r.offset),
            extent=tuple(substitute(e, env) for e in r.extent),
        )

    def edit(body: tuple[ir.Stmt, ...], inside: bool) -> tuple[ir.Stmt, ...]:
        out: list[ir.Stmt] = []
        for s in body:
            match s:
                case ir.For():
                    s = replace(s, body=edit(s.body, inside or s.var == var))
                case ir.Copy() if inside:
                    s = replace(s, src=region(s.src), dst=region(s.dst))
            out.append(s)
        return tuple(out)

    return replace(program, body=edit(program.body, False))


def test_an_order_that_depends_on_the_row_is_refused():
    program = lowered("gemm", "cuda_c", M=512, N=512, K=512)
    blocks = next(
        s.extent for s in ir.walk(program.body) if isinstance(s, ir.For) and s.var == "k0"
    )
    assert isinstance(blocks, Const)
    rotated = Bin("%", Var("k0") + Var("i0"), blocks)
    assert codes(_in_the_loop(program, "k0", rotated)) == {"P061"}
    assert codes(_in_the_loop(program, "k0", blocks - 1 - Var("k0"))) == set()  # one order for all


def test_a_block_that_is_read_twice_is_refused():
    program = lowered("gemm", "cuda_c", M=512, N=512, K=512)
    assert "P060" in codes(_in_the_loop(program, "k0", Bin("//", Var("k0"), Const(2))))


def test_the_order_is_certified_for_all_rows():
    request = GenRequest(op="gemm", backend="cuda_c")
    certificate = prove_request(request, ("M", "N", "K")).certificate
    assert "sums" in certificate.proved and certificate.domain["M"][1] > 1 << 20


def test_a_product_without_accumulator_is_proven_with_the_law_that_it_rests_on():
    proof = prove_request(GenRequest(op="gemm", backend="cpp", dtype="bfloat16"), ())
    assert {r.rule: r.state for r in proof.certificate.rules}["data"] == "proved"
    assert WRITTEN in proof.certificate.assumptions


SPLIT = """
import septran.tasklang as task

@task.define(leaf=True)
def start(Y):
    task.call_primitive("fill", Y, value=0.0)

@task.define(leaf=True)
def more(Y, X):
    task.call_primitive("reduce_acc", Y, X, op="sum", axis=(1, 2))

@task.define
def entry(Y, X):
    Yp = task.partition(Y, by="rows", shape=(2,))
    Xp = task.partition(X, by="blocks", shape=(2, {sizes}))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(start, Yp[i])
        for k in task.sequential_range({blocks}):
            task.launch(more, Yp[i], Xp[i, {index}])
"""


@pytest.mark.parametrize(
    ("sizes", "index", "blocks"),
    [
        ("8, None", "k, 0", "Xp.shape[1]"),
        ("None, 8", "0, k", "Xp.shape[2]"),
        ("8, None", "k, 0", "Xp.shape[1] - 1"),
        ("None, 8", "0, k + 1", "Xp.shape[2] - 1"),
        ("None, 8", "0, 0", "Xp.shape[2]"),
    ],
)
@pytest.mark.parametrize("backend", ["cpp", "cuda_c"])
def test_a_sum_over_several_axes_has_each_term_once(
    sizes: str, index: str, blocks: str, backend: str, tmp_path: Path
) -> None:
    """Whichever of its axes the logic cuts; its steps are one sum."""
    file = tmp_path / "split.py"
    file.write_text(SPLIT.format(sizes=sizes, index=index, blocks=blocks))
    entry = execute_logic(file).tasks["entry"]
    target = backends.get(backend)
    arch = (target.arches or ("",))[0]
    asked = f"mappings/{backend}{'.' + arch if backend == 'cuda_c' else ''}.mapping.yaml"
    types = {
        n: ArgType(shape=s, dtype="float32") for n, s in (("Y", (5, 1, 1)), ("X", (5, 20, 30)))
    }
    bound = bind(
        entry,
        load_mapping(find(asked).path),
        load_machine(target.machine(arch)),
        types,
        tasks={},
    )
    program = lower(bound.program, target.passes)
    (one,) = found_sums(model(program))
    assert one.factors[0][1] == (2, 1)
    right = "- 1" not in blocks and "k" in index
    assert {f.code for f in sums(model(program))} == (set() if right else {"P060"})
