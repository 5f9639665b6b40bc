// Views of tensors in memory, fragments of tensors in registers, and scalar conversions.
#pragma once
#include "st_device.cuh"

#ifndef SEPTRAN_THREADS
#define SEPTRAN_THREADS 256
#endif
#ifndef SEPTRAN_INDEX
#define SEPTRAN_INDEX int
#endif

namespace st {

using idx = SEPTRAN_INDEX;
constexpr int threads = SEPTRAN_THREADS;

template <class T> struct Plain { using type = T; };
template <class T> struct Plain<const T> { using type = T; };
template <class T> using plain = typename Plain<T>::type;

// ---- element -> compute type (float; double stays double) and back ----
ST_DEVICE float to(__half x) { return __half2float(x); }
ST_DEVICE float to(__nv_bfloat16 x) { return __bfloat162float(x); }
ST_DEVICE float to(float x) { return x; }
ST_DEVICE double to(double x) { return x; }
template <class T> ST_DEVICE float to(T x) { return static_cast<float>(x); }
template <class T> struct From { template <class C> static ST_DEVICE T of(C x) { return static_cast<T>(x); } };
template <> struct From<__half> { template <class C> static ST_DEVICE __half of(C x) { return __float2half_rn(static_cast<float>(x)); } };
template <> struct From<__nv_bfloat16> {
  template <class C> static ST_DEVICE __nv_bfloat16 of(C x) { return __float2bfloat16_rn(static_cast<float>(x)); }
};
template <> struct From<bool> { template <class C> static ST_DEVICE bool of(C x) { return x != C(0); } };
// an integer of a float: toward zero, NaN is 0, the host and the device alike; what its own type cannot hold wraps around
template <class T> struct FromWhole {
  template <class C> static ST_DEVICE T of(C x) { return static_cast<T>(x); }
  static ST_DEVICE T of(float x) { return static_cast<T>(__float2int_rz(x)); }
  static ST_DEVICE T of(double x) { return static_cast<T>(__double2int_rz(x)); }
};
template <> struct From<signed char> : FromWhole<signed char> {};
template <> struct From<unsigned char> : FromWhole<unsigned char> {};
template <> struct From<short> : FromWhole<short> {};
template <> struct From<int> : FromWhole<int> {};
template <> struct From<long long> {
  template <class C> static ST_DEVICE long long of(C x) { return static_cast<long long>(x); }
  static ST_DEVICE long long of(float x) { return __float2ll_rz(x); }
  static ST_DEVICE long long of(double x) { return __double2ll_rz(x); }
};
template <class T, class C> ST_DEVICE T from(C x) { return From<T>::of(x); }
/// Convert one element to another element type; same type: unchanged.
template <class D, class S> ST_DEVICE D convert(S x) { return from<D>(to(x)); }
template <> ST_DEVICE int convert<int, int>(int x) { return x; }
template <> ST_DEVICE long long convert<long long, long long>(long long x) { return x; }
template <> ST_DEVICE long long convert<long long, int>(int x) { return x; }

/// Four neighbouring floats; one 16-byte access where the address allows it.
ST_DEVICE float4 load4(const float* p) {
  if (reinterpret_cast<size_t>(p) % 16 == 0) return *reinterpret_cast<const float4*>(p);
  return make_float4(p[0], p[1], p[2], p[3]);
}

// ---- index arithmetic; division rounds down ----
ST_CONST idx least(idx a, idx b) { return a < b ? a : b; }
ST_CONST idx most(idx a, idx b) { return a < b ? b : a; }
ST_CONST idx floor_div(idx a, idx b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }
ST_CONST idx floor_mod(idx a, idx b) { return a - floor_div(a, b) * b; }

// ---- pointwise functions with torch's NaN rules ----
template <class C> ST_DEVICE C maximum(C a, C b) { return (a > b || a != a) ? a : b; }
template <class C> ST_DEVICE C minimum(C a, C b) { return (a < b || a != a) ? a : b; }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
ST_DEVICE float maximum(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
ST_DEVICE float minimum(float a, float b) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
#endif
/// 2 ** x, x at most a few: the device's own instruction.
ST_DEVICE float exp2_quick(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}
/// k, or where |n k| is so large that its rounding could not be a power of two any more, the power of two next to k: n * near is exact.
ST_DEVICE float exponent_unit(float n, float k, float near) { return fabsf(n) * k < 67108864.f ? k : near; }
/// The weight 2 ** ((s - n) * k) of a score s and n, the largest of its row: one fused step, as n * k is the row's alone.
ST_DEVICE float power(float s, float n, float k, float near) {
  const float r = exponent_unit(n, k, near);
  return exp2_quick(fmaf(s, r, -__fmul_rn(n, r)));
}
/// From weights of m to weights of n, the larger: 2 ** ((m - n) * k), each product rounded as `power` has it.
ST_DEVICE float rescale(float m, float n, float k, float near) {
  const float r = exponent_unit(n, k, near);
  return exp2_quick(__fmul_rn(m, r) - __fmul_rn(n, r));
}
/// 1 / x with the device's own instruction, off by one unit in the last place at most; 0 where that is below the normal numbers.
ST_DEVICE float inverse_quick(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return 1.f / x;
#endif
}
/// a / b where the result is rounded to 16 bits: off by two units in the last place of float32 at most, for all numbers.
ST_DEVICE float divide_quick(float a, float b) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("div.full.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
#else
  return a / b;
#endif
}
ST_DEVICE float sigmoid(float x) { return inverse_quick(1.f + expf(-x)); }
ST_DEVICE double sigmoid(double x) { return 1. / (1. + exp(-x)); }

/// A strided tensor: element (i, j, ..) is p[i * s[0] + j * s[1] + ..] for 0 <= i < n[0], ..
template <class T, int R> struct View {
  T* p;
  idx n[R];
  idx s[R];
  ST_DEVICE T& at(const idx (&i)[R]) const {
    idx o = 0;
#pragma unroll
    for (int d = 0; d < R; d++) {
#ifdef SEPTRAN_EMULATE
      if ((i[d] < 0 || i[d] >= n[d]) && !in_shared())
        cuemu::fail("out of bounds", "index %lld in dimension %d of a view with extent %lld", static_cast<long long>(i[d]), d,
                    static_cast<long long>(n[d]));
#endif
      o += i[d] * s[d];
    }
    return p[o];
  }
  template <class... I> ST_DEVICE T& operator()(I... i) const {
    static_assert(sizeof...(I) == R, "one index per dimension");
    const idx list[R] = {static_cast<idx>(i)...};
    return at(list);
  }
  ST_DEVICE operator View<const T, R>() const {
    View<const T, R> v;
    v.p = p;
#pragma unroll
    for (int d = 0; d < R; d++) v.n[d] = n[d], v.s[d] = s[d];
    return v;
  }
  /// True when every element address with last index a multiple of `bytes / sizeof(T)` is `bytes`-aligned.
  ST_DEVICE bool aligned(int bytes) const {
    if (s[R - 1] != 1) return false;
    size_t all = reinterpret_cast<size_t>(p);
#pragma unroll
    for (int d = 0; d < R - 1; d++) all |= static_cast<size_t>(s[d]) * sizeof(T);
    return (all & static_cast<size_t>(bytes - 1)) == 0;
  }
#ifdef SEPTRAN_EMULATE
  // A staged tile has its full storage, also where the extent is smaller.
  bool in_shared() const {
    const char* c = reinterpret_cast<const char*>(p);
    return c >= cuemu::dynamic_shared && c < cuemu::dynamic_shared + cuemu::dynamic_shared_size;
  }
#endif
};

/// How the threads of a block share out a tile: WM x WN warps, LM rows of lanes, VN columns in a row
/// per lane. Grid<.., 8, 2> is the layout of mma.sync accumulators, Grid<.., 16, 4> of a wavefront's MFMA.
template <int WM, int WN, int LM, int VN, int WAVE = 32> struct Grid {
  static_assert(WAVE == wave, "the grid is for threads that run in step as these do");
  static constexpr int wm = WM, wn = WN, lm = LM, ln = wave / LM, vn = VN, pair = Lanes<LM>::pair;
  static constexpr int row_step = Lanes<LM>::row_step, col_step = Lanes<LM>::col_step;
  static_assert(WM * WN * wave == threads, "the grid has to use every warp of the block");
  static ST_DEVICE int warp() {
    ST_ASSUME(threadIdx.x < threads);
    return threadIdx.x / wave;
  }
  static ST_DEVICE int lane() { return threadIdx.x % wave; }
  static ST_DEVICE int warp_row() { return warp() / WN; }
  static ST_DEVICE int warp_col() { return warp() % WN; }
  static ST_DEVICE int lane_row() { return lane() / row_step % lm; }
  static ST_DEVICE int lane_col() { return lane() / col_step % ln; }
};

ST_CONST int ceil_div(int a, int b) { return (a + b - 1) / b; }

/// A position inside a fragment: row and column counters of this thread, known after unrolling.
struct At { int r, c; };

/// A tile in registers, shared out over the block. Leading dimensions are flattened to M rows, the last
/// one is N columns. Extent 1 in M or N means: replicated, so a row or column vector broadcasts for free.
/// n[] are the run-time extents; elements outside them are undefined.
template <class T, class G, int... D> struct Frag {
  static constexpr int rank = sizeof...(D);
  static constexpr int dims[rank] = {D...};
  static ST_CONST int last() { const int d[] = {D...}; return d[rank - 1]; }
  static ST_CONST int lead() { const int d[] = {D...}; int m = 1; for (int i = 0; i < rank - 1; i++) m *= d[i]; return m; }
  static constexpr int M = lead(), N = last();
  static constexpr int R = M == 1 ? 1 : ceil_div(M, G::wm * G::lm * G::pair) * G::pair;
  static constexpr int C = N == 1 ? 1 : ceil_div(N, G::wn * G::ln * G::vn) * G::vn;
  using type = T;
  using grid = G;
  T v[R * C];
  idx n[rank];
  bool flying = false;  // products of warpgroups that add to it may end later (st_wgmma.cuh)
#ifdef SEPTRAN_EMULATE
  Frag() { memset(static_cast<void*>(v), 0xFF, sizeof v); }  // NaN: a read before the first write shows
#endif
  static ST_DEVICE int row(int r) { return M == 1 ? 0 : G::warp_row() * (R * G::lm) + r * G::lm + G::lane_row(); }
  static ST_DEVICE int col(int c) {
    return N == 1 ? 0 : G::warp_col() * (C * G::ln) + c / G::vn * (G::ln * G::vn) + G::lane_col() * G::vn + c % G::vn;
  }
  /// One of the threads that hold the element has to write it.
  static ST_DEVICE bool owner() {
    return (M > 1 || (G::warp_row() == 0 && G::lane_row() == 0)) && (N > 1 || (G::warp_col() == 0 && G::lane_col() == 0));
  }
  ST_DEVICE T& operator[](At e) { return v[(M == 1 ? 0 : e.r) * C + (N == 1 ? 0 : e.c)]; }
  ST_DEVICE const T& operator[](At e) const { return v[(M == 1 ? 0 : e.r) * C + (N == 1 ? 0 : e.c)]; }
  /// All threads hold the same number of elements.
  static constexpr bool even = (M == 1 || M == R * G::lm * G::wm) && (N == 1 || N == C * G::ln * G::wn);
  /// The run-time extents are those of the tile.
  ST_DEVICE bool whole() const {
    bool all = true;
#pragma unroll
    for (int d = 0; d < rank; d++) {
      constexpr int most[rank] = {D...};
      all = all && n[d] == most[d];
    }
    return all;
  }
  /// Indices of (row, col); false when outside the run-time extents.
  ST_DEVICE bool locate(int row, int col, idx (&i)[rank]) const {
    i[rank - 1] = col;
    bool ok = col < n[rank - 1];
    int rest = row;
#pragma unroll
    for (int d = rank - 2; d >= 0; d--) {
      constexpr int all[rank] = {D...};
      i[d] = d ? rest % all[d] : rest;
      rest /= all[d];
      ok = ok && i[d] < n[d];
    }
    return ok && (rank > 1 || row == 0);
  }
};
template <class T, class G, int... D> constexpr int Frag<T, G, D...>::dims[];

template <int R, class F> ST_DEVICE void apply(F f, At e, const idx (&i)[R]) {
  if constexpr (R == 1) f(e, i[0]);
  if constexpr (R == 2) f(e, i[0], i[1]);
  if constexpr (R == 3) f(e, i[0], i[1], i[2]);
  if constexpr (R == 4) f(e, i[0], i[1], i[2], i[3]);
  if constexpr (R == 5) f(e, i[0], i[1], i[2], i[3], i[4]);
  if constexpr (R == 6) f(e, i[0], i[1], i[2], i[3], i[4], i[5]);
  if constexpr (R == 7) f(e, i[0], i[1], i[2], i[3], i[4], i[5], i[6]);
  if constexpr (R == 8) f(e, i[0], i[1], i[2], i[3], i[4], i[5], i[6], i[7]);
  if constexpr (R == 9) f(e, i[0], i[1], i[2], i[3], i[4], i[5], i[6], i[7], i[8]);
  static_assert(R <= 9, "tiles of up to nine dims");
}

/// f(e, i, j, ..) for every element of the fragment this thread holds and that exists.
template <class T, class G, int... D, class F> ST_DEVICE void each(const Frag<T, G, D...>& x, F f) {
  using X = Frag<T, G, D...>;
#pragma unroll
  for (int r = 0; r < X::R; r++)
#pragma unroll
    for (int c = 0; c < X::C; c++) {
      idx i[X::rank];
      if (x.locate(X::row(r), X::col(c), i)) apply<X::rank>(f, At{r, c}, i);
    }
}

/// f(e, i, j, ..) for every element of the view, dealt out over the threads of the block.
template <class T, int R, class F> ST_DEVICE void each(const View<T, R>& x, F f) {
  idx total = 1;
#pragma unroll
  for (int d = 0; d < R; d++) total *= x.n[d];
  for (idx e = threadIdx.x; e < total; e += threads) {
    idx i[R], rest = e;
#pragma unroll
    for (int d = R - 1; d >= 0; d--) {
      i[d] = d ? rest % x.n[d] : rest;
      rest = d ? rest / x.n[d] : 0;
    }
    apply<R>(f, At{0, 0}, i);
  }
}

/// Set the run-time extents of a fragment.
template <class T, class G, int... D, class... I> ST_DEVICE void bound(Frag<T, G, D...>& x, I... extent) {
  const idx list[] = {static_cast<idx>(extent)...};
#pragma unroll
  for (int d = 0; d < static_cast<int>(sizeof...(D)); d++) x.n[d] = list[d];
}

/// Every element of the fragment becomes 0.
template <class T, class G, int... D> ST_DEVICE void zero(Frag<T, G, D...>& x) {
  using X = Frag<T, G, D...>;
#pragma unroll
  for (int e = 0; e < X::R * X::C; e++) x.v[e] = from<T>(0.f);
}

}  // namespace st
