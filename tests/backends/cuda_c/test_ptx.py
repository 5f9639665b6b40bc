"""Inline PTX of judged files, as C++ of the emulation: each instruction gives what the PTX ISA says, and what has none is named."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np
import pytest

from septran.backends.cuda.ptx import shown, translated, untranslated
from septran.backends.judged.c_sizes import sizes_asked
from tests.backends.cuda_c.raw import run_cuda

M32 = (1 << 32) - 1


def _f(x: float) -> int:
    return struct.unpack("<I", struct.pack("<f", np.float32(x)))[0]


def _h2(low: float, high: float) -> int:
    return int(np.float16(low).view(np.uint16)) | int(np.float16(high).view(np.uint16)) << 16


def _b2(low: float, high: float) -> int:
    return _f(low) >> 16 | _f(high) >> 16 << 16


# instructions on 32-bit registers, %0 the result, %1 %2 %3 the operands -> what comes out
INSTRUCTIONS = [
    ("add.s32 %0, %1, %2;", (7, M32, 0), 6),
    ("sub.u32 %0, %1, 8;", (7, 0, 0), M32),
    ("mul.lo.s32 %0, %1, %2;", (0x10001, 0x10001, 0), 0x20001),
    ("mul.hi.u32 %0, %1, %2;", (0x80000000, 6, 0), 3),
    ("mul.hi.s32 %0, %1, %2;", (M32, 5, 0), M32),
    ("mad.lo.u32 %0, %1, %2, %3;", (5, 6, 7), 37),
    ("{ .reg .b64 t; mul.wide.u32 t, %1, %2; shr.u64 t, t, 32; cvt.u32.u64 %0, t; }", (0x80000000, 6, 0), 3),
    ("{ .reg .b64 t; mul.wide.s32 t, %1, %2; cvt.u32.u64 %0, t; }", (M32, 5, 0), M32 - 4),
    ("{ .reg .b64 t; mov.u64 t, 7; mad.wide.u32 t, %1, %2, t; cvt.u32.u64 %0, t; }", (3, 4, 0), 19),
    ("{ .reg .b16 h; cvt.rn.f16.f32 h, %1; cvt.f32.f16 %0, h; }", (_f(1.5), 0, 0), _f(1.5)),
    ("{ .reg .pred p; setp.ne.f32 p, %1, %1; selp.b32 %0, 1, 2, p; }", (0x7FC00000, 0, 0), 2),
    ("min.s32 %0, %1, %2;", (M32, 3, 0), M32),
    ("min.u32 %0, %1, %2;", (M32, 3, 0), 3),
    ("abs.s32 %0, %1;", (M32, 0, 0), 1),
    ("and.b32 %0, %1, %2;", (0xF0F0, 0xFF00, 0), 0xF000),
    ("not.b32 %0, %1;", (0, 0, 0), M32),
    ("shl.b32 %0, %1, %2;", (1, 33, 0), 0),
    ("shr.s32 %0, %1, %2;", (0x80000000, 99, 0), M32),
    ("shr.u32 %0, %1, 4;", (0x80000000, 0, 0), 0x08000000),
    ("shf.l.wrap.b32 %0, %1, %2, %3;", (0x80000001, 0x1, 4), 0x18),
    ("shf.r.wrap.b32 %0, %1, %2, %3;", (0x10, 0xF, 4), 0xF0000001),
    ("popc.b32 %0, %1;", (0xF00F, 0, 0), 8),
    ("clz.b32 %0, %1;", (0x10, 0, 0), 27),
    ("clz.b32 %0, %1;", (0, 0, 0), 32),
    ("brev.b32 %0, %1;", (1, 0, 0), 0x80000000),
    ("bfe.u32 %0, %1, 4, 8;", (0xABCD, 0, 0), 0xBC),
    ("bfe.s32 %0, %1, 4, 8;", (0xABCD, 0, 0), 0xFFFFFFBC),
    ("bfi.b32 %0, %1, %2, 8, 4;", (0xF5, 0x12345678, 0), 0x12345578),
    ("prmt.b32 %0, %1, %2, 0x5410;", (0x11112222, 0x33334444, 0), 0x44442222),
    ("prmt.b32 %0, %1, %2, 0x9;", (0x8000, 0, 0), 0xFF),
    ("lop3.b32 %0, %1, %2, %3, 0xEA;", (0b1100, 0b1010, 0b0001), 0b1001),
    ("lop3.b32 %0, %1, %2, %3, 0x96;", (0b1100, 0b1010, 0b0110), 0),
    ("dp4a.s32.s32 %0, %1, %2, %3;", (0xFF020304, 0x01010101, 10), 18),
    ("dp4a.u32.u32 %0, %1, %2, %3;", (0xFF020304, 0x01010101, 10), 274),
    ("{ .reg .pred p; setp.lt.s32 p, %1, %2; selp.b32 %0, 1, 2, p; }", (M32, 0, 0), 1),
    ("{ .reg .pred p; setp.lo.u32 p, %1, %2; selp.b32 %0, 1, 2, p; }", (M32, 0, 0), 2),
    ("{ .reg .b16 l, h; mov.b32 {l, h}, %1; mov.b32 %0, {h, l}; }", (0x12345678, 0, 0), 0x56781234),
    ("{ .reg .b64 t; mov.b64 t, {%1, %2}; shr.u64 t, t, 8; cvt.u32.u64 %0, t; }", (0x11223344, 0xAA, 0), 0xAA112233),
    ("{ .reg .b32 r<3>; mov.u32 r0, %1; add.u32 r1, r0, 1; add.u32 r2, r1, 1; mov.u32 %0, r2; }", (5, 0, 0), 7),
    ("{ .reg .pred p; .reg .u32 n; mov.u32 n, %1; mov.u32 %0, 0; L: add.u32 %0, %0, 3; sub.u32 n, n, 1; setp.ne.u32 p, n, 0; @p bra L; }", (4, 0, 0), 12),
    ("add.rn.f32 %0, %1, %2;", (_f(1.5), _f(2), 0), _f(3.5)),
    ("fma.rn.f32 %0, %1, %2, %3;", (_f(1.5), _f(2), _f(0.25)), _f(3.25)),
    ("max.f32 %0, %1, 0f00000000;", (_f(-3), 0, 0), 0),
    ("ex2.approx.f32 %0, %1;", (_f(3), 0, 0), _f(8)),
    ("ex2.approx.ftz.f32 %0, %1;", (_f(-127), 0, 0), 0),
    ("rcp.approx.ftz.f32 %0, %1;", (_f(4), 0, 0), _f(0.25)),
    ("sqrt.approx.f32 %0, %1;", (_f(9), 0, 0), _f(3)),
    ("neg.f32 %0, %1;", (_f(9), 0, 0), _f(-9)),
    ("add.f16x2 %0, %1, %2;", (_h2(1, 2), _h2(0.5, -4), 0), _h2(1.5, -2)),
    ("fma.rn.f16x2 %0, %1, %2, %3;", (_h2(3, 2), _h2(2, 2), _h2(1, -1)), _h2(7, 3)),
    ("mul.bf16x2 %0, %1, %2;", (_b2(3, 2), _b2(2, -2), 0), _b2(6, -4)),
    ("cvt.rn.f16x2.f32 %0, %1, %2;", (_f(1), _f(2), 0), _h2(2, 1)),
    ("cvt.rn.bf16x2.f32 %0, %1, %2;", (_f(1), _f(2), 0), _b2(2, 1)),
    ("cvt.rzi.s32.f32 %0, %1;", (_f(-2.7), 0, 0), -2 & M32),
    ("cvt.rni.s32.f32 %0, %1;", (_f(2.5), 0, 0), 2),
    ("cvt.rn.f32.s32 %0, %1;", (M32, 0, 0), _f(-1)),
    ("cvt.rna.tf32.f32 %0, %1;", (0x3F801000, 0, 0), 0x3F802000),
    ("mov.u32 %0, %%laneid;", (0, 0, 0), 0),
    ("mov.u32 %0, %%ntid.x;", (0, 0, 0), 1),
]  # fmt: skip


def test_instructions_give_what_the_isa_says(tmp_path: Path) -> None:
    lines = [
        f'    {{ uint32_t r = 0x5A5A5A5A; asm volatile("{text}" : "=r"(r) : "r"(x[{3 * i}]), "r"(x[{3 * i + 1}]), "r"(x[{3 * i + 2}])); y[{i}] = r; }}\n'
        for i, (text, _, _) in enumerate(INSTRUCTIONS)
    ]
    source = (
        f"__global__ void k(const uint32_t* x, uint32_t* y) {{\n{''.join(lines)}}}\n"
        'extern "C" __attribute__((visibility("default"))) void run(void* const* a) { k<<<1, 1>>>((const uint32_t*)a[0], (uint32_t*)a[1]); }\n'
    )
    assert untranslated(source) == ()
    given = np.array([v for _, values, _ in INSTRUCTIONS for v in values], np.uint32)
    ran = run_cuda(translated(source), [given, np.zeros(len(INSTRUCTIONS), np.uint32)], tmp_path)
    assert ran.code == 0, ran.stderr[-2000:]
    wrong = [
        f"{text}: {int(g):#x}, {want:#x} wanted"
        for (text, _, want), g in zip(INSTRUCTIONS, ran.outputs[1], strict=True)
        if int(g) != want
    ]
    assert wrong == []


BYTES = """
__global__ void k(const uint32_t* a, const uint32_t* b, int* c) {
  const int l = threadIdx.x;
  int d[4] = {1, 1, 1, 1};
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\\n"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
               : "r"(a[l / 4 * 8 + l % 4]), "r"(a[(l / 4 + 8) * 8 + l % 4]), "r"(a[l / 4 * 8 + l % 4 + 4]), "r"(a[(l / 4 + 8) * 8 + l % 4 + 4]),
                 "r"(b[l / 4 * 8 + l % 4]), "r"(b[l / 4 * 8 + l % 4 + 4]));
  for (int q = 0; q < 4; q++) c[(l / 4 + q / 2 * 8) * 8 + l % 4 * 2 + q % 2] = d[q];
}
extern "C" __attribute__((visibility("default"))) void run(void* const* p) { k<<<1, 32>>>((const uint32_t*)p[0], (const uint32_t*)p[1], (int*)p[2]); }
"""
HALVES = """
__global__ void k(const uint32_t* a, const uint32_t* b, uint32_t* c) {
  __shared__ __align__(16) uint16_t s[16][8];
  const int l = threadIdx.x;
  uint32_t d[2] = {0, 0};
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3}, {%4}, {%0,%1};\\n"
               : "+r"(d[0]), "+r"(d[1]) : "r"(a[l / 4 * 4 + l % 4]), "r"(a[(l / 4 + 8) * 4 + l % 4]), "r"(b[l / 4 * 4 + l % 4]));
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};\\n"
               :: "r"((uint32_t)__cvta_generic_to_shared(&s[l % 16][0])), "r"(d[0]), "r"(d[1]));
  __syncwarp();
  for (int i = l; i < 64; i += 32) c[i] = ((uint32_t*)s)[i];
}
extern "C" __attribute__((visibility("default"))) void run(void* const* p) { k<<<1, 32>>>((const uint32_t*)p[0], (const uint32_t*)p[1], (uint32_t*)p[2]); }
"""


def test_a_product_of_bytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.integers(-128, 128, (16, 32), np.int8), rng.integers(-128, 128, (8, 32), np.int8)
    ran = run_cuda(translated(BYTES), [a, b, np.zeros((16, 8), np.int32)], tmp_path)
    assert ran.code == 0, ran.stderr[-2000:]
    assert (ran.outputs[2] == a.astype(int) @ b.astype(int).T + 1).all()


def test_a_half_product_and_stmatrix(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, s).astype(np.float16) for s in ((16, 8), (8, 8)))
    ran = run_cuda(translated(HALVES), [a, b, np.zeros((16, 8), np.float16)], tmp_path)
    assert ran.code == 0, ran.stderr[-2000:]
    assert (ran.outputs[2] == a @ b.T).all()


BARRIER = """
__global__ void k(const int* x, int* y) {
  __shared__ uint64_t landed;
  __shared__ int s[64];
  const int t = threadIdx.x;
  uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(&landed));
  if (t == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(64));
  __syncthreads();
  s[t] = x[t];
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(at) : "memory");
  LOOP
  y[t] = s[63 - t];
}
extern "C" __attribute__((visibility("default"))) void run(void* const* p) {
  cuemu::choose_order(ORDER);
  k<<<1, 64>>>((const int*)p[0], (int*)p[1]);
}
"""
LOOP = """asm volatile("{\\n.reg .pred P1;\\nLAB_WAIT:\\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\\n@P1 bra DONE;\\nbra LAB_WAIT;\\nDONE:\\n}" ::"r"(at), "r"(0));"""
ONCE = """asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%0], %1; }" ::"r"(at), "r"(0));"""


