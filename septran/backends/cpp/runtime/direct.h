// Products with few columns read the rows of A where they are: a panel would be packed for too few uses.

namespace st {

// One register tile like `tile`, of R rows of A that lie lda elements apart.
template <int R, class T>
static __attribute__((noinline)) void tile_rows(long k, const T* a, long lda, const T* b, T* c, long ldc, bool add) {
    using V = vec<T>;
    constexpr int L = lanes<V>, Groups = (R + 3) / 4;
    V acc[R][2];
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) acc[i][0] = acc[i][1] = V{};
    const T* at[Groups];  // four rows each: eleven addresses more would not fit the registers
#pragma GCC unroll 4
    for (int g = 0; g < Groups; ++g) at[g] = a + 4 * g * lda;
#pragma GCC unroll 4
    for (; k > 0; --k, b += COLS) {
        const V b0 = load<V>(b), b1 = load<V>(b + L);
        __builtin_prefetch(b + 16 * COLS);
#pragma GCC unroll 16
        for (int i = 0; i < R; ++i) {
            const V x = splat<V>(at[i / 4][i % 4 * lda]);
            acc[i][0] += x * b0;
            acc[i][1] += x * b1;
        }
#pragma GCC unroll 4
        for (int g = 0; g < Groups; ++g) {
            ++at[g];
            asm("" : "+r"(at[g]));
        }
    }
    put(acc, c, ldc, add);
}

// n columns, whole panels of them, for R rows of A.
template <int R, class T>
ST_INLINE void strip(long n, long k, const T* a, long lda, const T* b, long sb, T* c, long ldc, bool add) {
    constexpr int step = 2 * lanes<vec<T>>;
    for (long j = 0; j < n; j += COLS)
        for (int part = 0; part < COLS; part += step)
            tile_rows<R>(k, a, lda, b + j / COLS * sb + part, c + j + part, ldc, add);
}

// Rows m0.. of A, from element k0 on, times panels of B. Evenly spaced rows go twelve, eight and four at a time.
template <class T, class SA, int RC, int RA>
static void multiply_rows(const View<T, RC>& C, const View<SA, RA>& A, long m0, long m, long n0, long n, long k0, long k,
                          const T* b, long sb, bool add) {
    for (long i = 0; i < m;) {
        const T *const a = row(A, m0 + i) + k0, *next = a;
        T *const c = const_cast<T*>(row(C, m0 + i)) + n0, *below = c;
        long rows = 1, lda = 0, ldc = 0;
        for (; rows < ROWS && i + rows < m; ++rows) {
            const T* const p = row(A, m0 + i + rows) + k0;
            T* const q = const_cast<T*>(row(C, m0 + i + rows)) + n0;
            if (rows == 1) lda = p - a, ldc = q - c;
            if (p - next != lda || q - below != ldc) break;
            next = p, below = q;
        }
        if (rows == ROWS && TILE_ROWS == ROWS) strip<TILE_ROWS>(n, k, a, lda, b, sb, c, ldc, add);
        else if (rows >= 8 && TILE_ROWS == ROWS) strip<8>(n, k, a, lda, b, sb, c, ldc, add), rows = 8;
        else if (rows >= 4) strip<4>(n, k, a, lda, b, sb, c, ldc, add), rows = 4;
        else if (rows >= 2) strip<2>(n, k, a, lda, b, sb, c, ldc, add), rows = 2;
        else strip<1>(n, k, a, lda, b, sb, c, ldc, add);
        i += rows;
    }
}

}  // namespace st
