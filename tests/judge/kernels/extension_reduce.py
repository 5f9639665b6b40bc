"""The sums and the extremes of rows: two results, partial sums of threads."""

import torch
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <torch/extension.h>

std::vector<torch::Tensor> rows_and_columns(torch::Tensor x) {
  x = x.contiguous();
  const int64_t rows = x.size(0), cols = x.size(1);
  auto largest = torch::empty({rows}, torch::TensorOptions().dtype(torch::kFloat32));
  auto sums = torch::zeros({cols}, torch::kFloat32);
  const float* in = x.data_ptr<float>();
  float* top = largest.data_ptr<float>();
  const int teams = at::get_num_threads();
  std::vector<float> parts(teams * cols, 0.f);
  at::parallel_for(0, rows, 1, [&](int64_t begin, int64_t end) {
    float* mine = parts.data() + at::get_thread_num() * cols;
    for (int64_t i = begin; i < end; i++) {
      float most = in[i * cols];
      for (int64_t j = 0; j < cols; j++) {
        most = std::max(most, in[i * cols + j]);
        mine[j] += in[i * cols + j];
      }
      top[i] = most;
    }
  });
  float* sum = sums.data_ptr<float>();
  for (int t = 0; t < teams; t++)
    for (int64_t j = 0; j < cols; j++) sum[j] += parts[t * cols + j];
  return {largest, sums};
}
"""

extension = load_inline(name="rows_and_columns", cpp_sources=SOURCE, functions=["rows_and_columns"])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        largest, sums = extension.rows_and_columns(x)
        return largest, sums