@pytest.mark.parametrize("order", [0, 1, 2])
def test_who_waits_at_an_mbarrier_asks_again(order: int, tmp_path: Path) -> None:
    x = np.arange(64, dtype=np.int32)
    text = BARRIER.replace("ORDER", str(order))
    ran = run_cuda(translated(text.replace("LOOP", LOOP)), [x, 0 * x], tmp_path / "loop")
    assert ran.code == 0, ran.stderr[-2000:]
    assert (ran.outputs[1] == x[::-1]).all()
    if order == 0:  # who asks once goes on too early
        ran = run_cuda(translated(text.replace("LOOP", ONCE)), [x, 0 * x], tmp_path / "once")
        assert ran.code == 0 and (ran.outputs[1] != x[::-1]).any()


STAGES = """
// 32 threads bring, 32 use: one tile in two, each with a barrier that says it is there and one that says it is used
__global__ void k(const int* x, int* y, int* z) {
  __shared__ int s[2][32];
  __shared__ unsigned long long full[2], used[2];
  const int t = threadIdx.x;
  uint32_t f[2], u[2];
  for (int i = 0; i < 2; i++) {
    f[i] = static_cast<uint32_t>(__cvta_generic_to_shared(&full[i]));
    u[i] = static_cast<uint32_t>(__cvta_generic_to_shared(&used[i]));
    if (t == 0) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(f[i]), "r"(32));
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(u[i]), "r"(64));
    }
  }
  __syncthreads();
  for (int i = 0; i < 6; i++) {
    const int b = i % 2, parity = i / 2 % 2;
    if (t < 32) {
      if (i > 1) asm volatile("{ .reg .pred p; L: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra L; }" ::"r"(u[b]), "r"(1 - parity));
      uint32_t to = static_cast<uint32_t>(__cvta_generic_to_shared(&s[b][t]));
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(x + 32 * i + t) : "memory");
      asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(f[b]) : "memory");
    } else {
      asm volatile("{ .reg .pred p; L: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @!p bra L; }" ::"r"(f[b]), "r"(parity));
      y[32 * i + t - 32] = s[b][63 - t];
      asm volatile("mbarrier.arrive.shared.b64 _, [%0], %1;" ::"r"(u[b]), "r"(2) : "memory");
    }
  }
  __shared__ unsigned long long last;
  const uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(&last));
  if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at), "r"(64));
  __syncthreads();
  for (int i = 0; i < 3; i++) {
    s[0][t % 32] = i;
    uint64_t state;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(at) : "memory");
    asm volatile("{ .reg .pred p; L: mbarrier.test_wait.shared.b64 p, [%0], %1; @!p bra L; }" ::"r"(at), "l"(state));
    z[64 * i + t] = s[0][31 - t % 32];
    __syncthreads();
  }
}
extern "C" __attribute__((visibility("default"))) void run(void* const* p) {
  cuemu::choose_order(ORDER);
  k<<<1, 64>>>((const int*)p[0], (int*)p[1], (int*)p[2]);
}
"""


