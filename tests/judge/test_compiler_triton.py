"""`septran judge` asks Triton's own compiler, which no GPU needs, what it makes of a file that was right in the interpreter."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from septran.backends.base import Compiled
from septran.backends.triton import foreign_compiled
from septran.backends.triton.foreign_compiled import compiled
from septran.cli.main import main
from tests.judge.corpus import HONEST
from tests.judge.test_on_device import called_as

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")

RELU = """
import torch
import triton
import triton.language as tl

@triton.autotune(configs=[{configs}], key=["n"])
@triton.jit
def _relu(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.static_assert(B < 1024, "too wide")
    tl.store(y + i, tl.where(v > 0, v, 0.0 * v), mask=i < n)

def relu(x):
    y = torch.empty_like(x)
    _relu[lambda meta: (triton.cdiv(x.numel(), meta["B"]),)](x, y, x.numel())
    return y
"""
PRODUCT = """
import torch
import triton
import triton.language as tl

@triton.jit
def _mm(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for s in range(0, K, BK):
        u = tl.load(a + m[:, None] * K + s + k, mask=(m[:, None] < M) & (s + k < K), other=0.0)
        v = tl.load(b + (s + k[:, None]) * N + n, mask=(s + k[:, None] < K) & (n < N), other=0.0)
        acc = tl.dot(u, v, acc)
    tl.store(c + m[:, None] * N + n, acc, mask=(m[:, None] < M) & (n < N))

def mm(a, b):
    c = torch.empty((a.shape[0], b.shape[1]), dtype=torch.float32, device=a.device)
    grid = (triton.cdiv(c.shape[0], 128), triton.cdiv(c.shape[1], 128))
    _mm[grid](a, b, c, *c.shape, a.shape[1], BM=128, BN=128, BK={depth}, num_stages={stages})
    return c
"""
REFERENCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, {params}):
        return {result}

def get_inputs():
    return [{inputs}]

def get_init_inputs():
    return []
"""


def asked(name: str, folder: Path, old: str = "", new: str = "") -> Compiled:
    """What Triton says of a file of the corpus."""
    honest = next(h for h in HONEST if h.name == name)
    text = honest.text()
    assert old in text
    _, kernel = called_as(honest, text.replace(old, new), "sm_90")
    return compiled(kernel, folder)


_QUICK = {"tutorial_matmul.py": (1, True)}  # below its tuner
_ALL = {
    **_QUICK,
    "tutorial_add.py": (1, False),
    "tutorial_softmax.py": (1, True),  # asks a kernel that it warmed up what it takes
    "tour.py:total_in_two_steps": (2, True),
    "unusual.py:described": (1, True),
    "tour.py:relu": (1, False),
    "tour.py:rms_norm": (1, True),
    "tour.py:layer_norm": (1, True),
    "tour.py:transpose": (1, True),
    "tour.py:total": (1, True),
    "tour.py:gelu": (1, False),
    "tour.py:relu_into": (1, False),
    "unusual.py:split_k": (1, True),
    "unusual.py:persistent": (1, True),
    "unusual.py:online": (1, True),
    "unusual.py:chunks": (1, False),
    "unusual.py:last_adds": (1, True),
    "older.py:gelu": (1, False),
    "older.py:softmax": (1, True),
    "older.py:locked": (1, True),
    "tutorial_attention.py:attention": (1, True),
    "classics.py:gelu": (1, False),
    "classics.py:softmax": (1, True),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in _QUICK else pytest.mark.wider) for n in _ALL]
)
def test_the_corpus_compiles(name: str, tmp_path: Path) -> None:
    found = asked(name, tmp_path)
    kernels, shared = _ALL[name]
    count = "1 kernel" if kernels == 1 else f"{kernels} kernels"
    assert not found.refused
    assert found.settles
    assert f" compiles {count} of it for sm_90 (" in found.done
    assert "registers, none spilled" in found.done
    assert ("bytes of shared memory" in found.done) == shared


def test_the_line_that_is_refused_is_named_without_what_stands_before_it(tmp_path: Path) -> None:
    name = "tutorial_add.py"
    honest = next(h for h in HONEST if h.name == name)
    line = next(s for s in honest.text().splitlines() if "tl.store(" in s)
    found = asked(name, tmp_path, line, f"{line[: len(line) - len(line.lstrip())]}tl.no_such_function(1)\n{line}")  # fmt: skip
    assert not found.done
    assert "does not compile it for sm_90 at these sizes: " in found.refused
    assert "tl.no_such_function(1)" in found.refused
    assert "tl.program_id" not in found.refused
    assert str(tmp_path) not in found.refused


@pytest.mark.few(1)
@pytest.mark.parametrize("said", ["torch.cuda.memory_allocated()", "1 / 0", "x.numpy().sum()"])
def test_a_host_function_that_fails_without_a_device_is_not_refused(
    said: str, tmp_path: Path
) -> None:
    text = next(h for h in HONEST if h.name == "tour.py:gelu").text()
    old = text[text.index("def gelu(x") :].partition("\n    return ")[0]
    found = asked("tour.py:gelu", tmp_path, old, f"{old}\n    {said}")
    assert not found.refused


def test_without_triton_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_compiled, "found", lambda: False)
    assert asked("tour.py:relu", tmp_path) == Compiled()


def card(folder: Path, text: str, entry: str, result: str, inputs: str, capsys: pytest.CaptureFixture[str]) -> str:  # fmt: skip
    """What `septran judge` prints of a file."""
    params = ", ".join("ab"[: inputs.count("torch.randn")])
    (folder / "kernel.py").write_text(text)
    (folder / "module.py").write_text(REFERENCE.format(params=params, result=result, inputs=inputs))
    word = ["judge", str(folder / "kernel.py"), "--reference", str(folder / "module.py")]
    main([*word, "--entry", entry, "--where", "emulated"])
    return capsys.readouterr().out


@pytest.mark.wider
def test_a_kernel_that_wants_more_shared_memory_than_there_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The interpreter has no such limit, a GPU refuses the launch."""
    inputs = "torch.randn(64, 128, dtype=torch.float16), torch.randn(128, 64, dtype=torch.float16)"
    result = "a.float() @ b.float()"
    found = card(tmp_path, PRODUCT.format(depth=128, stages=5), "mm", result, inputs, capsys)
    assert "verdict      accurate" in found
    assert "Required: 327680, Hardware limit: 232448" in found
    found = card(tmp_path, PRODUCT.format(depth=64, stages=3), "mm", result, inputs, capsys)
    assert "  compiler     Triton " in found
    assert "compile for a GPU" not in found


def config(width: int) -> str:
    return f'triton.Config({{"B": {width}}})'


@pytest.mark.wider
def test_a_tuner_leaves_out_what_does_not_compile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = RELU.format(configs=f"{config(4096)}, {config(256)}, {config(2048)}")
    found = card(tmp_path, text, "relu", "torch.relu(a)", "torch.randn(1000)", capsys)
    assert "verdict      accurate" in found
    assert "compiles 1 kernel of it for sm_90" in found


def test_a_tuner_with_nothing_that_compiles_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = RELU.format(configs=f"{config(4096)}, {config(2048)}")
    found = card(tmp_path, text, "relu", "torch.relu(a)", "torch.randn(1000)", capsys)
    assert "too wide" in found
    assert "verdict      compiled: crash" in found
