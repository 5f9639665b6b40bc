import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, kernel_size, stride=1, padding=0):
        super().__init__()
        self.avg = nn.AvgPool1d(kernel_size=kernel_size, stride=stride, padding=padding)

    def forward(self, x):
        return self.avg(x)


def get_inputs():
    return [torch.rand(4, 6, 65)]


def get_init_inputs():
    return [8, 1, 4]
