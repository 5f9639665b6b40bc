// Matrix products of warpgroups (wgmma, sm_90a): C[m, n] += A[m, k] B[k, n], A and B panels in shared memory, C a
// float32 fragment on Grid<warps, 1, 8, 2>. Sources: PTX ISA, "Asynchronous warpgroup level matrix instructions".
#pragma once
#include "st_bulk.cuh"

namespace st {

/// Describes an operand to wgmma: its address and two strides in units of 16 bytes, and the 128-byte swizzle. `lead` steps over
/// panels when rows run along K; `stride` over groups of 8 rows of a panel.
ST_DEVICE unsigned long long descriptor(const void* p, int lead, int stride) {
#ifdef SEPTRAN_EMULATE
  const unsigned long long address = cuemu::shared_offset(p);
#else
  const unsigned long long address = shared_address(p);
#endif
  return (address & 0x3FFFF) >> 4 | static_cast<unsigned long long>(lead >> 4) << 16 |
         static_cast<unsigned long long>(stride >> 4) << 32 | 1ull << 62;
}

ST_DEVICE void wgmma_fence() {
#ifdef SEPTRAN_EMULATE
  cuemu::wgmma_fence();
#else
  asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
#endif
}
ST_DEVICE void wgmma_commit() {
#ifdef SEPTRAN_EMULATE
  cuemu::wgmma_commit();
#else
  asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
#endif
}
template <int OPEN> ST_DEVICE void wgmma_wait() {
#ifdef SEPTRAN_EMULATE
  cuemu::wgmma_wait(OPEN);
#else
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(OPEN) : "memory");
#endif
}

/// d[64, N] += a[64, 16] b[16, N]; v: this thread's N / 2 accumulators, rows first. MN_A, MN_B: the operand's rows run along K.
/// a: a tile's descriptor, or this thread's elements in pairs: (row, k), (row + 8, k), (row, k + 8), (row + 8, k + 8).
template <class T, int N> struct Wgmma;
#ifdef SEPTRAN_EMULATE
template <class T, int N> struct Wgmma {
  template <int MN_A, int MN_B> static void run(float* v, unsigned long long a, unsigned long long b) {
    cuemu::wgmma(v, a, b, N, MN_A, MN_B, Same<T, __half>::value ? cuemu::product_half : cuemu::product_bfloat);
  }
  template <int MN_B> static void run(float* v, const uint (&a)[4], unsigned long long b) {
    cuemu::wgmma_held(v, a, b, N, MN_B, Same<T, __half>::value ? cuemu::product_half : cuemu::product_bfloat);
  }
};
#else
#define ST_TEN(t) "%" t "0, %" t "1, %" t "2, %" t "3, %" t "4, %" t "5, %" t "6, %" t "7, %" t "8, %" t "9"
#define ST_LIST_8 "%0, %1, %2, %3"
#define ST_LIST_16 "%0, %1, %2, %3, %4, %5, %6, %7"
#define ST_LIST_32 ST_TEN("") ", %10, %11, %12, %13, %14, %15"
#define ST_LIST_64 ST_TEN("") ", " ST_TEN("1") ", " ST_TEN("2") ", %30, %31"
#define ST_LIST_128 \
  ST_TEN("") ", " ST_TEN("1") ", " ST_TEN("2") ", " ST_TEN("3") ", " ST_TEN("4") ", " ST_TEN("5") ", %60, %61, %62, %63"
#define ST_LIST_256                                                                                                  \
  ST_TEN("") ", " ST_TEN("1") ", " ST_TEN("2") ", " ST_TEN("3") ", " ST_TEN("4") ", " ST_TEN("5") ", " ST_TEN("6")   \
  ", " ST_TEN("7") ", " ST_TEN("8") ", " ST_TEN("9") ", " ST_TEN("10") ", " ST_TEN("11")                             \
  ", %120, %121, %122, %123, %124, %125, %126, %127"
