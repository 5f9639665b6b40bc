// Matrix product on views and on packed panels: C[m, n] = A[m, k] B[k, n], or C += A B.

namespace st {

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
#if defined(__AVX512BF16__)
    if constexpr (!PA && !PB && std::is_same_v<T, float> && std::is_same_v<EA, bf16> && std::is_same_v<EB, bf16>)
        if (n > 1 && gemm_pairs<Add, TA, TB>(C, A, B)) return;
#endif
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
    const bool b_direct = !PB && !TB && std::is_same_v<EB, T> && flat(B, ldb) && B.s[RB - 1] == 1 && (m <= 2 * ROWS || (ldb == COLS && n == COLS));
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
            if constexpr (!PA && !TA && std::is_same_v<EA, T> && std::is_same_v<TC, T>)
                if (n <= 4 * COLS && nn % lanes<vec<T>> == 0 && !whole && A.s[RA - 1] == 1 && C.s[RC - 1] == 1) {
                    multiply_rows(C, A, n0, nn, k0, kn, b, sb, Add || k0 > 0);
                    continue;
                }
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
