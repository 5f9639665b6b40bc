"""septran.compile: a logic file and a mapping or a target become a kernel on torch tensors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import septran
from septran.backends.cpp import backend as cpp
from septran.errors import InputError, MappingError, NotCorrect, SeptranError, TaskLangError
from septran.kernel import Leaf, LeafSpec

LOGIC = """import task_lang as task

@task.define(leaf=True)
def gemm_leaf_logic(C, A, B):
    task.call_primitive("gemm", C, A, B)

@task.define
def gemm_block_logic(C, A, B):
    Cp = task.partition(C, by="blocks", shape_from="A")
    Ap = task.partition(A, by="blocks", shape_from="A")
    Bp = task.partition(B, by="blocks", shape_from="A")
    for i, j in task.parallel_range(Cp.shape):
        task.launch(gemm_leaf_logic, Cp[i,j], Ap[i,:], Bp[:,j])
"""
MAPPING = """entrypoint: gemm_host
task_mappings:
  gemm_host:
    task_name: gemm_host_logic
    proc: HOST
    mems: {C: GLOBAL, A: GLOBAL, B: GLOBAL}
    tunables: {block_size: 128}
    calls: {gemm_block_logic: gemm_block_gpu}
  gemm_block_gpu:
    task_name: gemm_block_logic
    proc: BLOCK
    mems: {C: REGISTER, A: SHARED, B: SHARED}
    pipeline: 3
    leaf_task_bindings:
      gemm_leaf_logic: gemm_leaf_tensorcore
