"""Layer norm with a reduction in shared memory and a row softmax with shuffles; torch adds and activates."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_runtime.h>
#include <cfloat>

template <typename scalar_t, int THREADS>
__global__ void layer_norm_kernel(const scalar_t* __restrict__ x, const scalar_t* __restrict__ gamma,
                                  const scalar_t* __restrict__ beta, scalar_t* __restrict__ y, int cols, scalar_t eps) {
    __shared__ scalar_t sums[THREADS];
    __shared__ scalar_t squares[THREADS];
    const scalar_t* row = x + blockIdx.x * cols;
    scalar_t sum = 0;
    for (int c = threadIdx.x; c < cols; c += THREADS) sum += row[c];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int s = THREADS / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s) sums[threadIdx.x] += sums[threadIdx.x + s];
        __syncthreads();
    }
    const scalar_t mean = sums[0] / cols;
    scalar_t square = 0;
    for (int c = threadIdx.x; c < cols; c += THREADS) square += (row[c] - mean) * (row[c] - mean);
    squares[threadIdx.x] = square;
    __syncthreads();
    for (int s = THREADS / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s) squares[threadIdx.x] += squares[threadIdx.x + s];
        __syncthreads();
    }
    const scalar_t inverse = rsqrt(squares[0] / cols + eps);
    for (int c = threadIdx.x; c < cols; c += THREADS)
        y[blockIdx.x * cols + c] = (row[c] - mean) * inverse * gamma[c] + beta[c];
}

__inline__ __device__ float warp_max(float v) {
    for (int offset = 16; offset > 0; offset /= 2) v = fmaxf(v, __shfl_down_sync(0xffffffff, v, offset));
    return __shfl_sync(0xffffffff, v, 0);
}
__inline__ __device__ float warp_sum(float v) {
    #pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffff, v, offset);
    return v;
}

__global__ void softmax_kernel(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    float best = -FLT_MAX;
    for (int c = threadIdx.x; c < cols; c += 32) best = fmaxf(best, x[row * cols + c]);
    best = warp_max(best);
    float sum = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 32) sum += expf(x[row * cols + c] - best);
    sum = warp_sum(sum);
    for (int c = threadIdx.x; c < cols; c += 32) y[row * cols + c] = expf(x[row * cols + c] - best) / sum;
}

torch::Tensor layer_norm_cuda(torch::Tensor x, torch::Tensor gamma, torch::Tensor beta, float eps) {
    TORCH_CHECK(x.is_contiguous(), "x must be contiguous");
    const auto cols = x.size(-1);
    const auto rows = x.numel() / cols;
    auto y = torch::empty(x.sizes(), x.options());
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "layer_norm_cuda", ([&] {
        layer_norm_kernel<scalar_t, 64><<<rows, 64, 0, at::cuda::getCurrentCUDAStream()>>>(
            x.data_ptr<scalar_t>(), gamma.data_ptr<scalar_t>(), beta.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), cols, (scalar_t)eps);
    }));
    return y;
}

torch::Tensor softmax_cuda(torch::Tensor x) {
    const int cols = x.size(-1), rows = x.numel() / cols;
    auto y = torch::empty_like(x);
    dim3 block(32, 4);
    softmax_kernel<<<(rows + 3) / 4, block>>>(x.data_ptr<float>(), y.data_ptr<float>(), rows, cols);
    cudaError_t err = cudaGetLastError();
    TORCH_CHECK(err == cudaSuccess, "softmax failed: ", cudaGetErrorString(err));
    return y;
}
"""

HEADER = """
torch::Tensor layer_norm_cuda(torch::Tensor x, torch::Tensor gamma, torch::Tensor beta, float eps);
torch::Tensor softmax_cuda(torch::Tensor x);
"""


class ModelNew(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(layers)])
        self.ops = load_inline(
            name="norm_ops",
            cpp_sources=HEADER,
            cuda_sources=SOURCE,
            functions=["layer_norm_cuda", "softmax_cuda"],
        )

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        for norm in self.norms:
            x = self.ops.layer_norm_cuda(x.contiguous(), norm.weight, norm.bias, norm.eps)
            x = F.gelu(x) + residual
        return self.ops.softmax_cuda(x)