@pytest.mark.parametrize(
    "order", [1, pytest.param(0, marks=pytest.mark.wider), pytest.param(2, marks=pytest.mark.wider)]
)
def test_copies_arrive_at_an_mbarrier(order: int, tmp_path: Path) -> None:
    x = np.arange(192, dtype=np.int32)
    zeros = np.zeros(192, np.int32)
    text = STAGES.replace("ORDER", str(order))
    ran = run_cuda(translated(text), [x, zeros, zeros.copy()], tmp_path)
    assert ran.code == 0, ran.stderr[-2000:]
    assert (ran.outputs[1].reshape(6, 32) == x.reshape(6, 32)[:, ::-1]).all()
    assert (ran.outputs[2].reshape(3, 64) == np.arange(3)[:, None]).all()
    # without the arrival of what was copied, those who use it wait for ever
    lost = text.replace(
        'asm volatile("cp.async.mbarrier.arrive.noinc',
        'if (t) asm volatile("cp.async.mbarrier.arrive.noinc',
    )
    assert (
        run_cuda(translated(lost), [x, zeros, zeros.copy()], tmp_path / "lost").kind == "deadlock"
    )


HANDED_ON = """
__global__ void k(const int* x, int* y) {
  __shared__ int s[64];
  const int t = threadIdx.x;
  if (t < 64) {
    s[t] = x[t];
    asm volatile("bar.arrive 2, 128;" ::: "memory");
    asm volatile("bar.sync 1, 64;" ::: "memory");  // the first two warps by themselves
    y[t] = s[63 - t];
  } else {
    WAIT
    y[t] = s[t - 64] + s[127 - t];
  }
}
extern "C" __attribute__((visibility("default"))) void run(void* const* p) {
  cuemu::choose_order(ORDER);
  k<<<2, 128>>>((const int*)p[0], (int*)p[1]);
}
"""


