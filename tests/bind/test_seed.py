"""The founding document's two files, verbatim, through the module names it uses."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

import septran_compiler as stc
import tasklevel_compiler as tlc
from septran.ir.nodes import For, Program
from septran.ir.text import print_program
from septran.passes import lower
from septran.passes.interpret import interpret

FOLDER = Path(__file__).resolve().parents[1] / "golden" / "seeds"
LOGIC = FOLDER / "gemm_logic.py"
MAPPING = FOLDER / "gemm_on_nvidia_gpu.mapping.yaml"


def bound(*shapes, mapping=MAPPING, dtype=torch.float16):
    kernel = stc.compile(logic_file=str(LOGIC), mapping_file=str(mapping))
    return kernel, kernel.specialized(*(torch.empty(s, dtype=dtype) for s in shapes))


def test_the_program_is_the_documents(golden):
    kernel, found = bound((1024, 1024), (1024, 1024))
    assert (
        kernel.backend.name == "tilelang_cuda"
    )  # the processors leave no other choice of language
    golden("seeds/gemm.bound.txt", print_program(found.bound.program))
    assert found.bound.notes == (
        "N001: gemm_host: gemm_host_logic is not defined; launching gemm_block_logic with the same "
        "arguments",
    )


def test_both_spellings_of_the_compiler_are_one():
    assert stc.compile is tlc.compile


def test_it_runs_from_the_working_directory(in_tmp):
    for file in (LOGIC, MAPPING):
        shutil.copy(file, in_tmp)
    kernel = stc.compile(logic_file="gemm_logic.py", mapping_file="gemm_on_nvidia_gpu.mapping.yaml")
    assert kernel.entry.name == "gemm_block_logic"


@pytest.mark.parametrize("dims", [(300, 200, 150), (128, 128, 128), (1, 129, 257)])
def test_ragged_sizes_mean_the_product_after_every_pass(dims):
    m, n, k = dims
    kernel, found = bound((m, k), (k, n))
    a, b = torch.randn(m, k).half(), torch.randn(k, n).half()

    def meaning(program: Program) -> None:
        got = {"C": torch.empty(m, n).half(), "A": a.clone(), "B": b.clone()}
        interpret(program, got)
        wanted = a.double() @ b.double()
        torch.testing.assert_close(got["C"].double(), wanted, rtol=2e-3, atol=2e-3)

    meaning(found.bound.program)
    lower(found.bound.program, kernel.backend.passes, after=lambda run: meaning(run.program))
    kernel.backend.finished(found.program, {}, after=lambda run: meaning(run.program))


def test_rule_p_spreads_the_block_loop():
    _, found = bound((1024, 512), (512, 256))
    outer = found.bound.program.body[0]
    assert isinstance(outer, For) and outer.proc == "BLOCK" and outer.parallel
    inner = outer.body[0]
    assert isinstance(inner, For) and inner.proc == "BLOCK"
    text = print_program(found.bound.program)
    assert "for i0 in 8 on BLOCK parallel" in text and "for i1 in 2 on BLOCK parallel" in text
    assert "for kk in 4 pipeline=3" in text


def test_memories_decide_whether_k_is_streamed(tmp_path):
    flat = tmp_path / "flat.mapping.yaml"
    text = MAPPING.read_text().replace("A: SHARED, B: SHARED", "A: GLOBAL, B: GLOBAL")
    flat.write_text(text, encoding="utf-8")
    _, found = bound((256, 256), (256, 256), mapping=flat)
    program = print_program(found.bound.program)
    assert "for kk" not in program
    assert '"name": "gemm",' in program and "A[(i0 * 128):+128, 0:+256]" in program
