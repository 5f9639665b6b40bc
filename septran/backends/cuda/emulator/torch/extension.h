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

namespace c10 {
using Half = __half;
using BFloat16 = __nv_bfloat16;
}  // namespace c10
namespace septran_tensors {
using cuemu::device_memory, cuemu::fail, cuemu::free_device_memory;
constexpr bool kOnDevice = true;
using Output = cuemu::Output;
/// Run a host function in every order of its launches' threads.
template <class F> void judged(std::initializer_list<Output> outputs, F call) { cuemu::in_every_order_and_block(outputs, call); }
}  // namespace septran_tensors
#include "tensors/tensor.h"
#include "tensors/dispatch.h"
#include "tensors/bindings.h"

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
template <class T> int device_of(const T&) { return 0; }
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
