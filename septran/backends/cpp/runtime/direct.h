// Products with few columns read the rows of A where they are: a panel would be packed for too few uses.

namespace st {

// Register tiles like `tile`, of R rows of A that lie lda elements apart and W vectors of columns: `tiles` of them, one below the other.
template <int R, int W, class T>
static __attribute__((noinline)) void tile_rows(long tiles, long depth, const T* from, long lda, const T* panel, T* c, long ldc, bool add) {
    using V = vec<T>;
    constexpr int L = lanes<V>, Groups = (R + 3) / 4;
    for (; tiles > 0; --tiles, from += R * lda, c += R * ldc) {
        V acc[R][W];
#pragma GCC unroll 16
        for (int i = 0; i < R; ++i)
            for (int w = 0; w < W; ++w) acc[i][w] = V{};
        const T* at[Groups];  // four rows each: eleven addresses more would not fit the registers
#pragma GCC unroll 4
        for (int g = 0; g < Groups; ++g) at[g] = from + 4 * g * lda;
        const T* b = panel;
#pragma GCC unroll 4
        for (long k = depth; k > 0; --k, b += COLS) {
            V column[W];
            for (int w = 0; w < W; ++w) column[w] = load<V>(b + w * L);
            __builtin_prefetch(b + 16 * COLS);
#pragma GCC unroll 16
            for (int i = 0; i < R; ++i) {
                const V x = splat<V>(at[i / 4][i % 4 * lda]);
                for (int w = 0; w < W; ++w) acc[i][w] += x * column[w];
            }
#pragma GCC unroll 4
            for (int g = 0; g < Groups; ++g) {
                ++at[g];
                asm("" : "+r"(at[g]));
            }
        }
        put(acc, c, ldc, add);
    }
}

// n columns, whole vectors of them, for `tiles` times R rows of A.
template <int R, class T>
ST_INLINE void strip(long tiles, long n, long k, const T* a, long lda, const T* b, long sb, T* c, long ldc, bool add) {
    constexpr int L = lanes<vec<T>>;
    for (long j = 0; j < n; j += 2 * L) {
        const T* const panel = b + j / COLS * sb + j % COLS;
        if (j + 2 * L <= n) tile_rows<R, 2>(tiles, k, a, lda, panel, c + j, ldc, add);
        else tile_rows<R, 1>(tiles, k, a, lda, panel, c + j, ldc, add);
    }
}

// Evenly spaced rows of A times n columns: as many as the registers hold at a time, then eight, four and fewer.
template <class T>
static void multiply_run(long rows, long n, long k, const T* a, long lda, const T* b, long sb, T* c, long ldc, bool add) {
    constexpr int Most = TILE_ROWS == ROWS ? ROWS : 4;  // with sixteen registers six rows are no faster than four
    const auto part = [&](auto tile, long tiles) {
        constexpr int R = decltype(tile)::value;
        strip<R>(tiles, n, k, a, lda, b, sb, c, ldc, add);
        rows -= R * tiles, a += R * tiles * lda, c += R * tiles * ldc;
    };
    if (rows >= Most) part(std::integral_constant<int, Most>(), rows / Most);
    if constexpr (Most > 8)
        if (rows >= 8) part(std::integral_constant<int, 8>(), 1);
    if (rows >= 4) part(std::integral_constant<int, 4>(), 1);
    if (rows >= 2) part(std::integral_constant<int, 2>(), 1);
    if (rows >= 1) part(std::integral_constant<int, 1>(), 1);
}

// The first of the leading dims that, with those behind it, are evenly spaced rows, and the rows' distance.
template <class T, int R> ST_INLINE int even_from(const View<T, R>& v, long& stride) {
    int from = R - 1;
    long rows = 1;
    stride = 0;
    for (int d = R - 2; d >= 0; --d) {
        if (v.n[d] != 1) {
            if (rows != 1 && v.s[d] != rows * stride) break;
            if (rows == 1) stride = v.s[d];
            rows *= v.n[d];
        }
        from = d;
    }
    return from;
}

// Rows of the leading dims from D on; those from `from` on are `run` evenly spaced rows.
template <int D, class T, int RC, class SA, int RA>
static void multiply_dims(const View<T, RC>& C, const View<SA, RA>& A, int from, long run, long n, long k, const T* a, long lda,
                          const T* b, long sb, T* c, long ldc, bool add) {
    if constexpr (D >= 0 && D < RC - 1 && RA == RC) {
        if (D < from) {
            for (long i = 0; i < C.n[D]; ++i, a += A.s[D], c += C.s[D])
                multiply_dims<D + 1>(C, A, from, run, n, k, a, lda, b, sb, c, ldc, add);
            return;
        }
    }
    multiply_run<T>(run, n, k, a, lda, b, sb, c, ldc, add);
}

// All rows of A, from element k0 on, times vectors of columns of B.
template <class T, class SA, int RC, int RA>
static void multiply_rows(const View<T, RC>& C, const View<SA, RA>& A, long n0, long n, long k0, long k, const T* b,
                          long sb, bool add) {
    long lda = 0, ldc = 0, run = 1;
    const int from_a = even_from(A, lda), from_c = even_from(C, ldc);
    bool alike = RA == RC;
    for (int d = 0; d < RC - 1 && alike; ++d) alike = A.n[d] == C.n[d];
    if (alike) {
        const int from = from_a > from_c ? from_a : from_c;
        for (int d = from; d < RC - 1; ++d) run *= C.n[d];
        multiply_dims<0>(C, A, from, run, n, k, A.p + k0, lda, b, sb, C.p + n0, ldc, add);
        return;
    }
    const long m = flat_rows(A);
    run = from_a == 0 && from_c == 0 ? m : 1;
    for (long at = 0; at < m; at += run)
        multiply_run<T>(run, n, k, row(A, at) + k0, lda, b, sb, const_cast<T*>(row(C, at)) + n0, ldc, add);
}

}  // namespace st
