import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, cin, cout, k, stride, padding, dilation):
        super().__init__()
        self.up = nn.ConvTranspose1d(
            cin, cout, k, stride=stride, padding=padding, dilation=dilation, bias=False
        )

    def forward(self, x):
        return self.up(x)


def get_inputs():
    return [torch.rand(2, 6, 31)]


def get_init_inputs():
    return [6, 4, 5, 1, 0, 3]
