import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, cin, cout, k, stride, padding, output_padding, groups):
        super().__init__()
        self.up = nn.ConvTranspose3d(
            cin,
            cout,
            k,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
            groups=groups,
            bias=False,
        )

    def forward(self, x):
        return self.up(x)


def get_inputs():
    return [torch.rand(1, 8, 5, 4, 6)]


def get_init_inputs():
    return [8, 8, 3, 2, 1, 1, 4]