// Accumulator q of the instruction is row (q / 2) % 2, column q / 4 * 2 + q % 2 of the fragment.
#define ST_ACC(q) "+f"(v[((q) >> 1 & 1) * C + ((q) >> 2) * 2 + ((q) & 1)])
#define ST_ACC_8(q) ST_ACC(q), ST_ACC(q + 1), ST_ACC(q + 2), ST_ACC(q + 3)
#define ST_ACC_16(q) ST_ACC_8(q), ST_ACC_8(q + 4)
#define ST_ACC_32(q) ST_ACC_16(q), ST_ACC_16(q + 8)
#define ST_ACC_64(q) ST_ACC_32(q), ST_ACC_32(q + 16)
#define ST_ACC_128(q) ST_ACC_64(q), ST_ACC_64(q + 32)
#define ST_ACC_256(q) ST_ACC_128(q), ST_ACC_128(q + 64)
// A..E: the operands' numbers after the accumulators.
#define ST_WGMMA(T, NAME, N, A, B, MA, MB, E)                                                                \
  template <> struct Wgmma<T, N> {                                                                            \
    template <int MN_A, int MN_B> static ST_DEVICE void run(float* v, unsigned long long a, unsigned long long b) { \
      constexpr int C = N / 4;                                                                                \
      asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, 1, 1;\n"                                                 \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." NAME "." NAME " {" ST_LIST_##N "}, "     \
                   "%" A ", %" B ", p, 1, 1, %" MA ", %" MB ";\n}\n"                                          \
                   : ST_ACC_##N(0) : "l"(a), "l"(b), "n"(MN_A), "n"(MN_B) : "memory");                        \
    }                                                                                                         \
    template <int MN_B> static ST_DEVICE void run(float* v, const uint (&a)[4], unsigned long long b) {       \
      constexpr int C = N / 4;                                                                                \
      asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, 1, 1;\n"                                                 \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." NAME "." NAME " {" ST_LIST_##N "}, "     \
                   "{%" A ", %" B ", %" MA ", %" MB "}, %" E ", p, 1, 1, %" ST_NEXT_##N ";\n}\n"             \
                   : ST_ACC_##N(0)                                                                            \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(MN_B) : "memory");               \
    }                                                                                                         \
  };
#define ST_NEXT_8 "9"
#define ST_NEXT_16 "13"
#define ST_NEXT_32 "21"
#define ST_NEXT_64 "37"
#define ST_NEXT_128 "69"
#define ST_NEXT_256 "133"
#define ST_WGMMA_SIZES(T, NAME)                       \
  ST_WGMMA(T, NAME, 8, "4", "5", "6", "7", "8")            \
  ST_WGMMA(T, NAME, 16, "8", "9", "10", "11", "12")         \
  ST_WGMMA(T, NAME, 32, "16", "17", "18", "19", "20")       \
  ST_WGMMA(T, NAME, 64, "32", "33", "34", "35", "36")       \
  ST_WGMMA(T, NAME, 128, "64", "65", "66", "67", "68")      \
  ST_WGMMA(T, NAME, 256, "128", "129", "130", "131", "132")
ST_WGMMA_SIZES(__half, "f16")
ST_WGMMA_SIZES(__nv_bfloat16, "bf16")
#endif

/// Keeps the compiler from moving uses of the accumulators across the fence and the wait.
template <class F> ST_DEVICE void pin(F& C) {
#ifndef SEPTRAN_EMULATE
#pragma unroll
  for (int e = 0; e < F::R * F::C; e++) asm volatile("" : "+f"(C.v[e])::"memory");
#endif
}

