"""Mistakes only a target can see, reached through a user's own mapping and logic files."""

from __future__ import annotations

import pytest

import septran
from septran import settings
from septran.errors import MappingError
from septran.plan.resolve import GenRequest
from septran.run.gen import gen
from tests.mapping.writing import marks, told, written
from tests.tasklang.writing import write

GEMM = """\
target: tilelang_cuda
entrypoint: host
task_mappings:
  host:
    task_name: gemm
    proc: HOST
    tunables: {block_size_K: 32, block_size_M: 64, block_size_N: 64}
    calls: {gemm_tile: gemm_tile}
  gemm_tile:
    task_name: gemm_tile
    proc: BLOCK
    mems: {acc: REGISTER}
    threads: 128
    leaf_task_bindings: {zero: auto, mma: {kernel: auto, mems: {A: SHARED, B: SHARED}}, store: auto}
"""
HALVES = """
from septran.reference import Reference

@task.define
def halves(C, A):
    h = task.tensor("h", A.shape)
    task.launch(copy, h, A)
    Cp, hp = (task.partition(t, by="blocks", shape=(None, 64)) for t in (C, h))
    for j in task.sequential_range(Cp.shape[1]):
        task.launch(copy, Cp[0, j], hp[0, j])

@task.define
def entry(C, A):
    Cp, Ap = (task.partition(t, by="blocks", shape=(8, None)) for t in (C, A))
    for i in task.parallel_range(Cp.shape[0]):
        task.launch(halves, Cp[i, 0], Ap[i, 0])

OPERATORS = (
    task.Operator(
        name="halves",
        about="a copy through a local tile, half by half",
        entry=entry,
        tensors={"C": "M N", "A": "M N"},
        outputs=("C",),
        dims={"M": 16, "N": 128},
        odd_dims=(),
        reference=Reference(fn=lambda A: A, kind="exact"),
    ),
)
"""
PLACED = """\
target: triton_cuda
entrypoint: host
task_mappings:
  host: {task_name: entry, proc: HOST, calls: {halves: tile}}
  tile: {task_name: halves, proc: BLOCK, mems: {h: REGISTER}}
"""


def emitted(tmp_path, backend, mapping, *, op=None, logic=None):
    request = GenRequest(op=op, logic=logic, backend=backend, mapping=mapping, stop_after="emit")
    return gen(request, settings=settings.load(), progress=lambda text: None, into=tmp_path / "run")


def test_a_mapping_for_another_target(tmp_path):
    path = written(tmp_path, GEMM.replace("_cuda\n", "_cuda  # error: M016@tilelang\n"))
    with pytest.raises(MappingError, match="is a mapping for tilelang_cuda, not cpp") as caught:
        emitted(tmp_path, "cpp", path, op="gemm")
    told(caught.value, path, marks(path))
    assert "use --backend tilelang_cuda" in str(caught.value)


def test_compile_refuses_a_mapping_for_another_target(tmp_path):
    path = written(tmp_path, PLACED)
    with pytest.raises(MappingError, match="is a mapping for triton_cuda, not cpp") as caught:
        septran.compile(write(tmp_path, HALVES), path, target="cpp")
    assert caught.value.codes == ("M016",)


def test_a_number_of_threads_the_dsl_cannot_divide(tmp_path):
    path = written(tmp_path, GEMM.replace("threads: 128", "threads: 96"))
    with pytest.raises(MappingError, match="threads: 96 is not one of 32, 64, 128") as caught:
        emitted(tmp_path, "tilelang_cuda", path, op="gemm")
    assert caught.value.codes == ("M061",)
    emitted(tmp_path, "tilelang_cuda", written(tmp_path, GEMM), op="gemm")


def test_a_part_of_a_tile_without_an_address(tmp_path):
    logic = write(tmp_path, HALVES)
    path = written(tmp_path, PLACED)
    with pytest.raises(
        MappingError, match=r"reads only a part of h \[8, 128\] in REGISTER"
    ) as caught:
        emitted(tmp_path, "triton_cuda", path, logic=logic)
    (found,) = caught.value.diagnostics
    assert found.code == "M170" and "keep h in GLOBAL if it is a parameter" in found.help
    assert found.span is not None and found.span.file == str(logic)
    line = logic.read_text().splitlines()[found.span.line - 1]
    assert "task.launch(copy, Cp[0, j], hp[0, j])" in line


@pytest.mark.parametrize("backend", ["triton_cuda", "cuda_c"])
def test_a_block_cannot_make_a_tensor_in_global_memory(tmp_path, backend):
    logic = write(tmp_path, HALVES)
    text = PLACED.replace("triton_cuda", backend)
    path = written(tmp_path, text.replace("REGISTER}}", "GLOBAL}}  # error: M014@GLOBAL"))
    with pytest.raises(
        MappingError, match=r"cannot make h in GLOBAL on BLOCK; only HOST"
    ) as caught:
        emitted(tmp_path, backend, path, logic=logic)
    told(caught.value, path, marks(path))
    assert f"made at {logic}:" in str(caught.value)
