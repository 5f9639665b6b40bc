import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cpp_src = '''
#include <torch/extension.h>
#include <vector>

static void normalise(const float* x, const float* w, const float* b, float* y, int64_t n, float eps) {
    double mean = 0.0;
    for (int64_t i = 0; i < n; i++) mean += x[i];
    mean /= n;
    double var = 0.0;
    for (int64_t i = 0; i < n; i++) var += (x[i] - mean) * (x[i] - mean);
    const float scale = 1.0 / std::sqrt(var / n + eps);
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - (float)mean) * scale * w[i] + b[i];
}

at::Tensor layer_norm(at::Tensor x, at::Tensor weight, at::Tensor bias, double eps) {
    TORCH_CHECK(x.is_contiguous() && weight.numel() == x.size(-1), "layout");
    auto y = at::empty(x.sizes(), x.options());
    const int64_t n = x.size(-1), rows = x.numel() / n;
    const float* px = x.data_ptr<float>();
    float* py = y.data_ptr<float>();
    #pragma omp parallel for
    for (int64_t row = 0; row < rows; row++)
        normalise(px + row * n, weight.data_ptr<float>(), bias.data_ptr<float>(), py + row * n, n, (float)eps);
    return y;
}
'''

norm = load_inline(
    name="norm", cpp_sources=cpp_src, functions=["layer_norm"], extra_cflags=["-O2", "-fopenmp"], with_cuda=False
)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return norm.layer_norm(x, self.norm.weight, self.norm.bias, 1e-5)
