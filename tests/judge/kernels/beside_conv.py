"""A convolution of torch's, then bias, activation and scale in one kernel that loads four numbers at a time."""

import torch
import torch.nn as nn
import torch.utils.cpp_extension

cuda_source = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAException.h>
#include <ATen/cuda/CUDAContext.h>

__device__ __forceinline__ float activate(float v, float b, float s) { return fmaxf(v + b, 0.0f) * s; }

__global__ void __launch_bounds__(256) fused_kernel(
    const float* __restrict__ x, const float* __restrict__ bias, float* __restrict__ out, int plane, int channels, float s, int total) {
  const int first = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (first + 3 < total) {
    const float4 v = *reinterpret_cast<const float4*>(x + first);
    float4 r;
    r.x = activate(v.x, __ldg(bias + (first + 0) / plane % channels), s);
    r.y = activate(v.y, __ldg(bias + (first + 1) / plane % channels), s);
    r.z = activate(v.z, __ldg(bias + (first + 2) / plane % channels), s);
    r.w = activate(v.w, __ldg(bias + (first + 3) / plane % channels), s);
    *reinterpret_cast<float4*>(out + first) = r;
  } else {
    for (int i = first; i < total; ++i) out[i] = activate(x[i], bias[i / plane % channels], s);
  }
}

torch::Tensor fused(torch::Tensor x, torch::Tensor bias, double s) {
  TORCH_CHECK(x.is_cuda(), "x must lie on a GPU");
  TORCH_CHECK(x.dim() == 4, "x must have four dimensions");
  auto input = x.contiguous();
  auto out = torch::empty_like(input);
  const int total = input.numel(), plane = input.size(2) * input.size(3);
  const int blocks = ((total + 3) / 4 + 255) / 256;
  fused_kernel<<<blocks, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
      input.data_ptr<float>(), bias.data_ptr<float>(), out.data_ptr<float>(), plane, input.size(1), static_cast<float>(s), total);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""

cpp_source = "torch::Tensor fused(torch::Tensor x, torch::Tensor bias, double s);"

module = torch.utils.cpp_extension.load_inline(
    name="conv_fused", cpp_sources=cpp_source, cuda_sources=cuda_source, functions=["fused"],
    extra_cflags=["-O3"], extra_cuda_cflags=["-O3"], verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, scale):
        super(ModelNew, self).__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, padding=1)
        self.bias = nn.Parameter(torch.randn(out_channels, 1, 1))
        self.scale = scale

    def forward(self, x):
        x = self.conv(x)
        return module.fused(x, self.bias, self.scale)
