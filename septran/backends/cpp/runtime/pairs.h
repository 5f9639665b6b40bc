// Products of bfloat16 matrices by the instruction that multiplies pairs: two neighbours along k are one 32-bit
// word of a panel, twice the throughput of widened floats. Sums are float32, as everywhere.
#if defined(__AVX512BF16__)

namespace st {

struct __attribute__((may_alias, aligned(2))) pair {
    bf16 low, high;
};
#if defined(ST_TILES)
template <> inline constexpr bool of_halves<pair> = true;
#endif

// c + x * y over pairs, lane by lane: subnormal factors count as zero, sums round once a pair.
ST_INLINE f32v dot_pairs(f32v c, u32v x, u32v y) {
#if defined(__clang__)
    typedef __bf16 halves __attribute__((vector_size(64)));
    return (f32v)__builtin_ia32_dpbf16ps_512(c, (halves)x, (halves)y);
#elif __GNUC__ >= 13
    typedef __bf16 halves __attribute__((vector_size(64)));
    return (f32v)__builtin_ia32_dpbf16ps_v16sf(c, (halves)x, (halves)y);
#else
    typedef short halves __attribute__((vector_size(64)));
    return (f32v)__builtin_ia32_dpbf16ps_v16sf(c, (halves)x, (halves)y);
#endif
}

template <int R>
static __attribute__((noinline)) void tile(long k, const pair* a, const pair* b, long ldb, float* c, long ldc, bool add) {
    f32v acc[R][2];
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) acc[i][0] = acc[i][1] = f32v{};
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) __builtin_prefetch(c + i * ldc);
#pragma GCC unroll 2
    for (; k > 0; --k, a += ROWS, b += ldb) {
        u32v b0, b1;
        std::memcpy(&b0, b, sizeof b0);
        std::memcpy(&b1, b + 16, sizeof b1);
        __builtin_prefetch(b + 16 * ldb);
        __builtin_prefetch(b + 16 * ldb + 16);
#pragma GCC unroll 16
        for (int i = 0; i < R; ++i) {
            uint32_t word;
            std::memcpy(&word, a + i, sizeof word);
            const u32v x = word - u32v{};
            acc[i][0] = dot_pairs(acc[i][0], x, b0);
            acc[i][1] = dot_pairs(acc[i][1], x, b1);
        }
    }
    put(acc, c, ldc, add);
}

// Panels of pairs over rows r0.. of v, positions c0..: elements (r, 2q), (r, 2q + 1) go to d[(r / P) * stride + q * P + r % P].
template <int P, class S, int R>
static void pair_rows(pair* d, long stride, const View<S, R>& v, long r0, long m, long c0, long k) {
    const long whole = k / 2, step = v.s[R - 1];
    const bf16 zero(0.0f);
    for (long r = 0; r < m; r += P, d += stride) {
        const bf16* rows[P];
        for (int i = 0; i < P; ++i) rows[i] = row(v, r0 + least(r + i, m - 1)) + c0 * step;
        if (step == 1) {
            const pair* words[P];
            for (int i = 0; i < P; ++i) words[i] = reinterpret_cast<const pair*>(rows[i]);
            transpose_rows<P>(d, words, 1, whole);
        } else {
            for (long q = 0; q < whole; ++q)
                for (int i = 0; i < P; ++i) d[q * P + i] = {rows[i][2 * q * step], rows[i][(2 * q + 1) * step]};
        }
        if (k % 2)
            for (int i = 0; i < P; ++i) d[whole * P + i] = {rows[i][(k - 1) * step], zero};
        for (int i = int(least(P, m - r)); i < P; ++i)
            for (long q = 0; q < (k + 1) / 2; ++q) d[q * P + i] = {zero, zero};
    }
}

// Panels of pairs over columns c0.. of v: elements (2q, c), (2q + 1, c) go to d[(c / P) * stride + q * P + c % P].
template <int P, class S, int R>
static void pair_cols(pair* d, long stride, const View<S, R>& v, long r0, long k, long c0, long n) {
    const long step = v.s[R - 1];
    const bf16 zero(0.0f);
    bf16 nothing[P];
    for (int i = 0; i < P; ++i) nothing[i] = zero;
    for (long q = 0; q < (k + 1) / 2; ++q) {
        const bf16* const even = row(v, r0 + 2 * q) + c0 * step;
        const bf16* const odd = 2 * q + 1 < k ? row(v, r0 + 2 * q + 1) + c0 * step : nullptr;
        for (long c = 0; c < n; c += P) {
            const bf16* const low = even + c * step;
            const bf16* const high = odd ? odd + c * step : nothing;
            pair* const to = d + c / P * stride + q * P;
            if (step == 1 && c + P <= n) {
                uint32_t words[P];
                for (int i = 0; i < P; ++i) words[i] = low[i].bits | uint32_t(high[i].bits) << 16;
                std::memcpy(to, words, sizeof words);
            } else {
                for (int i = 0; i < P; ++i)
                    to[i] = c + i < n ? pair{low[i * step], odd ? high[i * step] : zero} : pair{zero, zero};
            }
        }
    }
}

