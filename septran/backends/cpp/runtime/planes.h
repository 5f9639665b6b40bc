// Products of several taps on planes: neighbours of a line lie side by side, channels a plane apart, in A and in C. A vector
// holds neighbours, so nothing is turned on its way in or out. Each element is the same chain of additions as in taps.h.

namespace st {

// A vector of neighbours: where it begins in A and in C; its lanes from `skip` to `end` are stored.
struct Strip { long a, c, skip, end; };

// R channels of C times V vectors of neighbours, `tiles` times V. b: the taps' weights, R of them side by side.
template <int R, int V, class T>
static __attribute__((noinline)) void tile_planes(long tiles, const Strip* strips, long taps, const T* const* a, long plane_a,
                                                  const T* const* b, long from, long ldb, long depth, T* c, long plane_c, bool add) {
    using W = vec<T>;
    constexpr int L = lanes<W>;
    for (; tiles > 0; --tiles, strips += V) {
        W acc[R][V];
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r)
            for (int v = 0; v < V; ++v) acc[r][v] = W{};
        for (long t = 0; t < taps; ++t) {
            const T* x[V];
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) x[v] = a[t] + strips[v].a;
            const T* y = b[t] + from;
            for (long k = depth; k > 0; --k, y += ldb) {
                W line[V];
#pragma GCC unroll 4
                for (int v = 0; v < V; ++v) {
                    line[v] = load<W>(x[v]);
                    x[v] += plane_a;
                }
#pragma GCC unroll 8
                for (int r = 0; r < R; ++r) {
                    const W s = splat<W>(y[r]);
#pragma GCC unroll 4
                    for (int v = 0; v < V; ++v) acc[r][v] += s * line[v];
                }
            }
        }
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) {
            const auto [a0, c0, skip, end] = strips[v];
#pragma GCC unroll 8
            for (int r = 0; r < R; ++r) {
                T* const to = c + c0 + r * plane_c;
                if (skip == 0 || !add) {  // lanes in front hold what the strip before stored, too
                    W sum = acc[r][v];
                    if (add) sum += load_n<W>(to, end);
                    store_n(to, sum, end);
                } else {
                    alignas(64) T lane[L];
                    store(lane, acc[r][v]);
                    for (long i = skip; i < end; ++i) to[i] = lane[i] + to[i];
                }
            }
        }
    }
}

// R channels of C from all vectors of neighbours.
template <int R, class T>
ST_INLINE void strips_planes(long count, const Strip* strips, long taps, const T* const* a, long plane_a, const T* const* b,
                             long from, long ldb, long depth, T* c, long plane_c, bool add) {
    constexpr int Most = TILE_ROWS == ROWS ? 3 : 2;
    tile_planes<R, Most>(count / Most, strips, taps, a, plane_a, b, from, ldb, depth, c, plane_c, add);
    strips += count / Most * Most;
    if constexpr (Most > 2)
        if (count % Most == 2) return tile_planes<R, 2>(1, strips, taps, a, plane_a, b, from, ldb, depth, c, plane_c, add);
    if (count % Most) tile_planes<R, 1>(1, strips, taps, a, plane_a, b, from, ldb, depth, c, plane_c, add);
}

// Lists the vectors of the dims from D on; `line` is the dim of neighbours, n of them.
template <int D, class T, class S, int R>
static void list_strips(Strip*& to, const View<T, R>& C, const View<S, R>& A, int line, long n, long a, long c) {
    if constexpr (D < R - 1) {
        for (long i = 0; i < (D == line ? 1 : C.n[D]); ++i)
            list_strips<D + 1>(to, C, A, line, n, a + i * A.s[D], c + i * C.s[D]);
    } else {
        constexpr long L = lanes<vec<T>>;
        for (long i = 0; i < n; i += L) {  // the last vector of a line begins where it ends with it
            const long first = most(0, least(i, n - L));
            *to++ = {a + first, c + first, i - first, least(L, n - first)};
        }
    }
}

// C (+)= sum of A[t] B[t]; PB: B is in panels. The A lie alike, and so do the B. Lines of A may be read up to a vector's
// length behind their first element.
template <class T, bool Add, bool PB, int Taps, class TC, class SA, class SB, int RC, int RB>
static void gemm_planes(const View<TC, RC>& C, const View<SA, RC> (&A)[Taps], const View<SB, RB> (&B)[Taps]) {
    long ldb = COLS;
    const bool even = PB || (flat(B[0], ldb) && B[0].s[RB - 1] == 1);
    int line = -1;
    for (int d = 0; d < RC - 1; ++d)
        if (A[0].s[d] == 1 && C.s[d] == 1 && (line < 0 || C.n[d] > 1)) line = d;
    if (!even || line < 0) {
        gemm<T, Add, false, PB, false, false>(C, A[0], B[0]);
        for (int t = 1; t < Taps; ++t) gemm<T, true, false, PB, false, false>(C, A[t], B[t]);
        return;
    }
    const long k = A[0].n[RC - 1], n = C.n[RC - 1], plane_a = A[0].s[RC - 1], plane_c = C.s[RC - 1];
    Strip* const strips = reinterpret_cast<Strip*>(scratch<2>(flat_rows(C) * sizeof(Strip)));
    Strip* end = strips;
    list_strips<0>(end, C, A[0], line, C.n[line], 0, 0);
    const T *a[Taps], *b[Taps];
    for (int t = 0; t < Taps; ++t) a[t] = A[t].p, b[t] = B[t].p;
    const long step = most(1, 1024 / most(k, 1));  // chains as long as those of taps.h
    for (long t = 0; t < Taps; t += step)
        for (long j = 0; j < n;) {
            const long from = PB ? j / COLS * B[0].s[0] + j % COLS : j;
            const auto part = [&](auto height) {
                constexpr int R = decltype(height)::value;
                strips_planes<R>(end - strips, strips, least(step, Taps - t), a + t, plane_a, b + t, from, ldb, k,
                                 C.p + j * plane_c, plane_c, Add || t > 0);
                j += R;
            };
            constexpr int Most = TILE_ROWS == ROWS ? 8 : 4;
            if (n - j >= Most) part(std::integral_constant<int, Most>());
            else if (n - j >= 4) part(std::integral_constant<int, 4>());
            else if (n - j >= 2) part(std::integral_constant<int, 2>());
            else part(std::integral_constant<int, 1>());
        }
}

}  // namespace st
