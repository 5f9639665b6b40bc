// Products with few columns read the rows of A where they are: a panel would be packed for too few uses.

namespace st {

// One register tile like `tile`, of R rows of A that lie lda elements apart and W vectors of columns.
template <int R, int W, class T>
static __attribute__((noinline)) void tile_rows(long k, const T* a, long lda, const T* b, T* c, long ldc, bool add) {
    using V = vec<T>;
    constexpr int L = lanes<V>, Groups = (R + 3) / 4;
    V acc[R][W];
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i)
        for (int w = 0; w < W; ++w) acc[i][w] = V{};
    const T* at[Groups];  // four rows each: eleven addresses more would not fit the registers
#pragma GCC unroll 4
    for (int g = 0; g < Groups; ++g) at[g] = a + 4 * g * lda;
#pragma GCC unroll 4
    for (; k > 0; --k, b += COLS) {
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

// n columns, whole vectors of them, for R rows of A.
template <int R, class T>
ST_INLINE void strip(long n, long k, const T* a, long lda, const T* b, long sb, T* c, long ldc, bool add) {
    constexpr int L = lanes<vec<T>>;
    for (long j = 0; j < n; j += 2 * L) {
        const T* const panel = b + j / COLS * sb + j % COLS;
        if (j + 2 * L <= n) tile_rows<R, 2>(k, a, lda, panel, c + j, ldc, add);
        else tile_rows<R, 1>(k, a, lda, panel, c + j, ldc, add);
    }
}

// How many rows lie evenly spaced before a new dim begins, and their distance.
template <class T, int R> ST_INLINE long even_rows(const View<T, R>& v, long& stride) {
    if (flat(v, stride)) return std::numeric_limits<long>::max();
    stride = v.s[R >= 2 ? R - 2 : 0];
    return v.n[R >= 2 ? R - 2 : 0];
}

// Rows m0.. of A, from element k0 on, times vectors of columns of B. Evenly spaced rows go twelve, eight and four at a time.
template <class T, class SA, int RC, int RA>
static void multiply_rows(const View<T, RC>& C, const View<SA, RA>& A, long m0, long m, long n0, long n, long k0, long k,
                          const T* b, long sb, bool add) {
    long lda = 0, ldc = 0;
    const long run_a = even_rows(A, lda), run_c = even_rows(C, ldc);
    for (long i = 0; i < m;) {
        const long at = m0 + i;
        const long run = least(m - i, least(run_a - at % run_a, run_c - at % run_c));
        const T* a = row(A, at) + k0;
        T* c = const_cast<T*>(row(C, at)) + n0;
        for (long done = 0; done < run;) {
            long rows = least(ROWS, run - done);
            if (rows == ROWS && TILE_ROWS == ROWS) strip<TILE_ROWS>(n, k, a, lda, b, sb, c, ldc, add);
            else if (rows >= 8 && TILE_ROWS == ROWS) strip<8>(n, k, a, lda, b, sb, c, ldc, add), rows = 8;
            else if (rows >= 4) strip<4>(n, k, a, lda, b, sb, c, ldc, add), rows = 4;
            else if (rows >= 2) strip<2>(n, k, a, lda, b, sb, c, ldc, add), rows = 2;
            else strip<1>(n, k, a, lda, b, sb, c, ldc, add);
            done += rows, a += rows * lda, c += rows * ldc;
        }
        i += run;
    }
}

}  // namespace st
