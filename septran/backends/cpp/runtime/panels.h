// Panels of packed operands, and their product: what gemm is made of. Panels are ROWS rows of A and COLS columns
// of B, contiguous along k and padded with zeros, whatever
// the machine; a register tile is a part of a panel that fits the vector registers.

namespace st {

inline constexpr int ROWS = 12, COLS = 32;
#if defined(__AVX512F__) || defined(__aarch64__) || defined(__riscv)
inline constexpr int TILE_ROWS = 12, EIGHT = 8;
#else
inline constexpr int TILE_ROWS = 6, EIGHT = 4;
#endif

// Stores the sums of a register tile, or adds them to C.
template <int R, int W, class V, class T> ST_INLINE void put(V (&acc)[R][W], T* c, long ldc, bool add) {
    constexpr int L = lanes<V>;
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
        T* row = c + i * ldc;
        for (int w = 0; w < W; ++w) {
            if (add) acc[i][w] += load<V>(row + w * L);
            store(row + w * L, acc[i][w]);
        }
    }
}

// One register tile: R rows of a packed A panel times 2 vectors of B columns.
template <int R, class T>
static __attribute__((noinline)) void tile(long k, const T* a, const T* b, long ldb, T* c, long ldc, bool add) {
    using V = vec<T>;
    constexpr int L = lanes<V>;
    constexpr long Ahead = R > 8 ? 16 : 64;  // few rows wait for the columns, which may come from memory
    V acc[R][2];
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) acc[i][0] = acc[i][1] = V{};
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) __builtin_prefetch(c + i * ldc);
#pragma GCC unroll 4
    for (; k > 0; --k, a += ROWS, b += ldb) {
        const V b0 = load<V>(b), b1 = load<V>(b + L);
        __builtin_prefetch(b + Ahead * ldb);
        if constexpr (R <= 8 && sizeof(V) == 64) __builtin_prefetch(b + Ahead * ldb + L);
#pragma GCC unroll 16
        for (int i = 0; i < R; ++i) {
            const V x = splat<V>(a[i]);
            acc[i][0] += x * b0;
            acc[i][1] += x * b1;
        }
    }
    put(acc, c, ldc, add);
}

// ROWS x COLS of C from one A panel and one B panel; E: what panels hold, T or pairs of bfloat16.
template <class T, class E>
ST_INLINE void panel(long rows, long k, const E* a, const E* b, long ldb, T* c, long ldc, bool add) {
    constexpr int step = 2 * lanes<vec<T>>;
    for (int j = 0; j < COLS; j += step) {
        if (rows == 1) tile<1>(k, a, b + j, ldb, c + j, ldc, add);
        else if (rows <= 4) tile<4>(k, a, b + j, ldb, c + j, ldc, add);
        else if (rows <= 8)
            for (int i = 0; i < 8; i += EIGHT) tile<EIGHT>(k, a + i, b + j, ldb, c + i * ldc + j, ldc, add);
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

// Panels times panels. `a` and `b` step by sa and sb elements from panel to panel; k counts elements of a panel.
template <class T, class TC, int RC, class E>
static void multiply(const View<TC, RC>& C, long m0, long m, long n0, long n, long k, const E* a, long sa, const E* b,
                     long sb, long ldb, bool add) {
    long ldc;
    const bool direct = std::is_same_v<TC, T> && flat(C, ldc) && C.s[RC - 1] == 1;
    const long block = ROWS * most(1, (384 << 10) / long(ROWS * sizeof(E) * most(k, 1)));
    for (long mb = 0; mb < m; mb += block)
        for (long j = 0; j < n; j += COLS)
            for (long i = mb; i < least(m, mb + block); i += ROWS) {
                const E* pa = a + i / ROWS * sa;
                const E* pb = b + j / COLS * sb;
                const long rows = least(ROWS, m - i), cols = least(COLS, n - j);
                if constexpr (std::is_same_v<TC, T>)
                    if (direct && (rows == ROWS || rows == 8 || rows == 4 || rows == 1) && cols == COLS) {
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

}  // namespace st
