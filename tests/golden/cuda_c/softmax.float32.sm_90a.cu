// softmax(Y: float32[128, 1024] w, X: float32[128, 1024] r)
// Written by SepTran for cuda_c sm_90a.

#define SEPTRAN_THREADS 256
#include "septran_cuda.cuh"

// ---- leaves

// softmax_leaf: reduce, map, reduce, map (library rows_leaf_block)
ST_DEVICE void leaf_softmax_leaf_8df8f3(st::Frag<float, st::Grid<4, 2, 1, 4>, 4, 1024>& Y, const st::Frag<float, st::Grid<4, 2, 1, 4>, 4, 1024>& X, st::Frag<float, st::Grid<4, 2, 1, 4>, 4, 1024>& t, st::Frag<float, st::Grid<4, 2, 1, 4>, 4, 1>& m, st::Frag<float, st::Grid<4, 2, 1, 4>, 4, 1>& s) {
    st::reduce_last<st::Max, false>(m, X);
    st::each(t, [&]([[maybe_unused]] st::At e, [[maybe_unused]] st::idx i, [[maybe_unused]] st::idx j) {
        t[e] = st::from<float>(expf(st::to(X[e]) - st::to(m[e])));
    });
    st::reduce_last<st::Sum, false>(s, t);
    st::each(Y, [&]([[maybe_unused]] st::At e, [[maybe_unused]] st::idx i, [[maybe_unused]] st::idx j) {
        Y[e] = st::from<float>(st::to(t[e]) / st::to(s[e]));
    });
}

// ---- kernels

__global__ void __launch_bounds__(SEPTRAN_THREADS) softmax_kernel(const float* __restrict__ X, float* __restrict__ Y) {
    const st::idx i0 = blockIdx.x;
    st::Frag<float, st::Grid<4, 2, 1, 4>, 4, 1024> t;
    st::bound(t, 4, 1024);
    st::Frag<float, st::Grid<4, 2, 1, 4>, 4, 1> m;
    st::bound(m, 4, 1);
    st::Frag<float, st::Grid<4, 2, 1, 4>, 4, 1> s;
    st::bound(s, 4, 1);
    st::Frag<float, st::Grid<4, 2, 1, 4>, 4, 1024> Y_r;
    st::bound(Y_r, 4, 1024);
    st::Frag<float, st::Grid<4, 2, 1, 4>, 4, 1024> X_r;
    st::bound(X_r, 4, 1024);
    st::copy(X_r, st::View<const float, 2>{X + (i0 * 4 * 1024), {4, 1024}, {1024, 1}});
    leaf_softmax_leaf_8df8f3(Y_r, X_r, t, m, s);
    st::copy(st::View<float, 2>{Y + (i0 * 4 * 1024), {4, 1024}, {1024, 1}}, Y_r);
}

// ---- launch: device pointers in parameter order; returns an error text or nullptr
static const char* softmax_entry_launch(void* const* args, cudaStream_t stream) {
    float* const Y = static_cast<float*>(args[0]);
    const float* const X = static_cast<const float*>(args[1]);
    ST_LAUNCH(softmax_kernel, dim3(32), dim3(SEPTRAN_THREADS), 0, stream, X, Y);
    const cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

extern "C" __attribute__((visibility("default"))) const char* softmax_entry_on(void* const* args, void* stream) {
    return softmax_entry_launch(args, static_cast<cudaStream_t>(stream));
}

extern "C" __attribute__((visibility("default"))) void softmax_entry(void* const* args) {
#ifdef SEPTRAN_EMULATE
    cuemu::in_every_order({{args[0], 524288}}, [&] { softmax_entry_launch(args, nullptr); });
#else
    if (const char* error = softmax_entry_launch(args, nullptr)) {
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
        const char* error = softmax_entry_on(args, reinterpret_cast<void*>(stream));
        if (error) throw std::runtime_error(error);
    }, pybind11::arg("Y"), pybind11::arg("X"), pybind11::arg("stream") = 0);
}
#endif