@pytest.mark.few(1)
@pytest.mark.parametrize("order", [0, 1, 2])
def test_warps_meet_at_barriers_of_their_own(order: int, tmp_path: Path) -> None:
    x, y = np.arange(64, dtype=np.int32), np.zeros(128, np.int32)
    text = HANDED_ON.replace("ORDER", str(order))
    right = np.concatenate([x[::-1], x + x[::-1]])

    def ran(wait: str, folder: str):
        return run_cuda(translated(text.replace("WAIT", wait)), [x, y], tmp_path / folder)

    good = ran('asm volatile("bar.sync 2, 128;" ::: "memory");', "good")
    assert good.code == 0, good.stderr[-2000:]
    assert (good.outputs[1] == right).all()
    if order == 1:  # the last threads first: who does not wait is too early
        assert (ran("", "none").outputs[1] != right).any()
    few = ran('asm volatile("bar.sync 2, 96;" ::: "memory");', "few")
    assert few.code != 0 and ("divergence" in few.stderr or "deadlock" in few.stderr)
    odd = ran('asm volatile("bar.sync 2, 100;" ::: "memory");', "odd")
    assert odd.code != 0 and "whole warps" in odd.stderr


POLICY = """
__global__ void k(const int* x, int* y) {
  __shared__ __align__(16) int s[32][4];
  const int t = threadIdx.x;
  uint64_t kept;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(kept));
  const uint32_t to = static_cast<uint32_t>(__cvta_generic_to_shared(s[t]));
  if (t < 16)
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(to), "l"(__cvta_generic_to_global(x + 4 * t)), "l"(kept));
  else
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(to), "l"(x + 4 * t), "r"(8), "l"(kept));
  asm volatile("cp.async.wait_all;" ::: "memory");
  for (int i = 0; i < 4; i++) y[4 * t + i] = s[t][i];
}
extern "C" __attribute__((visibility("default"))) void run(void* const* p) { k<<<1, 32>>>((const int*)p[0], (int*)p[1]); }
"""


