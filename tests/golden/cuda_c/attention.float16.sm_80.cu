// attention(O: float16[4, 256, 64] w, Q: float16[4, 256, 64] r, K: float16[4, 256, 64] r, V: float16[4, 256, 64] r)
// Written by SepTran for cuda_c sm_80.

#define SEPTRAN_THREADS 256
#include "septran_cuda.cuh"

// ---- leaves

// zero: fill (library rows_leaf_block)
ST_DEVICE void leaf_zero_c15f1e(st::Frag<float, st::Grid<8, 1, 8, 2>, 128, 64>& C) {
    st::each(C, [&]([[maybe_unused]] st::At e, [[maybe_unused]] st::idx i, [[maybe_unused]] st::idx j) {
        C[e] = st::from<float>(0.0f);
    });
}

// zero: fill (library rows_leaf_block)
ST_DEVICE void leaf_zero_b844ac(st::Frag<float, st::Grid<8, 1, 8, 2>, 128, 1>& C) {
    st::each(C, [&]([[maybe_unused]] st::At e, [[maybe_unused]] st::idx i, [[maybe_unused]] st::idx j) {
        C[e] = st::from<float>(0.0f);
    });
}

// lowest: fill (library rows_leaf_block)
ST_DEVICE void leaf_lowest_1844be(st::Frag<float, st::Grid<8, 1, 8, 2>, 128, 1>& C) {
    st::each(C, [&]([[maybe_unused]] st::At e, [[maybe_unused]] st::idx i, [[maybe_unused]] st::idx j) {
        C[e] = st::from<float>(-1e+30f);
    });
}

// scores: gemm (library gemm_leaf_tensorcore)
ST_DEVICE void leaf_scores_d94a9d(st::Frag<float, st::Grid<8, 1, 8, 2>, 128, 64>& S, st::View<const __half, 3> Q, st::View<const __half, 3> K) {
    st::zero(S);
    st::gemm_mma<st::Product<st::Tile<1, 128, 64>, false, true, true, true>>(S, Q, st::matrix(K));
}

// online: copy, reduce_acc, map, map, map, reduce_acc, map, copy, copy (library rows_leaf_block)
ST_DEVICE void leaf_online_207b77(st::Frag<float, st::Grid<8, 1, 8, 2>, 128, 64>& S, st::Frag<__half, st::Grid<8, 1, 8, 2>, 128, 64>& P, st::Frag<float, st::Grid<8, 1, 8, 2>, 128, 1>& m, st::Frag<float, st::Grid<8, 1, 8, 2>, 128, 1>& l, st::Frag<float, st::Grid<8, 1, 8, 2>, 128, 64>& acc, st::Frag<float, st::Grid<8, 1, 8, 2>, 128, 1>& m_new, st::Frag<float, st::Grid<8, 1, 8, 2>, 128, 1>& c, float scale) {
    st::copy(m_new, m);
    st::reduce_last<st::Max, true>(m_new, S);
    st::each(c, [&]([[maybe_unused]] st::At e, [[maybe_unused]] st::idx i, [[maybe_unused]] st::idx j) {
        c[e] = st::from<float>(st::rescale(st::to(m[e]), st::to(m_new[e]), 0.18033688011112042f, 0.25f));
    });
    st::each(S, [&]([[maybe_unused]] st::At e, [[maybe_unused]] st::idx i, [[maybe_unused]] st::idx j) {
        S[e] = st::from<float>(st::power(st::to(S[e]), st::to(m_new[e]), 0.18033688011112042f, 0.25f));
    });
    st::each(l, [&]([[maybe_unused]] st::At e, [[maybe_unused]] st::idx i, [[maybe_unused]] st::idx j) {
        l[e] = st::from<float>(st::to(l[e]) * st::to(c[e]));
    });
    st::reduce_last<st::Sum, true>(l, S);
    st::each(acc, [&]([[maybe_unused]] st::At e, [[maybe_unused]] st::idx i, [[maybe_unused]] st::idx j) {
        acc[e] = st::from<float>(st::to(acc[e]) * st::to(c[e]));
    });
    st::copy(m, m_new);
    st::copy(P, S);
}

