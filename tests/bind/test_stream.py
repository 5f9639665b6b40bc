"""Streaming a panel: what accumulates, and in which precision."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from septran import backends
from septran.assets import find
from septran.bind import ArgType, bind
from septran.ir.access import regions
from septran.ir.nodes import Alloc, For, leaf_calls, walk
from septran.machine import load_machine
from septran.mapping.load import load_mapping
from septran.passes.interpret import interpret
from septran.passes.run import lower
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.tasklang.load import execute_logic
from tests.tasklang.writing import write


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_half_result_left_in_place_accumulates_in_float32(dtype: str) -> None:
    """The cpp policy leaves C where it is; rounding it after each block of K was 60 times over budget."""
    request = GenRequest(op="gemm_seed", backend="cpp", dims={"K": 1500}, dtype=dtype)
    program = lower_plan(resolve(request)).bound.program
    made = {s.buffer.name: s.buffer for s in walk(program.body) if isinstance(s, Alloc)}
    steps = [c for c in leaf_calls(program) if c.prims[0].name == "gemm_acc"]
    assert len(steps) == 1
    target = steps[0].arg("C").region.buffer
    assert made[target.name].dtype == "float32"


PANELS = """
@task.define(leaf=True)
def leaf(Y, X):
    task.call_primitive("{name}", Y, X, op="{op}", axis=(1, 2))

@task.define
def entry(Y, X):
    Yp = task.partition(Y, by="rows", shape=(2,))
    Xp = task.partition(X, by="blocks", shape=(2, {sizes}))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(leaf, Yp[i], Xp[i, {index}])
"""


@pytest.mark.few(4)
@pytest.mark.parametrize("backend", ["cuda_c", "dsa_c"])
@pytest.mark.parametrize(
    ("name", "op", "dtype"),
    [("reduce", "sum", "float32"), ("reduce_acc", "max", "float32"), ("reduce", "sum", "float16")],
)
@pytest.mark.parametrize(
    ("sizes", "index", "loops"),
    [("8, None", ":, 0", 1), ("None, 16", "0, :", 1), ("8, 16", ":, :", 2)],
)
def test_a_sum_over_panels_in_several_axes_is_that_of_its_blocks(
    backend: str,
    name: str,
    op: str,
    dtype: str,
    sizes: str,
    index: str,
    loops: int,
    tmp_path: Path,
) -> None:
    """What lies between its steps is as large as a block."""
    text = PANELS.format(name=name, op=op, sizes=sizes, index=index)
    logic = execute_logic(write(tmp_path, text))
    target = backends.get(backend)
    made = torch.Generator().manual_seed(3)
    x = torch.randn((5, 20, 37), generator=made).to(getattr(torch, dtype))
    y = torch.full((5, 1, 1), 1.5, dtype=x.dtype)
    arch = f".{target.arches[0]}" if backend == "cuda_c" else ""
    file = find(f"mappings/{backend}{arch}.mapping.yaml")
    bound = bind(
        logic.tasks["entry"],
        load_mapping(file.path),
        load_machine(target.machine(target.arches[0])),
        {n: ArgType(shape=tuple(t.shape), dtype=dtype) for n, t in (("Y", y), ("X", x))},
        tasks=logic.tasks,
    )
    wide = x.double()
    wanted = wide.sum((1, 2), keepdim=True) if op == "sum" else wide.amax((1, 2), keepdim=True)
    if name == "reduce_acc":
        wanted = torch.maximum(wanted, y.double())
    steps = [s for s in walk(bound.program.body) if isinstance(s, For) and s.var.startswith("kk")]
    assert len(steps) == loops
    rows = 20 if sizes.startswith("None") else 8
    parts = {
        a.region.buffer.shape
        for c in leaf_calls(bound.program)
        for a in c.args
        if a.param == "Y_part"
    }
    assert parts == {(2, rows, 1)}
    alive = {s.buffer.name for s in walk(bound.program.body) if isinstance(s, Alloc)}
    assert alive <= {r.buffer.name for r, _ in regions(*bound.program.body)}
    for program in (bound.program, lower(bound.program, target.passes)):
        got = y.clone()
        interpret(program, {"Y": got, "X": x})
        torch.testing.assert_close(got, wanted.to(x.dtype))
