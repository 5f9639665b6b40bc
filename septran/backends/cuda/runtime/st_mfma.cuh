// Products on matrix cores of wavefronts: MFMA 16 x 16 x 16, C a fragment on Grid<.., 16, 4>. Sources: AMD Instinct MI300
// (CDNA3) ISA, "Matrix arithmetic instructions"; clang's __builtin_amdgcn_mfma_*.
// The instruction gets B as its first operand and A as its second, so that a lane's four results are neighbours in a row of C,
// which is also how an operand lies: the result of one product is an operand of the next.
#pragma once
#include "st_gemm.cuh"

namespace st {

/// Four neighbours along K of one row of A or one column of B.
template <class T> using Four = Pack<T, 4>;

/// d[4] += the products of this lane's row and columns; every lane of the wavefront takes part.
#ifdef SEPTRAN_EMULATE
template <class T> ST_DEVICE void mfma(float* d, const Four<T>& a, const Four<T>& b) {
  const float x[4] = {to(a.v[0]), to(a.v[1]), to(a.v[2]), to(a.v[3])}, y[4] = {to(b.v[0]), to(b.v[1]), to(b.v[2]), to(b.v[3])};
  cuemu::mfma_16x16x16(d, y, x, "v_mfma_f32_16x16x16");
}
#else
using float_4 = __attribute__((__vector_size__(16))) float;
using short_4 = __attribute__((__vector_size__(8))) short;
using half_4 = __attribute__((__vector_size__(8))) _Float16;
template <class V, class T> ST_DEVICE V raw(const Four<T>& x) {
  static_assert(sizeof(V) == sizeof x, "four elements");
  V v;
  __builtin_memcpy(&v, &x, sizeof v);
  return v;
}
ST_DEVICE float_4 mfma_of(const Four<__half>& b, const Four<__half>& a, float_4 c) {
  return __builtin_amdgcn_mfma_f32_16x16x16f16(raw<half_4>(b), raw<half_4>(a), c, 0, 0, 0);
}
ST_DEVICE float_4 mfma_of(const Four<__nv_bfloat16>& b, const Four<__nv_bfloat16>& a, float_4 c) {
  return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(raw<short_4>(b), raw<short_4>(a), c, 0, 0, 0);
}
/// float32 as it is, four of K at a time: the lanes' k-th elements are one step.
ST_DEVICE float_4 mfma_of(const Four<float>& b, const Four<float>& a, float_4 c) {
#pragma unroll
  for (int k = 0; k < 4; k++) c = __builtin_amdgcn_mfma_f32_16x16x4f32(b.v[k], a.v[k], c, 0, 0, 0);
  return c;
}
template <class T> ST_DEVICE void mfma(float* d, const Four<T>& a, const Four<T>& b) {
  const float_4 c = mfma_of(b, a, float_4{d[0], d[1], d[2], d[3]});
#pragma unroll
  for (int r = 0; r < 4; r++) d[r] = c[r];
}
#endif

/// Elements k .. k + 3 of row `row` of A; 0 at and beyond K. fast: the rows are contiguous and aligned.
template <class P, class T>
ST_DEVICE Four<plain<T>> load_a(const View<T, P::tile::rank>& A, bool fast, int row, int k, int K) {
  Four<plain<T>> x;
  idx o = 0;
  if (fast && k + 4 <= K && row_offset<typename P::tile>(A, row, o)) return *reinterpret_cast<const Four<plain<T>>*>(A.p + o + k);
#pragma unroll
  for (int q = 0; q < 4; q++) x.v[q] = k + q < K ? get_a<P>(A, row, k + q) : from<plain<T>>(0.f);
  return x;
}
/// Elements k .. k + 3 of column `col` of B; 0 at and beyond K.
template <class P, class T> ST_DEVICE Four<plain<T>> load_b(const View<T, 2>& B, bool fast, int k, int col, int K) {
  Four<plain<T>> x;
  if (fast && k + 4 <= K && col < B.n[0]) return *reinterpret_cast<const Four<plain<T>>*>(B.p + col * B.s[0] + k);
#pragma unroll
  for (int q = 0; q < 4; q++) x.v[q] = k + q < K ? get_b<P>(B, k + q, col) : from<plain<T>>(0.f);
  return x;
}

/// One k step of 16: acc += a x B(k.., all columns of the fragment).
template <class P, class F, class S, class T>
ST_DEVICE void mfma_step(F& C, const Four<S> (&a)[F::R], const View<T, 2>& B, bool fast, int k, int K) {
  const int l = F::grid::lane(), first = F::grid::warp_col() * (F::C * F::grid::ln);
#pragma unroll
  for (int j = 0; j < F::C / 4; j++) {
    const Four<S> b = load_b<P>(B, fast, k + l / 16 * 4, first + j * 16 + l % 16, K);
#pragma unroll
    for (int i = 0; i < F::R; i++) mfma(&C.v[i * F::C + 4 * j], a[i], b);
  }
}

/// Matrix cores, operands of one type, float32 accumulators: C += A B.
template <class P, class TA, class TB, class G, int... D>
ST_DEVICE void gemm_mfma(Frag<float, G, D...>& C, const View<TA, P::tile::rank>& A, const View<TB, 2>& B) {
  using F = Frag<float, G, D...>;
  using T = plain<TA>;
  static_assert(G::lm == 16 && G::vn == 4 && F::M > 1 && F::N > 1, "MFMA needs the 16 x 4 lane grid");
  const int K = P::ta ? A.n[0] : A.n[P::tile::rank - 1], l = G::lane();
  const bool fast_a = !P::ta && A.aligned(sizeof(Four<T>)), fast_b = P::tb && B.aligned(sizeof(Four<T>));
#pragma unroll
  for (int k = 0; k < P::depth; k += 16) {
    if (k >= K) break;
    Four<T> a[F::R];
#pragma unroll
    for (int i = 0; i < F::R; i++) a[i] = load_a<P>(A, fast_a, G::warp_row() * (F::R * 16) + i * 16 + l % 16, k + l / 16 * 4, K);
    mfma_step<P, F, T>(C, a, B, fast_b, k, K);
  }
}

/// The same with A in a fragment: the accumulator layout of one product is the operand layout of the next.
template <class P, class T, class TB, class G, int... D, int... E>
ST_DEVICE void gemm_mfma(Frag<float, G, D...>& C, const Frag<T, G, E...>& A, const View<TB, 2>& B) {
  using F = Frag<float, G, D...>;
  using X = Frag<T, G, E...>;
  static_assert(G::wn == 1 && X::R == F::R, "a fragment operand needs whole rows in one wavefront");
  const int K = A.n[X::rank - 1], t = G::lane() / 16 * 4;
  const bool fast_b = P::tb && B.aligned(sizeof(Four<T>));
#pragma unroll
  for (int k = 0; k < P::depth; k += 16) {
    if (k >= K) break;
    Four<T> a[F::R];
#pragma unroll
    for (int i = 0; i < F::R; i++)
#pragma unroll
      for (int q = 0; q < 4; q++) {
        const int c = k / 4 + q;
        a[i].v[q] = c < X::C && k + t + q < K ? A.v[i * X::C + c] : from<T>(0.f);
      }
    mfma_step<P, F, T>(C, a, B, fast_b, k, K);
  }
}

}  // namespace st
