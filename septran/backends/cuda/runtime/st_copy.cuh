// Copies between global memory, shared memory and fragments. All threads of the block take part.
#pragma once
#include "st_view.cuh"

namespace st {

template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack { T v[N]; };

/// memory -> fragment, N contiguous elements at a time where the addresses allow it. Of a whole tile the loads come before the first
/// use of one: each of them takes as long as all of them.
template <class T, class G, int... D, class S> ST_DEVICE void copy(Frag<T, G, D...>& y, const View<S, sizeof...(D)>& x) {
  using Y = Frag<T, G, D...>;
  using P = Pack<plain<S>, G::vn>;
  if constexpr (Y::even && Y::N > 1 && G::vn > 1) {
    if (x.aligned(alignof(P)) && y.whole()) {
      constexpr int count = Y::R * Y::C / G::vn, most = count < 8 ? count : 8;  // packs in flight
#pragma unroll
      for (int first = 0; first < count; first += most) {
        P p[most];
#pragma unroll
        for (int q = 0; q < most && first + q < count; q++) {
          constexpr int across = Y::C / G::vn;
          idx i[Y::rank];
          y.locate(Y::row((first + q) / across), Y::col((first + q) % across * G::vn), i);
          p[q] = *reinterpret_cast<const P*>(&x.at(i));
        }
#pragma unroll
        for (int q = 0; q < most && first + q < count; q++)
#pragma unroll
          for (int k = 0; k < G::vn; k++) y.v[(first + q) * G::vn + k] = convert<T>(p[q].v[k]);
      }
      return;
    }
  }
  const bool wide = Y::N > 1 && G::vn > 1 && x.aligned(alignof(P)) ;
#pragma unroll
  for (int r = 0; r < Y::R; r++)
#pragma unroll
    for (int c = 0; c < Y::C; c += Y::N == 1 ? 1 : G::vn) {
      idx i[Y::rank];
      const bool in = y.locate(Y::row(r), Y::col(c), i);
      if (wide && in && Y::col(c) + G::vn <= y.n[Y::rank - 1]) {
        const P p = *reinterpret_cast<const P*>(&x.at(i));
#pragma unroll
        for (int k = 0; k < G::vn; k++) y[At{r, c + k}] = convert<T>(p.v[k]);
        continue;
      }
#pragma unroll
      for (int k = 0; k < (Y::N == 1 ? 1 : G::vn); k++)
        if (y.locate(Y::row(r), Y::col(c + k), i)) y[At{r, c + k}] = convert<T>(x.at(i));
    }
}

/// fragment -> memory.
template <class T, class G, int... D, class S> ST_DEVICE void copy(const View<S, sizeof...(D)>& y, const Frag<T, G, D...>& x) {
  using X = Frag<T, G, D...>;
  using P = Pack<S, G::vn>;
  if (!X::owner()) return;
  if constexpr (X::even && X::N > 1 && G::vn > 1) {
    if (y.aligned(alignof(P)) && x.whole()) {
#pragma unroll
      for (int r = 0; r < X::R; r++)
#pragma unroll
        for (int c = 0; c < X::C; c += G::vn) {
          idx i[X::rank];
          x.locate(X::row(r), X::col(c), i);
          P p;
#pragma unroll
          for (int k = 0; k < G::vn; k++) p.v[k] = convert<S>(x[At{r, c + k}]);
          *reinterpret_cast<P*>(&y.at(i)) = p;
        }
      return;
    }
  }
  const bool wide = X::N > 1 && G::vn > 1 && y.aligned(alignof(P));
#pragma unroll
  for (int r = 0; r < X::R; r++)
#pragma unroll
    for (int c = 0; c < X::C; c += X::N == 1 ? 1 : G::vn) {
      idx i[X::rank];
      const bool in = x.locate(X::row(r), X::col(c), i);
      if (wide && in && X::col(c) + G::vn <= x.n[X::rank - 1]) {
        P p;
#pragma unroll
        for (int k = 0; k < G::vn; k++) p.v[k] = convert<S>(x[At{r, c + k}]);
        *reinterpret_cast<P*>(&y.at(i)) = p;
        continue;
      }
#pragma unroll
      for (int k = 0; k < (X::N == 1 ? 1 : G::vn); k++)
        if (x.locate(X::row(r), X::col(c + k), i)) y.at(i) = convert<S>(x[At{r, c + k}]);
    }
}

/// fragment -> fragment of the same tile.
template <class T, class S, class G, int... D> ST_DEVICE void copy(Frag<T, G, D...>& y, const Frag<S, G, D...>& x) {
#pragma unroll
  for (int e = 0; e < Frag<T, G, D...>::R * Frag<T, G, D...>::C; e++) y.v[e] = convert<T>(x.v[e]);
}

/// memory -> memory, any strides, with a cast.
template <class T, class S, int R> ST_DEVICE void copy(const View<T, R>& y, const View<S, R>& x) {
  idx total = 1;
#pragma unroll
  for (int d = 0; d < R; d++) total *= y.n[d];
  for (idx e = threadIdx.x; e < total; e += threads) {
    idx i[R], rest = e;
#pragma unroll
    for (int d = R - 1; d >= 0; d--) {
      i[d] = d ? rest % y.n[d] : rest;
      rest = d ? rest / y.n[d] : 0;
    }
    y.at(i) = convert<T>(x.at(i));
  }
}

template <class A, class B> struct Same { static constexpr bool value = false; };
template <class A> struct Same<A, A> { static constexpr bool value = true; };

/// Static bounds of a tile.
template <int... D> struct Tile {
  static constexpr int rank = sizeof...(D);
  static ST_CONST int size(int d) { const int all[] = {D...}; return all[d]; }
  static ST_CONST int last() { return size(rank - 1); }
  static ST_CONST int lead() { int m = 1; for (int d = 0; d < rank - 1; d++) m *= size(d); return m; }
};

/// f(e) for this thread's share of 0 <= e < TOTAL. Shares of one size are unrolled, and e is known to be below TOTAL.
template <int TOTAL, class F> ST_DEVICE void shares(F f) {
  const int first = static_cast<int>(threadIdx.x);
  ST_ASSUME(first >= 0 && first < threads);
  if constexpr (TOTAL % threads == 0 && TOTAL / threads <= 16) {
#pragma unroll
    for (int n = 0; n < TOTAL / threads; n++) f(n * threads + first);
  } else {
#pragma unroll 4
    for (int e = first; e < TOTAL; e += threads) f(e);
  }
}

/// global -> shared tile of static bounds Tile<..>, asynchronous 16-byte copies where the addresses allow it.
/// Everything of the tile outside the extents of `x` becomes 0. Needs cp_commit, cp_wait and a barrier.
template <class TILE, class T, class S> ST_DEVICE void copy_async(const View<T, TILE::rank>& y, const View<S, TILE::rank>& x) {
  constexpr int R = TILE::rank, V = 16 / sizeof(T), LAST = ceil_div(TILE::last(), V), TOTAL = TILE::lead() * LAST;
  /// Where the e-th 16 bytes begin; returns how many elements of them exist.
  const auto locate = [&](int e, idx(&i)[R]) {
    i[R - 1] = e % LAST * V;
    int rest = e / LAST;
    bool in = true;
#pragma unroll
    for (int d = R - 2; d >= 0; d--) {
      i[d] = d ? rest % TILE::size(d) : rest;
      rest = d ? rest / TILE::size(d) : 0;
      in = in && i[d] < x.n[d];
    }
    const int left = in ? static_cast<int>(x.n[R - 1] - i[R - 1]) : 0;
    return left < 0 ? 0 : left > V ? V : left;
  };
  const auto place = [&](const idx(&i)[R]) {
    T* dst = y.p;
#pragma unroll
    for (int d = 0; d < R; d++) dst += i[d] * y.s[d];
    return dst;
  };
  if constexpr (Same<T, plain<S>>::value && V > 1) {
    if (x.aligned(16) && y.aligned(16)) {
      shares<TOTAL>([&](int e) {
        idx i[R];
        const int count = locate(e, i);
        cp_async<16>(place(i), count ? static_cast<const void*>(&x.at(i)) : static_cast<const void*>(x.p), count * static_cast<int>(sizeof(T)));
      });
      return;
    }
  }
#pragma unroll 1
  for (int e = threadIdx.x; e < TOTAL; e += threads) {
    idx i[R];
    const int count = locate(e, i), first = static_cast<int>(i[R - 1]);
    T* const dst = place(i);
#pragma unroll
    for (int k = 0; k < V; k++) {
      i[R - 1] = first + k;
      if (first + k < TILE::last()) dst[k * y.s[R - 1]] = k < count ? convert<T>(x.at(i)) : from<T>(0.f);
    }
  }
}

/// global -> shared where positions outside the tensor read as `fill`: element i of dimension d is position
/// offset[d] + step[d] * i of a tensor with extents x.n and strides x.s (padding of convolutions and pools).
/// FULL: also write where `y` ends but its storage does not (a staged tile). 16 bytes at a time where the last dimension is
/// neither padded nor cut within them (channels last), else element by element.
template <class TILE, bool FULL, class T, class S>
ST_DEVICE void copy_padded(const View<T, TILE::rank>& y, const View<S, TILE::rank>& x, const idx (&offset)[TILE::rank],
                           const idx (&step)[TILE::rank], float fill = 0.f) {
  constexpr int R = TILE::rank, V = 16 / sizeof(T);
  /// The e-th `width` elements along the last dimension: where they are read and written, and whether they are.
  const auto locate = [&](int e, int width, idx(&at)[R], T*& dst, bool& in) {
    bool write = true;
    int rest = e;
    dst = y.p, in = true;
#pragma unroll
    for (int d = R - 1; d >= 0; d--) {
      const int extent = d == R - 1 ? TILE::last() / width : TILE::size(d);
      const idx i = (d ? rest % extent : rest) * (d == R - 1 ? width : 1);
      rest = d ? rest / extent : 0;
      at[d] = offset[d] + step[d] * i;
      in = in && at[d] >= 0 && at[d] < x.n[d];
      write = write && i < y.n[d];
      dst += i * y.s[d];
    }
    return FULL || write;
  };
  if constexpr (V > 1 && Same<T, plain<S>>::value && TILE::last() % V == 0) {
    const bool whole = step[R - 1] == 1 && offset[R - 1] % V == 0 && x.n[R - 1] % V == 0 && (FULL || y.n[R - 1] % V == 0);
    if (whole && x.aligned(16) && y.aligned(16)) {
      using P = Pack<T, V>;
      shares<TILE::lead() * TILE::last() / V>([&](int e) {
        idx at[R];
        T* dst;
        bool in;
        if (!locate(e, V, at, dst, in)) return;
        P p;
        if (in) {
          p = *reinterpret_cast<const P*>(&x.at(at));
        } else {
#pragma unroll
          for (int k = 0; k < V; k++) p.v[k] = from<T>(fill);
        }
        *reinterpret_cast<P*>(dst) = p;
      });
      return;
    }
  }
  for (int e = threadIdx.x; e < TILE::lead() * TILE::last(); e += threads) {
    idx at[R];
    T* dst;
    bool in;
    if (locate(e, 1, at, dst, in)) *dst = in ? convert<T>(x.at(at)) : from<T>(fill);
  }
}

}  // namespace st
