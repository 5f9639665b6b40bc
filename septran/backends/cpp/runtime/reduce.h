// Reduction over an axis that is not the last: columns stay in vectors, rows are combined eight at a time.

namespace st {

// y[c] = op over r of x[r, c] (combined with the old y[c] when Acc). xr, xc, yc: strides in elements.
template <class Op, class V, bool Acc, class TY, class TX>
static void reduce_rows(TY* y, long yc, const TX* x, long xr, long xc, long rows, long cols) {
    constexpr long L = lanes<V>, chunk = 64 * L;
    const V unit = splat<V>(lane<V>(Op::unit));
    V acc[chunk / L];
    for (long c0 = 0; c0 < cols; c0 += chunk) {
        const long n = least(chunk, cols - c0);
        const TX* from = x + c0 * xc;
        auto get = [&](long r, long j) {
            return xc == 1 ? load_n<V>(from + r * xr + j, n - j) : gather<V>(from + r * xr + j * xc, xc, n - j);
        };
        for (long j = 0; j < n; j += L) acc[j / L] = unit;
        long r = 0;
        for (; r + 8 <= rows; r += 8)
            for (long j = 0; j < n; j += L) {
                const V a = Op::of(Op::of(get(r, j), get(r + 1, j)), Op::of(get(r + 2, j), get(r + 3, j)));
                const V b = Op::of(Op::of(get(r + 4, j), get(r + 5, j)), Op::of(get(r + 6, j), get(r + 7, j)));
                acc[j / L] = Op::of(acc[j / L], Op::of(a, b));
            }
        for (; r < rows; ++r)
            for (long j = 0; j < n; j += L) acc[j / L] = Op::of(acc[j / L], get(r, j));
        for (long j = 0; j < n; j += L) {
            TY* to = y + (c0 + j) * yc;
            if (Acc) acc[j / L] = Op::of(gather<V>(to, yc, n - j), acc[j / L]);
            if (yc == 1) store_n(to, acc[j / L], n - j);
            else scatter(to, yc, acc[j / L], n - j);
        }
    }
}

}  // namespace st
