"""Which statement, instance and leaf wrote an element: compared with who did when the Program is carried out."""

from __future__ import annotations

import itertools

import pytest

from septran.environment.provenance import Written, writer_of
from septran.environment.tasks import Asked, leaf_tasks
from septran.ir.access import touches
from septran.ir.expr import evaluate
from septran.ir.nodes import Copy, For, LeafCall, Program, When

SIZES = {"M": 70, "N": 45, "K": 33}


def program(op: str, backend: str) -> Program:
    from septran.plan import catalog

    dims = next(o["dims"] for o in catalog.ops() if o["name"] == op)
    asked = Asked(op=op, backend=backend, dims={n: s for n, s in SIZES.items() if n in dims})
    return leaf_tasks(asked)[0].program


def carried_out(program: Program, output: str) -> dict[tuple[int, ...], tuple[str, dict[str, int]]]:
    """Element -> who wrote it last, and at which loop variables."""
    found: dict[tuple[int, ...], tuple[str, dict[str, int]]] = {}

    def run(body, env):
        for stmt in body:
            match stmt:
                case For(var=var):
                    for i in range(evaluate(stmt.extent, env)):
                        run(stmt.body, {**env, var: i})
                case When(expr=expr, low=low, high=high):
                    if low <= evaluate(expr, env) < high:
                        run(stmt.body, env)
                case Copy() | LeafCall():
                    for region, how in touches(stmt):
                        if "w" in how and region.buffer.name == output:
                            axes = [
                                [evaluate(o, env) + s * i for i in range(evaluate(e, env))]
                                for o, e, s in zip(
                                    region.offset, region.extent, region.step, strict=True
                                )
                            ]
                            by = "copy" if isinstance(stmt, Copy) else "leaf"
                            found.update(dict.fromkeys(itertools.product(*axes), (by, env)))

    run(program.body, {})
    return found


@pytest.mark.parametrize(
    ("op", "backend", "leaf"),
    [
        ("transpose", "cpp", "transpose_leaf"),
        ("gemm", "cuda_c", "store"),
        ("gemm", "cpp", "store"),
        ("softmax", "triton_cuda", "softmax_leaf"),
        ("gemm", "dsa_c", "store"),
    ],
)
def test_the_writer_is_the_one_that_wrote_last(op: str, backend: str, leaf: str) -> None:
    made = program(op, backend)
    output = next(p.buffer for p in made.params if p.privilege != "r")
    known = carried_out(made, output.name)
    corners = itertools.product(*({0, n // 2, n - 1} for n in output.shape))
    for index in corners:
        found = writer_of(made, output.name, index)
        assert found is not None
        by, env = known[index]
        assert (found.by, found.leaf) == (by, leaf)
        told = {name.partition(" on ")[0]: value for name, value in found.instance.items()}
        assert told == env
    assert writer_of(made, output.name, tuple(n + 10**6 for n in output.shape)) is None


def test_plain_values() -> None:
    found = Written(by="leaf", leaf="mma", instance={"i0 on BLOCK": 2}, tile=(1, 2), line=7)
    assert found.to_json()["instance"] == {"i0 on BLOCK": 2}
