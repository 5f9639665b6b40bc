// scan, argreduce, gather and scatter_acc on tiles in memory. Every thread of the block takes part: one walks a
// whole line along the axis, except of a gather, whose elements are dealt out.
#pragma once
#include "st_reduce.cuh"

namespace st {

struct Last {
  template <class C> static ST_DEVICE C of(C, C b) { return b; }
};

/// What an element is combined in: floats in double, because a sum goes along a whole axis; integers exactly.
template <class T> struct Wide { using type = long long; };
template <> struct Wide<float> { using type = double; };
template <> struct Wide<double> { using type = double; };
template <> struct Wide<__half> { using type = double; };
template <> struct Wide<__nv_bfloat16> { using type = double; };
template <class T> using wide = typename Wide<plain<T>>::type;
ST_DEVICE double widened(double x) { return x; }
ST_DEVICE double widened(float x) { return x; }
ST_DEVICE double widened(__half x) { return to(x); }
ST_DEVICE double widened(__nv_bfloat16 x) { return to(x); }
template <class T> ST_DEVICE long long widened(T x) { return static_cast<long long>(x); }

/// f(position): once for each line along AXIS of `x`, dealt out over the threads of the block.
template <int AXIS, class T, int R, class F> ST_DEVICE void lines(const View<T, R>& x, F f) {
  idx total = 1;
#pragma unroll
  for (int d = 0; d < R; d++) total *= d == AXIS ? 1 : x.n[d];
  for (idx e = threadIdx.x; e < total; e += threads) {
    idx i[R], rest = e;
#pragma unroll
    for (int d = R - 1; d >= 0; d--) {
      i[d] = d == AXIS ? 0 : rest % x.n[d];
      rest = d == AXIS ? rest : rest / x.n[d];
    }
    f(i);
  }
}

/// Y[.., j] = OP over X[.., 0..j] along AXIS, from the end with REVERSE.
template <class OP, int AXIS, bool REVERSE, class T, class S, int R>
ST_DEVICE void scan(const View<T, R>& Y, const View<S, R>& X) {
  lines<AXIS>(X, [&](idx (&i)[R]) {
    wide<S> held = 0;
    for (idx k = 0; k < X.n[AXIS]; k++) {
      i[AXIS] = REVERSE ? X.n[AXIS] - 1 - k : k;
      held = k ? OP::of(held, widened(X.at(i))) : widened(X.at(i));
      Y.at(i) = from<T>(held);
    }
  });
}

/// Y = position of the first extreme along AXIS of X; NaN counts as the extreme.
template <class OP, int AXIS, class T, class S, int R>
ST_DEVICE void argreduce(const View<T, R>& Y, const View<S, R>& X) {
  lines<AXIS>(X, [&](idx (&i)[R]) {
    auto best = widened(X.at(i));
    idx found = 0;
    for (idx k = 1; k < X.n[AXIS] && best == best; k++) {
      i[AXIS] = k;
      const auto value = widened(X.at(i));
      if (value != value || (value != best && OP::of(best, value) == value)) best = value, found = k;
    }
    i[AXIS] = 0;
    Y.at(i) = static_cast<T>(found);
  });
}

/// Y[.., j, ..] = X[.., I[.., j, ..], ..] along AXIS; dims of size 1 broadcast; 0 where I is outside.
template <int AXIS, class T, class S, class U, int R>
ST_DEVICE void gather(const View<T, R>& Y, const View<S, R>& X, const View<U, R>& I) {
  idx total = 1;
#pragma unroll
  for (int d = 0; d < R; d++) total *= Y.n[d];
  for (idx e = threadIdx.x; e < total; e += threads) {
    idx i[R], which[R], at[R], rest = e;
#pragma unroll
    for (int d = R - 1; d >= 0; d--) {
      i[d] = rest % Y.n[d];
      rest /= Y.n[d];
      which[d] = I.n[d] == 1 ? 0 : i[d];
      at[d] = X.n[d] == 1 ? 0 : i[d];
    }
    const long long k = widened(I.at(which));
    const bool inside = k >= 0 && k < X.n[AXIS];
    at[AXIS] = inside ? static_cast<idx>(k) : 0;
    Y.at(i) = inside ? convert<T>(X.at(at)) : from<T>(0.f);
  }
}

/// Y[.., I[.., j, ..], ..] = OP(Y[..], X[.., j, ..]) along AXIS in the order of j; an I outside counts nothing.
template <class OP, int AXIS, class T, class S, class U, int R>
ST_DEVICE void scatter_acc(const View<T, R>& Y, const View<S, R>& X, const View<U, R>& I) {
  lines<AXIS>(X, [&](idx (&i)[R]) {
    for (idx j = 0; j < X.n[AXIS]; j++) {
      idx which[R], at[R];
      i[AXIS] = j;
#pragma unroll
      for (int d = 0; d < R; d++) which[d] = I.n[d] == 1 ? 0 : i[d], at[d] = i[d];
      const long long k = widened(I.at(which));
      if (k < 0 || k >= Y.n[AXIS]) continue;
      at[AXIS] = static_cast<idx>(k);
      auto& held = Y.at(at);
      held = from<plain<T>>(OP::of(static_cast<wide<S>>(widened(held)), widened(X.at(i))));
    }
  });
}

}  // namespace st
