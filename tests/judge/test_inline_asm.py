"""Triton files with `tl.inline_asm_elementwise`: the PTX of public kernels, with a planted bug for each, and what has no model."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran import settings
from septran.run.judge import judge
from septran.run.judgement import JudgeRequest

FILE = """import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=0)
    y = tl.inline_asm_elementwise({asm!r}, {constraints!r}, [{given}], dtype={result}, is_pure=True, pack={pack})
    tl.store(y_ptr + i, {stored}, mask=i < n)


def run(x: torch.Tensor):
    y = torch.empty_like(x, dtype=torch.{out})
    kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), B=256)
    return y
"""
REFERENCE = """import torch


def reference(x):
    return {wanted}


def get_inputs():
    return [{inputs}]
"""
# what a byte of two int4 becomes: four of them, as float16 numbers by lop3 (FasterTransformer's conversion, one nibble of each)
NIBBLES = """
{ .reg .b32 r<4>;
  prmt.b32 r0, $2, 0, 0x4140;
  prmt.b32 r1, $2, 0, 0x4342;
  lop3.b32 r0, r0, 0x000f000f, 0x64006400, 0xEA;
  lop3.b32 r1, r1, 0x000f000f, 0x64006400, 0xEA;
  sub.f16x2 $0, r0, 0x64086408;
  sub.f16x2 $1, r1, 0x64086408; }
"""
FLOAT8 = (
    "torch.where(((x >> 3) & 15) == 0, (x & 7).float() / 512, (8 + (x & 7)).float() * torch.exp2(((x >> 3) & 15).float() - 10))"
    " * torch.where(x < 0, -1.0, 1.0)"
).replace("x ", "(x & -9) ")
PAIRS = """
{ .reg .b16 lo, hi;
  mov.b32 {lo, hi}, $2;
  cvt.rn.f16x2.e4m3x2 $0, lo;
  cvt.rn.f16x2.e4m3x2 $1, hi; }
"""
RANDOM, BYTES = "torch.randn(1000)", "torch.randint(-128, 127, (1000,), dtype=torch.int8)"
CASES = {
    "tanh": ("tanh.approx.f32 $0, $1;", "=f,f", "tl.float32", 1, "y", "torch.tanh(x)", RANDOM, ()),
    "ex2": ("ex2.approx.ftz.f32 $0, $1;", "=f,f", "tl.float32", 1, "y", "torch.exp2(x)", RANDOM, ("ex2", "lg2")),
    "bits": (
        "{ .reg .b32 t; shr.u32 t, $1, 16; and.b32 t, t, 1; add.u32 t, t, 0x7fff; add.u32 t, $1, t; and.b32 $0, t, 0xffff0000; }",
        "=r,r", "tl.uint32", 1, "y.to(tl.float32, bitcast=True)", "x.bfloat16()", RANDOM, ("0x7fff", "0"),
    ),
    "int4": (NIBBLES, "=r,=r,r", "tl.float16", 4, "y.to(tl.float32)", "((x.int() & 15) - 8).float()", BYTES, ("0x4342", "0x4340")),
    "float8": (
        PAIRS, "=r,=r,r", "tl.float16", 4, "y.to(tl.float32)",
        FLOAT8, BYTES, ("$1, hi", "$1, lo"),
    ),
    "halves": (
        "{ .reg .b32 h; cvt.rn.bf16x2.f32 h, $3, $2; shl.b32 $0, h, 16; and.b32 $1, h, 0xffff0000; }",
        "=r,=r,r,r", "tl.uint32", 2, "y.to(tl.float32, bitcast=True)", "x.bfloat16()", RANDOM, ("h, $3, $2", "h, $2, $3"),
    ),
}  # fmt: skip


def verdict_of(name: str, folder: Path, old: str = "", new: str = ""):
    asm, constraints, result, pack, stored, wanted, inputs, _ = CASES[name]
    text = asm.replace(old, new) if old else asm
    folder.mkdir(exist_ok=True)
    file, reference = folder / "kernel.py", folder / "reference.py"
    file.write_text(
        FILE.format(
            asm=text,
            constraints=constraints,
            result=result,
            pack=pack,
            stored=stored,
            out="bfloat16" if "bfloat16" in wanted else "float32",
            given="x & -9" if name == "float8" else "x",
        )
    )
    reference.write_text(REFERENCE.format(wanted=wanted, inputs=inputs))
    request = JudgeRequest(file=file, reference=reference)
    return judge(request, settings=settings.load()).verdict


@pytest.mark.few(1)
@pytest.mark.parametrize("name", sorted(set(CASES) - {"tanh"}))
def test_what_public_kernels_say_in_ptx_is_judged(name: str, tmp_path: Path) -> None:
    right = verdict_of(name, tmp_path / "right")
    assert right.passed, right.message
    wrong = verdict_of(name, tmp_path / "wrong", *CASES[name][-1])
    assert wrong.code == "V202", wrong.message


def test_a_fast_tanh_has_eleven_bits_as_on_a_gpu(tmp_path: Path) -> None:
    found = verdict_of("tanh", tmp_path)
    assert found.code == "V202" and found.worst is not None
    assert float(found.worst.got) == pytest.approx(float(found.worst.expected), rel=2**-10)


def test_ptx_without_a_model_is_named_with_its_line(tmp_path: Path) -> None:
    found = verdict_of("ex2", tmp_path, "ex2.approx.ftz.f32 $0, $1;", "mov.u32 $0, %smid;")
    assert (found.status.value.lower(), found.code) == ("unavailable", "V217")
    assert "inline PTX (the operand %smid, line 10)" in found.message
