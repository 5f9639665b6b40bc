import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, cin, cout, k, stride, padding):
        super().__init__()
        self.up = nn.ConvTranspose3d(cin, cout, k, stride=stride, padding=padding)
        self.bias = nn.Parameter(torch.randn(1, 1, 1, 1))

    def forward(self, x):
        x = torch.logsumexp(self.up(x), dim=1, keepdim=True)
        x = x * torch.sigmoid(x + 3) / 6
        return torch.clamp(x - self.bias, min=-1, max=1)


def get_inputs():
    return [torch.rand(2, 3, 4, 6, 5)]


def get_init_inputs():
    return [3, 8, 3, 2, 1]
