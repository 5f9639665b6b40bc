// Matrix products of a block: C[m, n] += A[m, k] B[k, n]. C is a fragment (or memory), A and B lie in
// shared or global memory, A may be a fragment. Leading dimensions of A and C are flattened to rows.
#pragma once
#include "st_copy.cuh"

namespace st {

/// What a product is told at compile time. TILE: static bounds of A. *_SHARED: staged in shared memory.
template <class TILE, bool TRANS_A, bool TRANS_B, bool A_SHARED, bool B_SHARED> struct Product {
  using tile = TILE;
  static constexpr bool ta = TRANS_A, tb = TRANS_B, as = A_SHARED, bs = B_SHARED;
  static constexpr int rows = TRANS_A ? TILE::last() : TILE::lead();
  static constexpr int depth = TRANS_A ? TILE::lead() : TILE::last();
};

/// The last two dimensions of a tensor whose leading dimensions have extent 1.
template <class T, int R> ST_DEVICE View<T, 2> matrix(const View<T, R>& b) {
  return View<T, 2>{b.p, {b.n[R - 2], b.n[R - 1]}, {b.s[R - 2], b.s[R - 1]}};
}

/// Element offset of row `row` (flattened over the static tile); false when it lies outside the extents.
template <class TILE, class T> ST_DEVICE bool row_offset(const View<T, TILE::rank>& a, int row, idx& offset) {
  bool in = true;
  offset = 0;
#pragma unroll
  for (int d = TILE::rank - 2; d >= 0; d--) {
    const int i = d ? row % TILE::size(d) : row;
    row = d ? row / TILE::size(d) : 0;
    in = in && i < a.n[d];
    offset += i * a.s[d];
  }
  return in;
}

/// A(row, k), 0 outside the extents.
template <class P, class T> ST_DEVICE plain<T> get_a(const View<T, P::tile::rank>& a, int row, int k) {
  idx o;
  if constexpr (P::ta) {
    if (k >= a.n[0] || row >= a.n[1]) return from<plain<T>>(0.f);
    return a.p[k * a.s[0] + row * a.s[1]];
  } else {
    if (!row_offset<typename P::tile>(a, row, o) || k >= a.n[P::tile::rank - 1]) return from<plain<T>>(0.f);
    return a.p[o + k * a.s[P::tile::rank - 1]];
  }
}
/// B(k, col), 0 outside the extents.
template <class P, class T> ST_DEVICE plain<T> get_b(const View<T, 2>& b, int k, int col) {
  const int i = P::tb ? col : k, j = P::tb ? k : col;
  if (i >= b.n[0] || j >= b.n[1]) return from<plain<T>>(0.f);
  return b.p[i * b.s[0] + j * b.s[1]];
}

template <class T> ST_DEVICE uint pack(T lo, T hi) {
  Pack<T, 2> p{{lo, hi}};
  return *reinterpret_cast<uint*>(&p);
}

/// Registers of one 16 x 16 block of A at (row, k).
template <class P, class T> ST_DEVICE void load_a(uint (&a)[4], const View<T, P::tile::rank>& A, bool fast, int row, int k) {
  const int l = threadIdx.x & 31;
  if (fast) {
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
template <class P, int N, class T> ST_DEVICE void load_b(uint (&b)[4], const View<T, 2>& B, bool fast, int k, int col) {
  const int l = threadIdx.x & 31;
  if (fast) {
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
template <class P, class F, class T>
ST_DEVICE void mma_step(F& C, uint (&a)[F::R / 2][4], const View<T, 2>& B, bool fast, int k, int K) {
  const int t = (threadIdx.x & 3) * 2, first = F::grid::warp_col() * (F::C * F::grid::ln);
#pragma unroll
  for (int j = 0; j < F::C / 2; j += 2) {
    uint b[4];
    load_b<P, F::N>(b, B, fast, k, first + j * 8);
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

/// Tensor cores, 16-bit operands, float32 accumulators: C += A B.
template <class P, class TA, class TB, class G, int... D>
ST_DEVICE void gemm_mma(Frag<float, G, D...>& C, const View<TA, P::tile::rank>& A, const View<TB, 2>& B) {
  using F = Frag<float, G, D...>;
  static_assert(G::lm == 8 && G::vn == 2 && F::R > 1 && F::C > 1, "mma.sync needs the 8 x 4 lane grid");
  const int K = P::ta ? A.n[0] : A.n[P::tile::rank - 1], t = (threadIdx.x & 3) * 2;
  const bool fast_a = P::as && A.aligned(16), fast_b = P::bs && B.aligned(16);
#pragma unroll
  for (int k = 0; k < P::depth; k += 16) {
    if (k >= K) break;
    uint a[F::R / 2][4];
#pragma unroll
    for (int i = 0; i < F::R / 2; i++) {
      load_a<P>(a[i], A, fast_a, F::grid::warp_row() * (F::R * 8) + i * 16, k);
      if (k + 16 > K) {
#pragma unroll
        for (int q = 0; q < 4; q++) a[i][q] = mask_k(a[i][q], k + t + (q >> 1) * 8, K);
      }
    }
    mma_step<P>(C, a, B, fast_b, k, K);
  }
}

/// The same with A in a fragment: the accumulator layout of one product is the operand layout of the next.
template <class P, class T, class TB, class G, int... D, int... E>
ST_DEVICE void gemm_mma(Frag<float, G, D...>& C, const Frag<T, G, E...>& A, const View<TB, 2>& B) {
  using F = Frag<float, G, D...>;
  using X = Frag<T, G, E...>;
  static_assert(G::wn == 1 && X::R == F::R, "a fragment operand needs whole rows in one warp");
  const int K = A.n[X::rank - 1], t = (threadIdx.x & 3) * 2;
  const bool fast_b = P::bs && B.aligned(16);
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
    mma_step<P>(C, a, B, fast_b, k, K);
  }
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

/// One k of the register-blocked outer product.
template <class P, class F, class TA, class TB>
ST_DEVICE void outer(F& C, const decltype(to(plain<TA>())) (&a)[F::R], const View<TB, 2>& B, int k) {
#pragma unroll
  for (int c = 0; c < F::C; c++) {
    int col = F::col(c);
    auto b = to(plain<TB>());
    if constexpr (P::bs) {
      col = col < F::N ? col : F::N - 1;
      b = to(P::tb ? B.p[col * B.s[0] + k * B.s[1]] : B.p[k * B.s[0] + col * B.s[1]]);
    } else {
      b = to(get_b<P>(B, k, col));
    }
#pragma unroll
    for (int r = 0; r < F::R; r++) C.v[r * F::C + c] += a[r] * b;
  }
}

/// Fused multiply-adds in the accumulator's type (true float32): C += A B for any element types.
template <class P, class T, class TA, class TB, class G, int... D>
ST_DEVICE void gemm_simt(Frag<T, G, D...>& C, const View<TA, P::tile::rank>& A, const View<TB, 2>& B) {
  using F = Frag<T, G, D...>;
  using V = decltype(to(plain<TA>()));
  const int K = P::ta ? A.n[0] : A.n[P::tile::rank - 1];
  int k = 0;
  if constexpr (P::as && !P::ta && sizeof(TA) == 4) {
    if (A.aligned(16)) {
      idx o[F::R];
#pragma unroll
      for (int r = 0; r < F::R; r++) row_offset<typename P::tile>(A, F::row(r) < P::rows ? F::row(r) : P::rows - 1, o[r]);
      for (; k + 4 <= K; k += 4) {
        Pack<plain<TA>, 4> a[F::R];
#pragma unroll
        for (int r = 0; r < F::R; r++) a[r] = *reinterpret_cast<const Pack<plain<TA>, 4>*>(A.p + o[r] + k);
#pragma unroll
        for (int q = 0; q < 4; q++) {
          V x[F::R];
#pragma unroll
          for (int r = 0; r < F::R; r++) x[r] = to(a[r].v[q]);
          outer<P, F, TA>(C, x, B, k + q);
        }
      }
    }
  }
  for (; k < K; k++) {
    V x[F::R];
#pragma unroll
    for (int r = 0; r < F::R; r++) {
      if constexpr (P::as) {
        idx o = 0;
        const int row = F::row(r) < P::rows ? F::row(r) : P::rows - 1;
        if constexpr (P::ta) {
          o = k * A.s[0] + row * A.s[1];
        } else {
          row_offset<typename P::tile>(A, row, o);
          o += k * A.s[P::tile::rank - 1];
        }
        x[r] = to(A.p[o]);
      } else {
        x[r] = to(get_a<P>(A, F::row(r), k));
      }
    }
    outer<P, F, TA>(C, x, B, k);
  }
}

/// C in memory: one thread per element (correct for every shape, not fast). TILE_C: static bounds of C.
template <class P, class TILE_C, bool ACC, class T, class TA, class TB>
ST_DEVICE void gemm_memory(const View<T, TILE_C::rank>& C, const View<TA, P::tile::rank>& A, const View<TB, 2>& B) {
  const int K = P::ta ? A.n[0] : A.n[P::tile::rank - 1];
  constexpr int N = TILE_C::last(), TOTAL = TILE_C::lead() * N;
  for (int e = threadIdx.x; e < TOTAL; e += threads) {
    idx o;
    const int row = e / N, col = e % N;
    if (!row_offset<TILE_C>(C, row, o) || col >= C.n[TILE_C::rank - 1]) continue;
    T& c = C.p[o + col * C.s[TILE_C::rank - 1]];
    auto sum = ACC ? to(c) : to(from<T>(0.f));
    for (int k = 0; k < K; k++) sum += to(get_a<P>(A, row, k)) * to(get_b<P>(B, k, col));
    c = from<T>(sum);
  }
}

}  // namespace st
