import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, cin, cout, k, stride, padding, output_padding, bias_shape, scaling_factor):
        super().__init__()
        self.up = nn.ConvTranspose2d(
            cin, cout, k, stride=stride, padding=padding, output_padding=output_padding
        )
        self.bias = nn.Parameter(torch.randn(bias_shape))
        self.scaling_factor = scaling_factor

    def forward(self, x):
        x = self.up(x) + self.bias
        x = torch.clamp(x, min=0.0, max=1.0) * self.scaling_factor
        return torch.clamp(x, min=0.0, max=1.0) / self.scaling_factor


def get_inputs():
    return [torch.rand(2, 5, 8, 9)]


def get_init_inputs():
    return [5, 6, 3, 2, 1, 1, (6, 1, 1), 2.0]
