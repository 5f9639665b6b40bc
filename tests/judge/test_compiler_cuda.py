"""`septran judge` asks nvcc, where it is installed and without a GPU, what it makes of a CUDA file that was right in the emulation."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from septran.backends.base import Built, Compiled
from septran.backends.cuda import foreign_compiled
from septran.backends.cuda.foreign_compiled import compiled
from septran.cli.main import main
from septran.kernel import Kernel
from septran.toolchain.compilers import Compiler
from tests.judge.corpus import HONEST, REFERENCES
from tests.judge.test_on_device import called_as

needs_nvcc = pytest.mark.skipif(
    shutil.which("nvcc") is None and not Path("/usr/local/cuda/bin/nvcc").is_file(),
    reason="needs nvcc",
)
FILES = {h.file: h for h in HONEST if h.file.endswith(".cu") and h.file != "torch_softmax.cu"}
HELPER = """
{helper} float positive(float x) {{ return x > 0.0f || x != x ? x : 0.0f; }}
__global__ void relu_kernel(const float* x, float* y, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = positive(x[i]);
}}
void relu(const float* x, float* y, int n) {{ relu_kernel<<<(n + 255) / 256, 256>>>(x, y, n); }}
"""


def asked(name: str, folder: Path) -> Compiled:
    """What nvcc says of a file of the corpus."""
    _, kernel = called_as(FILES[name], FILES[name].text(), "sm_90a")
    return compiled(kernel, folder)


@needs_nvcc
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n == "rows.cu" else pytest.mark.wider) for n in FILES]
)
def test_the_corpus_compiles(name: str, tmp_path: Path) -> None:
    found = asked(name, tmp_path)
    assert not found.refused
    assert found.settles
    assert found.done.startswith("nvcc ")
    assert " compiles it for sm_90a (" in found.done
    assert " registers, none spilled" in found.done


def card(folder: Path, helper: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What `septran judge` prints of a file whose kernel calls a function."""
    (folder / "relu.cu").write_text(HELPER.format(helper=helper))
    word = ["judge", str(folder / "relu.cu"), "--reference", str(REFERENCES / "relu.py")]
    main([*word, "--entry", "relu", "--where", "emulated", "--quiet"])
    return capsys.readouterr().out


@pytest.mark.wider
@needs_nvcc
def test_a_function_of_the_host_that_a_kernel_calls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """To the emulation's compiler it is a function like any other."""
    found = card(tmp_path, "static", capsys)
    assert "compile for a GPU: nvcc " in found
    assert "line 5: calling a __host__ function" in found
    assert "verdict        accurate" in found
    found = card(tmp_path, "__device__", capsys)
    assert "compile for a GPU" not in found
    assert "  compiler " in found


def told(log: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Compiled:
    """What is said where nvcc fails with such a log."""

    def fails(kernel: Kernel, folder: Path, seconds: float) -> Built:
        return Built(ok=False, artifact=None, log=log)

    monkeypatch.setattr(foreign_compiled, "nvcc", lambda: Compiler(path="nvcc", version="13.0"))
    monkeypatch.setattr(foreign_compiled, "compile_cubin", fails)
    return asked("rows.cu", tmp_path)


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ('MAIN(7): error: identifier "f" is undefined\n', 'line 7: identifier "f" is undefined'),
        (
            "ptxas error   : Entry function 'f' uses too much shared data\n",
            "Entry function 'f' uses too much shared data",
        ),
        ("MAIN:1:10: fatal error: cub/cub.cuh: No such file or directory\n", ""),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_90a'\n", ""),
        ("/usr/include/x.h(3): error: something of the machine's\n", ""),
        ("", ""),
    ],
)
def test_only_the_files_own_lines_refuse_it(
    log: str, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _, kernel = called_as(FILES["rows.cu"], FILES["rows.cu"].text(), "sm_90a")
    found = told(log.replace("MAIN", kernel.main), monkeypatch, tmp_path)
    if words:
        assert found.refused == f"nvcc 13.0 does not compile it for sm_90a: {words}"
    else:
        assert found == Compiled()


def test_without_nvcc_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_compiled, "nvcc", lambda: None)
    assert asked("rows.cu", tmp_path) == Compiled()
