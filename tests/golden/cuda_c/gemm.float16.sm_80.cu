// gemm(C: float16[512, 512] w, A: float16[512, 512] r, B: float16[512, 512] r)
// Written by SepTran for cuda_c sm_80.

#define SEPTRAN_THREADS 256
#include "septran_cuda.cuh"

// ---- leaves

// zero: fill (library rows_leaf_block)
ST_DEVICE void leaf_zero_6ea622(st::Frag<float, st::Grid<2, 4, 8, 2>, 128, 128>& C) {
    st::each(C, [&]([[maybe_unused]] st::At e, [[maybe_unused]] st::idx i, [[maybe_unused]] st::idx j) {
        C[e] = st::from<float>(0.0f);
    });
}

// mma: gemm_acc (library gemm_leaf_tensorcore)
ST_DEVICE void leaf_mma_a03d61(st::Frag<float, st::Grid<2, 4, 8, 2>, 128, 128>& C, st::View<const __half, 2> A, st::View<const __half, 2> B) {
    st::gemm_mma<st::Product<st::Tile<128, 64>, false, false, true, true>>(C, A, st::matrix(B));
}

// store: copy (library rows_leaf_block)
ST_DEVICE void leaf_store_7ff1a5(st::Frag<__half, st::Grid<2, 4, 8, 2>, 128, 128>& Y, const st::Frag<float, st::Grid<2, 4, 8, 2>, 128, 128>& C) {
    st::copy(Y, C);
}

// ---- kernels

__global__ void __launch_bounds__(SEPTRAN_THREADS, 1) gemm_kernel(const __half* __restrict__ A, const __half* __restrict__ B, __half* __restrict__ C) {
    ST_DYNAMIC_SHARED(smem);
    __half* const A_s = reinterpret_cast<__half*>(smem + 0);  // [3][128][72]
    __half* const B_s = reinterpret_cast<__half*>(smem + 55296);  // [3][64][136]
    const st::idx i0 = blockIdx.x / 4;
    const st::idx i1 = blockIdx.x % 4;
    st::Frag<float, st::Grid<2, 4, 8, 2>, 128, 128> acc;
    st::bound(acc, 128, 128);
    leaf_zero_6ea622(acc);
    // 3-stage ring: copies run 2 iterations ahead.
    #pragma unroll
    for (st::idx k0_first = 0; k0_first < 2; ++k0_first) {
        st::copy_async<st::Tile<128, 64>>(st::View<__half, 2>{A_s + (k0_first % 3 * 9216), {128, 64}, {72, 1}}, st::View<const __half, 2>{A + (i0 * 128 * 512 + k0_first * 64), {128, 64}, {512, 1}});
        st::copy_async<st::Tile<64, 128>>(st::View<__half, 2>{B_s + (k0_first % 3 * 8704), {64, 128}, {136, 1}}, st::View<const __half, 2>{B + (k0_first * 64 * 512 + i1 * 128), {64, 128}, {512, 1}});
        st::cp_commit();
    }
    for (st::idx k0 = 0; k0 < 8; ++k0) {
        st::cp_wait<1>();
        __syncthreads();
        if (k0 + 2 < 8) {
            st::copy_async<st::Tile<128, 64>>(st::View<__half, 2>{A_s + ((k0 + 2) % 3 * 9216), {128, 64}, {72, 1}}, st::View<const __half, 2>{A + (i0 * 128 * 512 + (k0 + 2) * 64), {128, 64}, {512, 1}});
            st::copy_async<st::Tile<64, 128>>(st::View<__half, 2>{B_s + ((k0 + 2) % 3 * 8704), {64, 128}, {136, 1}}, st::View<const __half, 2>{B + ((k0 + 2) * 64 * 512 + i1 * 128), {64, 128}, {512, 1}});
        }
        st::cp_commit();  // also when empty: cp_wait counts groups
        leaf_mma_a03d61(acc,
            st::View<const __half, 2>{A_s + (k0 % 3 * 9216), {128, 64}, {72, 1}},
            st::View<const __half, 2>{B_s + (k0 % 3 * 8704), {64, 128}, {136, 1}});
    }
    st::Frag<__half, st::Grid<2, 4, 8, 2>, 128, 128> C_r;
    st::bound(C_r, 128, 128);
    leaf_store_7ff1a5(C_r, acc);
    st::copy(st::View<__half, 2>{C + (i0 * 128 * 512 + i1 * 128), {128, 128}, {512, 1}}, C_r);
}

// ---- launch: device pointers in parameter order; returns an error text or nullptr
static const char* gemm_entry_launch(void* const* args, cudaStream_t stream) {
    __half* const C = static_cast<__half*>(args[0]);
    const __half* const A = static_cast<const __half*>(args[1]);
    const __half* const B = static_cast<const __half*>(args[2]);
    cudaFuncSetAttribute(gemm_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 107520);
    ST_LAUNCH(gemm_kernel, dim3(16), dim3(SEPTRAN_THREADS), 107520, stream, A, B, C);
    const cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

extern "C" __attribute__((visibility("default"))) const char* gemm_entry_on(void* const* args, void* stream) {
    return gemm_entry_launch(args, static_cast<cudaStream_t>(stream));
}

extern "C" __attribute__((visibility("default"))) void gemm_entry(void* const* args) {
#ifdef SEPTRAN_EMULATE
    cuemu::in_every_order({{args[0], 524288}}, [&] { gemm_entry_launch(args, nullptr); });
#else
    if (const char* error = gemm_entry_launch(args, nullptr)) {
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
    module.def("call", [](pybind11::object C, pybind11::object A, pybind11::object B, size_t stream) {
        void* const args[] = {address(C), address(A), address(B)};
        const char* error = gemm_entry_on(args, reinterpret_cast<void*>(stream));
        if (error) throw std::runtime_error(error);
    }, pybind11::arg("C"), pybind11::arg("A"), pybind11::arg("B"), pybind11::arg("stream") = 0);
}
#endif
