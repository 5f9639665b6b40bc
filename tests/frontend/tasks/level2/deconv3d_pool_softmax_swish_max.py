import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(
        self, cin, cout, k, stride, padding, output_padding, pool_kernel, pool_stride, pool_padding
    ):
        super().__init__()
        self.up = nn.ConvTranspose3d(
            cin, cout, k, stride=stride, padding=padding, output_padding=output_padding
        )
        self.max_pool = nn.MaxPool3d(pool_kernel, stride=pool_stride, padding=pool_padding)
        self.subtract = nn.Parameter(torch.randn(cout))

    def forward(self, x):
        x = self.max_pool(self.up(x))
        x = torch.softmax(x, dim=1)
        x = x - self.subtract.view(1, -1, 1, 1, 1)
        x = torch.sigmoid(x) * x
        return torch.max(x, dim=1)[0]


def get_inputs():
    return [torch.rand(2, 3, 4, 6, 5)]


def get_init_inputs():
    return [3, 8, 3, 2, 1, 1, 2, 2, 0]
