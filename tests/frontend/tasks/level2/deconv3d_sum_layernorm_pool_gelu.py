import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, cin, cout, k, stride, padding, output_padding, sum_weight, norm_shape, pool):
        super().__init__()
        self.up = nn.ConvTranspose3d(
            cin, cout, k, stride=stride, padding=padding, output_padding=output_padding
        )
        self.sum_weight = nn.Parameter(torch.tensor(sum_weight))
        self.norm = nn.LayerNorm(norm_shape)
        self.avg_pool = nn.AvgPool3d(kernel_size=pool)
        self.gelu = nn.GELU()

    def forward(self, x):
        x = self.up(x) + self.sum_weight
        return self.gelu(self.avg_pool(self.norm(x)))


def get_inputs():
    return [torch.rand(2, 4, 4, 6, 8)]


def get_init_inputs():
    return [4, 6, (3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1), 1.0, (16,), (2, 2, 2)]
