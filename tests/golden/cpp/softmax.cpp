// ---- leaves

// softmax: reduce, map, reduce, map (library rows_leaf_simd)
static void leaf_softmax_899f31(st::View<float, 2> Y, st::View<const float, 2> X, st::View<float, 2> m, st::View<float, 2> s) {
    using namespace st;
    using F = f32v;
    constexpr long L = lanes<F>;
    for (long i0 = 0; i0 < X.n[0]; ++i0) {
        const float* const X_row = X.p + i0 * X.s[0];
        float* const m_row = m.p + i0 * m.s[0];
        float* const Y_row = Y.p + i0 * Y.s[0];
        float* const s_row = s.p + i0 * s.s[0];
        const long n = X.n[1];
        F m_acc[4];
        clear<Max>(m_acc);
        long j = 0;
        #pragma GCC unroll 1
        for (; j + 4 * L <= n; j += 4 * L) {
            #pragma GCC unroll 4
            for (long u = 0, q = j; u < 4; u += 1, q += 1 * L) {
                const F X_v = load<F>(X_row + q);
                m_acc[u] = Max::of(m_acc[u], X_v);
            }
        }
        for (; j < n; j += L) {
            const long rest = n - j;
            const F X_v = load_n<F>(X_row + j, rest);
            m_acc[0] = Max::of(m_acc[0], keep(X_v, rest, unit<Max, F>()));
        }
        const F m_1 = total<Max>(m_acc);
        m_row[0] = cast<float>(lane<F>(m_1[0]));
        const long n_ = Y.n[1];
        F s_acc[4];
        clear<Sum>(s_acc);
        long j_ = 0;
        for (; j_ + 4 * L <= n_; j_ += 4 * L) {
            #pragma GCC unroll 4
            for (long u_ = 0, q_ = j_; u_ < 4; u_ += 1, q_ += 1 * L) {
                next_row(X_row + X.s[0] + q_);
                const F X_v = load<F>(X_row + q_);
                const F Y_v = vexp(X_v - m_1);
                store(Y_row + q_, Y_v);
                s_acc[u_] = Sum::of(s_acc[u_], Y_v);
            }
        }
        for (; j_ < n_; j_ += L) {
            const long rest_ = n_ - j_;
            const F X_v = load_n<F>(X_row + j_, rest_);
            const F Y_v = vexp(X_v - m_1);
            store_n(Y_row + j_, Y_v, rest_);
            s_acc[0] = Sum::of(s_acc[0], keep(Y_v, rest_, unit<Sum, F>()));
        }
        const F s_1 = total<Sum>(s_acc);
        s_row[0] = cast<float>(lane<F>(s_1[0]));
        const long n__ = Y.n[1];
        const F s_even = st::even(s_1);
        const F s_over = 1.0f / (s_1 * s_even);
        long j__ = 0;
        for (; j__ + L <= n__; j__ += L) {
            next_output(Y_row + Y.s[0] + j__);
            const F Y_v = load<F>(Y_row + j__);
            const F Y_v_ = (Y_v * s_even) * s_over;
            store(Y_row + j__, Y_v_);
        }
        for (; j__ < n__; j__ += L) {
            const long rest__ = n__ - j__;
            const F Y_v = load_n<F>(Y_row + j__, rest__);
            const F Y_v_ = (Y_v * s_even) * s_over;
            store_n(Y_row + j__, Y_v_, rest__);
        }
    }
}

// ---- hierarchy

extern "C" __attribute__((visibility("default"))) void softmax_entry(void* const* args) {
    float* const Y = static_cast<float*>(args[0]);
    const float* const X = static_cast<const float*>(args[1]);
    #pragma omp parallel
    {
        char* const core = st::scratch<1>(256);
        #pragma omp for schedule(static)
        for (long i = 0; i < 5; ++i) {
            float* const m = reinterpret_cast<float*>(core + 0);  // REGISTER float32[8, 1]
            float* const s = reinterpret_cast<float*>(core + 128);  // REGISTER float32[8, 1]
            leaf_softmax_899f31({Y + i * 8 * 100, {st::least(8, 37 - i * 8), 100}, {100, 1}}, {X + i * 8 * 100, {st::least(8, 37 - i * 8), 100}, {100, 1}}, {m, {st::least(8, 37 - i * 8), 1}, {1, 1}}, {s, {st::least(8, 37 - i * 8), 1}, {1, 1}});
        }
    }
}

