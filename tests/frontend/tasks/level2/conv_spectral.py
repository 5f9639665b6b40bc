import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = nn.utils.parametrizations.weight_norm(nn.Conv2d(cin, cout, 3, padding=1))
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return self.conv(x).mul_(self.scale).add_(1.0)


def get_inputs():
    return [torch.rand(2, 5, 9, 8)]


def get_init_inputs():
    return [5, 6]
