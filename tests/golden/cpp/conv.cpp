// ---- leaves

// zero: fill (library rows_leaf_simd)
static void leaf_zero_159107(st::View<float, 4> C) {
    using namespace st;
    using F = f32v;
    constexpr long L = lanes<F>;
    for (long i1 = 0; i1 < C.n[1]; ++i1) {
        for (long i2 = 0; i2 < C.n[2]; ++i2) {
            float* const C_row = C.p + i1 * C.s[1] + i2 * C.s[2];
            const long n = C.n[3];
            long j = 0;
            for (; j + L <= n; j += L) {
                const F C_v = splat<F>(0.0f);
                store(C_row + j, C_v);
            }
            for (; j < n; j += L) {
                const long rest = n - j;
                const F C_v = splat<F>(0.0f);
                store_n(C_row + j, C_v, rest);
            }
        }
    }
}

// mma: gemm_acc (library gemm_leaf_simd)
static void leaf_mma_a58c39(st::View<float, 4> C, st::View<const float, 4> A, st::View<const float, 4> B) {
    using namespace st;
    gemm<float, true, true, false, false, false>(C, A, B);
}

// ---- hierarchy

extern "C" __attribute__((visibility("default"))) void conv_entry(void* const* args) {
    float* const Y = static_cast<float*>(args[0]);
    const float* const X = static_cast<const float*>(args[1]);
    const float* const W = static_cast<const float*>(args[2]);
    char* const host = st::scratch<0>(8256);
    float* const X_s = reinterpret_cast<float*>(host + 0);  // SHARED float32[1, 7, 9, 6]
    float* const acc = reinterpret_cast<float*>(host + 1600);  // REGISTER float32[1, 5, 7, 40]
    st::copy(st::View<float, 4>{X_s, {1, 7, 9, 6}, {378, 54, 6, 1}}, st::padded<const float, 4>(X, {1, 7, 9, 6}, {210, 42, 6, 1}, {1, 5, 7, 6}, {0, -1, -1, 0}, {1, 1, 1, 1}));
    leaf_zero_159107({acc, {1, 5, 7, 40}, {1400, 280, 40, 1}});
    for (long r = 0; r < 3; ++r) {
        for (long s = 0; s < 3; ++s) {
            float* const T = reinterpret_cast<float*>(host + 7296);  // SHARED float32[1, 5, 7, 6] as panel_m:12
            st::pack_rows<12>(T, 72, st::View<const float, 4>{X_s + r * 54 + s * 6, {1, 5, 7, 6}, {378, 54, 6, 1}});
            leaf_mma_a58c39({acc, {1, 5, 7, 40}, {1400, 280, 40, 1}}, {T, {1, 5, 7, 6}, {72, 12, 0, 0}}, {W + r * 720 + s * 240, {1, 1, 6, 40}, {720, 240, 40, 1}});
        }
    }
    st::copy(st::View<float, 4>{Y, {1, 5, 7, 40}, {1400, 280, 40, 1}}, st::View<const float, 4>{acc, {1, 5, 7, 40}, {1400, 280, 40, 1}});
}

