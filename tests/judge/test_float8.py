"""Products of 8-bit floats, as the matrix multiplication of tutorials makes them."""

from __future__ import annotations

import pytest

from septran.cli.main import main

KERNEL = """import torch
import triton
import triton.language as tl

@triton.jit
def kernel(a, b, c, K, B: tl.constexpr):
    m, n = tl.arange(0, B), tl.arange(0, B)
    acc = tl.zeros((B, B), dtype=tl.float32)
    for start in range(0, K, B):
        k = start + tl.arange(0, B)
        x = tl.load(a + m[:, None] * K + k[None, :], mask=k[None, :] < K, other=0.0)
        y = tl.load(b + k[:, None] * B + n[None, :], mask=k[:, None] < K, other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + m[:, None] * B + n[None, :], acc.to(tl.float16))

def matmul(a, b):
    c = torch.empty((16, 16), device=a.device, dtype=torch.float16)
    kernel[(1,)](a.to(torch.FLOAT8), b.to(torch.FLOAT8), c, a.shape[1], 16)
    return c
"""
REFERENCE = """import torch

def reference(a, b):
    return (a.to(torch.FLOAT8).float() @ b.to(torch.FLOAT8).float()).half()

def get_inputs():
    return [torch.randn(16, 37, dtype=torch.float16), torch.randn(37, 16, dtype=torch.float16)]
"""


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("float8", "old", "new", "code"),
    [
        ("float8_e5m2", "", "", 0),
        ("float8_e5m2", "y = tl.load(b + k[:", "y = tl.load(b + 0 * k[:", 1),
        ("float8_e4m3fn", "", "", 0),
    ],
    ids=["e5m2", "the same row each time", "e4m3"],
)
def test_a_product_of_numbers_in_8_bits(float8, old, new, code, tmp_path, capsys):
    file, wanted = tmp_path / "matmul.py", tmp_path / "wanted.py"
    text = KERNEL.replace("FLOAT8", float8)
    file.write_text(text.replace(old, new) if old else text)
    wanted.write_text(REFERENCE.replace("FLOAT8", float8))
    found = main(["judge", str(file), "--reference", str(wanted), "--sizes", "given"])
    assert found == code, capsys.readouterr().out