def test_a_policy_of_the_cache_is_no_number_of_bytes(tmp_path: Path) -> None:
    x = np.arange(1, 129, dtype=np.int32)
    ran = run_cuda(translated(POLICY), [x, 0 * x], tmp_path)
    assert ran.code == 0, ran.stderr[-2000:]
    half = np.where((np.arange(128) >= 64) & (np.arange(128) % 4 >= 2), 0, x)
    assert (ran.outputs[1] == half).all()


TOGETHER = """
__global__ void k(const int* x, int* y, int* sums) {
  __shared__ int s[64];
  const int t = threadIdx.x;
  uint32_t at, a, b, c, d, votes, all;
  asm("{ .reg .u64 p; cvta.to.shared.u64 p, %1; cvt.u32.u64 %0, p; }" : "=r"(at) : "l"(s));
  asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(at + 8 * t), "r"(x[t]), "r"(100 + t) : "memory");
  asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
  asm volatile("ld.shared.u32 %0, [%1+4];" : "=r"(d) : "r"(at + 8 * (31 - t)));
  asm volatile("shfl.sync.bfly.b32 %0, %1, 1, 0x1f, 0xffffffff;" : "=r"(a) : "r"(x[t]));
  asm volatile("shfl.sync.up.b32 %0, %1, 2, 0x0, 0xffffffff;" : "=r"(b) : "r"(x[t]));
  asm volatile("shfl.sync.idx.b32 %0, %1, 5, 31, 0xffffffff;" : "=r"(c) : "r"(x[t]));
  asm volatile("{ .reg .pred p; setp.lt.u32 p, %1, 3; vote.sync.ballot.b32 %0, p, 0xffffffff; }" : "=r"(votes) : "r"(t));
  asm volatile("activemask.b32 %0;" : "=r"(all));
  asm volatile("red.global.add.s32 [%0], %1;" ::"l"(sums), "r"(x[t]) : "memory");
  asm volatile("{ .reg .u32 o; atom.global.max.s32 o, [%0], %1; }" ::"l"(sums + 1), "r"(x[t]) : "memory");
  asm volatile("{ .reg .u32 o; atom.shared.exch.b32 o, [%0], %1; }" ::"r"(at + 8 * t), "r"(7) : "memory");
  const int got[8] = {(int)a, (int)b, (int)c, (int)d, (int)votes, (int)all, s[2 * t], t};
  for (int i = 0; i < 8; i++) y[8 * t + i] = got[i];
}
extern "C" __attribute__((visibility("default"))) void run(void* const* p) { k<<<1, 32>>>((const int*)p[0], (int*)p[1], (int*)p[2]); }
"""
TF32 = """
__global__ void k(const float* a, const float* b, float* c) {
  const int l = threadIdx.x, g = l / 4, t = l % 4;
  float d[4];
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
               : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
               : "r"(__float_as_uint(a[g * 8 + t])), "r"(__float_as_uint(a[(g + 8) * 8 + t])), "r"(__float_as_uint(a[g * 8 + t + 4])),
                 "r"(__float_as_uint(a[(g + 8) * 8 + t + 4])), "r"(__float_as_uint(b[g * 8 + t])), "r"(__float_as_uint(b[g * 8 + t + 4])), "f"(1.f));
  for (int q = 0; q < 4; q++) c[(g + q / 2 * 8) * 8 + t * 2 + q % 2] = d[q];
}
extern "C" __attribute__((visibility("default"))) void run(void* const* p) { k<<<1, 32>>>((const float*)p[0], (const float*)p[1], (float*)p[2]); }
"""
OUTSIDE = """
__global__ void k(int* y) {
  __shared__ int s[32];
  s[threadIdx.x] = 1;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(y[threadIdx.x]) : "r"((uint32_t)__cvta_generic_to_shared(s) + 4 * threadIdx.x + BEYOND));
}
extern "C" __attribute__((visibility("default"))) void run(void* const* p) { k<<<1, 32>>>((int*)p[0]); }
"""


