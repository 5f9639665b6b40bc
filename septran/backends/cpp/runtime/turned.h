// Views with their dims in another order, and copies between buffers whose last dim is not the one along which they lie.

namespace st {

// The same elements; dim d of the result is dim At[d] of `v`.
template <int... At, class T> ST_INLINE View<T, sizeof...(At)> turned(const View<T, sizeof...(At)>& v) {
    return {v.p, {v.n[At]...}, {v.s[At]...}};
}

// `order` of a view whose dim `line` becomes the last one and whose last one becomes the first.
template <int R> ST_INLINE void last_line(long (&to)[R], const long (&from)[R], int line) {
    to[0] = from[R - 1];
    int at = 1;
    for (int d = 0; d < R - 1; ++d)
        if (d != line) to[at++] = from[d];
    to[R - 1] = from[line];
}

// The dim along which both sides lie side by side, -1 where it is none or the last.
template <int R> ST_INLINE int common_line(const long (&d)[R], const long (&s)[R], const long (&n)[R]) {
    for (int i = R - 2; i >= 0; --i)
        if (d[i] == 1 && s[i] == 1 && n[i] != 1) return i;
    return -1;
}

// Neighbours of a line, a cache line of them at a time; the last one ends where the line does.
template <class T> ST_INLINE void copy_line(T* d, const T* s, long n) {
    constexpr long L = 64 / sizeof(T);
    for (long i = 0; i + L <= n; i += L) __builtin_memcpy(d + i, s + i, 64);
    if (n >= L) {
        __builtin_memcpy(d + n - L, s + n - L, 64);
        return;
    }
    for (long i = 0; i < n; ++i) d[i] = s[i];
}

// Lines of dim R - 1, which lie side by side on both sides; lo <= position < hi exist.
template <int At, class T, int R>
static void copy_lines(T* d, const long (&ds)[R], const T* s, const long (&ss)[R], const long (&n)[R], const long (&lo)[R],
                       const long (&hi)[R], T fill, bool exists) {
    if constexpr (At == R - 1) {
        const long first = exists ? lo[At] : n[At], end = exists ? hi[At] : n[At];
        for (long i = 0; i < first; ++i) d[i] = fill;
        for (long i = end; i < n[At]; ++i) d[i] = fill;
        copy_line(d + first, s + first, end - first);
    } else {
        for (long i = 0; i < n[At]; ++i, d += ds[At], s += ss[At])
            copy_lines<At + 1>(d, ds, s, ss, n, lo, hi, fill, exists && i >= lo[At] && i < hi[At]);
    }
}

template <class D, class S, int R>
static void copy_planes(View<D, R> d, const Padded<S, R>& s) {
    const int line = common_line(d.s, s.v.s, s.v.n);
    if constexpr (std::is_same_v<D, std::remove_const_t<S>>)
        if (line >= 0) {
            long ds[R], ss[R], n[R], lo[R], hi[R];
            last_line(ds, d.s, line), last_line(ss, s.v.s, line), last_line(n, s.v.n, line);
            last_line(lo, s.lo, line), last_line(hi, s.hi, line);
            return copy_lines<0>(d.p, ds, s.v.p, ss, n, lo, hi, cast<D>(s.fill), true);
        }
    copy(d, s);
}
template <class D, class S, int R> static void copy_planes(View<D, R> d, View<S, R> s) {
    Padded<S, R> whole{s, {}, {}, 0};
    for (int i = 0; i < R; ++i) whole.hi[i] = s.n[i];
    if (common_line(d.s, s.s, s.n) >= 0) copy_planes(d, whole);
    else copy(d, s);
}

}  // namespace st
