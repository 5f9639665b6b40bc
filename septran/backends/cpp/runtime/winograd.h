// 3x3 convolutions with stride 1 by Winograd's F(4x4, 3x3): a square of 6x6 pixels and the nine taps are brought to another
// basis, in which 36 products of matrices give 4x4 pixels, where the taps take 144. Rounding errors are those of the largest
// terms of a square, not of an element's own: only where a mapping says `math: winograd`.
// A. Lavin and S. Gray, Fast Algorithms for Convolutional Neural Networks, CVPR 2016.

namespace st {

inline constexpr int SQUARES = TILE_ROWS == 12 ? 14 : 6;  // at a time, as registers allow
inline constexpr long FEW = 16;                           // channels up to which bringing pixels there and back takes longer

// Six neighbours of a line, or of a column.
template <class V> ST_INLINE void to_basis(const V (&x)[6], V (&y)[6]) {
    const V even = x[4] - 4.0f * x[2], odd = x[3] - 4.0f * x[1], far = x[4] - x[2], twice = 2.0f * (x[3] - x[1]);
    y[0] = 4.0f * x[0] + (x[4] - 5.0f * x[2]);
    y[1] = even + odd, y[2] = even - odd;
    y[3] = far + twice, y[4] = far - twice;
    y[5] = 4.0f * x[1] + (x[5] - 5.0f * x[3]);
}
template <class V> ST_INLINE void from_basis(const V (&x)[6], V (&y)[4]) {
    const V a = x[1] + x[2], b = x[1] - x[2], c = x[3] + x[4], d = x[3] - x[4];
    y[0] = x[0] + (a + c);
    y[1] = b + 2.0f * d;
    y[2] = a + 4.0f * c;
    y[3] = (b + 8.0f * d) + x[5];
}
// Three taps.
template <class V> ST_INLINE void taps_to_basis(const V (&x)[3], V (&y)[6]) {
    const V ends = x[0] + x[2], sum = x[0] * (1.0f / 24) + x[2] * (1.0f / 6), half = x[1] * (1.0f / 12);
    y[0] = 0.25f * x[0];
    y[1] = (ends + x[1]) * (-1.0f / 6), y[2] = (x[1] - ends) * (1.0f / 6);
    y[3] = sum + half, y[4] = sum - half;
    y[5] = x[2];
}

// R squares times two vectors of columns, of one of the 36 products. a: blocks of channels, `block` elements apart.
template <int R, class V>
static __attribute__((noinline)) void tile_squares(long depth, const float* a, long block, const float* u, float* c) {
    constexpr int L = lanes<V>;
    V acc[R][2];
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) acc[i][0] = acc[i][1] = V{};
    for (; depth > 0; depth -= L, a += block) {
        const float* x = a;
#pragma GCC unroll 4
        for (long k = least(depth, L); k > 0; --k, ++x, u += COLS) {
            const V u0 = load<V>(u), u1 = load<V>(u + L);
            __builtin_prefetch(u + 16 * COLS);
            __builtin_prefetch(u + 16 * COLS + 16);
#pragma GCC unroll 16
            for (int i = 0; i < R; ++i) {
                const V s = splat<V>(x[i * L]);
                acc[i][0] += s * u0;
                acc[i][1] += s * u1;
            }
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) store(c + i * COLS, acc[i][0]), store(c + i * COLS + L, acc[i][1]);
}

// A convolution of lines of pixels; c: where its results lie. Strides in elements.
struct Image {
    const float* x;
    float* c;
    long height, width, depth, columns, x_line, x_pixel, c_line, c_pixel;
};

// Panels of weights in the basis: u[36][panel][k][COLS]. b: taps, `step` elements from panel to panel and ldb from k to k.
static __attribute__((noinline)) void weights_to_basis(float* u, long apart, const float* const* b, long step, long ldb, long depth, long n) {
    using V = f32v;
    constexpr int L = lanes<V>;
    for (long j = 0; j < n; j += L) {
        const long from = j / COLS * step + j % COLS;
        float* to = u + j / COLS * depth * COLS + j % COLS;
        for (long k = 0; k < depth; ++k, to += COLS) {
            V rows[3][6], y[6];
#pragma GCC unroll 3
            for (int r = 0; r < 3; ++r) {
                V x[3];
                for (int s = 0; s < 3; ++s) x[s] = load_n<V>(b[3 * r + s] + from + k * ldb, n - j);
                taps_to_basis(x, rows[r]);
            }
#pragma GCC unroll 6
            for (int s = 0; s < 6; ++s) {
                const V x[3] = {rows[0][s], rows[1][s], rows[2][s]};
                taps_to_basis(x, y);
#pragma GCC unroll 6
                for (int r = 0; r < 6; ++r) store(to + (6 * r + s) * apart, y[r]);
            }
        }
    }
    for (long j = (n + L - 1) / L * L; j % COLS; j += L)  // a panel's last vectors
        for (long i = 0; i < 36 * depth; ++i) store(u + i / depth * apart + j / COLS * depth * COLS + i % depth * COLS + j % COLS, V{});
}

// Square (h, w) of 6x6 pixels, the `lanes` channels from one on: v[36], `apart` elements from one to the next.
static __attribute__((noinline)) void square_to_basis(float* v, long apart, const Image& i, long h, long w, long channel) {
    using V = f32v;
    constexpr int L = lanes<V>;
    const float* from = i.x + h * i.x_line + w * i.x_pixel + channel;
    long line = i.x_line, pixel = i.x_pixel;
    const long n = i.depth - channel;
    float edge[36 * L];
    if (h + 4 > i.height || w + 4 > i.width || n < L) {  // what is not there is zero
        for (long r = 0; r < 6; ++r)
            for (long s = 0; s < 6; ++s) {
                const bool exists = h + r < i.height + 2 && w + s < i.width + 2;
                store(edge + (6 * r + s) * L, exists ? load_n<V>(from + r * line + s * pixel, n) : V{});
            }
        from = edge, line = 6 * L, pixel = L;
    }
    V rows[6][6], y[6];
#pragma GCC unroll 6
    for (int r = 0; r < 6; ++r) {
        const float* const p = from + r * line;
        const V x[6] = {load<V>(p), load<V>(p + pixel), load<V>(p + 2 * pixel), load<V>(p + 3 * pixel), load<V>(p + 4 * pixel), load<V>(p + 5 * pixel)};
        to_basis(x, rows[r]);
    }
#pragma GCC unroll 6
    for (int s = 0; s < 6; ++s) {
        const V x[6] = {rows[0][s], rows[1][s], rows[2][s], rows[3][s], rows[4][s], rows[5][s]};
        to_basis(x, y);
#pragma GCC unroll 6
        for (int r = 0; r < 6; ++r) store(v + (6 * r + s) * apart, y[r]);
    }
}

// 4x4 pixels of a vector of columns, of which n exist.
template <bool Add>
static __attribute__((noinline)) void square_from_basis(const Image& i, long h, long w, long column, const float* m, long apart) {
    using V = f32v;
    V rows[4][6];
#pragma GCC unroll 6
    for (int s = 0; s < 6; ++s) {
        V x[6], y[4];
#pragma GCC unroll 6
        for (int r = 0; r < 6; ++r) x[r] = load<V>(m + (6 * r + s) * apart);
        from_basis(x, y);
#pragma GCC unroll 4
        for (int r = 0; r < 4; ++r) rows[r][s] = y[r];
    }
    const long n = i.columns - column;
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
        V y[4];
        from_basis(rows[r], y);
        float* const to = i.c + (h + r) * i.c_line + w * i.c_pixel + column;
        if (h + r >= i.height) continue;
#pragma GCC unroll 4
        for (int s = 0; s < 4; ++s) {
            if (w + s >= i.width) continue;
            if (Add) y[s] += load_n<V>(to + s * i.c_pixel, n);
            store_n(to + s * i.c_pixel, y[s], n);
        }
    }
}

