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
