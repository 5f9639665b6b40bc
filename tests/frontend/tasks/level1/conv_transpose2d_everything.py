import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, cin, cout, kernel, stride, padding, dilation, groups):
        super().__init__()
        self.up = nn.ConvTranspose2d(
            cin,
            cout,
            kernel,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            output_padding=(1, 0),
            bias=True,
        )

    def forward(self, x):
        return self.up(x)


def get_inputs():
    return [torch.rand(2, 8, 9, 11)]


def get_init_inputs():
    return [8, 12, (3, 5), (2, 3), (1, 2), (2, 1), 4]
