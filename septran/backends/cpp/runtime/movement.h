// scan, argreduce, gather and scatter_acc on views of one rank.

namespace st {

enum class On { sum, prod, max, min, last };

// What an element is combined in: sums along a whole axis in double, integers exactly.
template <class T> using wide = std::conditional_t<is_float<std::remove_const_t<T>>, double, int64_t>;

template <On op, class A> ST_INLINE A joined(A a, A b) {
    if constexpr (op == On::sum) return a + b;
    else if constexpr (op == On::prod) return a * b;
    else if constexpr (op == On::max) return a != a ? a : (b > a || b != b) ? b : a;
    else if constexpr (op == On::min) return a != a ? a : (b < a || b != b) ? b : a;
    else return b;
}
template <class A, class T> ST_INLINE A widened(T x) {
    if constexpr (is_float<T>) return A(double(x));
    else return A(x);
}
// from double or int64_t to the storage type; 16-bit floats round once
template <class D, class A> ST_INLINE D narrowed(A x) {
    if constexpr (std::is_same_v<D, bf16> || std::is_same_v<D, f16>) return cast<D>(float(x));
    else return cast<D>(x);
}

// Where the lines along dim `Axis` start: f(positions) for each combination of the other dims, the last innermost.
template <int Axis, int R, class F> ST_INLINE void lines(const long (&n)[R], F f) {
    long at[R] = {};
    for (int d = 0; d < R; ++d)
        if (n[d] <= 0) return;
    for (;;) {
        f(at);
        int d = R - 1;
        for (; d >= 0; --d) {
            if (d == Axis) continue;
            if (++at[d] < n[d]) break;
            at[d] = 0;
        }
        if (d < 0) return;
    }
}
template <class T, int R> ST_INLINE T* start(const View<T, R>& v, const long (&at)[R]) {
    T* p = v.p;
    for (int d = 0; d < R; ++d)
        if (v.n[d] != 1) p += at[d] * v.s[d];
    return p;
}

template <On op, int Axis, bool Reverse, class TY, class TX, int R> static void scan(View<TY, R> y, View<TX, R> x) {
    using A = wide<TX>;
    const long n = x.n[Axis], sx = Reverse ? -x.s[Axis] : x.s[Axis], sy = Reverse ? -y.s[Axis] : y.s[Axis];
    lines<Axis>(x.n, [&](const long (&at)[R]) {
        const TX* from = start(x, at) + (Reverse ? (n - 1) * x.s[Axis] : 0);
        TY* to = start(y, at) + (Reverse ? (n - 1) * y.s[Axis] : 0);
        A held = widened<A>(from[0]);
        to[0] = narrowed<TY>(held);
        for (long j = 1; j < n; ++j) {
            held = joined<op>(held, widened<A>(from[j * sx]));
            to[j * sy] = narrowed<TY>(held);
        }
    });
}

template <On op, int Axis, class TY, class TX, int R> static void argreduce(View<TY, R> y, View<TX, R> x) {
    using A = wide<TX>;
    lines<Axis>(x.n, [&](const long (&at)[R]) {
        const TX* from = start(x, at);
        A best = widened<A>(from[0]);
        long found = 0;
        for (long j = 1; j < x.n[Axis] && best == best; ++j) {
            const A v = widened<A>(from[j * x.s[Axis]]);
            if ((op == On::max ? v > best : v < best) || v != v) best = v, found = j;
        }
        *start(y, at) = narrowed<TY>(int64_t(found));
    });
}

template <int Axis, class TY, class TX, class TI, int R>
static void gather(View<TY, R> y, View<TX, R> x, View<TI, R> i) {
    constexpr int In = Axis == R - 1 ? -1 : R - 1;  // the inner loop walks the last dim
    const long count = y.n[R - 1], si = i.n[R - 1] == 1 ? 0 : i.s[R - 1];
    const long sx = Axis == R - 1 || x.n[R - 1] == 1 ? 0 : x.s[R - 1];
    lines<R - 1>(y.n, [&](const long (&at)[R]) {
        const TI* which = start(i, at);
        TY* to = start(y, at);
        const TX* from = x.p;
        for (int d = 0; d < R - 1; ++d)
            if (d != Axis && x.n[d] != 1) from += at[d] * x.s[d];
        if (In >= 0 && si == 0) {  // one row of x
            const int64_t k = int64_t(which[0]);
            const bool inside = k >= 0 && k < x.n[Axis];
            const TX* row = inside ? from + k * x.s[Axis] : from;
            for (long j = 0; j < count; ++j) to[j * y.s[R - 1]] = inside ? cast<TY>(row[j * sx]) : cast<TY>(0.0f);
            return;
        }
        for (long j = 0; j < count; ++j) {
            const int64_t k = int64_t(which[j * si]);
            const bool inside = k >= 0 && k < x.n[Axis];
            to[j * y.s[R - 1]] = inside ? cast<TY>(from[k * x.s[Axis] + j * sx]) : cast<TY>(0.0f);
        }
    });
}

template <On op, int Axis, class TY, class TX, class TI, int R>
static void scatter_acc(View<TY, R> y, View<TX, R> x, View<TI, R> i) {
    using A = wide<TX>;
    lines<Axis>(x.n, [&](const long (&at)[R]) {
        const TI* which = start(i, at);
        const TX* from = start(x, at);
        TY* to = start(y, at);
        const long si = i.n[Axis] == 1 ? 0 : i.s[Axis];
        for (long j = 0; j < x.n[Axis]; ++j) {
            const int64_t k = int64_t(which[j * si]);
            if (k < 0 || k >= y.n[Axis]) continue;
            TY& held = to[k * y.s[Axis]];
            held = narrowed<TY>(joined<op>(widened<A>(held), widened<A>(from[j * x.s[Axis]])));
        }
    });
}

}  // namespace st
