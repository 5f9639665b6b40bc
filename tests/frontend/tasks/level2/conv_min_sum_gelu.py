import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, cin, cout, k, stride, padding, output_padding, bias_shape):
        super().__init__()
        self.up = nn.ConvTranspose2d(cin, cout, k, stride, padding, output_padding)
        self.bias = nn.Parameter(torch.randn(bias_shape))

    def forward(self, x):
        x = self.up(x)
        x = torch.min(x, dim=1, keepdim=True)[0]
        x = torch.sum(x, dim=2, keepdim=True)
        return F.gelu(x) + self.bias


def get_inputs():
    return [torch.rand(2, 3, 8, 9)]


def get_init_inputs():
    return [3, 16, 3, 2, 1, 1, (16, 1, 1)]
