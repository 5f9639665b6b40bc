"""What a GPU does and a host's processor does not: misaligned vectors fault, floats out of range become the nearest integer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from septran import settings
from septran.backends.tilesim.shifts import OpenShifts
from septran.backends.tilesim.values import Value, to_integer
from septran.run.judge import judge
from septran.run.judgement import Judgement, JudgeRequest

SHIFTED = """#include <cuda_runtime.h>
__global__ void shift(const float* x, float* y, int n) {
  int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
  if (i + 4 < n) {
    WIDE
    y[i] = v.x; y[i + 1] = v.y; y[i + 2] = v.z; y[i + 3] = v.w;
  } else
    for (int j = i; j < n; j++) y[j] = x[j + 1 < n ? j + 1 : j];
}
void launch(const float* x, float* y, int n) { shift<<<(n + 255) / 256, 64>>>(x, y, n); }
"""
NEXT = (
    "import torch\ndef reference(x): return torch.cat([x[1:], x[-1:]])\n"
    "def get_inputs(): return [torch.rand(500)]\n"
)
# 2**31 is what the largest int becomes as a float
WHOLE = (
    "import torch\ndef reference(x): return x.clamp(-2.0**31, 2.0**31).trunc()\n"
    "def get_inputs(): return [torch.rand(500)]\n"
)
CUDA_WHOLE = """#include <cuda_runtime.h>
__global__ void whole(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = (float)CAST;
}
void launch(const float* x, float* y, int n) { whole<<<(n + 63) / 64, 64>>>(x, y, n); }
"""
TRITON_WHOLE = """import torch
import triton
import triton.language as tl

@triton.jit
def whole(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, x.to(tl.int32).to(tl.float32), mask=at < n)

