// Products of several taps, C = sum over t of A[t] B[t], whose sums stay in registers over all of them. Each element is one
// chain of additions, tap by tap and along k, whatever the rows and columns that are taken together.

namespace st {

// Four neighbouring rows: where they begin in A and in C, and how many of them another four store.
struct Four { long a, c, skip; };

// Register tiles of G groups of R rows and W vectors of columns, `tiles` of them. b: the taps' columns, `n` of which are stored.
template <int G, int R, int W, class T>
static __attribute__((noinline)) void tile_taps(long tiles, const Four* rows, long taps, const T* const* a, long lda,
                                                const T* const* b, long at, long ldb, long depth, T* c, long ldc, long n, bool add) {
    using V = vec<T>;
    constexpr int L = lanes<V>;
    for (; tiles > 0; --tiles, rows += G) {
        V acc[G * R][W];
#pragma GCC unroll 32
        for (int i = 0; i < G * R; ++i)
            for (int w = 0; w < W; ++w) acc[i][w] = V{};
        for (long t = 0; t < taps; ++t) {
            const T* x[G];
#pragma GCC unroll 8
            for (int g = 0; g < G; ++g) x[g] = a[t] + rows[g].a;
            const T* y = b[t] + at;
#pragma GCC unroll 4
            for (long k = depth; k > 0; --k, y += ldb) {
                V column[W];
                for (int w = 0; w < W; ++w) column[w] = load<V>(y + w * L);
                __builtin_prefetch(y + 16 * ldb);
#pragma GCC unroll 32
                for (int i = 0; i < G * R; ++i) {
                    const V s = splat<V>(x[i / R][i % R * lda]);
                    for (int w = 0; w < W; ++w) acc[i][w] += s * column[w];
                }
#pragma GCC unroll 8
                for (int g = 0; g < G; ++g) {
                    ++x[g];
                    asm("" : "+r"(x[g]));  // four addresses a group would not fit the registers
                }
            }
        }
#pragma GCC unroll 8
        for (int g = 0; g < G; ++g)
#pragma GCC unroll 4
            for (int r = 0; r < R; ++r) {
                if (r < rows[g].skip) continue;
                T* const to = c + rows[g].c + r * ldc;
                for (int w = 0; w < W; ++w) {
                    V sum = acc[g * R + r][w];
                    if (add) sum += load_n<V>(to + w * L, n - w * L);
                    store_n(to + w * L, sum, n - w * L);
                }
            }
    }
}

// All groups of R rows times the columns from `at` on.
template <int R, int W, class T>
ST_INLINE void groups_taps(long count, const Four* rows, long taps, const T* const* a, long lda, const T* const* b, long at,
                           long ldb, long depth, T* c, long ldc, long n, bool add) {
    constexpr int Most = R > 1 && TILE_ROWS == ROWS ? ROWS / R : 1;
    tile_taps<Most, R, W>(count / Most, rows, taps, a, lda, b, at, ldb, depth, c, ldc, n, add);
    rows += count / Most * Most;
    if constexpr (Most > 2)
        if (count % Most == 2) return tile_taps<2, R, W>(1, rows, taps, a, lda, b, at, ldb, depth, c, ldc, n, add);
    if constexpr (Most > 1)
        if (count % Most) tile_taps<1, R, W>(1, rows, taps, a, lda, b, at, ldb, depth, c, ldc, n, add);
}

// Lists the groups of rows of the dims from D on, of which those from `from` on are one line of `run` rows.
template <int D, int R, class T, class S>
static void list_rows(Four*& to, const View<T, R>& C, const View<S, R>& A, int from, long run, long lda, long ldc, long a, long c) {
    if constexpr (D < R - 1) {
        if (D < from) {
            for (long i = 0; i < C.n[D]; ++i)
                list_rows<D + 1>(to, C, A, from, run, lda, ldc, a + i * A.s[D], c + i * C.s[D]);
            return;
        }
    }
    if (run < 4) {
        for (long i = 0; i < run; ++i) *to++ = {a + i * lda, c + i * ldc, 0};
        return;
    }
    for (long i = 0; i < run; i += 4) {  // the last four of a line begin where they end with it
        const long back = most(0, i + 4 - run);
        *to++ = {a + (i - back) * lda, c + (i - back) * ldc, back};
    }
}

// C (+)= sum of A[t] B[t]; PB: B is in panels. The A lie alike, and so do the B.
template <class T, bool Add, bool PB, int Taps, class TC, class SA, class SB, int RC, int RB>
static void gemm_taps(const View<TC, RC>& C, const View<SA, RC> (&A)[Taps], const View<SB, RB> (&B)[Taps]) {
    constexpr bool alike = std::is_same_v<TC, T> && std::is_same_v<std::remove_const_t<SA>, T> && std::is_same_v<std::remove_const_t<SB>, T>;
    long ldb = COLS;
    const bool even = PB || (flat(B[0], ldb) && B[0].s[RB - 1] == 1);
    if constexpr (alike)
        if (even && A[0].s[RC - 1] == 1 && C.s[RC - 1] == 1) {
            constexpr int L = lanes<vec<T>>;
            const long k = A[0].n[RC - 1], n = C.n[RC - 1];
            long lda = 0, ldc = 0, run = 1;
            const int from_a = even_from(A[0], lda), from_c = even_from(C, ldc), from = from_a > from_c ? from_a : from_c;
            for (int d = from; d < RC - 1; ++d) run *= C.n[d];
            const long most_rows = flat_rows(C), padded = (n + L - 1) / L * L;
            const bool packs = !PB && n % L;
            char* const space = scratch<2>(most_rows * sizeof(Four) + 64 + (packs ? size_t(Taps) * k * padded * sizeof(T) : 0));
            T* panel = reinterpret_cast<T*>(space);
            Four* const rows = reinterpret_cast<Four*>(space + (packs ? size_t(Taps) * k * padded * sizeof(T) : 0));
            Four* end = rows;
            list_rows<0>(end, C, A[0], from, run, lda, ldc, 0, 0);
            const T *a[Taps], *b[Taps];
            for (int t = 0; t < Taps; ++t) {
                a[t] = A[t].p, b[t] = B[t].p;
                if (packs) {
                    for (long q = 0; q < k; ++q)
                        for (long j = 0; j < padded; ++j) panel[q * padded + j] = j < n ? B[t].p[q * ldb + j] : T(0);
                    b[t] = panel;
                    panel += k * padded;
                }
            }
            if (packs) ldb = padded;
            const long step = most(1, 1024 / most(k, 1));  // chains of a thousand products or of one tap
            for (long t = 0; t < Taps; t += step)
                for (long j = 0; j < n; j += 2 * L) {
                    const long at = PB ? j / COLS * B[0].s[0] + j % COLS : j;
                    const auto strip = [&](auto height, auto width) {
                        groups_taps<decltype(height)::value, decltype(width)::value>(end - rows, rows, least(step, Taps - t), a + t, lda,
                            b + t, at, ldb, k, C.p + j, ldc, n - j, Add || t > 0);
                    };
                    using std::integral_constant;
                    if (run >= 4 && n - j > L) strip(integral_constant<int, 4>(), integral_constant<int, 2>());
                    else if (run >= 4) strip(integral_constant<int, 4>(), integral_constant<int, 1>());
                    else if (n - j > L) strip(integral_constant<int, 1>(), integral_constant<int, 2>());
                    else strip(integral_constant<int, 1>(), integral_constant<int, 1>());
                }
            return;
        }
    gemm<T, Add, false, PB, false, false>(C, A[0], B[0]);
    for (int t = 1; t < Taps; ++t) gemm<T, true, false, PB, false, false>(C, A[t], B[t]);
}

}  // namespace st
