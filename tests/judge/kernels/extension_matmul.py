"""C = A @ B; the second factor arrives turned, as a view."""

import torch
from torch.utils.cpp_extension import load_inline

SOURCE = """
torch::Tensor matmul_turned(torch::Tensor a, torch::Tensor bt) {
  TORCH_CHECK(a.size(1) == bt.size(1), "inner sizes differ");
  const auto m = a.size(0), n = bt.size(0), k = a.size(1);
  a = a.contiguous();
  bt = bt.contiguous();
  auto c = torch::zeros({m, n}, a.options());
  const float* pa = a.data_ptr<float>();
  const float* pb = bt.data_ptr<float>();
  float* pc = c.data_ptr<float>();
  at::parallel_for(0, m, 0, [=](int64_t begin, int64_t end) {
    for (const auto i : c10::irange(begin, end)) {
      for (const auto j : c10::irange(n)) {
        float sum = 0.f;
        for (int64_t p = 0; p < k; ++p) sum += pa[i * k + p] * pb[j * k + p];
        pc[i * n + j] = sum;
      }
    }
  });
  return c;
}
"""

module = load_inline(name="matmul_turned", cpp_sources=SOURCE, functions="matmul_turned")


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.multiply = module.matmul_turned

    def forward(self, a, b):
        return self.multiply(a, b.transpose(0, 1))