// What the instruction takes for zero (subnormal numbers), and what a zero must not meet (infinities, NaN).
struct Kinds {
    bool subnormal, endless;
};
struct Extremes {
    typedef uint16_t u16v __attribute__((vector_size(ST_VB)));
    static constexpr long L = sizeof(u16v) / sizeof(bf16);
    u16v lowest = ~u16v{}, highest = {};
    void look(u16v bits) {
        bits &= 0x7fff;
        const u16v below = bits - 1;  // zero is last
        lowest = below < lowest ? below : lowest;
        highest = bits > highest ? bits : highest;
    }
    Kinds kinds() const {
        Kinds found = {};
        for (long i = 0; i < L; ++i) {
            found.subnormal |= lowest[i] < 0x7f;
            found.endless |= highest[i] >= 0x7f80;
        }
        return found;
    }
};
template <class S, int R> static Kinds kinds(const View<S, R>& v) {
    constexpr long L = Extremes::L;
    Extremes all;
    const long step = v.s[R - 1], n = v.n[R - 1];
    for (long r = 0; r < flat_rows(v); ++r) {
        const bf16* const from = row(v, r);
        const long whole = step == 1 ? n / L * L : 0;
        Extremes::u16v bits = {};
        for (long c = 0; c < whole; c += L) {
            std::memcpy(&bits, from + c, sizeof bits);
            all.look(bits);
        }
        for (long c = whole; c < n; c += L) {  // a part of a vector: lanes beyond it are zero
            bits = Extremes::u16v{};
            for (long i = 0; i < least(L, n - c); ++i) bits[i] = from[(c + i) * step].bits;
            all.look(bits);
        }
    }
    return all.kinds();
}
// The same of packed panels: looked at while they are in a cache, operands need not be read twice.
static __attribute__((noinline)) Kinds kinds(const pair* p, long words) {
    constexpr long L = Extremes::L / 2;
    Extremes even, odd;  // two chains of instructions
    Extremes::u16v bits = {};
    for (; words >= 2 * L; words -= 2 * L, p += 2 * L) {
        std::memcpy(&bits, p, sizeof bits);
        even.look(bits);
        std::memcpy(&bits, p + L, sizeof bits);
        odd.look(bits);
    }
    for (; words > 0; words -= L, p += L) {
        bits = Extremes::u16v{};
        std::memcpy(&bits, p, least(L, words) * sizeof(pair));
        odd.look(bits);
    }
    const Kinds one = even.kinds(), other = odd.kinds();
    return {one.subnormal || other.subnormal, one.endless || other.endless};
}
// Whether a product must be mended, and whether it cannot be: then, what is subnormal may meet an infinity, or C is not float.
ST_INLINE bool mended(Kinds a, Kinds b) { return a.subnormal || b.subnormal; }
ST_INLINE bool hopeless(Kinds a, Kinds b, bool sums) { return mended(a, b) && (!sums || a.endless || b.endless); }

ST_INLINE bf16 half(const pair& x, long q) { return q % 2 ? x.high : x.low; }
ST_INLINE float subnormal(bf16 x) { return (x.bits & 0x7f80) ? 0.0f : float(x); }

// Adds to C what the instruction dropped: products with a subnormal factor, of each row by itself. at(i, q): elements of A.
template <int RC, class At>
static void restore(const View<float, RC>& C, long m0, long m, long n0, long n, long k, const At& at, const pair* b, long sb) {
    for (long i = 0; i < m; ++i) {
        float* const out = const_cast<float*>(row(C, m0 + i)) + n0 * C.s[RC - 1];
        for (long q = 0; q < k; ++q) {
            const bf16 x = at(i, q);
            const float lost = subnormal(x);
            for (long j = 0; j < n; ++j) {
                const bf16 y = half(b[j / COLS * sb + q / 2 * COLS + j % COLS], q);
                const float part = lost != 0.0f ? lost * float(y) : float(x) * subnormal(y);
                if (part != 0.0f) out[j * C.s[RC - 1]] += part;
            }
        }
    }
}