"""


@pytest.fixture
def gemm(tmp_path: Path) -> Path:
    (tmp_path / "gemm_logic.py").write_text(LOGIC)
    (tmp_path / "gemm_on_nvidia_gpu.mapping.yaml").write_text(MAPPING)
    return tmp_path


def test_a_target_is_enough(gemm: Path) -> None:
    kernel = septran.compile(logic_file=gemm / "gemm_logic.py", target="cpp")
    for m, k, n in ((64, 64, 64), (100, 77, 35)):
        a, b = torch.randn(m, k), torch.randn(k, n)
        torch.testing.assert_close(kernel(a, b), a @ b, rtol=1e-4, atol=1e-4)
    assert len(kernel.verdicts) == 2
    assert all(v.passed for v in kernel.verdicts.values())


def test_outputs_may_be_given(gemm: Path) -> None:
    kernel = septran.compile(logic_file=gemm / "gemm_logic.py", target="cpp", verify=False)
    a, b = torch.randn(33, 20), torch.randn(20, 17)
    c = torch.full((33, 17), float("nan"))
    assert kernel(c, a, b) is None
    torch.testing.assert_close(c, a @ b, rtol=1e-4, atol=1e-4)


def test_the_first_mapping_compiles_to_its_gpu(gemm: Path) -> None:
    kernel = septran.compile(
        logic_file=gemm / "gemm_logic.py", mapping_file=gemm / "gemm_on_nvidia_gpu.mapping.yaml"
    )
    a = torch.zeros(1024, 1024, dtype=torch.float16)
    text = kernel.source(a, a)
    assert "num_stages=3" in text
    assert "alloc_shared((128, 128)" in text


@pytest.mark.wider
def test_half_precision_follows_the_inputs(gemm: Path) -> None:
    kernel = septran.compile(logic_file=gemm / "gemm_logic.py", target="cpp", verify=False)
    a = torch.randn(40, 50).bfloat16()
    b = torch.randn(50, 30).bfloat16()
    c = kernel(a, b)
    assert c.dtype is torch.bfloat16
    torch.testing.assert_close(c.float(), a.float() @ b.float(), rtol=2e-2, atol=2e-1)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({}, "C141"),
        ({"target": "cp"}, "C130"),
        ({"target": "cpp", "arch": "vax"}, "C131"),
        ({"target": "cpp", "entry": "gem_block_logic"}, "E127"),
    ],
)
def test_mistakes_have_codes(gemm: Path, given: dict[str, str], code: str) -> None:
    with pytest.raises(SeptranError) as e:
        septran.compile(logic_file=gemm / "gemm_logic.py", **given)  # type: ignore[arg-type]
    assert e.value.codes == (code,)


@pytest.mark.parametrize("given", [{}, {"target": "cpp"}])
def test_an_operator_s_name_is_no_file(given: dict[str, str]) -> None:
    with pytest.raises(InputError) as e:
        septran.compile("softmax", **given)  # type: ignore[arg-type]
    assert e.value.codes == ("C140",)
    assert e.value.diagnostics[0].help == 'septran.compile(op="softmax")'


def test_a_call_that_does_not_fit(gemm: Path) -> None:
    kernel = septran.compile(logic_file=gemm / "gemm_logic.py", target="cpp")
    with pytest.raises(InputError) as e:
        kernel(torch.zeros(4, 4))
    assert e.value.codes == ("C140",)
    with pytest.raises(TaskLangError) as f:
        kernel(torch.zeros(4, 5), torch.zeros(6, 7))
    assert f.value.codes == ("E112",)


def test_an_output_that_does_not_follow(tmp_path: Path) -> None:
    (tmp_path / "fill.py").write_text(
        "import task_lang as task\n"
        "@task.define(leaf=True)\n"
        "def one(Y, x):\n"
        "    task.call_primitive('map', Y, expr='x', x=x)\n"
        "@task.define\n"
        "def fill(Y, x: task.Scalar):\n"
        "    Yp = task.partition(Y, by='blocks', shape=(4,))\n"
        "    for i in task.parallel_range(Yp.shape):\n"
        "        task.launch(one, Yp[i], x)\n"
    )
    kernel = septran.compile(logic_file=tmp_path / "fill.py", target="cpp", verify=False)
    with pytest.raises(SeptranError) as e:
        kernel(2.0)
    assert e.value.codes == ("E145",)


def test_processors_without_a_target(gemm: Path) -> None:
    text = MAPPING.replace("proc: BLOCK", "proc: BLOCK").replace("proc: HOST", "proc: CLUSTER")
    (gemm / "odd.mapping.yaml").write_text(text)
    with pytest.raises(MappingError) as e:
        septran.compile(logic_file=gemm / "gemm_logic.py", mapping_file=gemm / "odd.mapping.yaml")
    assert e.value.codes == ("M007",)


def test_a_wrong_kernel_is_never_returned(gemm: Path) -> None:
    def broken(spec: LeafSpec) -> Leaf | None:
        found = cpp.library_leaf(spec)
        if found is None or spec.prims[0].name == "fill":
            return found
        return replace(found, source=found.source + f"\n#define {spec.symbol}(...) ((void)0)\n")

    kernel = septran.compile(logic_file=gemm / "gemm_logic.py", target="cpp")
    kernel.backend = replace(kernel.backend, library=broken)
    a, b = torch.randn(16, 16), torch.randn(16, 16)
    with pytest.raises(NotCorrect):
        kernel(a, b)


def test_two_tops_need_a_name(gemm: Path) -> None:
    text = LOGIC + LOGIC[LOGIC.index("@task.define\n") :].replace("gemm_block_logic", "other")
    (gemm / "two.py").write_text(text)
    with pytest.raises(TaskLangError) as e:
        septran.compile(logic_file=gemm / "two.py", target="cpp")
    assert e.value.codes == ("E146",)
    assert "other" in str(e.value)
    assert septran.compile(logic_file=gemm / "two.py", target="cpp", entry="other").entry.name == (
        "other"
    )


def test_a_leaf_file_that_is_not_there(gemm: Path) -> None:
    text = MAPPING.replace("BLOCK", "CORE").replace("gemm_leaf_tensorcore", "mine")
    text += "leaf_kernels:\n  mine: {dsl: cpp, symbol: mine, source: gone.hpp}\n"
    (gemm / "mine.mapping.yaml").write_text("target: cpp\n" + text)
    kernel = septran.compile(
        logic_file=gemm / "gemm_logic.py", mapping_file=gemm / "mine.mapping.yaml"
    )
    with pytest.raises(MappingError) as e:
        kernel(torch.zeros(8, 8), torch.zeros(8, 8))
    assert e.value.codes == ("M053",)
    assert "gone.hpp" in str(e.value)