// weigh: gemm_acc (library gemm_leaf_tensorcore)
ST_DEVICE void leaf_weigh_de3df8(st::Frag<float, st::Grid<8, 1, 8, 2>, 128, 64>& acc, const st::Frag<__half, st::Grid<8, 1, 8, 2>, 128, 64>& P, st::View<const __half, 3> V) {
    st::gemm_mma<st::Product<st::Tile<128, 64>, false, false, false, true>>(acc, P, st::matrix(V));
}

// finish: map (library rows_leaf_block)
ST_DEVICE void leaf_finish_1718f0(st::Frag<__half, st::Grid<8, 1, 8, 2>, 1, 128, 64>& O, const st::Frag<float, st::Grid<8, 1, 8, 2>, 128, 64>& acc, const st::Frag<float, st::Grid<8, 1, 8, 2>, 128, 1>& l) {
    st::each(O, [&]([[maybe_unused]] st::At e, [[maybe_unused]] st::idx i, [[maybe_unused]] st::idx j, [[maybe_unused]] st::idx k) {
        O[e] = st::from<__half>(st::divide_quick(st::to(acc[e]), st::to(l[e])));
    });
}

// ---- kernels

__global__ void __launch_bounds__(SEPTRAN_THREADS, 1) attention_kernel(const __half* __restrict__ Q, const __half* __restrict__ K, const __half* __restrict__ V, __half* __restrict__ O) {
    ST_DYNAMIC_SHARED(smem);
    __half* const Q_s = reinterpret_cast<__half*>(smem + 0);  // [1][128][72]
    __half* const K_s = reinterpret_cast<__half*>(smem + 18432);  // [3][1][64][72]
    __half* const V_s = reinterpret_cast<__half*>(smem + 46080);  // [3][1][64][72]
    const st::idx i0 = blockIdx.x / 2;
    const st::idx i1 = blockIdx.x % 2;
    st::Frag<float, st::Grid<8, 1, 8, 2>, 128, 64> acc;
    st::bound(acc, 128, 64);
    st::Frag<float, st::Grid<8, 1, 8, 2>, 128, 1> m;
    st::bound(m, 128, 1);
    st::Frag<float, st::Grid<8, 1, 8, 2>, 128, 1> l;
    st::bound(l, 128, 1);
    st::Frag<float, st::Grid<8, 1, 8, 2>, 128, 1> m_new;
    st::bound(m_new, 128, 1);
    st::Frag<float, st::Grid<8, 1, 8, 2>, 128, 1> c;
    st::bound(c, 128, 1);
    leaf_zero_c15f1e(acc);
    leaf_zero_b844ac(l);
    leaf_lowest_1844be(m);
    st::copy_async<st::Tile<1, 128, 64>>(st::View<__half, 3>{Q_s, {1, 128, 64}, {9216, 72, 1}}, st::View<const __half, 3>{Q + (i0 * 16384 + i1 * 128 * 64), {1, 128, 64}, {16384, 64, 1}});
    // 3-stage ring: copies run 2 iterations ahead.
    #pragma unroll
    for (st::idx k0_first = 0; k0_first < 2; ++k0_first) {
        st::copy_async<st::Tile<1, 64, 64>>(st::View<__half, 3>{K_s + (k0_first % 3 * 4608), {1, 64, 64}, {4608, 72, 1}}, st::View<const __half, 3>{K + (i0 * 16384 + k0_first * 64 * 64), {1, 64, 64}, {16384, 64, 1}});
        st::copy_async<st::Tile<1, 64, 64>>(st::View<__half, 3>{V_s + (k0_first % 3 * 4608), {1, 64, 64}, {4608, 72, 1}}, st::View<const __half, 3>{V + (i0 * 16384 + k0_first * 64 * 64), {1, 64, 64}, {16384, 64, 1}});
        st::cp_commit();
    }
    for (st::idx k0 = 0; k0 < 4; ++k0) {
        st::cp_wait<1>();
        __syncthreads();
        if (k0 + 2 < 4) {
            st::copy_async<st::Tile<1, 64, 64>>(st::View<__half, 3>{K_s + ((k0 + 2) % 3 * 4608), {1, 64, 64}, {4608, 72, 1}}, st::View<const __half, 3>{K + (i0 * 16384 + (k0 + 2) * 64 * 64), {1, 64, 64}, {16384, 64, 1}});
            st::copy_async<st::Tile<1, 64, 64>>(st::View<__half, 3>{V_s + ((k0 + 2) % 3 * 4608), {1, 64, 64}, {4608, 72, 1}}, st::View<const __half, 3>{V + (i0 * 16384 + (k0 + 2) * 64 * 64), {1, 64, 64}, {16384, 64, 1}});
        }
        st::cp_commit();  // also when empty: cp_wait counts groups
        st::Frag<float, st::Grid<8, 1, 8, 2>, 128, 64> S;
        st::bound(S, 128, 64);
        st::Frag<__half, st::Grid<8, 1, 8, 2>, 128, 64> P;
        st::bound(P, 128, 64);
        leaf_scores_d94a9d(S,
            st::View<const __half, 3>{Q_s, {1, 128, 64}, {9216, 72, 1}},
            st::View<const __half, 3>{K_s + (k0 % 3 * 4608), {1, 64, 64}, {4608, 72, 1}});
        leaf_online_207b77(S, P, m, l, acc, m_new, c, 0.125f);
        leaf_weigh_de3df8(acc, P, st::View<const __half, 3>{V_s + (k0 % 3 * 4608), {1, 64, 64}, {4608, 72, 1}});
    }
    st::Frag<__half, st::Grid<8, 1, 8, 2>, 1, 128, 64> O_r;
    st::bound(O_r, 1, 128, 64);
    leaf_finish_1718f0(O_r, acc, l);
    st::copy(st::View<__half, 3>{O + (i0 * 16384 + i1 * 128 * 64), {1, 128, 64}, {16384, 64, 1}}, O_r);
}

