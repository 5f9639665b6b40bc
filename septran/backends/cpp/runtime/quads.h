// Products of integers. Sums are exact modulo 2^32, or 2^64 where C has 64 bits, as torch has them. Bytes with a sign are
// multiplied four at a time where the CPU has the instruction: four neighbours along k are one 32-bit word of a panel.

namespace st {

typedef uint64_t u64v __attribute__((vector_size(ST_VB)));
template <> struct lane_of<u32v> { using type = uint32_t; using mask = i32v; using integer = int32_t; };
template <> struct lane_of<u64v> { using type = uint64_t; using mask = i64v; using integer = int64_t; };
template <> struct vec_of<uint32_t> { using type = u32v; };
template <> struct vec_of<uint64_t> { using type = u64v; };

#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
struct __attribute__((may_alias, aligned(1))) quad {
    uint8_t bytes[4];
};
inline constexpr uint32_t SIGNS = 0x80808080u;

// c + x * y over quads, lane by lane: the bytes of x have no sign, those of y have one. Nothing saturates.
ST_INLINE u32v dot_quads(u32v c, u32v x, u32v y) {
#if defined(__clang__)
    return (u32v)__builtin_ia32_vpdpbusd512((i32v)c, (i32v)x, (i32v)y);
#else
    return (u32v)__builtin_ia32_vpdpbusd_v16si((i32v)c, (i32v)x, (i32v)y);
#endif
}

// Bytes of b are 128 too large, so that they have no sign: what that adds stands behind the panel of a, a word a row.
template <int R>
static __attribute__((noinline)) void tile(long k, const quad* a, const quad* b, long ldb, uint32_t* c, long ldc, bool add) {
    u32v acc[R][2];
    const auto word = [&](int i) {
        uint32_t bits;
        std::memcpy(&bits, a + i, sizeof bits);
        return splat<u32v>(bits);
    };
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) acc[i][0] = acc[i][1] = u32v{};
    // The lines of C are asked for one row after another: all at once they would keep those of a and b waiting.
    const long part = k / 16 + 1;
    for (const uint32_t* next = c; k > 0; k -= part) {
        if (next < c + R * ldc) __builtin_prefetch(next, 1), __builtin_prefetch(next + 16, 1);
        next += ldc;
#pragma GCC unroll 2
        for (long q = least(k, part); q > 0; --q, a += ROWS, b += ldb) {
            u32v b0, b1;
            std::memcpy(&b0, b, sizeof b0);
            std::memcpy(&b1, b + 16, sizeof b1);
#pragma GCC unroll 16
            for (int i = 0; i < R; ++i) {
                const u32v x = word(i);
                acc[i][0] = dot_quads(acc[i][0], b0, x);
                acc[i][1] = dot_quads(acc[i][1], b1, x);
            }
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) acc[i][0] -= word(i), acc[i][1] -= word(i);
    put(acc, c, ldc, add);
}

// Panels of quads over rows r0.. of v, positions c0..: elements (r, 4q) .. (r, 4q + 3) go to d[(r / P) * stride + q * P + r % P].
template <int P, class S, int R>
static void quad_rows(quad* d, long stride, const View<S, R>& v, long r0, long m, long c0, long k) {
    const long whole = k / 4, step = v.s[R - 1];
    for (long r = 0; r < m; r += P, d += stride) {
        const S* rows[P];
        for (int i = 0; i < P; ++i) rows[i] = row(v, r0 + least(r + i, m - 1)) + c0 * step;
        if (step == 1) {
            const quad* words[P];
            for (int i = 0; i < P; ++i) words[i] = reinterpret_cast<const quad*>(rows[i]);
            transpose_rows<P>(d, words, 1, whole);
        }
        for (long q = step == 1 ? whole : 0; q < (k + 3) / 4; ++q)
            for (int i = 0; i < P; ++i)
                for (long e = 0; e < 4; ++e)
                    d[q * P + i].bytes[e] = 4 * q + e < k ? uint8_t(rows[i][(4 * q + e) * step]) : 0;
    }
}

// Panels of quads over columns c0.. of v: elements (4q, c) .. (4q + 3, c) go to d[(c / P) * stride + q * P + c % P].
template <int P, class S, int R>
static void quad_cols(quad* d, long stride, const View<S, R>& v, long r0, long k, long c0, long n) {
    typedef uint8_t u8x16 __attribute__((vector_size(16)));
    typedef uint16_t u16x8 __attribute__((vector_size(16)));
    constexpr long L = 16;
    const long step = v.s[R - 1];
    for (long q = 0; q < (k + 3) / 4; ++q) {
        const S* from[4];
        for (long e = 0; e < 4; ++e) from[e] = 4 * q + e < k ? row(v, r0 + 4 * q + e) + c0 * step : nullptr;
        for (long c = 0; c < n; c += P) {
            quad* const to = d + c / P * stride + q * P;
            for (long i = 0; i < P; i += L) {
                if (step == 1 && from[3] && c + i + L <= n) {
                    u8x16 x[4];
                    for (int e = 0; e < 4; ++e) std::memcpy(&x[e], from[e] + c + i, sizeof x[e]);
                    const auto low = [](u8x16 a, u8x16 b) {
                        return (u16x8)__builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
                    };
                    const auto high = [](u8x16 a, u8x16 b) {
                        return (u16x8)__builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
                    };
                    const u16x8 even[2] = {low(x[0], x[1]), high(x[0], x[1])}, odd[2] = {low(x[2], x[3]), high(x[2], x[3])};
                    u16x8 y[4];
                    for (int h = 0; h < 2; ++h) {
                        y[2 * h] = __builtin_shufflevector(even[h], odd[h], 0, 8, 1, 9, 2, 10, 3, 11);
                        y[2 * h + 1] = __builtin_shufflevector(even[h], odd[h], 4, 12, 5, 13, 6, 14, 7, 15);
                    }
                    std::memcpy(to + i, y, (P - i < L ? P - i : L) * sizeof(quad));
                } else {
                    for (long j = i; j < least(P, i + L); ++j)
                        for (int e = 0; e < 4; ++e)
                            to[j].bytes[e] = from[e] && c + j < n ? uint8_t(from[e][(c + j) * step]) : 0;
                }
            }
        }
    }
}

// Writes 128 times the sum of each row behind the panels of a.
static void close_panels(quad* a, long stride, long panels, long words) {
    for (; panels > 0; --panels, a += stride) {
        u32v sums = {};
        for (long q = 0; q < words; ++q) {
            u32v x;
            std::memcpy(&x, a + q * ROWS, sizeof x);  // lanes behind the rows are not used
            sums = dot_quads(sums, splat<u32v>(SIGNS), x);
        }
        std::memcpy(a + words * ROWS, &sums, ROWS * sizeof(quad));
    }
}

// The bytes of `words` quads, each 128 larger.
static void shift_panels(quad* b, long words) {
    for (long i = 0; i < words; i += lanes<u32v>) {
        u32v x;
        std::memcpy(&x, b + i, sizeof x);
        x ^= SIGNS;
        std::memcpy(b + i, &x, sizeof x);
    }
}

#if defined(ST_TILES)
// C (+)= A B by matrix tiles, which know signs.
template <bool Add, bool TA, bool TB, int RC, class SA, class SB, int RA, int RB>
static void gemm_quad_tiles(const View<uint32_t, RC>& C, const View<SA, RA>& A, const View<SB, RB>& B, long m, long k) {
    constexpr long Part = 4 * SIDE;
    const long n = C.n[RC - 1], kc = least(2048, (k + Part - 1) / Part * Part), nc = m > 64 ? 1024 : 256, mc = tiled_rows(kc, m);
    quad* const a = reinterpret_cast<quad*>(scratch<2>((mc + nc) * kc + mc * COLS * sizeof(uint32_t)));
    quad* const b = a + mc * (kc / 4);
    uint32_t* const rows = reinterpret_cast<uint32_t*>(b + nc * (kc / 4));
    for (long k0 = 0; k0 < k; k0 += kc) {
        const long kn = least(kc, k - k0), steps = (kn + Part - 1) / Part, sa = steps * TILE_WORDS, sb = steps * SIDE * COLS;
        for (long n0 = 0; n0 < n; n0 += nc) {
            const long nn = least(nc, n - n0);
            if constexpr (TB) quad_rows<COLS>(b, sb, B, n0, nn, k0, kn);
            else quad_cols<COLS>(b, sb, B, k0, kn, n0, nn);
            close_tiles<COLS>(b, sb, (nn + COLS - 1) / COLS, (kn + 3) / 4);
            for (long m0 = 0; m0 < m; m0 += mc) {
                const long mn = least(mc, m - m0), panels = (mn + SIDE - 1) / SIDE;
                if constexpr (TA) {
                    quad_cols<SIDE>(a, sa, A, k0, kn, m0, mn);
                    close_tiles<SIDE>(a, sa, panels, (kn + 3) / 4);
                    turn_tiles(a, panels * steps);
                } else {
                    tile_rows(a, sa, A, m0, mn, k0, kn);
                }
                multiply_tiles(C, m0, mn, n0, nn, steps, a, sa, b, sb, rows, Add || k0 > 0);
            }
        }
    }
}
#endif

template <bool Add, bool TA, bool TB, int RC, class SA, class SB, int RA, int RB>
static void gemm_quads(const View<uint32_t, RC>& C, const View<SA, RA>& A, const View<SB, RB>& B) {
    const long m = TA ? A.n[RA - 1] : flat_rows(A), k = TA ? flat_rows(A) : A.n[RA - 1], n = C.n[RC - 1];
#if defined(ST_TILES)
    if (k >= 8 * SIDE && m >= SIDE && n >= SIDE && tiles_here()) return gemm_quad_tiles<Add, TA, TB>(C, A, B, m, k);
#endif
    const long kc = most(4, least(2048, (k + 3) / 4 * 4)), nc = 512, mc = least(1032, (m + ROWS - 1) / ROWS * ROWS);
    const long most_words = kc / 4;
    quad* const a = reinterpret_cast<quad*>(scratch<2>((mc * (most_words + 1) + nc * most_words + 64) * sizeof(quad)));
    quad* const b = a + (mc * (most_words + 1) + 31) / 16 * 16;
    for (long k0 = 0; k0 == 0 || k0 < k; k0 += kc) {
        const long kn = least(kc, k - k0), words = (kn + 3) / 4, sa = (words + 1) * ROWS, sb = words * COLS;
        for (long m0 = 0; m0 < m; m0 += mc) {
            const long mn = least(mc, m - m0);
            if constexpr (TA) quad_cols<ROWS>(a, sa, A, k0, kn, m0, mn);
            else quad_rows<ROWS>(a, sa, A, m0, mn, k0, kn);
            close_panels(a, sa, (mn + ROWS - 1) / ROWS, words);
            for (long n0 = 0; n0 < n; n0 += nc) {
                const long nn = least(nc, n - n0);
                if constexpr (TB) quad_rows<COLS>(b, sb, B, n0, nn, k0, kn);
                else quad_cols<COLS>(b, sb, B, k0, kn, n0, nn);
                shift_panels(b, (nn + COLS - 1) / COLS * sb);
                multiply<uint32_t>(C, m0, mn, n0, nn, words, a, sa, b, sb, COLS, Add || k0 > 0);
            }
        }
    }
}
#endif

// C (+)= A B of integers of any width.
template <bool Add, bool TA, bool TB, class TC, class SA, class SB, int RC, int RA, int RB>
static void gemm_integers(const View<TC, RC>& C, const View<SA, RA>& A, const View<SB, RB>& B) {
    using U = std::conditional_t<sizeof(TC) == 8, uint64_t, uint32_t>;
    if constexpr (sizeof(TC) == sizeof(U)) {
        View<U, RC> sums = {reinterpret_cast<U*>(C.p), {}, {}};
        for (int d = 0; d < RC; ++d) sums.n[d] = C.n[d], sums.s[d] = C.s[d];
#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
        constexpr bool bytes = std::is_same_v<std::remove_const_t<SA>, int8_t> && std::is_same_v<std::remove_const_t<SB>, int8_t>;
        if constexpr (bytes && sizeof(TC) == 4) gemm_quads<Add, TA, TB>(sums, A, B);
        else
#endif
            gemm<U, Add, false, false, TA, TB>(sums, A, B);
    } else {
        gemm<U, Add, false, false, TA, TB>(C, A, B);
    }
}

}  // namespace st
