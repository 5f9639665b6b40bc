import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, cin, cout, k, bias_shape):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, k)
        self.bias = nn.Parameter(torch.randn(bias_shape))

    def forward(self, x):
        x = self.conv(x)
        x = torch.relu(x)
        return x + self.bias


def get_inputs():
    return [torch.rand(2, 5, 15, 17)]


def get_init_inputs():
    return [5, 9, 3, (9, 1, 1)]
