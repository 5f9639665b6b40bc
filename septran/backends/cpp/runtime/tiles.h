// Products by the processor's matrix tiles (Intel AMX): a tile is 16 rows of 64 bytes, 16 words of pairs of bfloat16 or of quads of
// bytes. Columns lie in panels as `multiply` wants them, rows of A one below the other, both filled up with zeros to whole tiles.
#if defined(__AMX_TILE__) && defined(__AMX_BF16__) && defined(__AMX_INT8__) && defined(__AVX512BF16__) && !defined(ST_WITHOUT_TILES)
#define ST_TILES 1

namespace st {

inline constexpr long SIDE = 16, TILE_WORDS = SIDE * SIDE;

#if defined(SEPTRAN_HOSTED)
extern "C" int st_tiles(void);
ST_INLINE bool tiles_here() { return st_tiles() != 0; }
#else
static bool tiles_here() {
    static const bool here = st_ask_for_tiles() != 0;
    return here;
}
#endif

// The eight tiles of this thread, each whole, until the end of a product; nothing is left in them behind it.
struct TileState {
    TileState() {
        struct alignas(64) {
            uint8_t palette, start, none[14];
            uint16_t bytes[16];
            uint8_t rows[16];
        } shape = {};
        shape.palette = 1;
        for (int i = 0; i < 8; ++i) shape.bytes[i] = 64, shape.rows[i] = SIDE;
        asm volatile("ldtilecfg\t%0" ::"m"(shape) : "memory");
    }
    ~TileState() { asm volatile("tilerelease" ::: "memory"); }
};

template <class E> inline constexpr bool of_halves = false;  // whether a word is a pair of bfloat16

#define ST_LOAD_TILE(t, p, stride) asm volatile("tileloadd\t(%0,%1,1), %%tmm" #t ::"r"(p), "r"(long(stride)))
#define ST_STORE_TILE(t, p, stride) asm volatile("tilestored\t%%tmm" #t ", (%0,%1,1)" ::"r"(p), "r"(long(stride)) : "memory")
#define ST_ZERO_TILE(t) asm volatile("tilezero\t%tmm" #t)

// acc += a b of tiles
#define ST_MULTIPLY_TILES(acc, a, b)                                                                         \
    if constexpr (of_halves<E>) asm volatile("tdpbf16ps\t%tmm" #b ", %tmm" #a ", %tmm" #acc);    \
    else asm volatile("tdpbssd\t%tmm" #b ", %tmm" #a ", %tmm" #acc)

// R x W tiles of sums from R panels of rows and W halves of a panel of columns. more: they go on with what `c` holds.
template <int R, int W, class E>
static __attribute__((noinline)) void tile_block(long steps, const E* a, long sa, const E* b, void* c, long ldc, bool more) {
    char* const to = static_cast<char*>(c);
    char* const below = to + SIDE * ldc * 4;
    if (more) {
        ST_LOAD_TILE(0, to, ldc * 4);
        if constexpr (W > 1) ST_LOAD_TILE(1, to + 64, ldc * 4);
        if constexpr (R > 1) ST_LOAD_TILE(2, below, ldc * 4);
        if constexpr (R > 1 && W > 1) ST_LOAD_TILE(3, below + 64, ldc * 4);
    } else {
        ST_ZERO_TILE(0);
        if constexpr (W > 1) ST_ZERO_TILE(1);
        if constexpr (R > 1) ST_ZERO_TILE(2);
        if constexpr (R > 1 && W > 1) ST_ZERO_TILE(3);
    }
    for (; steps > 0; --steps, a += TILE_WORDS, b += SIDE * COLS) {
        ST_LOAD_TILE(6, b, COLS * 4);
        ST_LOAD_TILE(4, a, 64);
        ST_MULTIPLY_TILES(0, 4, 6);
        if constexpr (W > 1) {
            ST_LOAD_TILE(7, b + SIDE, COLS * 4);
            ST_MULTIPLY_TILES(1, 4, 7);
        }
        if constexpr (R > 1) {
            ST_LOAD_TILE(5, a + sa, 64);
            ST_MULTIPLY_TILES(2, 5, 6);
            if constexpr (W > 1) ST_MULTIPLY_TILES(3, 5, 7);
        }
    }
    ST_STORE_TILE(0, to, ldc * 4);
    if constexpr (W > 1) ST_STORE_TILE(1, to + 64, ldc * 4);
    if constexpr (R > 1) ST_STORE_TILE(2, below, ldc * 4);
    if constexpr (R > 1 && W > 1) ST_STORE_TILE(3, below + 64, ldc * 4);
}

// Rows of sums of a block into C, or added to it.
template <class T, class TC, int RC>
static void put_rows(const View<TC, RC>& C, long m0, long rows, long n0, long cols, const T* sums, bool add) {
    using V = vec<T>;
    constexpr long L = lanes<V>;
    const long step = C.s[RC - 1];
    for (long r = 0; r < rows; ++r, sums += COLS) {
        TC* const out = const_cast<TC*>(row(C, m0 + r)) + n0 * step;
        if constexpr (std::is_same_v<TC, T> || (std::is_same_v<T, float> && is_float<TC> && sizeof(TC) == 2))
            if (step == 1 && cols == COLS) {
                for (long q = 0; q < COLS; q += L) {
                    V x = load<V>(sums + q);
                    if (add) x = load<V>(out + q) + x;
                    store(out + q, x);
                }
                continue;
            }
        for (long q = 0; q < cols; ++q)
            out[q * step] = cast<TC>(add ? cast<T>(out[q * step]) + sums[q] : sums[q]);
    }
}

// Steps along k at a time: their part of a panel of columns, 16 KB, stays in the first-level cache for all rows.
inline constexpr long CHUNK = 8;

// Panels of rows times panels of columns, as `multiply`. `a` steps by sa words from panel to panel of SIDE rows, b by sb; sums: room
// for m rows of a panel of columns.
template <class T, class TC, int RC, class E>
static void multiply_tiles(const View<TC, RC>& C, long m0, long m, long n0, long n, long steps, const E* a, long sa,
                           const E* b, long sb, T* sums, bool add) {
    const TileState tiles;
    long ldc;
    const bool direct = std::is_same_v<TC, T> && !add && steps <= CHUNK && flat(C, ldc) && C.s[RC - 1] == 1;
    for (long j = 0; j < n; j += COLS, b += sb) {
        const long cols = least(COLS, n - j);
        for (long s = 0; s < steps; s += CHUNK) {
            const long some = least(CHUNK, steps - s);
            const E* pa = a + s * TILE_WORDS;
            const E* const pb = b + s * SIDE * COLS;
            for (long i = 0; i < m; i += 2 * SIDE, pa += 2 * sa) {
                const long rows = least(2 * SIDE, m - i);
                const auto block = [&](void* to, long ld) {
                    if (rows > SIDE && cols > SIDE) tile_block<2, 2>(some, pa, sa, pb, to, ld, s > 0);
                    else if (rows > SIDE) tile_block<2, 1>(some, pa, sa, pb, to, ld, s > 0);
                    else if (cols > SIDE) tile_block<1, 2>(some, pa, sa, pb, to, ld, s > 0);
                    else tile_block<1, 1>(some, pa, sa, pb, to, ld, s > 0);
                };
                if constexpr (std::is_same_v<TC, T>)
                    if (direct && rows % SIDE == 0 && cols % SIDE == 0) {
                        block(C.p + (m0 + i) * ldc + n0 + j, ldc);
                        continue;
                    }
                block(sums + i * COLS, COLS);
                if (s + some == steps) put_rows(C, m0 + i, rows, n0 + j, cols, sums + i * COLS, add);
            }
        }
    }
}

// How many rows of A, each of so many bytes, are packed at once: half of the second-level cache's 2 MB.
ST_INLINE long tiled_rows(long bytes, long m) {
    constexpr long Most = 1 << 20, Both = 2 * SIDE;
    return least(most(1, Most / (bytes * Both)), (m + Both - 1) / Both) * Both;
}

// Words of rows r0.. of v, tile below tile: those of row r at d + r / SIDE * stride, SIDE words of it a tile, then the next row's.
template <class E, class S, int R>
static void tile_rows(E* d, long stride, const View<S, R>& v, long r0, long m, long c0, long k) {
    constexpr long Each = sizeof(E) / sizeof(S), Part = SIDE * Each;
    const long step = v.s[R - 1];
    for (long r = 0; r < (m + SIDE - 1) / SIDE * SIDE; ++r) {
        std::remove_const_t<S>* to = reinterpret_cast<std::remove_const_t<S>*>(d + r / SIDE * stride + r % SIDE * SIDE);
        const S* from = r < m ? row(v, r0 + r) + c0 * step : nullptr;
        for (long left = k; left > 0; left -= Part, to += TILE_WORDS * Each) {
            const long there = from ? least(Part, left) : 0;
            if (there == Part && step == 1) std::memcpy(to, from, 64);
            else {
                std::memset(to, 0, 64);
                for (long q = 0; q < there; ++q) to[q] = from[q * step];
            }
            if (from) from += Part * step;
        }
    }
}

// Of panels of SIDE columns of words, which are the rows of a transposed operand, those rows.
template <class E> static void turn_tiles(E* d, long tiles) {
    for (; tiles > 0; --tiles, d += TILE_WORDS) {
        E block[TILE_WORDS];
        std::memcpy(block, d, sizeof block);
        const E* rows[SIDE];
        for (long q = 0; q < SIDE; ++q) rows[q] = block + q * SIDE;
        transpose_rows<SIDE>(d, rows, 1, SIDE);
    }
}

// Zeros behind the words of panels of P up to whole tiles.
template <long P, class E> static void close_tiles(E* d, long stride, long panels, long words) {
    for (; panels > 0; --panels, d += stride) std::memset(static_cast<void*>(d + words * P), 0, (stride - words * P) * sizeof(E));
}

}  // namespace st
#endif
