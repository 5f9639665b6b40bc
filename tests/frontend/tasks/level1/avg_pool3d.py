import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, kernel_size):
        super().__init__()
        self.avg = nn.AvgPool3d(kernel_size=kernel_size, stride=2, padding=1)

    def forward(self, x):
        return self.avg(x)


def get_inputs():
    return [torch.rand(2, 3, 9, 10, 11)]


def get_init_inputs():
    return [3]
