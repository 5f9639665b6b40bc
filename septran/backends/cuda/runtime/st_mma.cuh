// Products on tensor cores: mma.sync, C a fragment on Grid<.., 8, 2>.
#pragma once
#include "st_gemm.cuh"

namespace st {

template <class T> ST_DEVICE uint pack(T lo, T hi) {
  Pack<T, 2> p{{lo, hi}};
  return *reinterpret_cast<uint*>(&p);
}

/// Registers of one 16 x 16 block of A at (row, k). FAST: by ldmatrix.
template <class P, bool FAST, class T> ST_DEVICE void load_a(uint (&a)[4], const View<T, P::tile::rank>& A, int row, int k) {
  const int l = threadIdx.x & 31;
  if constexpr (FAST) {
    if constexpr (P::ta) {
      int i = k + (l >> 4) * 8 + (l & 7), j = row + (l >> 3 & 1) * 8;
      i = i < P::depth ? i : P::depth - 1;
      j = j < P::rows ? j : 0;
      ldmatrix4<true>(a, A.p + i * A.s[0] + j);
    } else {
      int i = row + (l & 15);
      idx o;
      row_offset<typename P::tile>(A, i < P::rows ? i : P::rows - 1, o);
      ldmatrix4<false>(a, A.p + o + k + (l >> 4) * 8);
    }
    return;
  }
#pragma unroll
  for (int q = 0; q < 4; q++) {
    const int i = row + l / 4 + (q & 1) * 8, j = k + l % 4 * 2 + (q >> 1) * 8;
    a[q] = pack(get_a<P>(A, i, j), get_a<P>(A, i, j + 1));
  }
}

/// Registers of one 16 x 16 block of B at (k, col): two 16 x 8 operands.
template <class P, bool FAST, int N, class T> ST_DEVICE void load_b(uint (&b)[4], const View<T, 2>& B, int k, int col) {
  const int l = threadIdx.x & 31;
  if constexpr (FAST) {
    if constexpr (P::tb) {
      int i = col + (l & 7) + (l >> 4) * 8;
      i = i < N ? i : N - 1;
      ldmatrix4<false>(b, B.p + i * B.s[0] + k + (l >> 3 & 1) * 8);
    } else {
      int i = k + (l & 15), j = col + (l >> 4) * 8;
      i = i < P::depth ? i : P::depth - 1;
      j = j < N ? j : 0;
      ldmatrix4<true>(b, B.p + i * B.s[0] + j);
    }
    return;
  }
#pragma unroll
  for (int q = 0; q < 4; q++) {
    const int j = col + l / 4 + (q >> 1) * 8, i = k + l % 4 * 2 + (q & 1) * 8;
    b[q] = pack(get_b<P>(B, i, j), get_b<P>(B, i + 1, j));
  }
}

/// Zero what lies at or beyond K in a register that holds elements k and k + 1.
ST_DEVICE uint mask_k(uint v, int k, int K) { return k + 1 < K ? v : k < K ? v & 0xffffu : 0u; }

/// One k step of 16: acc += a x B(k.., all columns of the fragment).
template <class P, bool FAST, class F, class T>
ST_DEVICE void mma_step(F& C, uint (&a)[F::R / 2][4], const View<T, 2>& B, int k, int K) {
  const int t = (threadIdx.x & 3) * 2, first = F::grid::warp_col() * (F::C * F::grid::ln);
#pragma unroll
  for (int j = 0; j < F::C / 2; j += 2) {
    uint b[4];
    load_b<P, FAST, F::N>(b, B, k, first + j * 8);
    if (k + 16 > K) {
#pragma unroll
      for (int q = 0; q < 4; q++) b[q] = mask_k(b[q], k + t + (q & 1) * 8, K);
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
      if (j + h >= F::C / 2) break;
      const uint pair[2] = {b[2 * h], b[2 * h + 1]};
#pragma unroll
      for (int i = 0; i < F::R / 2; i++) {
        float* lo = &C.v[2 * i * F::C + 2 * (j + h)];
        float* hi = lo + F::C;
        float d[4] = {lo[0], lo[1], hi[0], hi[1]};
        mma<plain<T>>(d, a[i], pair);
        lo[0] = d[0], lo[1] = d[1], hi[0] = d[2], hi[1] = d[3];
      }
    }
  }
}

/// C += A B. FAST_A, FAST_B: operands that ldmatrix can read.
template <class P, bool FAST_A, bool FAST_B, class TA, class TB, class G, int... D>
ST_DEVICE void gemm_mma_as(Frag<float, G, D...>& C, const View<TA, P::tile::rank>& A, const View<TB, 2>& B) {
  using F = Frag<float, G, D...>;
  const int K = P::ta ? A.n[0] : A.n[P::tile::rank - 1], t = (threadIdx.x & 3) * 2;
#pragma unroll
  for (int k = 0; k < P::depth; k += 16) {
    if (k >= K) break;
    uint a[F::R / 2][4];
#pragma unroll
    for (int i = 0; i < F::R / 2; i++) {
      load_a<P, FAST_A>(a[i], A, F::grid::warp_row() * (F::R * 8) + i * 16, k);
      if (k + 16 > K) {
#pragma unroll
        for (int q = 0; q < 4; q++) a[i][q] = mask_k(a[i][q], k + t + (q >> 1) * 8, K);
      }
    }
    mma_step<P, FAST_B>(C, a, B, k, K);
  }
}

/// Tensor cores, 16-bit operands, float32 accumulators: C += A B.
template <class P, class TA, class TB, class G, int... D>
ST_DEVICE void gemm_mma(Frag<float, G, D...>& C, const View<TA, P::tile::rank>& A, const View<TB, 2>& B) {
  using F = Frag<float, G, D...>;
  static_assert(G::lm == 8 && G::vn == 2 && F::R > 1 && F::C > 1, "mma.sync needs the 8 x 4 lane grid");
  // decided once: a branch in each step keeps the steps apart
  if ((!P::as || A.aligned(16)) && (!P::bs || B.aligned(16)))
    gemm_mma_as<P, P::as, P::bs>(C, A, B);
  else
    gemm_mma_as<P, false, false>(C, A, B);
}

/// The same with A in a fragment: the accumulator layout of one product is the operand layout of the next.
template <class P, bool FAST_B, class T, class TB, class G, int... D, int... E>
ST_DEVICE void gemm_mma_as(Frag<float, G, D...>& C, const Frag<T, G, E...>& A, const View<TB, 2>& B) {
  using F = Frag<float, G, D...>;
  using X = Frag<T, G, E...>;
  const int K = A.n[X::rank - 1], t = (threadIdx.x & 3) * 2;
#pragma unroll
  for (int k = 0; k < P::depth; k += 16) {
    if (k >= K) break;
    uint a[F::R / 2][4];
#pragma unroll
    for (int i = 0; i < F::R / 2; i++)
#pragma unroll
      for (int q = 0; q < 4; q++) {
        const int c = k / 4 + (q >> 1) * 2, r = 2 * i + (q & 1);
        a[i][q] = c < X::C ? mask_k(pack(A.v[r * X::C + c], A.v[r * X::C + c + 1]), k + t + (q >> 1) * 8, K) : 0u;
      }
    mma_step<P, FAST_B>(C, a, B, k, K);
  }
}

template <class P, class T, class TB, class G, int... D, int... E>
ST_DEVICE void gemm_mma(Frag<float, G, D...>& C, const Frag<T, G, E...>& A, const View<TB, 2>& B) {
  static_assert(G::wn == 1 && Frag<T, G, E...>::R == Frag<float, G, D...>::R, "a fragment operand needs whole rows in one warp");
  if (P::bs && B.aligned(16))
    gemm_mma_as<P, true>(C, A, B);
  else
    gemm_mma_as<P, false>(C, A, B);
}

/// Tensor cores on float32 operands rounded to tf32 (only where the mapping says math: tf32).
template <class P, class TA, class TB, class G, int... D>
ST_DEVICE void gemm_tf32(Frag<float, G, D...>& C, const View<TA, P::tile::rank>& A, const View<TB, 2>& B) {
  using F = Frag<float, G, D...>;
  static_assert(G::lm == 8 && G::vn == 2 && F::R > 1 && F::C > 1, "mma.sync needs the 8 x 4 lane grid");
  const int K = P::ta ? A.n[0] : A.n[P::tile::rank - 1], g = (threadIdx.x & 31) / 4, t = threadIdx.x & 3;
  const int row = G::warp_row() * (F::R * 8), col = G::warp_col() * (F::C * 4);
#pragma unroll
  for (int k = 0; k < P::depth; k += 8) {
    if (k >= K) break;
    uint a[F::R / 2][4];
#pragma unroll
    for (int i = 0; i < F::R / 2; i++)
#pragma unroll
      for (int q = 0; q < 4; q++) a[i][q] = to_tf32(get_a<P>(A, row + i * 16 + g + (q & 1) * 8, k + t + (q >> 1) * 4));
#pragma unroll
    for (int j = 0; j < F::C / 2; j++) {
      const uint b[2] = {to_tf32(get_b<P>(B, k + t, col + j * 8 + g)), to_tf32(get_b<P>(B, k + t + 4, col + j * 8 + g))};
#pragma unroll
      for (int i = 0; i < F::R / 2; i++) {
        float* lo = &C.v[2 * i * F::C + 2 * j];
        float* hi = lo + F::C;
        float d[4] = {lo[0], lo[1], hi[0], hi[1]};
        mma<float>(d, a[i], b);
        lo[0] = d[0], lo[1] = d[1], hi[0] = d[2], hi[1] = d[3];
      }
    }
  }
}

}  // namespace st