// ---- launch: device pointers in parameter order; returns an error text or nullptr
static const char* attention_entry_launch(void* const* args, cudaStream_t stream) {
    __half* const O = static_cast<__half*>(args[0]);
    const __half* const Q = static_cast<const __half*>(args[1]);
    const __half* const K = static_cast<const __half*>(args[2]);
    const __half* const V = static_cast<const __half*>(args[3]);
    cudaFuncSetAttribute(attention_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 73728);
    ST_LAUNCH(attention_kernel, dim3(8), dim3(SEPTRAN_THREADS), 73728, stream, Q, K, V, O);
    const cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

extern "C" __attribute__((visibility("default"))) const char* attention_entry_on(void* const* args, void* stream) {
    return attention_entry_launch(args, static_cast<cudaStream_t>(stream));
}

extern "C" __attribute__((visibility("default"))) void attention_entry(void* const* args) {
#ifdef SEPTRAN_EMULATE
    cuemu::in_every_order({{args[0], 131072}}, [&] { attention_entry_launch(args, nullptr); });
#else
    if (const char* error = attention_entry_launch(args, nullptr)) {
        fprintf(stderr, "launch failed: %s\n", error);
        abort();
    }
#endif
}

// ---- Python module: call(tensor or address, .., stream=0)
#ifdef SEPTRAN_PYBIND
#include <pybind11/pybind11.h>
#include <stdexcept>

// An address as int, or anything with data_ptr().
static void* address(pybind11::object x) {
    if (PyLong_CheckExact(x.ptr())) return PyLong_AsVoidPtr(x.ptr());
    return PyLong_AsVoidPtr(x.attr("data_ptr")().ptr());
}

PYBIND11_MODULE(SEPTRAN_PYBIND, module) {
    module.def("call", [](pybind11::object O, pybind11::object Q, pybind11::object K, pybind11::object V, size_t stream) {
        void* const args[] = {address(O), address(Q), address(K), address(V)};
        const char* error = attention_entry_on(args, reinterpret_cast<void*>(stream));
        if (error) throw std::runtime_error(error);
    }, pybind11::arg("O"), pybind11::arg("Q"), pybind11::arg("K"), pybind11::arg("V"), pybind11::arg("stream") = 0);
}
#endif
