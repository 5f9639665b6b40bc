import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv3d = nn.Conv3d(in_channels, out_channels, kernel_size, bias=False)

    def forward(self, x):
        return self.conv3d(x)


def get_inputs():
    return [torch.rand(2, 3, 8, 10, 7)]


def get_init_inputs():
    return [3, 8, (3, 5, 2)]