/// C += A B on the tensor cores of warpgroups, 16-bit operands, float32 sums; C is complete on return unless it flies. TRANS_A: A holds
/// [k, m]; TRANS_B: B holds [n, k]. Each warpgroup (128 threads) owns 64 rows.
template <bool TRANS_A, bool TRANS_B, class T, int AR, int AC, int BR, int BC, class G, int... D>
ST_DEVICE void gemm_wgmma(Frag<float, G, D...>& C, const Panels<T, AR, AC>& A, const Panels<T, BR, BC>& B) {
  using F = Frag<float, G, D...>;
  constexpr int M = TRANS_A ? AC : AR, N = TRANS_B ? BR : BC, K = TRANS_A ? AR : AC;
  static_assert(G::wn == 1 && G::lm == 8 && G::vn == 2 && F::R == 2 && M == F::M && N == F::N && M == threads / 2,
                "a warpgroup holds 64 rows, 16 a warp");
  static_assert(K == (TRANS_B ? BC : BR) && K % 16 == 0, "wgmma takes 16 of K at a time");
  const int group = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0);
  if (!C.flying) pin(C);
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < K; k += 16) {
    // K along a row: 32 bytes further in the row, the next panel after 64. K along the rows: 16 rows further.
    const T* a = TRANS_A ? A.p + group * A.panel + k * 64 : A.p + k / 64 * A.panel + group * 64 * 64 + k % 64;
    const T* b = TRANS_B ? B.p + k / 64 * B.panel + k % 64 : B.p + k * 64;
    Wgmma<plain<T>, N>::template run<TRANS_A, !TRANS_B>(C.v, descriptor(a, TRANS_A ? A.panel * 2 : 16, 1024),
                                                        descriptor(b, TRANS_B ? 16 : B.panel * 2, 1024));
  }
  wgmma_commit();
  if (C.flying) return;
  wgmma_wait<0>();
  pin(C);
}

/// The same with A in a fragment: the accumulators of one product are the operand of the next.
template <bool TRANS_A, bool TRANS_B, class T, class U, int BR, int BC, class G, int... D, int... E>
ST_DEVICE void gemm_wgmma(Frag<float, G, D...>& C, const Frag<T, G, E...>& A, const Panels<U, BR, BC>& B) {
  using F = Frag<float, G, D...>;
  using X = Frag<T, G, E...>;
  constexpr int N = TRANS_B ? BR : BC, K = TRANS_B ? BC : BR;
  static_assert(!TRANS_A && Same<T, plain<U>>::value, "a fragment is not turned on the way");
  static_assert(G::wn == 1 && G::lm == 8 && G::vn == 2 && F::R == 2 && X::R == 2 && N == F::N && F::M == threads / 2,
                "a warpgroup holds 64 rows, 16 a warp");
  static_assert(K == X::N && K % 16 == 0, "wgmma takes 16 of K at a time");
  uint a[K / 16][4];
#pragma unroll
  for (int k = 0; k < K / 16; k++)
#pragma unroll
    for (int q = 0; q < 4; q++) {
      const int e = (q & 1) * X::C + k * 4 + (q >> 1) * 2;
      a[k][q] = pack(A.v[e], A.v[e + 1]);
    }
  pin(C);
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < K / 16; k++) {
    const U* b = TRANS_B ? B.p + k / 4 * B.panel + k % 4 * 16 : B.p + k * (16 * 64);
    Wgmma<T, N>::template run<!TRANS_B>(C.v, a[k], descriptor(b, TRANS_B ? 16 : B.panel * 2, 1024));
  }
  wgmma_commit();
  wgmma_wait<0>();
  pin(C);
}

/// All but the last product of each thread's warpgroup have ended: nothing reads their operands any more.
ST_DEVICE void all_but_one_landed() { wgmma_wait<1>(); }
/// Products that add to C may end later than they are called: until `landed`, nothing else touches C.
template <class F> ST_DEVICE void fly(F& C) {
  C.flying = true;
  pin(C);
}
template <class F> ST_DEVICE void landed(F& C) {
  wgmma_wait<0>();
  pin(C);
  C.flying = false;
}

}  // namespace st
