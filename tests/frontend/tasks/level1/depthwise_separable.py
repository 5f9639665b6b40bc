import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, cin, cout, k):
        super().__init__()
        self.depthwise = nn.Conv2d(cin, cin, k, padding=1, groups=cin, bias=False)
        self.pointwise = nn.Conv2d(cin, cout, kernel_size=1, bias=False)

    def forward(self, x):
        return self.pointwise(self.depthwise(x))


def get_inputs():
    return [torch.rand(2, 8, 16, 18)]


def get_init_inputs():
    return [8, 12, 3]
