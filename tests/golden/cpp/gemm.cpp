// ---- leaves

// zero: fill (library rows_leaf_simd)
static void leaf_zero_41f9c2(st::View<float, 2> C) {
    using namespace st;
    using F = f32v;
    constexpr long L = lanes<F>;
    for (long i0 = 0; i0 < C.n[0]; ++i0) {
        float* const C_row = C.p + i0 * C.s[0];
        const long n = C.n[1];
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

// mma: gemm_acc (library gemm_leaf_simd)
static void leaf_mma_1de17e(st::View<float, 2> C, st::View<const float, 2> A, st::View<const float, 2> B) {
    using namespace st;
    gemm<float, true, true, true, false, false>(C, A, B);
}

// ---- hierarchy

extern "C" __attribute__((visibility("default"))) void gemm_entry(void* const* args) {
    float* const C = static_cast<float*>(args[0]);
    const float* const A = static_cast<const float*>(args[1]);
    const float* const B = static_cast<const float*>(args[2]);
    #pragma omp parallel
    {
        char* const core = st::scratch<1>(3154112);
        #pragma omp for collapse(2) schedule(dynamic)
        for (long i = 0; i < 2; ++i)
        for (long j = 0; j < 2; ++j) {
            float* const acc = reinterpret_cast<float*>(core + 0);  // REGISTER float32[512, 512]
            leaf_zero_41f9c2({acc, {st::least(512, 1000 - i * 512), st::least(512, 777 - j * 512)}, {512, 1}});
            for (long kk = 0; kk < 1; ++kk) {
                float* const A_s = reinterpret_cast<float*>(core + 1048640);  // SHARED float32[512, 512] as panel_m:12
                float* const B_s = reinterpret_cast<float*>(core + 2105472);  // SHARED float32[512, 512] as panel_n:32
                st::pack_rows<12>(A_s, 6144, st::View<const float, 2>{A + i * 512 * 345 + kk * 512, {st::least(512, 1000 - i * 512), 345}, {345, 1}});
                st::pack_cols<32>(B_s, 16384, st::View<const float, 2>{B + kk * 512 * 777 + j * 512, {345, st::least(512, 777 - j * 512)}, {777, 1}});
                leaf_mma_1de17e({acc, {st::least(512, 1000 - i * 512), st::least(512, 777 - j * 512)}, {512, 1}}, {A_s, {st::least(512, 1000 - i * 512), 345}, {6144, 12}}, {B_s, {345, st::least(512, 777 - j * 512)}, {16384, 32}});
            }
            st::copy(st::View<float, 2>{C + i * 512 * 777 + j * 512, {st::least(512, 1000 - i * 512), st::least(512, 777 - j * 512)}, {777, 1}}, st::View<const float, 2>{acc, {st::least(512, 1000 - i * 512), st::least(512, 777 - j * 512)}, {512, 1}});
        }
    }
}

