"""A SiLU by load_inline, with inline PTX in its kernel."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

__device__ __forceinline__ float power_of_two(float x) {
  float y;
  asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__global__ void silu_kernel(const float* __restrict__ x, float* __restrict__ y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v;
  asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(v) : "l"(x + i));
  y[i] = v / (1.f + power_of_two(-1.4426950408889634f * v));
}

torch::Tensor silu(torch::Tensor x) {
  auto y = torch::empty_like(x);
  const int n = x.numel();
  silu_kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
  return y;
}
"""
extension = load_inline(name="silu_ext", cpp_sources="torch::Tensor silu(torch::Tensor x);", cuda_sources=source, functions=["silu"])


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.silu(x)
