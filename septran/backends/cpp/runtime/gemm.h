// Matrix product on views and on packed panels: C[m, n] = A[m, k] B[k, n], or C += A B.
// Panels are ROWS rows of A and COLS columns of B, contiguous along k and padded with zeros, whatever
// the machine; a register tile is a part of a panel that fits the vector registers.

namespace st {

inline constexpr int ROWS = 12, COLS = 32;
#if defined(__AVX512F__) || defined(__aarch64__)
inline constexpr int TILE_ROWS = 12;
#else
inline constexpr int TILE_ROWS = 6;
#endif

// One register tile: R rows of a packed A panel times 2 vectors of B columns.
template <int R, class T>
static __attribute__((noinline)) void tile(long k, const T* a, const T* b, long ldb, T* c, long ldc, bool add) {
    using V = vec<T>;
    constexpr int L = lanes<V>;
    V acc[R][2];
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) acc[i][0] = acc[i][1] = V{};
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) __builtin_prefetch(c + i * ldc);
#pragma GCC unroll 4
    for (; k > 0; --k, a += ROWS, b += ldb) {
        const V b0 = load<V>(b), b1 = load<V>(b + L);
        __builtin_prefetch(b + 16 * ldb);
#pragma GCC unroll 16
        for (int i = 0; i < R; ++i) {
            const V x = splat<V>(a[i]);
            acc[i][0] += x * b0;
            acc[i][1] += x * b1;
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
        T* row = c + i * ldc;
        if (add) acc[i][0] += load<V>(row), acc[i][1] += load<V>(row + L);
        store(row, acc[i][0]);
        store(row + L, acc[i][1]);
    }
}

// ROWS x COLS of C from one A panel and one B panel.
template <class T>
ST_INLINE void panel(long rows, long k, const T* a, const T* b, long ldb, T* c, long ldc, bool add) {
    constexpr int step = 2 * lanes<vec<T>>;
    for (int j = 0; j < COLS; j += step) {
        if (rows == 1) tile<1>(k, a, b + j, ldb, c + j, ldc, add);
        else if (rows <= 4) tile<4>(k, a, b + j, ldb, c + j, ldc, add);
        else
            for (int i = 0; i < ROWS; i += TILE_ROWS)
                if (i < rows) tile<TILE_ROWS>(k, a + i, b + j, ldb, c + i * ldc + j, ldc, add);
    }
}

// The leading dimensions of a view as one: false when they are not evenly spaced.
template <class T, int R> ST_INLINE bool flat(const View<T, R>& v, long& stride) {
    if (R == 1) {
        stride = 0;
        return true;
    }
    stride = v.s[R >= 2 ? R - 2 : 0];
    long span = v.n[R >= 2 ? R - 2 : 0];
    for (int d = R - 3; d >= 0; --d) {
        if (v.n[d] != 1 && v.s[d] != span * stride) {
            if (span != 1) return false;
            stride = v.s[d];
        }
        span *= v.n[d];
    }
    return true;
}

// Panels times panels. `a` and `b` step by sa and sb elements from panel to panel.
template <class T, class TC, int RC>
static void multiply(const View<TC, RC>& C, long m0, long m, long n0, long n, long k, const T* a, long sa, const T* b,
                     long sb, long ldb, bool add) {
    long ldc;
    const bool direct = std::is_same_v<TC, T> && flat(C, ldc) && C.s[RC - 1] == 1;
    const long block = ROWS * most(1, (384 << 10) / long(ROWS * sizeof(T) * most(k, 1)));
    for (long mb = 0; mb < m; mb += block)
        for (long j = 0; j < n; j += COLS)
            for (long i = mb; i < least(m, mb + block); i += ROWS) {
                const T* pa = a + i / ROWS * sa;
                const T* pb = b + j / COLS * sb;
                const long rows = least(ROWS, m - i), cols = least(COLS, n - j);
                if constexpr (std::is_same_v<TC, T>)
                    if (direct && rows == ROWS && cols == COLS) {
                        panel(rows, k, pa, pb, ldb, C.p + (m0 + i) * ldc + n0 + j, ldc, add);
                        continue;
                    }
                alignas(64) T edge[ROWS * COLS];
                panel(rows, k, pa, pb, ldb, edge, COLS, false);
                for (long r = 0; r < rows; ++r) {
                    TC* out = const_cast<TC*>(row(C, m0 + i + r)) + (n0 + j) * C.s[RC - 1];
                    for (long q = 0; q < cols; ++q) {
                        const T old = add ? cast<T>(out[q * C.s[RC - 1]]) : T(0);
                        out[q * C.s[RC - 1]] = cast<TC>(old + edge[r * COLS + q]);
                    }
                }
            }
}


