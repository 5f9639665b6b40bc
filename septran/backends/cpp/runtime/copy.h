// Copies between memories: rows, casts, zero padding, and packing into panels.

namespace st {

// A view of which only positions lo[d] <= i < hi[d] exist; the rest read as `fill` (padding of a window).
template <class T, int R> struct Padded {
    View<T, R> v;
    long lo[R];
    long hi[R];
    float fill;
};
// offset/step in the tensor `shape`; p is the tensor's first element, strides are the tensor's.
template <class T, int R>
ST_INLINE Padded<T, R> padded(T* p, const long (&n)[R], const long (&strides)[R], const long (&shape)[R],
                              const long (&offset)[R], const long (&step)[R], float fill = 0) {
    Padded<T, R> out;
    out.fill = fill;
    out.v.p = p;
    for (int d = 0; d < R; ++d) {
        out.v.n[d] = n[d];
        out.v.s[d] = strides[d] * step[d];
        out.v.p += offset[d] * strides[d];
        const long first = offset[d] >= 0 ? 0 : (-offset[d] + step[d] - 1) / step[d];
        const long end = shape[d] > offset[d] ? (shape[d] - offset[d] + step[d] - 1) / step[d] : 0;
        out.lo[d] = least(first, n[d]);
        out.hi[d] = most(out.lo[d], least(end, n[d]));
    }
    return out;
}

template <class D, class S> ST_INLINE void copy_row(D* d, long ds, const S* s, long ss, long n) {
    if (ds == 1 && ss == 1) {
        if constexpr (std::is_same_v<D, S>) std::memcpy(d, s, n * sizeof(D));
        else if constexpr (is_float<D> && is_float<S> && sizeof(D) < 8 && sizeof(S) < 8)
            for (long i = 0; i < n; i += lanes<f32v>) store_n(d + i, load_n<f32v>(s + i, n - i), n - i);
        else
            for (long i = 0; i < n; ++i) d[i] = cast<D>(s[i]);
    } else {
        for (long i = 0; i < n; ++i) d[i * ds] = cast<D>(s[i * ss]);
    }
}
template <class D> ST_INLINE void fill_row(D* d, long ds, float value, long n) {
    for (long i = 0; i < n; ++i) d[i * ds] = cast<D>(value);
}

typedef float f32x4 __attribute__((vector_size(16)));
template <class S> ST_INLINE f32x4 load4(const S* p) {
    f32x4 v;
    if constexpr (sizeof(S) == sizeof(float)) std::memcpy(&v, p, sizeof v);
    else v = f32x4{float(p[0]), float(p[1]), float(p[2]), float(p[3])};
    return v;
}
// to[q] = the elements q of a, b, c and e
ST_INLINE void transpose4(f32x4 (&to)[4], f32x4 a, f32x4 b, f32x4 c, f32x4 e) {
    const f32x4 ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const f32x4 ce0 = __builtin_shufflevector(c, e, 0, 4, 1, 5), ce1 = __builtin_shufflevector(c, e, 2, 6, 3, 7);
    to[0] = __builtin_shufflevector(ab0, ce0, 0, 1, 4, 5), to[1] = __builtin_shufflevector(ab0, ce0, 2, 3, 6, 7);
    to[2] = __builtin_shufflevector(ab1, ce1, 0, 1, 4, 5), to[3] = __builtin_shufflevector(ab1, ce1, 2, 3, 6, 7);
}
// d[i * ld + j * sd] = s[j * ls + i * ss] for i < m, j < n. Eight rows of either side at a time: rows that lie whole pages
// apart share a few places of the cache.
template <class D, class S>
static void across(D* d, long ld, long sd, const S* s, long ls, long ss, long m, long n) {
    if constexpr (std::is_same_v<D, S> && is_float<D> && sizeof(D) == sizeof(float))
        if (sd == 1 && ss == 1 && m >= 4 && n >= 4) {
            const long i4 = m & ~3L, j4 = n & ~3L;
            for (long ib = 0; ib < i4; ib += 8)
                for (long j = 0; j < j4; j += 4)
                    for (long i = ib; i < least(i4, ib + 8); i += 4) {
                        const S* const from = s + j * ls + i;
                        D* const to = d + i * ld + j;
                        f32x4 t[4];
                        transpose4(t, load4(from), load4(from + ls), load4(from + 2 * ls), load4(from + 3 * ls));
                        for (int q = 0; q < 4; ++q) std::memcpy(to + q * ld, &t[q], sizeof t[q]);
                    }
            for (long i = 0; i < m; ++i)
                for (long j = i < i4 ? j4 : 0; j < n; ++j) d[i * ld + j] = s[j * ls + i];
            return;
        }
    for (long i = 0; i < m; ++i)
        for (long j = 0; j < n; ++j) d[i * ld + j * sd] = cast<D>(s[j * ls + i * ss]);
}

// Whether the dims between `at` and the last have one position each.
template <int R> ST_INLINE bool single(const long (&n)[R], int at) {
    for (int d = at + 1; d < R - 1; ++d)
        if (n[d] != 1) return false;
    return true;
}

template <class D, class S, int R, int At = 0>
static void copy(View<D, R> d, View<S, R> s) {
    constexpr int Last = R - 1;
    if constexpr (At == Last) {
        copy_row(d.p, d.s[At], s.p, s.s[At], s.n[At]);
    } else {
        if (d.s[Last] == 1 && s.s[At] == 1 && s.n[At] != 1 && s.s[Last] != 1 && single(s.n, At))
            return across(d.p, d.s[At], 1, s.p, s.s[Last], 1, s.n[At], s.n[Last]);
        for (long i = 0; i < s.n[At]; ++i) {
            copy<D, S, R, At + 1>(d, s);
            d.p += d.s[At];
            s.p += s.s[At];
        }
    }
}
template <class D, class S, int R, int At = 0>
static void copy(View<D, R> d, Padded<S, R> s, bool exists = true) {
    const long n = s.v.n[At];
    if constexpr (At == R - 1) {
        const long lo = exists ? s.lo[At] : n, hi = exists ? s.hi[At] : n;
        fill_row(d.p, d.s[At], s.fill, lo);
        copy_row(d.p + lo * d.s[At], d.s[At], s.v.p + lo * s.v.s[At], s.v.s[At], hi - lo);
        fill_row(d.p + hi * d.s[At], d.s[At], s.fill, n - hi);
    } else {
        constexpr int Last = R - 1;
        if (exists && d.s[Last] == 1 && s.v.s[At] == 1 && n != 1 && s.v.s[Last] != 1 && single(s.v.n, At)) {
            for (int q = At + 1; q < Last; ++q) exists = exists && s.lo[q] < s.hi[q];
            if (exists) {
                const long lo = s.lo[At], hi = s.hi[At], first = s.lo[Last], end = s.hi[Last], step = s.v.s[Last];
                for (long i = 0; i < n; ++i) {
                    D* const to = d.p + i * d.s[At];
                    const bool inside = i >= lo && i < hi;
                    fill_row(to, 1, s.fill, inside ? first : s.v.n[Last]);
                    if (inside) fill_row(to + end, 1, s.fill, s.v.n[Last] - end);
                }
                return across(d.p + lo * d.s[At] + first, d.s[At], 1, s.v.p + lo + first * step, step, 1, hi - lo, end - first);
            }
        }
        for (long i = 0; i < n; ++i) {
            copy<D, S, R, At + 1>(d, s, exists && i >= s.lo[At] && i < s.hi[At]);
            d.p += d.s[At];
            s.v.p += s.v.s[At];
        }
    }
}

// A copy whose source strides are permuted: 16 x 16 blocks of the last two dims keep lines in L1.
template <class D, class S, int R, int At = 0>
static void transpose(View<D, R> d, View<S, R> s) {
    if constexpr (At == R - 2) {
        constexpr long B = 16;
        const long m = d.n[At], n = d.n[At + 1];
        for (long ib = 0; ib < m; ib += B)
            for (long jb = 0; jb < n; jb += B)
                for (long i = ib; i < least(m, ib + B); ++i)
                    for (long j = jb; j < least(n, jb + B); ++j)
                        d.p[i * d.s[At] + j * d.s[At + 1]] = cast<D>(s.p[i * s.s[At] + j * s.s[At + 1]]);
    } else if constexpr (At < R - 2) {
        for (long i = 0; i < d.n[At]; ++i) {
            transpose<D, S, R, At + 1>(d, s);
            d.p += d.s[At];
            s.p += s.s[At];
        }
    } else {
        copy(d, s);
    }
}

// Rows of a tile with the leading dimensions flattened: where row r starts, or null if it is padding.
template <class T, int R> ST_INLINE const T* row(const View<T, R>& v, long r) {
    const T* p = v.p;
    for (int d = R - 2; d >= 0; --d) {
        p += (d ? r % v.n[d] : r) * v.s[d];
        if (d) r /= v.n[d];
    }
    return p;
}
template <class T, int R> ST_INLINE const T* row(const Padded<T, R>& v, long r) {
    const T* p = v.v.p;
    for (int d = R - 2; d >= 0; --d) {
        const long i = d ? r % v.v.n[d] : r;
        if (i < v.lo[d] || i >= v.hi[d]) return nullptr;
        p += i * v.v.s[d];
        if (d) r /= v.v.n[d];
    }
    return p;
}
template <class T, int R> ST_INLINE const View<T, R>& plain(const View<T, R>& v) { return v; }
template <class T, int R> ST_INLINE const View<T, R>& plain(const Padded<T, R>& v) { return v.v; }
template <class T, int R> ST_INLINE long first(const View<T, R>&) { return 0; }
template <class T, int R> ST_INLINE long first(const Padded<T, R>& v) { return v.lo[R - 1]; }
template <class T, int R> ST_INLINE long end(const View<T, R>& v) { return v.n[R - 1]; }
template <class T, int R> ST_INLINE long end(const Padded<T, R>& v) { return v.hi[R - 1]; }
template <class T, int R> ST_INLINE long flat_rows(const View<T, R>& v) {
    long m = 1;
    for (int d = 0; d < R - 1; ++d) m *= v.n[d];
    return m;
}

// d[k * P + i] = rows[i][k], 4 x 4 elements at a time
template <int P, class D, class S>
ST_INLINE void transpose_rows(D* d, const S* const (&rows)[P], long s, long n) {
    constexpr bool widened = std::is_same_v<D, float> && (std::is_same_v<S, bf16> || std::is_same_v<S, f16>);
    if constexpr (widened || (std::is_same_v<D, S> && sizeof(S) == sizeof(float))) {
        if (s == 1) {
            const long whole = n & ~3L;
            for (long k = 0; k < whole; k += 4)
                for (int i = 0; i < P; i += 4) {
                    f32x4 t[4];
                    transpose4(t, load4(rows[i] + k), load4(rows[i + 1] + k), load4(rows[i + 2] + k), load4(rows[i + 3] + k));
                    for (int q = 0; q < 4; ++q) std::memcpy(d + (k + q) * P + i, &t[q], sizeof t[q]);
                }
            for (int q = 0; q < int(n & 3); ++q)
                for (int i = 0; i < P; ++i) d[(whole + q) * P + i] = cast<D>(rows[i][whole + q]);
            return;
        }
    }
    for (long k = 0; k < n; ++k)
        for (int i = 0; i < P; ++i) d[k * P + i] = cast<D>(rows[i][k * s]);
}

// Panels over rows: element (r, k) goes to d[(r / P) * stride + k * P + r % P]; missing rows are 0.
// Layouts panel_m (operand A[m, k]) and panel_n_t (a transposed B[n, k]).
template <int P, class D, class Source> static void pack_rows(D* d, long stride, const Source& s) {
    const auto& v = plain(s);
    using S = std::remove_const_t<std::remove_pointer_t<decltype(v.p)>>;
    constexpr int R = sizeof(v.n) / sizeof(long);
    const long m = flat_rows(v), n = v.n[R - 1], step = v.s[R - 1], lo = first(s), hi = end(s);
    for (long r = 0; r < m; r += P, d += stride) {
        const S* rows[P];
        bool full = lo == 0 && hi == n;
        const int there = int(least(P, m - r));
        for (int i = 0; i < P; ++i) {
            rows[i] = i < there ? row(s, r + i) : nullptr;
            full = full && (rows[i] || i >= there);
        }
        if (full) {
            for (int i = there; i < P; ++i) rows[i] = rows[0];
            transpose_rows<P>(d, rows, step, n);
            if (there < P)
                for (long k = 0; k < n; ++k)
                    for (int i = there; i < P; ++i) d[k * P + i] = D(0);
        } else {
            for (long k = 0; k < n; ++k)
                for (int i = 0; i < P; ++i)
                    d[k * P + i] = rows[i] && k >= lo && k < hi ? cast<D>(rows[i][k * step]) : D(0);
        }
    }
}

// Panels over columns: element (k, c) goes to d[(c / P) * stride + k * P + c % P]; missing columns are 0.
// Layouts panel_n (operand B[k, n]) and panel_m_t (a transposed A[k, m]).
template <int P, class D, class Source> static void pack_cols(D* d, long stride, const Source& s) {
    const auto& v = plain(s);
    constexpr int R = sizeof(v.n) / sizeof(long);
    const long m = flat_rows(v), n = v.n[R - 1], step = v.s[R - 1], lo = first(s), hi = end(s);
    for (long k = 0; k < m; ++k) {
        const auto* from = row(s, k);
        for (long c = 0; c < n; c += P) {
            D* to = d + (c / P) * stride + k * P;
            if (from && step == 1 && c >= lo && c + P <= hi) {
                copy_row(to, 1, from + c, 1, P);
            } else {
                for (int i = 0; i < P; ++i)
                    to[i] = from && c + i >= lo && c + i < hi ? cast<D>(from[(c + i) * step]) : D(0);
            }
        }
    }
}

}  // namespace st
