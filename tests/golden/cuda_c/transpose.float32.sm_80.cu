// transpose(Y: float32[384, 512] w, X: float32[512, 384] r)
// Written by SepTran for cuda_c sm_80.

#define SEPTRAN_THREADS 256
#include "septran_cuda.cuh"

// ---- leaves

// transpose_leaf: transpose (library rows_leaf_block)
ST_DEVICE void leaf_transpose_leaf_891f3d(st::Frag<float, st::Grid<8, 1, 1, 2>, 64, 64>& Y, st::View<const float, 2> X) {
    st::each(Y, [&]([[maybe_unused]] st::At e, [[maybe_unused]] st::idx i, [[maybe_unused]] st::idx j) {
        Y[e] = st::from<float>(st::to(X(j, i)));
    });
}

// ---- kernels

__global__ void __launch_bounds__(SEPTRAN_THREADS) transpose_kernel(const float* __restrict__ X, float* __restrict__ Y) {
    ST_DYNAMIC_SHARED(smem);
    float* const X_s = reinterpret_cast<float*>(smem + 0);  // [64][68]
    const st::idx i0 = blockIdx.x / 8;
    const st::idx i1 = blockIdx.x % 8;
    st::Frag<float, st::Grid<8, 1, 1, 2>, 64, 64> Y_r;
    st::bound(Y_r, 64, 64);
    st::copy_async<st::Tile<64, 64>>(st::View<float, 2>{X_s, {64, 64}, {68, 1}}, st::View<const float, 2>{X + (i1 * 64 * 384 + i0 * 64), {64, 64}, {384, 1}});
    st::cp_commit();
    st::cp_wait<0>();
    __syncthreads();
    leaf_transpose_leaf_891f3d(Y_r, st::View<const float, 2>{X_s, {64, 64}, {68, 1}});
    st::copy(st::View<float, 2>{Y + (i0 * 64 * 512 + i1 * 64), {64, 64}, {512, 1}}, Y_r);
}

// ---- launch: device pointers in parameter order; returns an error text or nullptr
static const char* transpose_entry_launch(void* const* args, cudaStream_t stream) {
    float* const Y = static_cast<float*>(args[0]);
    const float* const X = static_cast<const float*>(args[1]);
    ST_LAUNCH(transpose_kernel, dim3(48), dim3(SEPTRAN_THREADS), 17408, stream, X, Y);
    const cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

extern "C" __attribute__((visibility("default"))) const char* transpose_entry_on(void* const* args, void* stream) {
    return transpose_entry_launch(args, static_cast<cudaStream_t>(stream));
}

extern "C" __attribute__((visibility("default"))) void transpose_entry(void* const* args) {
#ifdef SEPTRAN_EMULATE
    cuemu::in_every_order({{args[0], 786432}}, [&] { transpose_entry_launch(args, nullptr); });
#else
    if (const char* error = transpose_entry_launch(args, nullptr)) {
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
    module.def("call", [](pybind11::object Y, pybind11::object X, size_t stream) {
        void* const args[] = {address(Y), address(X)};
        const char* error = transpose_entry_on(args, reinterpret_cast<void*>(stream));
        if (error) throw std::runtime_error(error);
    }, pybind11::arg("Y"), pybind11::arg("X"), pybind11::arg("stream") = 0);
}
#endif
