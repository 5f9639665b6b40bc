"""Kernels that make their own copies: the target's policy with a pipeline, and an operator whose results leave tile by tile."""

from __future__ import annotations

from pathlib import Path

from septran import assets
from septran.kernel import Kernel
from septran.plan.floor import library_leaves
from septran.plan.resolve import GenRequest, Lowered, Plan, lower_plan, resolve

STREAM = """
import septran.tasklang as task
from septran.reference import Reference


@task.define(leaf=True)
def scale_add(Z, X, Y):
    task.call_primitive("map", Z, expr="2.5 * x + y", x=X, y=Y)


@task.define
def rows(Z, X, Y):
    n = task.tunable("columns")
    Zp = task.partition(Z, by="blocks", shape=(Z.shape[0], n))
    Xp = task.partition(X, by="blocks", shape=(X.shape[0], n))
    Yp = task.partition(Y, by="blocks", shape=(Y.shape[0], n))
    for k in task.sequential_range(Zp.shape[1]):
        task.launch(scale_add, Zp[0, k], Xp[0, k], Yp[0, k])


@task.define
def stream(Z, X, Y):
    m = task.tunable("rows")
    N = X.shape[1]
    Zp = task.partition(Z, by="blocks", shape=(m, N))
    Xp = task.partition(X, by="blocks", shape=(m, N))
    Yp = task.partition(Y, by="blocks", shape=(m, N))
    for i in task.parallel_range(Zp.shape[0]):
        task.launch(rows, Zp[i, 0], Xp[i, 0], Yp[i, 0])


OPERATORS = (
    task.Operator(
        name="stream",
        about="Z = 2.5 X + Y",
        entry=stream,
        tensors={"Z": "M N", "X": "M N", "Y": "M N"},
        outputs=("Z",),
        dims={"M": 32, "N": 1024},
        odd_dims=({"M": 13, "N": 1000},),
        reference=Reference(fn=lambda Z, X, Y: 2.5 * X + Y, kind="elementwise"),
    ),
)
"""
"""Nobody says that the loop writes all of Z, so the kernel takes what Z holds, too."""

TILES = "columns: 256, rows: 16"
STREAMED = """
target: pallas_tpu
entrypoint: host
task_mappings:
  host: {task_name: stream, proc: HOST, tunables: {TILES}, calls: {rows: rows}}
  rows: {task_name: rows, proc: BLOCK, pipeline: DEPTH, leaf_task_bindings: {scale_add: auto}}
"""


def ringed(folder: Path, depth: int = 2) -> Path:
    """Return the target's policy with a pipeline of `depth`, in a file."""
    text = assets.read("mappings/pallas_tpu.mapping.yaml")
    made = folder / f"rings.{depth}.mapping.yaml"
    made.write_text(text.replace("policies:\n", f"policies:\n  pipeline: {depth}\n"))
    return made


def ring_of(
    op: str,
    folder: Path,
    depth: int = 2,
    dtype: str = "float32",
    tiles: str = TILES,
    **dims: int,
) -> tuple[Plan, Lowered, Kernel]:
    """Return an operator's kernel with rings of `depth` tiles; op "stream" is STREAM's, in `tiles`."""
    logic = mapping = None
    if op == "stream":
        logic, mapping = folder / "stream.py", folder / "stream.mapping.yaml"
        logic.write_text(STREAM)
        mapping.write_text(STREAMED.replace("DEPTH", str(depth)).replace("TILES", tiles))
    plan = resolve(
        GenRequest(
            op=None if logic else op,
            logic=logic,
            backend="pallas_tpu",
            dtype=dtype,
            dims=dims,
            mapping=mapping or ringed(folder, depth),
        )
    )
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    return plan, lowered, plan.backend.emit(lowered.program, leaves)