// All squares of an image, in blocks whose parts of the 36 products stay in L2.
template <bool Add>
static void convolve(const Image& i, const float* u, long apart_u, float* space, long most_squares) {
    using V = f32v;
    constexpr int L = lanes<V>, Half = SQUARES / 2;
    const long across = (i.width + 3) / 4, squares = (i.height + 3) / 4 * across;
    const long blocks = (i.depth + L - 1) / L, panels = (i.columns + COLS - 1) / COLS;
    const long apart_v = blocks * most_squares * L + 2 * L, apart_m = panels * most_squares * COLS + 2 * L;
    float* const v = space;
    float* const m = space + 36 * apart_v;
    for (long q0 = 0; q0 < squares; q0 += most_squares) {
        const long here = least(most_squares, squares - q0), padded = (here + Half - 1) / Half * Half;
        for (long q = 0; q < padded; ++q)
            for (long b = 0; b < blocks; ++b) {
                float* const to = v + (b * most_squares + q) * L;
                if (q < here) square_to_basis(to, apart_v, i, (q0 + q) / across * 4, (q0 + q) % across * 4, b * L);
                else
                    for (int e = 0; e < 36; ++e) store(to + e * apart_v, V{});
            }
        for (int e = 0; e < 36; ++e)
            for (long p = 0; p < panels; ++p)
                for (int j = 0; j < COLS; j += 2 * L) {
                    const float* const b = u + e * apart_u + p * i.depth * COLS + j;
                    const float* const a = v + e * apart_v;
                    float* const c = m + e * apart_m + p * most_squares * COLS + j;
                    long q = 0;
                    for (; q + SQUARES <= padded; q += SQUARES)
                        tile_squares<SQUARES, V>(i.depth, a + q * L, most_squares * L, b, c + q * COLS);
                    if (q < padded) tile_squares<Half, V>(i.depth, a + q * L, most_squares * L, b, c + q * COLS);
                }
        for (long q = 0; q < here; ++q)
            for (long j = 0; j < i.columns; j += L)
                square_from_basis<Add>(i, (q0 + q) / across * 4, (q0 + q) % across * 4, j,
                                       m + (j / COLS * most_squares + q) * COLS + j % COLS, apart_m);
    }
}

