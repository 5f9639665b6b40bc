// torch's extension interface as host functions of kernels use it: tensors that they are given and allocate, their sizes
// and addresses, dispatch by dtype, checks. What computes (torch::matmul, a + b, x.sum()) is left out: a kernel does that.
#pragma once
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cuda_runtime.h"
#include "torch/tensor.h"
#include "torch/dispatch.h"

// ---- bindings: read by nobody, so never instantiated
namespace pybind11 {
struct arg {
  explicit arg(const char*) {}
  template <class T> arg& operator=(const T&) { return *this; }
};
}  // namespace pybind11
namespace py = pybind11;
#define TORCH_EXTENSION_NAME septran_extension
#define PYBIND11_MODULE(name, m) template <class Module> static void name##_bindings(Module& m)
#define TORCH_LIBRARY(name, m) template <class Module> static void name##_library(Module& m)
#define TORCH_LIBRARY_IMPL(name, key, m) template <class Module> static void name##_##key##_library(Module& m)

// ---- streams and devices
namespace c10 {
namespace cuda {
struct CUDAStream {
  operator cudaStream_t() const { return nullptr; }
  cudaStream_t stream() const { return nullptr; }
};
inline CUDAStream getCurrentCUDAStream(int = 0) { return {}; }
inline CUDAStream getDefaultCUDAStream(int = 0) { return {}; }
struct CUDAGuard {
  template <class D> explicit CUDAGuard(const D&) {}
};
struct OptionalCUDAGuard {
  OptionalCUDAGuard() = default;
  template <class D> explicit OptionalCUDAGuard(const D&) {}
};
}  // namespace cuda
}  // namespace c10
namespace at {
namespace cuda {
using namespace c10::cuda;
}
}  // namespace at
namespace torch {
using namespace at;
namespace cuda = at::cuda;
}  // namespace torch
#define C10_CUDA_CHECK(call) do { if ((call) != cudaSuccess) cuemu::fail("check", "%s failed", #call); } while (0)
#define AT_CUDA_CHECK(call) C10_CUDA_CHECK(call)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() ((void)0)
