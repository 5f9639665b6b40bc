"""Products in the emulator: of bytes in 32 bits, as tensor cores add them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from septran.backends.triton.toolchain import found, write_emulator

pytestmark = pytest.mark.skipif(not found(), reason="needs triton")
PROGRAM = """
import importlib
import sys

sys.path.append(sys.argv[1])
import torch
import triton
import triton.language as tl

interp = importlib.import_module("septran_triton_interp")
watch = importlib.import_module("septran_triton_watch").Watch()
interp.install(watch)


@triton.jit
def product(A, B, C, N: tl.constexpr, K: tl.constexpr):
    i, j, k = tl.arange(0, N), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(A + i[:, None] * K + k[None, :])
    b = tl.load(B + j[None, :] * K + k[:, None])
    c = tl.zeros((N, N), tl.int32)
    for _ in range(2):
        c += tl.dot(a, b, out_dtype=tl.int32)
    tl.store(C + i[:, None] * N + j[None, :], c)


a, b = (torch.randint(-128, 128, (16, 64), dtype=torch.int8) for _ in range(2))
a[0], b[0] = -128, -128
c = torch.empty(16, 16, dtype=torch.int32)
for one, name in ((a, "a"), (b, "b"), (c, "c")):
    watch.add(one.data_ptr(), one.numel() * one.element_size(), one.element_size(), name)
product[(1,)](a, b, c, 16, 64)
print((c == 2 * (a.int()[:, None] * b.int()[None]).sum(-1)).all().item(), c[0, 0].item())
"""


def test_products_of_bytes_are_added_in_32_bits(tmp_path: Path) -> None:
    write_emulator(tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "program.py"), str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["True", str(2 * 64 * 128 * 128)]