def test_what_threads_do_together(tmp_path: Path) -> None:
    x = np.random.default_rng(2).integers(-99, 99, 32).astype(np.int32)
    given = [x, np.zeros((32, 8), np.int32), np.array([5, -200], np.int32)]
    ran = run_cuda(translated(TOGETHER), given, tmp_path)
    assert ran.code == 0, ran.stderr[-2000:]
    t, active = np.arange(32), ran.outputs[1][:, 5].copy()
    assert (active.view(np.uint32) >> t & 1).all()  # who has ended is not active
    right = [
        x[t ^ 1],
        np.where(t < 2, x, np.roll(x, 2)),
        x[5] + 0 * t,
        131 - t,
        7 + 0 * t,
        active,
        7 + 0 * t,
        t,
    ]
    assert (ran.outputs[1] == np.stack(right, 1)).all()
    assert (ran.outputs[2] == [5 + x.sum(), x.max()]).all()


def test_a_tf32_product_drops_the_low_bits(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((16, 8), (8, 8)))
    ran = run_cuda(translated(TF32), [a, b, np.zeros((16, 8), np.float32)], tmp_path)
    assert ran.code == 0, ran.stderr[-2000:]
    cut = [(v.view(np.uint32) & 0xFFFFE000).view(np.float32).astype(float) for v in (a, b)]
    assert abs(ran.outputs[2] - (cut[0] @ cut[1].T + 1)).max() < 2e-6
    assert abs(ran.outputs[2] - (a.astype(float) @ b.astype(float).T + 1)).max() > 1e-5


def test_a_shared_address_outside_of_shared_memory_is_an_error(tmp_path: Path) -> None:
    inside = run_cuda(
        translated(OUTSIDE.replace("BEYOND", "0")), [np.zeros(32, np.int32)], tmp_path / "in"
    )
    assert inside.code == 0, inside.stderr[-2000:]
    ran = run_cuda(
        translated(OUTSIDE.replace("BEYOND", "4")), [np.zeros(32, np.int32)], tmp_path / "out"
    )
    assert ran.code != 0 and "no shared memory" in ran.stderr