// The dim, other than the last, along which neighbours lie `step` apart; the longest of them, -1 where there is none.
template <class T, int R> ST_INLINE int dim_of(const View<T, R>& v, long step) {
    int found = -1;
    for (int d = 0; d < R - 1; ++d)
        if (v.s[d] == step && (found < 0 || v.n[d] > v.n[found])) found = d;
    return found;
}

// C (+)= sum of A[t] B[t] as gemm_taps has it; nine taps that are neighbours in lines and columns go through the basis.
template <bool Add, bool PB, class TC, class SA, class SB, int RC, int RB>
static void gemm_winograd(const View<TC, RC>& C, const View<SA, RC> (&A)[9], const View<SB, RB> (&B)[9]) {
    constexpr bool floats = std::is_same_v<TC, float> && std::is_same_v<std::remove_const_t<SA>, float> && std::is_same_v<std::remove_const_t<SB>, float>;
    if constexpr (floats && RC >= 3) {
        const View<SA, RC>& x = A[0];
        const long depth = x.n[RC - 1], n = C.n[RC - 1], line = A[3].p - x.p, pixel = A[1].p - x.p;
        const int h = dim_of(x, line), w = dim_of(x, pixel);
        long ldb = COLS;
        bool fits = h >= 0 && w >= 0 && h != w && x.s[RC - 1] == 1 && C.s[RC - 1] == 1 && depth >= FEW && n >= FEW;
        fits = fits && (PB || (flat(B[0], ldb) && B[0].s[RB - 1] == 1));
        for (int t = 0; t < 9; ++t) fits = fits && A[t].p == x.p + t / 3 * line + t % 3 * pixel;
        const long lines = fits ? C.n[h] : 0, pixels = fits ? C.n[w] : 0, squares = (lines + 3) / 4 * ((pixels + 3) / 4);
        // multiply-adds of vectors that a vector of weights costs: brought to the basis (beyond L2 it waits for memory) and used
        const long basis = depth * COLS * 36 * long(sizeof(float)) > (1 << 20) ? 600 : 130;
        if (fits && basis + 36 * squares < 9 * lines * pixels) {
            const long step_b = PB ? B[0].s[0] : COLS, channels = (depth + 15) / 16 * 16;
            // as many columns at a time as their weights fit 8 MiB, as many squares as fit a part of L2
            const long wide = least((n + COLS - 1) / COLS, most(1, (8 << 20) / (36 * 4 * COLS * depth))) * COLS;
            const long fit = most(1, (384 << 10) / (36 * 4 * SQUARES * (channels + wide)));
            const long most_squares = least(fit, (squares + SQUARES - 1) / SQUARES) * SQUARES;
            const long apart_u = wide * depth + 32;
            float* const u = reinterpret_cast<float*>(scratch<2>(sizeof(float) * (36 * apart_u + 36 * (most_squares * (channels + wide) + 64) + 64)));
            long around = 1;
            for (int d = 0; d < RC - 1; ++d)
                if (d != h && d != w) around *= C.n[d];
            for (long j = 0; j < n; j += wide) {
                const float* taps[9];
                for (int t = 0; t < 9; ++t) taps[t] = B[t].p + j / COLS * step_b;
                const long columns = least(wide, n - j);
                weights_to_basis(u, apart_u, taps, step_b, ldb, depth, columns);
                for (long at = 0; at < around; ++at) {
                    Image i{x.p, C.p + j, lines, pixels, depth, columns, line, pixel, C.s[h], C.s[w]};
                    long left = at;
                    for (int d = RC - 2; d >= 0; --d)
                        if (d != h && d != w) {
                            i.x += left % C.n[d] * x.s[d], i.c += left % C.n[d] * C.s[d];
                            left /= C.n[d];
                        }
                    convolve<Add>(i, u, apart_u, u + 36 * apart_u, most_squares);
                }
            }
            return;
        }
    }
    gemm_taps<float, Add, PB>(C, A, B);
}

}  // namespace st
