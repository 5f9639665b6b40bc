// Rows of a softmax as an extension for torch that is built from a .cu file: reductions in shared memory.
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_runtime.h>
#include <math_constants.h>

#define CHECK_CUDA(x) TORCH_CHECK(x.device().is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")

constexpr int kThreads = 128;

__global__ void softmax_rows(const float* __restrict__ x, float* __restrict__ out, int columns) {
  __shared__ float partial[kThreads];
  const float* row = x + static_cast<int64_t>(blockIdx.x) * columns;
  float* to = out + static_cast<int64_t>(blockIdx.x) * columns;

  float most = -CUDART_INF_F;
  for (int i = threadIdx.x; i < columns; i += kThreads) most = fmaxf(most, row[i]);
  partial[threadIdx.x] = most;
  __syncthreads();
  for (int step = kThreads / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) partial[threadIdx.x] = fmaxf(partial[threadIdx.x], partial[threadIdx.x + step]);
    __syncthreads();
  }
  most = partial[0];
  __syncthreads();  // everybody has read it

  float sum = 0.0f;
  for (int i = threadIdx.x; i < columns; i += kThreads) sum += expf(row[i] - most);
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (int step = kThreads / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) partial[threadIdx.x] += partial[threadIdx.x + step];
    __syncthreads();
  }
  const float scale = 1.0f / partial[0];
  for (int i = threadIdx.x; i < columns; i += kThreads) to[i] = expf(row[i] - most) * scale;
}

torch::Tensor softmax_forward(const torch::Tensor& input) {
  CHECK_CUDA(input);
  CHECK_CONTIGUOUS(input);
  const auto rows = input.size(0);
  const auto columns = input.size(1);
  torch::Tensor output = torch::empty_like(input);
  softmax_rows<<<rows, kThreads>>>(input.data_ptr<float>(), output.data_ptr<float>(), columns);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return output;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("softmax", &softmax_forward, "rows of a softmax", py::arg("input"));
}
