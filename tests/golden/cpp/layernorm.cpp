// ---- leaves

// layernorm: reduce, map, reduce, map (library rows_leaf_simd)
static void leaf_layernorm_8d42f1(st::View<float, 2> Y, st::View<const float, 2> X, st::View<const float, 1> g, st::View<const float, 1> b, st::View<float, 2> mu, st::View<float, 2> var, st::View<float, 2> t, float n) {
    using namespace st;
    using F = f32v;
    constexpr long L = lanes<F>;
    for (long i0 = 0; i0 < X.n[0]; ++i0) {
        const float* const X_row = X.p + i0 * X.s[0];
        float* const mu_row = mu.p + i0 * mu.s[0];
        float* const t_row = t.p + i0 * t.s[0];
        float* const var_row = var.p + i0 * var.s[0];
        const float* const g_row = g.p;
        const float* const b_row = b.p;
        float* const Y_row = Y.p + i0 * Y.s[0];
        const long n_ = X.n[1];
        F mu_acc[4];
        clear<Sum>(mu_acc);
        long j = 0;
        #pragma GCC unroll 1
        for (; j + 4 * L <= n_; j += 4 * L) {
            #pragma GCC unroll 4
            for (long u = 0, q = j; u < 4; u += 1, q += 1 * L) {
                const F X_v = load<F>(X_row + q);
                mu_acc[u] = Sum::of(mu_acc[u], X_v);
            }
        }
        for (; j < n_; j += L) {
            const long rest = n_ - j;
            const F X_v = load_n<F>(X_row + j, rest);
            mu_acc[0] = Sum::of(mu_acc[0], keep(X_v, rest, unit<Sum, F>()));
        }
        const F mu_1 = total<Sum>(mu_acc);
        mu_row[0] = cast<float>(lane<F>(mu_1[0]));
        const long n__ = t.n[1];
        F var_acc[4];
        clear<Sum>(var_acc);
        long j_ = 0;
        for (; j_ + 4 * L <= n__; j_ += 4 * L) {
            #pragma GCC unroll 4
            for (long u_ = 0, q_ = j_; u_ < 4; u_ += 1, q_ += 1 * L) {
                next_row(X_row + X.s[0] + q_);
                own_output(Y_row + q_);
                const F X_v = load<F>(X_row + q_);
                const F t_v = (X_v - (mu_1 / 300.0f)) * (X_v - (mu_1 / 300.0f));
                store(t_row + q_, t_v);
                var_acc[u_] = Sum::of(var_acc[u_], t_v);
            }
        }
        for (; j_ < n__; j_ += L) {
            const long rest_ = n__ - j_;
            const F X_v = load_n<F>(X_row + j_, rest_);
            const F t_v = (X_v - (mu_1 / 300.0f)) * (X_v - (mu_1 / 300.0f));
            store_n(t_row + j_, t_v, rest_);
            var_acc[0] = Sum::of(var_acc[0], keep(t_v, rest_, unit<Sum, F>()));
        }
        const F var_1 = total<Sum>(var_acc);
        var_row[0] = cast<float>(lane<F>(var_1[0]));
        const long n___ = Y.n[1];
        long j__ = 0;
        for (; j__ + L <= n___; j__ += L) {
            next_output(Y_row + Y.s[0] + j__);
            const F X_v = load<F>(X_row + j__);
            const F g_v = load<F>(g_row + j__);
            const F b_v = load<F>(b_row + j__);
            const F Y_v = (((X_v - (mu_1 / 300.0f)) * vrsqrt((var_1 / 300.0f) + 1e-05f)) * g_v) + b_v;
            store(Y_row + j__, Y_v);
        }
        for (; j__ < n___; j__ += L) {
            const long rest__ = n___ - j__;
            const F X_v = load_n<F>(X_row + j__, rest__);
            const F g_v = load_n<F>(g_row + j__, rest__);
            const F b_v = load_n<F>(b_row + j__, rest__);
            const F Y_v = (((X_v - (mu_1 / 300.0f)) * vrsqrt((var_1 / 300.0f) + 1e-05f)) * g_v) + b_v;
            store_n(Y_row + j__, Y_v, rest__);
        }
    }
}

// ---- hierarchy

extern "C" __attribute__((visibility("default"))) void layernorm_entry(void* const* args) {
    float* const Y = static_cast<float*>(args[0]);
    const float* const X = static_cast<const float*>(args[1]);
    const float* const g = static_cast<const float*>(args[2]);
    const float* const b = static_cast<const float*>(args[3]);
    #pragma omp parallel
    {
        char* const core = st::scratch<1>(5120);
        #pragma omp for schedule(static)
        for (long i = 0; i < 5; ++i) {
            float* const mu = reinterpret_cast<float*>(core + 0);  // REGISTER float32[4, 1]
            float* const var = reinterpret_cast<float*>(core + 128);  // REGISTER float32[4, 1]
            float* const t = reinterpret_cast<float*>(core + 256);  // REGISTER float32[4, 300]
            leaf_layernorm_8d42f1({Y + i * 4 * 300, {4, 300}, {300, 1}}, {X + i * 4 * 300, {4, 300}, {300, 1}}, {g, {300}, {1}}, {b, {300}, {1}}, {mu, {4, 1}, {1, 1}}, {var, {4, 1}, {1, 1}}, {t, {4, 300}, {300, 1}}, float(300.0));
        }
    }
}