#if defined(ST_TILES)
// C (+)= A B by matrix tiles, as `gemm_pairs`; in_a, in_b: kinds that are known (Add).
template <bool Add, bool TA, bool TB, class TC, class SA, class SB, int RC, int RA, int RB>
static bool gemm_pair_tiles(const View<TC, RC>& C, const View<SA, RA>& A, const View<SB, RB>& B, long m, long k, Kinds in_a, Kinds in_b) {
    constexpr bool sums = std::is_same_v<TC, float>;
    constexpr long Part = 2 * SIDE;
    const long n = C.n[RC - 1], kc = sums ? 1024 : (k + Part - 1) / Part * Part, nc = m > 64 ? 1024 : 256, mc = tiled_rows(kc * sizeof(bf16), m);
    // at least as much as widened panels take: what a kernel keeps must not depend on its inputs
    const long widened = (16 * ROWS + 512) * (sums ? 512 : kc) * long(sizeof(float)) + 128;
    pair* const a = reinterpret_cast<pair*>(scratch<2>(most(widened, (mc + nc) * kc * sizeof(bf16) + mc * COLS * sizeof(float))));
    pair* const b = a + mc * (kc / 2);
    float* const rows = reinterpret_cast<float*>(b + nc * (kc / 2));
    for (long k0 = 0; k0 < k; k0 += kc) {
        const long kn = least(kc, k - k0), steps = (kn + Part - 1) / Part, sa = steps * TILE_WORDS, sb = steps * SIDE * COLS;
        for (long n0 = 0; n0 < n; n0 += nc) {
            const long nn = least(nc, n - n0);
            if constexpr (TB) pair_rows<COLS>(b, sb, B, n0, nn, k0, kn);
            else pair_cols<COLS>(b, sb, B, k0, kn, n0, nn);
            close_tiles<COLS>(b, sb, (nn + COLS - 1) / COLS, (kn + 1) / 2);
            if constexpr (!Add) in_b = kinds(b, (nn + COLS - 1) / COLS * sb);
            for (long m0 = 0; m0 < m; m0 += mc) {
                const long mn = least(mc, m - m0), panels = (mn + SIDE - 1) / SIDE;
                if constexpr (TA) {
                    pair_cols<SIDE>(a, sa, A, k0, kn, m0, mn);
                    close_tiles<SIDE>(a, sa, panels, (kn + 1) / 2);
                    turn_tiles(a, panels * steps);
                } else {
                    tile_rows(a, sa, A, m0, mn, k0, kn);
                }
                if constexpr (!Add) in_a = kinds(a, panels * sa);
                if (hopeless(in_a, in_b, sums)) return false;
                multiply_tiles<float>(C, m0, mn, n0, nn, steps, a, sa, b, sb, rows, Add || k0 > 0);
                if constexpr (sums)
                    if (mended(in_a, in_b)) {
                        const auto at = [&](long i, long q) {
                            return half(a[i / SIDE * sa + q / Part * TILE_WORDS + i % SIDE * SIDE + q % Part / 2], q);
                        };
                        restore(C, m0, mn, n0, nn, kn, at, b, sb);
                    }
            }
        }
    }
    return true;
}
#endif

// C (+)= A B in blocks. False where a subnormal number may meet an infinity or C is not float; C is then to be computed anew, and as it was (Add).
template <bool Add, bool TA, bool TB, class TC, class SA, class SB, int RC, int RA, int RB>
static bool gemm_pairs(const View<TC, RC>& C, const View<SA, RA>& A, const View<SB, RB>& B) {
    constexpr bool sums = std::is_same_v<TC, float>;  // else C holds only finished results: one block along k
    Kinds in_a = {}, in_b = {};
    if constexpr (Add) {
        in_a = kinds(A), in_b = kinds(B);
        if (hopeless(in_a, in_b, sums)) return false;
    }
    const long m = TA ? A.n[RA - 1] : flat_rows(A), k = TA ? flat_rows(A) : A.n[RA - 1], n = C.n[RC - 1];
#if defined(ST_TILES)
    if (k >= 4 * SIDE && tiles_here()) return gemm_pair_tiles<Add, TA, TB>(C, A, B, m, k, in_a, in_b);
#endif
    const long kc = sums ? 512 : most(2, k + k % 2), nc = 1024, mc = 16 * ROWS;
    // as much as widened panels take: what a kernel keeps must not depend on its inputs
    pair* const a = reinterpret_cast<pair*>(scratch<2>((mc + nc) * kc * sizeof(float) + 128));
    pair* const b = a + mc * (kc / 2);
    for (long k0 = 0; k0 < k; k0 += kc) {
        const long kn = least(kc, k - k0), words = (kn + 1) / 2;
        for (long n0 = 0; n0 < n; n0 += nc) {
            const long nn = least(nc, n - n0);
            if constexpr (TB) pair_rows<COLS>(b, words * COLS, B, n0, nn, k0, kn);
            else pair_cols<COLS>(b, words * COLS, B, k0, kn, n0, nn);
            if constexpr (!Add) in_b = kinds(b, (nn + COLS - 1) / COLS * words * COLS);
            for (long m0 = 0; m0 < m; m0 += mc) {
                const long mn = least(mc, m - m0);
                if constexpr (TA) pair_cols<ROWS>(a, words * ROWS, A, k0, kn, m0, mn);
                else pair_rows<ROWS>(a, words * ROWS, A, m0, mn, k0, kn);
                if constexpr (!Add) in_a = kinds(a, (mn + ROWS - 1) / ROWS * words * ROWS);
                if (hopeless(in_a, in_b, sums)) return false;
                multiply<float>(C, m0, mn, n0, nn, words, a, words * ROWS, b, words * COLS, COLS, Add || k0 > 0);
                if constexpr (sums)
                    if (mended(in_a, in_b)) {
                        const auto at = [&](long i, long q) { return half(a[i / ROWS * words * ROWS + q / 2 * ROWS + i % ROWS], q); };
                        restore(C, m0, mn, n0, nn, kn, at, b, words * COLS);
                    }
            }
        }
    }
    return k > 0;
}

}  // namespace st
#endif