def launch(x):
    y = torch.empty_like(x)
    whole[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return y
"""
TRITON_PRODUCT = """import torch
import triton
import triton.language as tl

@triton.jit
def product(a_ptr, b_ptr, c_ptr):
    r, c = tl.arange(0, 32)[:, None], tl.arange(0, 32)[None, :]
    a, b = tl.load(a_ptr + r * 32 + c), tl.load(b_ptr + r * 32 + c)
    tl.store(c_ptr + r * 32 + c, tl.dot(a, b, input_precision="PRECISION"))

def launch(a, b):
    c = torch.empty_like(a)
    product[(1,)](a, b, c)
    return c
"""
PRODUCT = (
    "import torch\ndef reference(a, b): return a @ b\n"
    "def get_inputs(): return [torch.rand(32, 32), torch.rand(32, 32)]\n"
)


def judged(text: str, reference: str, folder: Path, suffix: str = ".cu", **more: int) -> Judgement:
    file, wanted = folder / f"file{suffix}", folder / "wanted.py"
    file.write_text(text, encoding="utf-8")
    wanted.write_text(reference, encoding="utf-8")
    request = JudgeRequest(file=file, reference=wanted, entry="launch", numbers=more)
    return judge(request, settings=settings.load())


@pytest.mark.wider
@pytest.mark.parametrize(
    "wide",
    [
        "float4 v = *reinterpret_cast<const float4*>(x + i + 1);",
        *(
            pytest.param(text, marks=pytest.mark.slow)
            for text in (
                "const float4& v = ((const float4*)(x + 1))[i / 4];",
                "float4 v = __ldg((const float4*)(x + i + 1));",
                "int4 w = *(const int4*)&x[i + 1]; float4 v; memcpy(&v, &w, 16);",
                "float4 v; float2 a = *(float2*)(x + i + 1), b = *(float2*)(x + i + 3); v = {a.x, a.y, b.x, b.y};",
                "float4 v; *(double2*)&v = *(const double2*)(x + i + 1);",
            )
        ),
    ],
)
def test_a_vector_at_an_odd_address_is_found_as_the_device_faults(
    wide: str, tmp_path: Path
) -> None:
    found = judged(SHIFTED.replace("WIDE", wide), NEXT, tmp_path, n=500)
    assert (found.code, found.finding, found.verdict.code) == (1, "bounds", "V209")
    assert "misaligned access" in found.verdict.message
    assert found.verdict.diagnostics[0]["kernel"] == "shift"


@pytest.mark.slow
@pytest.mark.parametrize(
    "wide",
    [
        "float4 v = make_float4(x[i + 1], x[i + 2], x[i + 3], x[i + 4]);",
        "float4 a = *(const float4*)(x + i); float4 v = make_float4(a.y, a.z, a.w, x[i + 4]);",
        "float4 v; memcpy(&v, x + i + 1, 16);",
    ],
)
def test_aligned_vectors_pass(wide: str, tmp_path: Path) -> None:
    found = judged(SHIFTED.replace("WIDE", wide), NEXT, tmp_path, n=500)
    assert found.code == 0, found.verdict.message


@pytest.mark.slow
@pytest.mark.parametrize("cast", ["(int)x[i]", "static_cast<int>(x[i])", "__float2int_rz(x[i])"])
def test_cuda_casts_are_the_device_s(cast: str, tmp_path: Path) -> None:
    found = judged(CUDA_WHOLE.replace("CAST", cast), WHOLE, tmp_path, n=500)
    assert found.code == 0, found.verdict.message
    assert judged(CUDA_WHOLE.replace("CAST", "(unsigned)x[i]"), WHOLE, tmp_path, n=500).code == 1


@pytest.mark.slow
def test_triton_casts_are_the_device_s(tmp_path: Path) -> None:
    found = judged(TRITON_WHOLE, WHOLE, tmp_path, ".py")
    assert found.code == 0, found.verdict.message


@pytest.mark.slow
@pytest.mark.parametrize(("precision", "code"), [("tf32", 1), ("tf32x3", 0), ("ieee", 0)])
def test_products_in_parts_have_their_precision(precision: str, code: int, tmp_path: Path) -> None:
    found = judged(TRITON_PRODUCT.replace("PRECISION", precision), PRODUCT, tmp_path, ".py")
    assert found.code == code, found.verdict.message


def test_floats_out_of_range() -> None:
    values = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, -1.9, 2.9, 1e30], np.float32)
    top, low = 2**31 - 1, -(2**31)
    assert to_integer(values, "int32").tolist() == [0, top, low, top, low, -1, 2, top]
    assert to_integer(values, "uint32").tolist()[:6] == [0, 2**32 - 1, 0, 3_000_000_000, 0, 0]
    wide = to_integer(values, "int64").tolist()
    assert wide[:5] == [-(2**63), 2**63 - 1, -(2**63), 3_000_000_000, -3_000_000_000]
    assert to_integer(values[:2].astype(np.float64), "int32").tolist() == [low, top]
    assert to_integer(np.array([300.0, -1.0], np.float32), "uint8").tolist() == [44, 0]


def test_a_shift_that_the_languages_leave_open_has_no_one_result() -> None:
    """Where the amount is one of a bit's places the result is; beside it numbers come in turn, among them what NVIDIA's shifter gives."""
    shifts, left, right = OpenShifts(), set(), set()
    by = np.array([3, 32, 40, -1], np.int32)
    for _ in range(12):
        shifts.another_launch()
        found = shifts.shift(np.left_shift, np.full(4, 5, np.int32), by)
        back = shifts.shift(np.right_shift, np.full(4, -64, np.int32), by)
        assert (found[0], back[0], found.dtype, back.dtype) == (40, -8, np.int32, np.int32)
        left.add(tuple(found[1:].tolist()))
        right.add(tuple(back[1:].tolist()))
    assert (0, 0, 0) in left and (-1, -1, -1) in right
    assert len(left) == len(right) == 3
    with pytest.raises(Exception, match="it has 32 bits"):
        Value(np.arange(4), "int32") << 32
    assert (Value(7, "int32") << 2).data == 28
