// Reductions of a tile along one axis; the axis keeps extent 1. Every thread of the block takes part.
#pragma once
#include "st_gemm.cuh"

namespace st {

struct Sum {
  static ST_DEVICE float init() { return 0.f; }
  template <class C> static ST_DEVICE C of(C a, C b) { return a + b; }
};
struct Prod {
  static ST_DEVICE float init() { return 1.f; }
  template <class C> static ST_DEVICE C of(C a, C b) { return a * b; }
};
struct Max {
  static ST_DEVICE float init() { return -__int_as_float(0x7f800000); }
  template <class C> static ST_DEVICE C of(C a, C b) { return maximum(a, b); }
};
struct Min {
  static ST_DEVICE float init() { return __int_as_float(0x7f800000); }
  template <class C> static ST_DEVICE C of(C a, C b) { return minimum(a, b); }
};

/// Combine over `count` lanes that are `step` apart; all of them get the result.
template <class OP, int COUNT, int STEP, class C> ST_DEVICE C lanes(C v) {
#pragma unroll
  for (int o = COUNT / 2; o > 0; o /= 2) v = OP::of(v, lane_xor(v, o * STEP));
  return v;
}

/// Y[m, 1] = OP over the last axis of X[m, n]; ACC: Y = OP(Y, that).
template <class OP, bool ACC, class T, class S, class G, int... D, int... E>
ST_DEVICE void reduce_last(Frag<T, G, D...>& Y, const Frag<S, G, E...>& X) {
  using FY = Frag<T, G, D...>;
  using FX = Frag<S, G, E...>;
  using C = decltype(to(S()));
  static_assert(FY::N == 1 && FY::R == FX::R, "reduce_last gives one column");
  C acc[FX::R];
#pragma unroll
  for (int r = 0; r < FX::R; r++) {
    acc[r] = OP::init();
#pragma unroll
    for (int c = 0; c < FX::C; c++) {
      idx i[FX::rank];
      if (X.locate(FX::row(r), FX::col(c), i)) acc[r] = OP::of(acc[r], to(X[At{r, c}]));
    }
    if constexpr (FX::N > 1) acc[r] = lanes<OP, G::ln, G::col_step>(acc[r]);
  }
  if constexpr (FX::N > 1 && G::wn > 1) {
    constexpr int rows = FX::M == 1 ? 1 : FX::R * G::lm * G::wm;
    ST_SHARED(C, scratch, rows * G::wn);
    __syncthreads();
    if (G::lane_col() == 0 && (FX::M > 1 || (G::warp_row() == 0 && G::lane_row() == 0))) {
#pragma unroll
      for (int r = 0; r < FX::R; r++) scratch[FX::row(r) * G::wn + G::warp_col()] = acc[r];
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < FX::R; r++) {
      acc[r] = scratch[FX::row(r) * G::wn];
#pragma unroll
      for (int w = 1; w < G::wn; w++) acc[r] = OP::of(acc[r], scratch[FX::row(r) * G::wn + w]);
    }
  }
#pragma unroll
  for (int r = 0; r < FX::R; r++) Y.v[r] = from<T>(ACC ? OP::of(static_cast<C>(to(Y.v[r])), acc[r]) : acc[r]);
}

/// Y[1, n] = OP over the rows of X[m, n]; ACC: Y = OP(Y, that).
template <class OP, bool ACC, class T, class S, class G, int... D, int... E>
ST_DEVICE void reduce_rows(Frag<T, G, D...>& Y, const Frag<S, G, E...>& X) {
  using FY = Frag<T, G, D...>;
  using FX = Frag<S, G, E...>;
  using C = decltype(to(S()));
  static_assert(FY::M == 1 && FY::C == FX::C, "reduce_rows gives one row");
  C acc[FX::C];
#pragma unroll
  for (int c = 0; c < FX::C; c++) {
    acc[c] = OP::init();
#pragma unroll
    for (int r = 0; r < FX::R; r++) {
      idx i[FX::rank];
      if (X.locate(FX::row(r), FX::col(c), i)) acc[c] = OP::of(acc[c], to(X[At{r, c}]));
    }
    if constexpr (FX::M > 1) acc[c] = lanes<OP, G::lm, G::row_step>(acc[c]);
  }
  if constexpr (FX::M > 1 && G::wm > 1) {
    constexpr int cols = FX::N == 1 ? 1 : FX::C * G::ln * G::wn;
    ST_SHARED(C, scratch, cols * G::wm);
    __syncthreads();
    if (G::lane_row() == 0 && (FX::N > 1 || (G::warp_col() == 0 && G::lane_col() == 0))) {
#pragma unroll
      for (int c = 0; c < FX::C; c++) scratch[FX::col(c) * G::wm + G::warp_row()] = acc[c];
    }
    __syncthreads();
#pragma unroll
    for (int c = 0; c < FX::C; c++) {
      acc[c] = scratch[FX::col(c) * G::wm];
#pragma unroll
      for (int w = 1; w < G::wm; w++) acc[c] = OP::of(acc[c], scratch[FX::col(c) * G::wm + w]);
    }
  }
#pragma unroll
  for (int c = 0; c < FX::C; c++) Y.v[c] = from<T>(ACC ? OP::of(static_cast<C>(to(Y.v[c])), acc[c]) : acc[c]);
}

/// Y = OP along AXIS of X, both in memory: a warp per result along the last axis, else a thread.
template <class OP, bool ACC, int AXIS, class T, class S, int R>
ST_DEVICE void reduce_memory(const View<T, R>& Y, const View<S, R>& X) {
  using C = decltype(to(plain<S>()));
  constexpr int width = AXIS == R - 1 ? wave : 1;
  idx total = 1;
#pragma unroll
  for (int d = 0; d < R; d++) total *= d == AXIS ? 1 : X.n[d];
  const int lane = threadIdx.x % width;
  for (idx e = threadIdx.x / width; e < total; e += threads / width) {
    idx i[R], rest = e;
#pragma unroll
    for (int d = R - 1; d >= 0; d--) {
      if (d == AXIS) { i[d] = 0; continue; }
      i[d] = rest % X.n[d];
      rest /= X.n[d];
    }
    C acc = OP::init();
    for (idx k = lane; k < X.n[AXIS]; k += width) {
      i[AXIS] = k;
      acc = OP::of(acc, to(X.at(i)));
    }
    acc = lanes<OP, width, 1>(acc);
    i[AXIS] = 0;
    if (lane == 0) Y.at(i) = from<T>(ACC ? OP::of(static_cast<C>(to(Y.at(i))), acc) : acc);
  }
}

}  // namespace st
