import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, cin, cout, k, divisor, pool_size, bias_shape, sum_dim):
        super().__init__()
        self.conv = nn.Conv3d(cin, cout, k)
        self.divisor = divisor
        self.max_pool = nn.MaxPool3d(pool_size)
        self.global_avg_pool = nn.AdaptiveAvgPool3d((1, 1, 1))
        self.bias = nn.Parameter(torch.randn(bias_shape))
        self.sum_dim = sum_dim

    def forward(self, x):
        x = self.max_pool(self.conv(x) / self.divisor)
        x = self.global_avg_pool(x) + self.bias
        return torch.sum(x, dim=self.sum_dim)


def get_inputs():
    return [torch.rand(2, 3, 6, 10, 10)]


def get_init_inputs():
    return [3, 8, (3, 3, 3), 2.0, (2, 2, 2), (8, 1, 1, 1), 1]
