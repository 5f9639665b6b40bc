import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(
        self, kernel_size, stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False
    ):
        super().__init__()
        self.maxpool = nn.MaxPool3d(
            kernel_size, stride, padding, dilation, return_indices, ceil_mode
        )

    def forward(self, x):
        return self.maxpool(x)


def get_inputs():
    return [torch.rand(2, 3, 11, 12, 13)]


def get_init_inputs():
    return [3, 2, 1, 3]