template <int P, class T, class S, int R>
static void pack_part(T* d, long stride, const View<S, R>& v, bool over_rows, long r0, long rn, long c0, long cn) {
    long ld;
    if (flat(v, ld)) {
        const View<S, 2> part = {v.p + r0 * ld + c0 * v.s[R - 1], {rn, cn}, {ld, v.s[R - 1]}};
        if (over_rows) pack_rows<P>(d, stride, part);
        else pack_cols<P>(d, stride, part);
        return;
    }
    for (long r = 0; r < (over_rows ? (rn + P - 1) / P * P : rn); ++r)
        for (long c = 0; c < (over_rows ? cn : (cn + P - 1) / P * P); ++c) {
            const T x = r < rn && c < cn ? cast<T>(row(v, r0 + r)[(c0 + c) * v.s[R - 1]]) : T(0);
            if (over_rows) d[r / P * stride + c * P + r % P] = x;
            else d[c / P * stride + r * P + c % P] = x;
        }
}

// sum over k of x[k] * y[k], four independent vectors
template <class T, class X, class Y> ST_INLINE T dot(const X* x, const Y* y, long k) {
    using V = vec<T>;
    constexpr int L = lanes<V>;
    V acc[4] = {};
    long i = 0;
    for (; i + 4 * L <= k; i += 4 * L)
#pragma GCC unroll 4
        for (int u = 0; u < 4; ++u) acc[u] += load<V>(x + i + u * L) * load<V>(y + i + u * L);
    for (; i < k; i += L) acc[0] += load_n<V>(x + i, k - i) * load_n<V>(y + i, k - i);
    return fold<Sum>((acc[0] + acc[1]) + (acc[2] + acc[3]));
}