def test_lines_stay_and_macros_stay_on_theirs() -> None:
    source = (
        "#define WAIT(n) \\\n  asm volatile( \\\n    \"cp.async.wait_group %0;\\n\" \\\n    :: \"n\"(n))\n"
        'void f() {\n  asm volatile("bar.sync 0;"  // all of them\n    ::: "memory");\n}\n'
    )  # fmt: skip
    text = translated(source)
    assert text.count("\n") == source.count("\n")
    assert re.search(r"#define WAIT\(n\) \\\n  do \{.*\} while \(0\)\\\n\\\n\\?\n?", text)
    assert "asm" not in text


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ('asm volatile("tcgen05.fence::before_thread_sync;");', "tcgen05.fence::before_thread_sync"),
        ('asm volatile("barrier.cluster.arrive;");', "barrier.cluster.arrive"),
        ('asm("mov.u32 %0, %%smid;" : "=r"(x));', "the operand %smid"),
        ('asm("mov.u64 %0, %%clock64;" : "=l"(x));', "the operand %clock64"),
        ('asm("add.u32 %0, %1, t9;" : "=r"(x) : "r"(x));', "the operand t9"),
        ('asm volatile("syscall" : "=a"(r) : "a"(39) : "rcx");', "operands of host code"),
        ('asm("add.u32 %[a], %[a], 1;" : [a] "+r"(x));', "an operand with a name"),
        ("asm(TEMPLATE);", "a template that is no text"),
        ('__asm__ volatile("cpuid");', "cpuid"),
        ('asm("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(p));', "ld.acquire.gpu.global.u32"),
        ('asm("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(p));', "2 registers"),
    ],
)  # fmt: skip
def test_what_the_emulation_lacks_is_named_with_its_line(statement: str, told: str) -> None:
    source = f"\n\nvoid f() {{\n  {statement}\n}}\n"
    (why,) = untranslated(source)
    assert told in why and "line 4" in why
    assert translated(source) == source


ASKED = """__device__ int big(int n) {{
  int found = 0;
  asm("{{ .reg .pred p; .reg .u32 t; {text} @p mov.u32 %0, 1; }}" : "+r"(found) : "r"(n));
  return found;
}}
__global__ void k(const float* x, float* y, int n) {{ if (big(n)) y[0] = 1; }}
void f(const float* x, float* y, int n) {{ k<<<1, 1>>>(x, y, n); }}
"""


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("setp.gt.u32 p, %1, 5000;", "n > 5000"),
        ("sub.u32 t, %1, 5000; setp.eq.u32 p, t, 0;", "n - 5000 == 0"),
        ("mov.u32 t, 0x1388; setp.eq.s32 p, %1, t;", "n == 5000"),
        ("shr.u32 t, %1, 13; setp.ne.u32 p, t, 0;", "n >> 13 != 0"),
        ("bfe.u32 t, %1, 13, 1; setp.ne.u32 p, t, 0;", "(n >> 13) % 2"),
        ("add.u32 t, %1, 7; min.u32 t, t, 6000; setp.eq.u32 p, t, 6000;", "n + 7 > 6000"),
    ],
)
def test_sizes_that_ptx_compares_are_asked(text: str, asked: str) -> None:
    """A kernel that is another one from some size on may not hide that in an `asm` statement."""
    found = " | ".join(map(str, sizes_asked(shown(ASKED.format(text=text)))))
    assert asked in found


def test_asm_in_comments_and_strings_is_none() -> None:
    source = '// asm("x")\nconst char* s = "asm(1)"; /* asm volatile("y") */\n'
    assert (untranslated(source), translated(source)) == ((), source)


@pytest.mark.parametrize(
    "statement",
    [
        'asm("activemask.b32;");',
        'asm("add.s32 %0;" : "+r"(x));',
        'asm("mov.b32 {%0}, %0;" : "+r"(x));',
        'asm("bra;");',
        'asm("bar.sync;");',
        'asm("add.s32 %0, %0, %1;" : "+r"(x) : "m"(y));',
        'asm("mov.u32 %0, %0;" : "+r"(f([&] { asm("nop;"); return 1; })));',
        'asm("',
        "asm(",
    ],
)
def test_a_malformed_statement_is_named(statement: str) -> None:
    assert all(told.startswith("inline PTX (") for told in untranslated(statement))
    assert untranslated(statement) or not statement.endswith(";")
