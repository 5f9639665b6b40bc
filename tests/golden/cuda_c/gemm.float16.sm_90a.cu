// gemm(C: float16[200, 136] w, A: float16[200, 344] r, B: float16[344, 136] r)
// Written by SepTran for cuda_c sm_90a.

#define SEPTRAN_THREADS 256
#include "septran_cuda.cuh"
#include "st_wgmma.cuh"

// ---- leaves

// zero: fill (library rows_leaf_block)
ST_DEVICE void leaf_zero_218682(st::Frag<float, st::Grid<8, 1, 8, 2>, 128, 128>& C) {
    st::each(C, [&]([[maybe_unused]] st::At e, [[maybe_unused]] st::idx i, [[maybe_unused]] st::idx j) {
        C[e] = st::from<float>(0.0f);
    });
}

// mma: gemm_acc (library gemm_leaf_wgmma)
ST_DEVICE void leaf_mma_fcf101(st::Frag<float, st::Grid<8, 1, 8, 2>, 128, 128>& C, st::Panels<const __half, 128, 64> A, st::Panels<const __half, 64, 128> B) {
    st::gemm_wgmma<false, false>(C, A, B);
}

// store: copy (library rows_leaf_block)
ST_DEVICE void leaf_store_5b2df7(st::Frag<__half, st::Grid<8, 1, 8, 2>, 128, 128>& Y, const st::Frag<float, st::Grid<8, 1, 8, 2>, 128, 128>& C) {
    st::copy(Y, C);
}

// ---- kernels

__global__ void __launch_bounds__(SEPTRAN_THREADS, 1) gemm_kernel(const __half* __restrict__ A, const __half* __restrict__ B, __half* __restrict__ C, const __grid_constant__ st::TensorMap A_map, const __grid_constant__ st::TensorMap B_map) {
    ST_DYNAMIC_SHARED(smem);
    __half* const A_s = reinterpret_cast<__half*>(smem + 0);  // [3][128][64]
    __half* const B_s = reinterpret_cast<__half*>(smem + 49152);  // [3][64][128]
    st::Slots<3> slots_k0(smem + 98304);
    const st::idx i0 = blockIdx.x / 2;
    const st::idx i1 = blockIdx.x % 2;
    st::Frag<float, st::Grid<8, 1, 8, 2>, 128, 128> acc;
    st::bound(acc, st::least(128, 200 - i0 * 128), st::least(128, 136 - i1 * 128));
    leaf_zero_218682(acc);
    // 3-stage ring: tensor copies run 2 iterations ahead.
    for (st::idx k0_first = 0; k0_first < 2; ++k0_first) {
        if (threadIdx.x == 0) {
            st::Barrier* const landed = slots_k0.expect(k0_first % 3, 32768);
            st::copy_bulk(st::Panels<__half, 128, 64>{A_s + (k0_first % 3 * 8192)}, A_map, landed, {i0 * 128, k0_first * 64});
            st::copy_bulk(st::Panels<__half, 64, 128>{B_s + (k0_first % 3 * 8192)}, B_map, landed, {k0_first * 64, i1 * 128});
        }
    }
    for (st::idx k0 = 0; k0 < 6; ++k0) {
        if (k0 + 2 < 6) {
            if (threadIdx.x == 0) {
                if (1 <= k0) {
                    slots_k0.reuse((k0 + 2) % 3);
                }
                st::Barrier* const landed = slots_k0.expect((k0 + 2) % 3, 32768);
                st::copy_bulk(st::Panels<__half, 128, 64>{A_s + ((k0 + 2) % 3 * 8192)}, A_map, landed, {i0 * 128, (k0 + 2) * 64});
                st::copy_bulk(st::Panels<__half, 64, 128>{B_s + ((k0 + 2) % 3 * 8192)}, B_map, landed, {(k0 + 2) * 64, i1 * 128});
            }
        }
        slots_k0.wait(k0 % 3);
        leaf_mma_fcf101(acc,
            st::Panels<const __half, 128, 64>{A_s + (k0 % 3 * 8192)},
            st::Panels<const __half, 64, 128>{B_s + (k0 % 3 * 8192)});
        if (k0 + 3 < 6) {
            slots_k0.release(k0 % 3);
        }
    }
    st::Frag<__half, st::Grid<8, 1, 8, 2>, 128, 128> C_r;
    st::bound(C_r, st::least(128, 200 - i0 * 128), st::least(128, 136 - i1 * 128));
    leaf_store_5b2df7(C_r, acc);
    st::copy(st::View<__half, 2>{C + (i0 * 128 * 136 + i1 * 128), {st::least(128, 200 - i0 * 128), st::least(128, 136 - i1 * 128)}, {136, 1}}, C_r);
}

// ---- launch: device pointers in parameter order; returns an error text or nullptr
static const char* gemm_entry_launch(void* const* args, cudaStream_t stream) {
    __half* const C = static_cast<__half*>(args[0]);
    const __half* const A = static_cast<const __half*>(args[1]);
    const __half* const B = static_cast<const __half*>(args[2]);
    st::TensorMap A_map;
    if (const char* error = st::tensor_map(A_map, A, {200, 344}, {128, 64})) return error;
    st::TensorMap B_map;
    if (const char* error = st::tensor_map(B_map, B, {344, 136}, {64, 64})) return error;
    cudaFuncSetAttribute(gemm_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 98352);
    ST_LAUNCH(gemm_kernel, dim3(4), dim3(SEPTRAN_THREADS), 98352, stream, A, B, C, A_map, B_map);
    const cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

extern "C" __attribute__((visibility("default"))) const char* gemm_entry_on(void* const* args, void* stream) {
    return gemm_entry_launch(args, static_cast<cudaStream_t>(stream));
}

extern "C" __attribute__((visibility("default"))) void gemm_entry(void* const* args) {
#ifdef SEPTRAN_EMULATE
    cuemu::in_every_order({{args[0], 54400}}, [&] { gemm_entry_launch(args, nullptr); });
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