// PA, PB: the operand is already in panels. TA, TB: transposed, A is [k, m] and B is [n, k].
// A packed view has s[0] = elements from panel to panel; n holds the logical extents.
template <class T, bool Add, bool PA, bool PB, bool TA, bool TB, class TC, class SA, class SB, int RC, int RA, int RB>
static void gemm(View<TC, RC> C, View<SA, RA> A, View<SB, RB> B) {
    using EA = std::remove_const_t<SA>;
    using EB = std::remove_const_t<SB>;
    const long m = TA ? A.n[RA - 1] : flat_rows(A), k = TA ? flat_rows(A) : A.n[RA - 1], n = C.n[RC - 1];
    if constexpr (PA && PB && std::is_same_v<EA, T> && std::is_same_v<EB, T>) {
        multiply<T>(C, 0, m, 0, n, k, A.p, A.s[0], B.p, B.s[0], COLS, Add);
        return;
    }
    if constexpr (!PA && !PB) {
        long la, lb, lc;
        if (flat(A, la) && flat(B, lb) && flat(C, lc)) {
            const long bk = TB ? B.s[RB - 1] : lb, bn = TB ? lb : B.s[RB - 1];
            if (!TA && A.s[RA - 1] == 1 && n == 1 && m > 1) {  // matrix times column
                T* x = reinterpret_cast<T*>(scratch<2>(k * sizeof(T)));
                for (long q = 0; q < k; ++q) x[q] = cast<T>(B.p[q * bk]);
                for (long i = 0; i < m; ++i) {
                    TC& out = C.p[i * lc];
                    const T sum = dot<T>(A.p + i * la, x, k);
                    out = cast<TC>(Add ? cast<T>(out) + sum : sum);
                }
                return;
            }
            if (TB && bk == 1 && m <= 2) {  // a few rows times a transposed matrix
                const long ai = TA ? A.s[RA - 1] : la, ak = TA ? la : A.s[RA - 1];
                T* x = reinterpret_cast<T*>(scratch<2>(m * k * sizeof(T)));
                for (long i = 0; i < m; ++i)
                    for (long q = 0; q < k; ++q) x[i * k + q] = cast<T>(A.p[i * ai + q * ak]);
                for (long j = 0; j < n; ++j)
                    for (long i = 0; i < m; ++i) {
                        TC& out = C.p[i * lc + j * C.s[RC - 1]];
                        const T sum = dot<T>(x + i * k, B.p + j * bn, k);
                        out = cast<TC>(Add ? cast<T>(out) + sum : sum);
                    }
                return;
            }
        }
    }
    // Pack what is not packed, block by block. One block along k when C cannot hold partial sums exactly.
    const long kc = std::is_same_v<TC, T> ? 512 : most(k, 1), nc = 512, mc = 16 * ROWS;
    long ldb = 0;
    const bool b_direct = !PB && !TB && std::is_same_v<EB, T> && flat(B, ldb) && B.s[RB - 1] == 1 && m <= 2 * ROWS;
    const size_t bytes_a = size_t(mc) * kc * sizeof(T), bytes_b = size_t(nc) * kc * sizeof(T);
    T* space_a = reinterpret_cast<T*>(scratch<2>(bytes_a + bytes_b + 128));
    T* space_b = space_a + size_t(mc) * kc;
    if (k == 0 && !Add) multiply<T>(C, 0, m, 0, n, 0, space_a, 0, space_b, 0, COLS, false);
    for (long k0 = 0; k0 < k; k0 += kc) {
        const long kn = least(kc, k - k0);
        for (long n0 = 0; n0 < n; n0 += nc) {
            const long nn = least(nc, n - n0), whole = b_direct ? nn / COLS * COLS : 0;
            const T* b = space_b;
            long sb = kn * COLS;
            if constexpr (PB && std::is_same_v<EB, T>) b = B.p + n0 / COLS * B.s[0] + k0 * COLS, sb = B.s[0];
            else if constexpr (PB)
                for (long j = 0; j < nn; j += COLS)
                    copy_row(space_b + j * kn, 1, B.p + (n0 + j) / COLS * B.s[0] + k0 * COLS, 1, kn * COLS);
            else if constexpr (TB) pack_part<COLS>(space_b, sb, B, true, n0, nn, k0, kn);
            else if (whole < nn) pack_part<COLS>(space_b, sb, B, false, k0, kn, n0 + whole, nn - whole);
            for (long m0 = 0; m0 < m; m0 += mc) {
                const long mn = least(mc, m - m0);
                const T* a = space_a;
                long sa = kn * ROWS;
                if constexpr (PA && std::is_same_v<EA, T>) a = A.p + m0 / ROWS * A.s[0] + k0 * ROWS, sa = A.s[0];
                else if constexpr (PA)
                    for (long i = 0; i < mn; i += ROWS)
                        copy_row(space_a + i * kn, 1, A.p + (m0 + i) / ROWS * A.s[0] + k0 * ROWS, 1, kn * ROWS);
                else if constexpr (TA) pack_part<ROWS>(space_a, sa, A, false, k0, kn, m0, mn);
                else pack_part<ROWS>(space_a, sa, A, true, m0, mn, k0, kn);
                const bool add = Add || k0 > 0;
                if constexpr (!PB && !TB && std::is_same_v<EB, T>)
                    if (whole) multiply<T>(C, m0, mn, n0, whole, kn, a, sa, B.p + k0 * ldb + n0, COLS, ldb, add);
                multiply<T>(C, m0, mn, n0 + whole, nn - whole, kn, a, sa, b, sb, COLS, add);
            }
        }
    }
}

}  // namespace st
